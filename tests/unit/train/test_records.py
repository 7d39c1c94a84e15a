"""Records of parts of a job are added up to those of the whole."""

from __future__ import annotations

from branchline.train.records import RecordTable, storage_elements, storage_remarks


def test_a_remark_is_told_once_with_the_number_of_its_files() -> None:
    table = RecordTable("path")
    table.add([{"path": "a", "remarks": ["full"]}, {"path": "b", "remarks": []}])
    # Another part of the same file.
    table.add([{"path": "a", "remarks": ["full", "slow"]}, {"path": "c", "remarks": ["full"]}])
    assert storage_remarks(table.as_list()) == [{"text": "full", "files": 2}, {"text": "slow", "files": 1}]


def test_what_copies_had_is_added_up_for_each_storage_element() -> None:
    files = [
        {"storage_element": "root://one", "bytes_read": 5, "cached_bytes": 7, "read_calls": 1, "fetch_s": 0.5},
        {"storage_element": "root://one", "bytes_read": 1, "cached_bytes": 2, "read_calls": 1, "fetch_s": 0.5},
    ]
    [element] = storage_elements(files)
    assert (element["bytes_read"], element["cached_bytes"], element["files"]) == (6, 9, 2)
