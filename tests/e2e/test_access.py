"""Every way of reading gives the same arrays, bit for bit, and makes the requests that its name says."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.page_cache import in_page_cache
from tests.peers.peers import missing, shared_data

from branchline import Access, File
from branchline.reading.sources import FileReading, Source
from branchline.reading.trees.stream import ChunkStream

BRANCHES = 12
CLUSTERS = 5
CLUSTER_ENTRIES = 3000
# Slow enough that files are read in parts and the next parts are asked for early.
FAR = Access(throttle="latency=2ms,bandwidth=40MB/s,seed=1")
WAYS = {
    "plain": Access(mode="plain"),
    "cache": Access(mode="cache", tree_cache="50 KB"),
    "planned": Access(),
    "prefetch": Access(mode="prefetch"),
    "far": FAR,
    "far, little at a time": Access(throttle=FAR.throttle, requests_in_flight=2, bytes_in_flight="20 KB", gap=0),
    "read-ahead": Access(mode="plain", read_ahead="4 KiB"),
}
# Real files of all kinds: objects, strings, many clusters, RNTuples of several experiments.
REAL = (
    "AliESDs-0.root", "Event2a.root", "NanoAODv5_sample.root", "Run2012B_SingleMu_1000.root", "TNtupleD.root",
    "KM3NeT_00000049_00008456.summaryslice-167941.root", "Run2012BC_DoubleMuParked_Muons_rntuple_1000evts.root",
    "PHYSLITE_example.root",
)  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Four files with baskets of different lengths, so that no cut of entries suits all branches."""
    folder = tmp_path_factory.mktemp("access")
    random = np.random.default_rng(5)
    for number in range(4):
        with uproot.recreate(folder / f"{number}.root", compression=uproot.ZLIB(1)) as file:
            tree = file.mktree(
                "events", {f"b{index}": "float64" for index in range(BRANCHES)} | {"hits": "var * int32"}
            )
            for _ in range(CLUSTERS):
                columns: dict[str, Any] = {
                    f"b{index}": random.normal(size=CLUSTER_ENTRIES) for index in range(BRANCHES)
                }
                counts = random.integers(0, 4, CLUSTER_ENTRIES)
                tree.extend(columns | {"hits": ak.unflatten(np.arange(counts.sum(), dtype="i4"), counts)})
    return [folder / f"{number}.root" for number in range(4)]


def buffers_of(array: Any) -> Iterator[bytes]:
    """The form and all bytes of an array."""
    form, length, buffers = ak.to_buffers(ak.to_packed(array))
    yield f"{form.to_json()} {length}".encode()
    for name in sorted(buffers):
        yield bytes(memoryview(np.ascontiguousarray(buffers[name])).cast("B"))


def everything(paths: list[Path], access: Access, step: int, branches: list[str] | None = None) -> list[bytes]:
    read: list[bytes] = []
    with ChunkStream([Source(str(one)) for one in paths], branches, step_size=step, access=access, threads=2) as stream:
        for chunk in stream:
            read += buffers_of(chunk.arrays())
    return read


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("branches", [None, ["b3", "hits", "b7"]])
def test_arrays_are_the_same_in_every_way_of_reading(way: str, branches: list[str] | None, files: list[Path]) -> None:
    for step in (1700, 10**6):
        assert everything(files, WAYS[way], step, branches) == everything(files, Access(), step, branches)


@pytest.mark.parametrize("way", [name for name in WAYS if name != "planned"])
@pytest.mark.parametrize("name", REAL)
def test_real_files_read_the_same_in_every_way(way: str, name: str) -> None:
    folder = shared_data()
    if folder is None:
        missing("the shared test data (BRANCHLINE_SHARED, or ../shared next to the repository)")
    path = folder / "root" / name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        usual = File(path)
        read = File(path, WAYS[way])
    trees = usual.trees()
    assert trees
    for tree in trees[:2]:
        paths = usual.tree(tree).core.readable()[::7][:12]
        for expected, found in zip(chunks(usual.tree(tree), paths), chunks(read.tree(tree), paths), strict=True):
            assert expected == found


def chunks(tree: Any, paths: list[str]) -> Iterator[list[bytes]]:
    with ChunkStream([tree.source()], paths, step_size="1 MB") as stream:
        for chunk in stream:
            yield [part for path in paths for part in buffers_of(chunk.array(path))]


