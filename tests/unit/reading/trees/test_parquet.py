"""Parquet files as trees: the values that pyarrow reads, counted as reads of ROOT files are, with the same errors."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uproot

import branchline
from branchline import _core
from branchline.errors import BadFileError, MemoryLimitError, MissingFileError, NoSuchKeyError, UnsupportedBranchError
from branchline.reading.parquet.parquet_file import ParquetFile, ParquetTree
from branchline.reading.parquet.parquet_stream import ParquetChunk, ParquetStream
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream

ENTRIES = 1000
VALUES = {
    "px": np.arange(ENTRIES) * 0.5,
    "number": [None if entry % 7 == 0 else entry for entry in range(ENTRIES)],
    "is_good": np.arange(ENTRIES) % 2 == 0,
    "label": [f"event {entry}" for entry in range(ENTRIES)],
    "hits": [list(range(entry % 4)) for entry in range(ENTRIES)],
    "jet": [[{"pt": entry * 1.0, "hits": [entry]}] * (entry % 3) for entry in range(ENTRIES)],
    "vertex": [{"x": float(entry), "y": -1.0} for entry in range(ENTRIES)],
    "three": pa.array([[1, 2, 3]] * ENTRIES, pa.list_(pa.int32(), 3)),
    "detector": pa.array(["ecal", "hcal"] * (ENTRIES // 2)).dictionary_encode(),
    "when": pa.array(np.arange(ENTRIES).astype("M8[us]")),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """1000 entries of all kinds in row groups of 300, as pyarrow writes them."""
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table(VALUES), path, row_group_size=300)
    return path


def expected(name: str) -> list[Any]:
    return pa.table(VALUES).column(name).to_pylist()


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("step", [70, 300, 450, 5000])
def test_every_kind_of_column_is_read_as_pyarrow_reads_it(file: Path, name: str, step: int) -> None:
    steps = list(branchline.iterate(file, [name], step_size=step))
    assert [len(one) for one in steps[:-1]] == [step] * (len(steps) - 1)
    assert ak.concatenate(steps)[name].tolist() == expected(name)
    assert len({str(one.type).partition("*")[2] for one in steps}) == 1, "the type does not depend on the values"


def test_types_are_optional_only_where_values_may_be_missing(file: Path) -> None:
    tree = branchline.open(f"{file}:events")
    types = {name: str(tree[name].array().type).partition(" * ")[2] for name in ("px", "number", "label", "jet")}
    assert types["px"] == "float64"
    assert types["number"] == "?int64"
    assert types["label"] == "string"
    assert types["jet"].startswith("var * ")


def test_members_of_records_are_branches_and_read_alone(file: Path) -> None:
    tree = branchline.open(file)["events"]
    assert [one for one in tree.keys() if one.startswith("jet")] == ["jet", "jet.pt", "jet.hits"]
    jets = expected("jet")
    assert tree["jet.pt"].array().tolist() == [[one["pt"] for one in event] for event in jets]
    assert tree["jet/hits"].array().tolist() == [[one["hits"] for one in event] for event in jets]
    assert tree["vertex.x"].array(entry_start=10, entry_stop=12).tolist() == [10.0, 11.0]
    with ChunkStream([Source(str(file))], ["jet.pt"]) as alone, ChunkStream([Source(str(file))], ["jet"]) as whole:
        assert sum(len(one) for one in alone) == sum(len(one) for one in whole) == ENTRIES
        assert alone.records().files[0].compressed_bytes < whole.records().files[0].compressed_bytes


def test_expressions_cuts_and_ranges_are_those_of_any_tree(file: Path) -> None:
    tree = branchline.open(f"{file}:events")
    found = tree.arrays(["px * 2", "number"], "is_good", entry_start=295, entry_stop=305)
    assert found["px * 2"].tolist() == [296.0, 298.0, 300.0, 302.0, 304.0]
    assert list(branchline.num_entries(file)) == [(str(file), "Events", ENTRIES)]


def test_reads_and_bytes_are_counted(file: Path) -> None:
    metadata = pq.read_metadata(file)
    stored = sum(metadata.row_group(group).column(0).total_compressed_size for group in range(metadata.num_row_groups))
    tree = branchline.open(f"{file}:events")
    with ChunkStream([tree.source()], ["px"], step_size=300) as opening_and_values:
        chunks = list(opening_and_values)
        first = opening_and_values.records()
    with ChunkStream([tree.source()], ["px"], step_size=300) as values_alone:
        list(values_alone)
        second = values_alone.records()
    assert [len(one) for one in chunks] == [300, 300, 300, 100]
    (before,), (of_file,) = first.files, second.files

    def alone(name: str) -> int:
        """What the second stream adds: those over an open file go on counting, as the engine's do."""
        return int(getattr(of_file, name) - getattr(before, name))

    assert [alone(name) for name in ("bytes_asked", "bytes_read", "compressed_bytes")] == [stored] * 3
    assert (alone("read_calls"), alone("baskets"), of_file.entries) == (4, 4, ENTRIES), "one request for a row group"
    assert alone("plain_bytes") == ENTRIES * 8
    assert of_file.codec == "snappy"
    assert before.bytes_read > stored, "with the footer"
    assert [one.name for one in second.branches] == ["px"]
    assert second.branches[0].decode_s > 0


