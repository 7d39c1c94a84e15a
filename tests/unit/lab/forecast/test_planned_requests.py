"""The requests that are planned without reading are those that the engine makes: the same ranges, in every mode."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot

from branchline._core import HEAD_BYTES, Store
from branchline.base.quantities import parse_bytes
from branchline.errors import MemoryLimitError
from branchline.lab.forecast.laid_file import laid_file
from branchline.lab.forecast.planned_requests import PlanRequest, planned, planned_in_order
from branchline.reading.access import MODES, Access, ByteRange
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.tracing.recording import recording
from branchline.tracing.trace import PART, Trace, read_trace
from branchline.writing.merging.merge import merge


def write(path: Path, steps: list[int], *, ntuple: bool = False) -> Path:
    """Numbers that do not compress well, in baskets of these entries."""
    random = np.random.default_rng(7)

    def some(entries: int) -> dict[str, object]:
        hits = ak.unflatten(random.normal(size=3 * entries), np.full(entries, 3))
        return {"x": random.normal(size=entries), "hits": hits, **{name: random.normal(size=entries) for name in "yz"}}

    with uproot.recreate(path, compression=uproot.ZLIB(1)) as file:
        (file.mkrntuple if ntuple else file.mktree)("events", some(steps[0]))
        for entries in steps[1:]:
            file["events"].extend(some(entries))
    return path


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that no mode but prefetch reads whole: more than 8 MiB."""
    path = write(tmp_path_factory.mktemp("laid") / "large.root", [60, 1000, 60_000, 70_000, 81_000, 40_000])
    assert path.stat().st_size > 9e6
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("laid") / "small.root", [500] * 8)


def requested(folder: Path, path: Path, branches: tuple[str, ...] | None, access: Access, step: int | str) -> Trace:
    """The trace of a read of some branches."""
    source = Source(str(path), "events")
    # A busy machine takes so long for calls of some MB that the disk would be read ahead as a link is: a short one says
    # that it is none.
    Store(str(path)).read([ByteRange(0, 100)])
    with (
        recording(folder / "trace.parquet", "a test"),
        ChunkStream([source], branches, access=access, step_size=step) as stream,
    ):
        for chunk in stream:
            chunk.arrays()
    return read_trace(folder / "trace.parquet")


def ranges_of(trace: Trace) -> list[tuple[int, int]]:
    """What was requested, pieces of one request that follow each other joined."""
    rows = trace.rows_of(PART).select(["request", "offset", "size_bytes"]).to_pylist()
    joined: list[list[int]] = []
    for row in rows:
        last = joined[-1] if joined else None
        if last is not None and (last[0], last[1] + last[2]) == (row["request"], row["offset"]):
            last[2] += row["size_bytes"]
        else:
            joined.append([row["request"], row["offset"], row["size_bytes"]])
    return sorted((offset, size) for _, offset, size in joined)


def plan_of(path: Path, branches: tuple[str, ...] | None, access: Access, step: int | str) -> list[tuple[int, int]]:
    entries, size = (step, parse_bytes("100 MB")) if isinstance(step, int) else (None, parse_bytes(step))
    request = PlanRequest(access=access, step_entries=entries, step_bytes=size, is_named=branches is not None)
    found = planned(laid_file(DataFile(str(path), "events"), branches), request)
    return sorted(zip(found.offset.tolist(), found.size.tolist(), strict=True))


@pytest.mark.parametrize("step", ["100 MB", "2 MB", 35_000])
@pytest.mark.parametrize("branches", [None, ("y",), ("x", "z")])
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "stage"])
def test_a_large_file_is_requested_as_planned(
    large: Path, tmp_path: Path, mode: str, branches: tuple[str, ...] | None, step: int | str
) -> None:
    access = Access(mode=mode)
    assert plan_of(large, branches, access, step) == ranges_of(requested(tmp_path, large, branches, access, step))


