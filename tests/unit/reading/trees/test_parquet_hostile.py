"""Odd, damaged and hostile Parquet files: no wrong values, no memory beyond the limit, and errors that say where."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import branchline
from branchline.errors import BadFileError, BranchlineError, MemoryLimitError, MissingFileError, UnsupportedBranchError
from branchline.reading.access import Access
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream

ENTRIES = 4000
VALUES: dict[str, list[Any]] = {
    "x": [entry * 0.5 for entry in range(ENTRIES)],
    "text": [f"e{entry % 50}" for entry in range(ENTRIES)],
    "hits": [list(range(entry % 4)) for entry in range(ENTRIES)],
    "jet": [[{"pt": float(entry)}] * (entry % 3) for entry in range(ENTRIES)],
    "number": [None if entry % 7 == 0 else entry for entry in range(ENTRIES)],
}


def written(path: Path, table: pa.Table, **options: Any) -> str:
    pq.write_table(table, path, **options)
    return str(path)


def test_a_column_that_is_called_as_a_member_of_another_is_not_taken_for_it(tmp_path: Path) -> None:
    path = written(tmp_path / "same.parquet", pa.table({"a.b": [1, 2], "a": pa.array([{"b": 10}, {"b": 20}])}))
    tree = branchline.open(path)["t"]
    assert {name: tree[name].array().tolist() for name in tree.keys()} == {
        "a.b#0": [1, 2],
        "a": [{"b": 10}, {"b": 20}],
        "a.b#1": [10, 20],
    }


def test_members_of_the_same_name_are_refused(tmp_path: Path) -> None:
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([3])], names=["m", "m"])
    tree = branchline.open(written(tmp_path / "same.parquet", pa.table({"s": twice})))["t"]
    with pytest.raises(UnsupportedBranchError, match=r"'s'.*two of its members have the same name"):
        tree["s"].array()


@pytest.mark.parametrize("step", [3, 100])
@pytest.mark.parametrize(
    "kind",
    [
        pa.string_view(),
        pa.dictionary(pa.uint8(), pa.string()),
        pa.dictionary(pa.int8(), pa.large_string()),
        pa.list_(pa.dictionary(pa.uint8(), pa.string())),
        pa.list_(pa.string_view()),
    ],
    ids=str,
)
def test_views_and_dictionaries_of_all_kinds_are_read(tmp_path: Path, kind: pa.DataType, step: int) -> None:
    values: list[Any] = ["a", None, "bb", "a"] * 5
    if pa.types.is_list(kind):
        values = [None if one is None else [one, "c"] for one in values]
    path = written(tmp_path / "odd.parquet", pa.table({"x": pa.array(values, kind)}))
    read = [one for step_ in branchline.iterate(path, ["x"], step_size=step) for one in step_["x"].tolist()]
    assert read == values


def test_list_views_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "odd.parquet", pa.table({"x": pa.array([[1]], pa.list_view(pa.int16())), "y": [1]}))
    tree = branchline.open(path)["t"]
    with pytest.raises(UnsupportedBranchError, match="store it as a list"):
        tree["x"].array()
    assert tree["y"].array().tolist() == [1]


@pytest.mark.parametrize("as_dictionary", [True, False])
def test_one_long_text_of_all_entries_stays_within_the_memory_limit(tmp_path: Path, as_dictionary: bool) -> None:
    texts = pa.array(["x" * 10_000] * 20_000)
    path = written(tmp_path / "bomb.parquet", pa.table({"s": texts.dictionary_encode() if as_dictionary else texts}))
    assert Path(path).stat().st_size < 10_000
    with ChunkStream([Source(path)], ["s"], step_size="10 MB", memory_limit="64 MiB") as stream:
        sizes = [(len(one), one.array("s").nbytes) for one in stream]
    assert sum(count for count, _ in sizes) == 20_000
    assert max(size for _, size in sizes) < 20_000_000
    with (
        ChunkStream([Source(path)], ["s"], step_size=20_000, memory_limit="64 MiB") as stream,
        pytest.raises(MemoryLimitError, match="reduce step_size"),
    ):
        stream.__next__()


def test_entries_that_are_larger_than_others_stay_within_the_memory_limit(tmp_path: Path) -> None:
    path = tmp_path / "dense.parquet"
    kind = pa.list_(pa.int64())
    with pq.ParquetWriter(path, pa.schema([("hits", kind), ("entry", pa.int64())])) as writer:
        for first, lists in ((0, [[]] * 200_000), (200_000, [list(range(5000))] * 1000)):
            numbers = pa.array(range(first, first + len(lists)))
            writer.write_table(pa.table({"hits": pa.array(lists, kind), "entry": numbers}))
    entries: list[int] = []
    with ChunkStream([Source(str(path))], ["hits"], step_size="10 MB", memory_limit="64 MiB") as stream:
        for chunk in stream:
            assert chunk.array("hits").nbytes < 40_000_000
            late = chunk.array("entry").tolist()
            assert len(late) == len(chunk)
            entries += late
    assert entries == list(range(201_000))


def test_the_error_of_a_damaged_page_says_where_it_is(tmp_path: Path) -> None:
    path = Path(written(tmp_path / "one.parquet", pa.table(VALUES), row_group_size=1000, compression="zstd"))
    chunk = pq.read_metadata(path).row_group(2).column(0)
    content = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content[start + 20 : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size - 20)
    path.write_bytes(content)
    tree = branchline.open(path)["t"]
    with pytest.raises(
        BadFileError, match=r"one\.parquet.*row group 2 of branch x, entries 2000 to 3000.*read other branches"
    ):
        tree.arrays(["number", "x"])
    assert tree["number"].array().tolist() == VALUES["number"]
    assert tree["x"].array(entry_stop=2000).tolist() == VALUES["x"][:2000]
    assert tree["x"].array(entry_start=3000).tolist() == VALUES["x"][3000:]


def test_checksums_of_pages_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "checked.parquet"
    table = pa.table({"x": np.arange(1000.0)})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[4000] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadFileError, match=r"row group 0 of branch x.*CRC"):
        branchline.open(path)["t"]["x"].array()


def test_errors_of_the_storage_are_not_those_of_the_format(tmp_path: Path) -> None:
    path = written(tmp_path / "far.parquet", pa.table(VALUES))
    with pytest.raises(MissingFileError, match="no such file"):
        list(branchline.iterate(path, ["x"], access=Access(fault="missing,every=2")))


def test_seeded_damage_gives_errors_or_what_pyarrow_reads(tmp_path: Path) -> None:
    path = tmp_path / "damaged.parquet"
    good = Path(written(path, pa.table(VALUES), row_group_size=1000)).read_bytes()
    footer = int.from_bytes(good[-8:-4], "little") + 8
    outcomes: dict[str, int] = {}
    for seed in range(200):
        chosen = random.Random(seed)
        content = bytearray(good)
        first = len(content) - footer if seed % 2 else 0
        for _ in range(chosen.choice([1, 1, 3, 20])):
            content[chosen.randrange(first, len(content))] = chosen.randrange(256)
        path.write_bytes(content[: chosen.randrange(len(content))] if seed % 20 == 0 else content)
        name = chosen.choice(list(VALUES))
        outcome = _outcome(path, name)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert "an error without its file" not in outcomes
    assert outcomes["error"] > 50
    assert outcomes["same"] > 30


def _outcome(path: Path, name: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read = [one for step in branchline.iterate(path, [name], step_size=700) for one in step[name].tolist()]
        except BranchlineError as error:
            return "error" if error.path else "an error without its file"
    if read == VALUES[name]:
        return "same"
    assert read == pq.read_table(path, columns=[name]).column(name).to_pylist()
    return "as pyarrow reads it"