def test_a_branch_that_is_wanted_late_is_read_once_for_all_chunks(file: Path) -> None:
    with ChunkStream([Source(str(file))], ["px"], step_size=100) as stream:
        late = [chunk.array("hits").tolist() for chunk in stream]
        read = stream.records().files[0]
    assert [one for chunk in late for one in chunk] == expected("hits")
    assert read.late_reads == 10
    assert read.baskets == 8, "four row groups of two columns"


def test_a_row_group_that_does_not_fit_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "large.parquet"
    values = np.random.default_rng(1).normal(size=4_000_000)
    pq.write_table(pa.table({"x": values}), path, row_group_size=len(values), use_dictionary=False)
    with ChunkStream([Source(str(path))], ["x"], step_size=100_000, memory_limit="64 MiB") as stream:
        total = sum(float(np.sum(chunk.array("x").to_numpy())) for chunk in stream)
        read = stream.records().files[0]
    assert total == pytest.approx(values.sum())
    assert read.read_calls > 20
    with (
        ChunkStream([Source(str(path))], ["x"], step_size=4_000_000, memory_limit="64 MiB") as stream,
        pytest.raises(MemoryLimitError, match="reduce step_size"),
    ):
        next(stream)


def test_files_of_both_formats_are_read_in_their_order(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "events.root"
    with uproot.recreate(other) as made:
        made.mktree("Events", {"px": "float64"}).extend({"px": np.array([-1.0, -2.0])})
    files = [str(other), str(file), str(other)]
    values = [-1.0, -2.0, *VALUES["px"], -1.0, -2.0]
    reports = list(branchline.iterate(files, ["px"], step_size=600, report=True))
    assert ak.concatenate([one for one, _ in reports]).px.tolist() == values
    assert [report.global_entry_start for _, report in reports] == [0, 2, 602, 1002]
    with ChunkStream([Source(path) for path in files], ["px"]) as stream:
        assert [one.source_index for one in stream] == [0, 1, 2]
        read = stream.records()
    assert [(one.source_index, one.entries) for one in read.files] == [(0, 2), (1, ENTRIES), (2, 2)]
    assert [one.name for one in read.branches] == ["px"]
    assert read.branches[0].baskets == 6


def test_what_cannot_be_read_is_named(file: Path, tmp_path: Path) -> None:
    tree = branchline.open(f"{file}:events")
    with pytest.raises(NoSuchKeyError, match="pz"):
        tree["pz"]
    path = tmp_path / "odd.parquet"
    maps = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({"price": pa.array([1], pa.decimal128(5, 2)), "map": maps, "x": [1.0]}), path)
    odd = branchline.open(f"{path}:t")
    with pytest.raises(UnsupportedBranchError, match=r"price.*store it as double"):
        odd["price"].array()
    with pytest.raises(UnsupportedBranchError, match=r"map.*list of structs"):
        odd["map"].array()
    with pytest.warns(branchline.UnreadableBranchWarning, match="price, map"):
        assert odd.arrays().fields == ["x"]
    missing = tmp_path / "missing.parquet"
    pq.write_table(pa.table({"jet": pa.array([[{"pt": 1.0}], None])}), missing)
    with pytest.raises(UnsupportedBranchError, match="empty lists"):
        branchline.open(f"{missing}:t")["jet"].array()
    named = tmp_path / "named.parquet"
    pq.write_table(pa.table({"x": [1.0]}).replace_schema_metadata({"name": "Events"}), named)
    with pytest.raises(NoSuchKeyError, match="Events"):
        branchline.open(named).tree("Other")