@pytest.mark.parametrize("branches", [None, ("y",)])
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "stage"])
def test_a_small_file_is_requested_as_planned(
    small: Path, tmp_path: Path, mode: str, branches: tuple[str, ...] | None
) -> None:
    access = Access(mode=mode)
    plan = plan_of(small, branches, access, "100 MB")
    assert plan == ranges_of(requested(tmp_path, small, branches, access, "100 MB"))
    assert (len(plan) == 1) == (mode in ("planned", "prefetch"))


def test_what_is_requested_ahead_is_planned(large: Path, tmp_path: Path) -> None:
    access = Access(requests_in_flight=3)
    for step in ("100 MB", 35_000):
        assert plan_of(large, ("x", "z"), access, step) == ranges_of(
            requested(tmp_path, large, ("x", "z"), access, step)
        )
    request = PlanRequest(access=access, is_named=True)
    found = planned(laid_file(DataFile(str(large), "events"), ("x", "z")), request)
    assert (found.calls_for("prefetch") > 0, found.calls_for("baskets"), found.calls_in_flight) == (True, 0, 3)


def test_gaps_that_a_user_allows_are_planned(large: Path, tmp_path: Path) -> None:
    counts = []
    for gap in (0, 4 << 20):
        access = Access(gap=gap)
        plan = plan_of(large, ("x", "z"), access, "100 MB")
        assert plan == ranges_of(requested(tmp_path, large, ("x", "z"), access, "100 MB"))
        counts.append(len(plan))
    assert counts[0] > counts[1]