def record_of(path: Path, branches: list[str] | None, access: Access) -> FileReading:
    with ChunkStream([Source(str(path))], branches, access=access) as stream:
        assert sum(len(chunk.arrays()) for chunk in stream) == CLUSTERS * CLUSTER_ENTRIES
        (record,) = stream.records().files
        return record


def test_each_way_makes_the_requests_that_its_name_says(files: list[Path]) -> None:
    baskets = CLUSTERS * 2
    size = files[0].stat().st_size

    def cost(**fields: Any) -> tuple[int, int]:
        with in_page_cache(files[0]):
            record = record_of(files[0], ["b3", "b7"], Access(**fields))
        return record.read_calls, record.bytes_read

    metadata, _ = cost_of_opening(files[0], Access(mode="plain"))
    plain, plain_bytes = cost(mode="plain")
    assert plain == metadata + baskets
    assert plain_bytes < size / 2
    # All branches of the first cluster are read together, then two ranges of each cluster.
    cache, cache_bytes = cost(mode="cache", tree_cache="1 MB")
    assert cache - metadata < plain - metadata
    assert cache_bytes > plain_bytes
    # What has no room for all branches learns basket by basket.
    assert cost(mode="cache", tree_cache="50 KB") == (plain, plain_bytes)
    assert cost() == cost(mode="prefetch") == (1, size)
    # A buffer of 4 KiB is filled again and again, and more bytes are moved than are wanted.
    small, small_bytes = cost(mode="plain", read_ahead="4 KiB")
    assert small > plain
    assert small_bytes == pytest.approx(small * 4096, rel=0.05)
    whole, whole_bytes = cost(mode="plain", read_ahead="128 MiB")
    assert (whole, whole_bytes) == (1, size)


def cost_of_opening(path: Path, access: Access) -> tuple[int, int]:
    with ChunkStream([Source(str(path))], [], access=access) as stream:
        list(stream)
        (record,) = stream.records().files
        return record.read_calls, record.bytes_read


def test_baskets_are_read_once_however_they_are_asked_for(files: list[Path]) -> None:
    usual = record_of(files[0], ["b3", "b7"], Access(mode="plain"))
    far = record_of(files[0], ["b3", "b7"], Access(throttle="latency=3ms,bandwidth=5MB/s,seed=1", gap=0))
    assert far.bytes_read <= usual.bytes_read + 2**20 + 2**17


def test_a_file_that_memory_does_not_hold_is_not_prefetched_and_that_is_said(tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    with uproot.recreate(tmp_path / "large.root", compression=None) as file:
        tree = file.mktree("events", {f"b{index}": "float64" for index in range(20)})
        for _ in range(40):
            tree.extend({f"b{index}": random.random(3000) for index in range(20)})
    assert (tmp_path / "large.root").stat().st_size > 16 * 2**20
    wanted: dict[str, Any] = {"step_size": 5000, "memory_limit": "16 MiB"}
    remarks, values = {}, {}
    for mode in ("planned", "prefetch"):
        with ChunkStream([Source(str(tmp_path / "large.root"))], ["b3"], access=mode, **wanted) as stream:
            values[mode] = [chunk.arrays()["b3"].tolist() for chunk in stream]
        remarks[mode] = stream.records().files[0].remarks
    assert values["prefetch"] == values["planned"]
    assert remarks["planned"] == []
    assert "not prefetched" in remarks["prefetch"][0]


def test_closing_early_ends_what_was_asked_for(files: list[Path]) -> None:
    for _ in range(20):
        stream = ChunkStream([Source(str(one)) for one in files * 5], None, step_size=500, access=FAR)
        assert len(next(stream)) == 500
        stream.close()


def test_a_file_that_is_missing_fails_at_its_place(files: list[Path], tmp_path: Path) -> None:
    paths = [files[0], tmp_path / "absent.root", files[1]]
    sources = [Source(str(one)) for one in paths]
    with ChunkStream(sources, ["b1"], step_size=1000, access=FAR, skip_bad_files=True) as stream:
        seen = [chunk.source_index for chunk in stream]
    assert seen == [0] * 15 + [2] * 15
    assert [one.path for one in stream.skipped] == [str(paths[1])]