def test_damaged_files_and_absent_ones_are_errors_of_files_or_skipped(file: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.parquet"
    content = bytearray(file.read_bytes())
    content[4:200] = bytes(196)
    damaged.write_bytes(content)
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(file.read_bytes()[:-30])
    for path in (damaged, cut):
        with pytest.raises(BadFileError, match=path.name):
            branchline.open(f"{path}:t")["px"].array()
    with pytest.raises(MissingFileError):
        branchline.open(tmp_path / "nowhere.parquet")
    skipped: list[Any] = []
    files = [str(damaged), str(file), str(cut)]
    with pytest.warns(branchline.SkippedFileWarning):
        steps = list(branchline.iterate(files, ["px"], skip_bad_files=True, skipped=skipped))
    assert sum(map(len, steps)) == ENTRIES
    assert [(one.path, one.source_index) for one in skipped] == [(str(damaged), 0), (str(cut), 2)]


def test_what_convert_writes_is_read_again_with_the_same_types(tmp_path: Path) -> None:
    source, made = tmp_path / "events.root", tmp_path / "events.parquet"
    with uproot.recreate(source) as output:
        output["Events"] = {"px": np.arange(5.0), "pt": ak.Array([[1.0], [], [2.0, 3.0], [], []])}
    branchline.convert(source, made, branches=["px", "pt"])
    tree = branchline.open(made)["Events"]
    expected = branchline.open(source)["Events"].arrays(["px", "pt"])
    assert ak.array_equal(tree.arrays(), expected)
    assert tree.arrays().type == expected.type


def test_streams_over_an_open_tree_go_on_counting(file: Path) -> None:
    tree = branchline.open(file).tree()
    counts = []
    for names in ([tree.keys()[0]], [tree.keys()[0]], []):
        with ChunkStream([tree.source()], names) as stream:
            for _ in stream:
                pass
            counts.append(stream.records().files[0])
    first, second, third = counts
    assert 0 < first.bytes_read < second.bytes_read == third.bytes_read
    assert 0 < first.baskets == second.baskets / 2 == third.baskets / 2
    assert first.open_s == second.open_s == third.open_s > 0


@pytest.mark.parametrize(
    ("engine", "own"),
    [
        (_core.File, ParquetFile),
        (_core.Tree, ParquetTree),
        (_core.Chunk, ParquetChunk),
        (_core.Stream, ParquetStream),
    ],
)
def test_the_handles_have_every_method_of_the_engines(engine: type, own: type, file: Path) -> None:
    opened = ParquetFile(str(file))
    stream = ParquetStream([Source(str(file))], branchline.reading.request.StreamRequest())
    objects = {ParquetFile: opened, ParquetTree: opened.tree(), ParquetStream: stream, ParquetChunk: stream.next()}
    stream.close()
    unknown = {one for one in dir(engine) if not one.startswith("_")} - set(dir(objects[own]))
    assert unknown <= {"infos_range", "metadata_requests", "is_near", "store_gap_bytes", "columns_bytes"}, unknown


@pytest.mark.skipif(not hasattr(threading, "_shutdown_locks_lock"), reason="threading has no such lock")
def test_an_iterator_in_a_cycle_can_be_collected_while_a_thread_starts(file: Path) -> None:
    """A thread that starts or ends holds a lock of `threading`, and collects garbage at any time."""
    cycle: list[Any] = [branchline.iterate(f"{file}", step_size=2)]
    cycle.append(cycle)
    next(cycle[0])
    del cycle

    def collect() -> None:
        with threading._shutdown_locks_lock:  # type: ignore[attr-defined]
            gc.collect()

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