def test_an_ntuple_is_requested_as_planned_with_its_page_lists(tmp_path: Path) -> None:
    # uproot writes a page list for each cluster.
    path = write(tmp_path / "ntuple.root", [50_000, 60_000, 70_000, 80_000], ntuple=True)
    for mode in ("plain", "planned", "prefetch"):
        for branches in (None, ("y",)):
            access = Access(mode=mode)
            plan = plan_of(path, branches, access, "100 MB")
            assert plan == ranges_of(requested(tmp_path, path, branches, access, "100 MB"))


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "stage"])
def test_the_record_of_a_tree_beyond_the_head_is_planned(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "wide.root"
    random = np.random.default_rng(3)
    # uproot puts the record of a tree that is not extended before its baskets.
    with uproot.recreate(path) as file:
        columns = {f"a_long_name_of_a_column_{number}": random.normal(size=30_000) for number in range(60)}
        file.mktree("events", columns)
    access = Access(mode=mode)
    branches = ("a_long_name_of_a_column_7",)
    requests = laid_file(DataFile(str(path), "events"), branches).metadata
    assert any(offset < HEAD_BYTES < offset + size for [(offset, size)] in requests)
    assert plan_of(path, branches, access, "100 MB") == ranges_of(requested(tmp_path, path, branches, access, "100 MB"))


def test_of_small_files_at_a_server_the_tail_is_learned_from_the_file_before(small: Path) -> None:
    far = replace(laid_file(DataFile(str(small), "events"), ("y",)), is_at_a_server=True, size_bytes=3_000_000)
    far = replace(far, metadata=[[(2_900_000, 60_000)]])
    first, second = planned_in_order([far, far], PlanRequest(is_named=True, link=(0.1, 3e8)))
    assert first.size.tolist()[1] == 3_000_000 // 32
    assert second.size.tolist()[1] == 125_000
    (whole,) = planned_in_order([far], PlanRequest(link=(0.1, 3e8)))
    assert (whole.is_whole, whole.calls, whole.bytes_read) == (True, 1, 3_000_000)


def test_files_on_a_mount_are_read_whole_as_planned(tmp_path: Path) -> None:
    # Metadata that merging writes are at the end, where a reader of a part looks for them.
    source = str(write(tmp_path / "source.root", [30_000, 30_000]))
    paths = [Path(merge([source], tmp_path / f"{number}.root").paths[0]) for number in range(3)]
    files = [laid_file(DataFile(str(path), "events"), ("y",)) for path in paths]
    assert all(one.is_near for one in files)
    # What makes a store slow makes it no disk of this machine: it is read as a mounted file system is.
    slow = Access(throttle="latency=1ms,bandwidth=2GB/s")
    counted = {}
    for name, access in (("disk", Access()), ("mount", slow)):
        sources = [Source(str(path), "events") for path in paths]
        with (
            recording(tmp_path / f"{name}.parquet", "a test"),
            ChunkStream(sources, ("y",), access=access) as stream,
        ):
            for chunk in stream:
                chunk.arrays()
        counted[name] = ranges_of(read_trace(tmp_path / f"{name}.parquet"))
        plans = planned_in_order(files, PlanRequest(access=access, is_named=True))
        ranges = [(at, size) for one in plans for at, size in zip(one.offset, one.size, strict=True)]
        assert sorted(ranges) == counted[name]
    sizes = [path.stat().st_size for path in paths]
    assert counted["mount"] == sorted((0, size) for size in sizes)
    # Of the files on a disk only the first is, since little of it is wanted.
    assert sum(size for _, size in counted["disk"]) < sum(sizes)
    mounted = [replace(one, is_near=False) for one in files]
    assert [one.is_whole for one in planned_in_order(mounted, PlanRequest(is_named=True))] == [True] * 3
    thin = planned(mounted[0], PlanRequest(is_named=True, link=(0.001, 1e7)))
    fast = planned(mounted[0], PlanRequest(is_named=True, link=(0.001, 1e9)))
    assert (thin.is_whole, fast.is_whole) == (False, True)


def test_a_staged_file_is_copied_in_large_pieces(small: Path) -> None:
    file = replace(laid_file(DataFile(str(small), "events"), None), size_bytes=50_000_000)
    found = planned(file, PlanRequest(access=Access(mode="stage")))
    assert (found.bytes_read, found.largest(), found.calls_for("staging")) == (50_000_000, 4 << 20, 12)


def test_baskets_are_requested_again_where_memory_has_no_room_for_one_of_each_branch(tmp_path: Path) -> None:
    path = tmp_path / "one-cluster.root"
    random = np.random.default_rng(2)
    with uproot.recreate(path, compression=None) as file:
        file.mktree("events", dict.fromkeys("abcd", "f8"))
        file["events"].extend({name: random.normal(size=600_000) for name in "abcd"})
    limit = 64 << 20
    laid = laid_file(DataFile(str(path), "events"), None)
    near = planned(laid, PlanRequest(memory_limit_bytes=limit))
    far = Access(throttle="latency=1ms,bandwidth=200MB/s")
    with ChunkStream([Source(str(path), "events")], None, access=far, memory_limit=limit) as stream:
        for chunk in stream:
            chunk.release()
        (record,) = stream.records().files
    asked = planned(laid, PlanRequest(access=far, link=(0.02, 2e8), memory_limit_bytes=limit))
    assert (near.times > 1.5, asked.times > 1.5) == (True, True)
    assert record.bytes_read > 1.5 * laid.wanted_bytes
    # With memory for all nothing is.
    enough = planned(laid, PlanRequest(access=far, link=(0.02, 2e8)))
    assert (enough.times, enough.bytes_read < 1.1 * laid.size_bytes) == (1.0, True)


def test_baskets_larger_than_the_memory_are_an_error(large: Path) -> None:
    file = laid_file(DataFile(str(large), "events"), None)
    with pytest.raises(MemoryLimitError, match="do not fit into the memory limit"):
        planned(file, PlanRequest(memory_limit_bytes=1 << 20))


def test_an_opening_that_is_not_known_is_an_error_that_names_it(small: Path) -> None:
    """Python's side may get another word before the compiled module knows it."""
    file = laid_file(DataFile(str(small), "events"), None)
    request = PlanRequest(is_named=True, opening="afterwards")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='unknown opening "afterwards"'):
        planned(file, request)
