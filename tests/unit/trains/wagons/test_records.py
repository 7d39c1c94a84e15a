"""Records of parts of a job are added up to those of the whole."""

from __future__ import annotations

import pytest

from branchline.records.sensors.record import (
    FileRecord,
    JobRecord,
    StorageRecord,
    StorageRemark,
    WagonRecord,
)
from branchline.records.sensors.record_parts import DatasetFile
from branchline.trains.running.job_record import _check_events
from branchline.trains.subjobs.share_records import RecordTable, storage_elements, storage_remarks, totals_of


def test_a_remark_is_told_once_with_the_number_of_its_files() -> None:
    table = RecordTable[FileRecord]("path")
    table.add([FileRecord("a", remarks=["full"]), FileRecord("b")])
    # Another part of the same file.
    table.add([FileRecord("a", remarks=["full", "slow"]), FileRecord("c", remarks=["full"])])
    assert storage_remarks(table.as_list()) == [StorageRemark("full", 2), StorageRemark("slow", 1)]


def test_what_copies_had_is_added_up_for_each_storage_element() -> None:
    files = [
        FileRecord("a", "root://one", bytes_read=5, cached_bytes=7, read_calls=1, fetch_s=0.5),
        FileRecord("b", "root://one", bytes_read=1, cached_bytes=2, read_calls=1, fetch_s=0.5),
    ]
    [element] = storage_elements(files)
    assert element == StorageRecord("root://one", 2, bytes_read=6, cached_bytes=9, read_calls=2, fetch_s=1.0)


def test_parts_of_a_file_are_added_and_what_describes_it_is_not() -> None:
    table = RecordTable[FileRecord]("path")
    first = FileRecord("a", entries=10, size_bytes=100, events=4, host="one", bytes_read=5, open_s=None)
    table.add([first])
    table.add([FileRecord("a", entries=10, size_bytes=100, events=6, host="two", bytes_read=7, open_s=0.5)])
    [added] = table.as_list()
    assert (added.entries, added.size_bytes, added.events, added.bytes_read) == (10, 100, 10, 12)
    assert (added.host, added.open_s) == ("one, two", 0.5)
    assert first.events == 4
    assert totals_of([added]).bytes_read == 12


@pytest.mark.parametrize("unread", [False, True])
def test_events_that_are_not_those_of_the_files_are_a_fault_with_what_to_do(unread: bool) -> None:
    file = DatasetFile("a.root", entries=None if unread else 7)
    record = JobRecord(dataset=[file], events=5, events_expected=None if unread else 7, wagons=[WagonRecord("one")])
    _check_events(record)
    [fault] = record.errors
    assert fault.type == "InternalError"
    assert ("a.root" if unread else "processed 5 events, but its files contain 7") in fault.message
    assert "this is a bug in Branchline: run again, and if the error persists, report it with job.json" in fault.message
