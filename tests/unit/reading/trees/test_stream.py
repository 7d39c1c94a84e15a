"""Streams of chunks: reading ahead, closing early, several at once, and what a chunk is."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.unit.reading.trees.conftest import Sample

import branchline
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream

PATIENCE_S = 240.0
#: Of the flags of a thread in proc(5): it is at its end. Linux shows it for a moment after others have joined it.
PF_EXITING = 0x4


def engine_threads() -> set[str]:
    """Threads of the engine that live in this process."""
    found = set()
    for thread in os.listdir("/proc/self/task"):
        try:
            name, _, rest = Path(f"/proc/self/task/{thread}/stat").read_text().partition("(")[2].rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        flags = int(rest.split()[6])
        if name.startswith("branchline") and not flags & PF_EXITING:
            found.add(thread)
    return found


@pytest.fixture
def own_threads() -> Callable[[], int]:
    """Counts the engine's threads that a test has started, whatever earlier ones left behind."""
    before = engine_threads()
    return lambda: len(engine_threads() - before)


def wait_until(is_so: Any) -> bool:
    end_s = time.monotonic() + PATIENCE_S
    while not is_so() and time.monotonic() < end_s:
        time.sleep(0.002)
    return bool(is_so())


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that takes a while to decode: 40 MB after decompression of LZMA."""
    path = tmp_path_factory.mktemp("long") / "long.root"
    with uproot.recreate(path, compression=uproot.LZMA(1)) as file:
        tree = file.mktree("events", dict.fromkeys("abcde", "float64"))
        values = np.arange(100_000) // 10.0
        for _ in range(10):
            tree.extend(dict.fromkeys("abcde", values))
    return path


def test_chunks_come_in_order_and_say_what_they_are(samples: list[Sample]) -> None:
    sources = [Source(str(samples[0].path), "events", 10, 45), Source(str(samples[2].path))]
    seen = []
    with ChunkStream(sources, ["number", "hits"], step_size=20, threads=3) as stream:
        for chunk in stream:
            seen.append((chunk.source_index, chunk.entry_start, chunk.entry_stop))
            assert len(chunk) == chunk.entry_stop - chunk.entry_start
            assert Path(chunk.path).name == f"part{2 * chunk.source_index}.root"
            assert chunk.tree_name == "events"
            assert chunk.tree_entries == (50, 66)[chunk.source_index]
            assert chunk.branches == ["number", "hits"]
            values = samples[2 * chunk.source_index].values[chunk.entry_start : chunk.entry_stop]
            assert ak.array_equal(chunk.arrays(), values[["number", "hits"]])
            assert ak.array_equal(chunk.array("hits"), values.hits)
            assert chunk.array("number", "np").tolist() == values.number.tolist()
            assert chunk.arrays("np", ["number"])["number"].tolist() == values.number.tolist()
    assert seen == [(0, 10, 30), (0, 30, 45), (1, 0, 20), (1, 20, 40), (1, 40, 60), (1, 60, 66)]


def test_arrays_of_a_chunk_outlive_it_and_its_stream(sample: Sample) -> None:
    kept = []
    with ChunkStream([Source(str(sample.path))], None, step_size=9) as stream:
        for chunk in stream:
            kept.append(chunk.arrays())
            chunk.release()
    gc.collect()
    # This would overwrite buffers that were given back.
    for _ in range(3):
        list(branchline.iterate(sample.location, step_size=9))
    whole = ak.concatenate(kept)
    assert ak.array_equal(whole, sample.values[whole.fields])


@pytest.mark.parametrize("threads", [1, 2])
def test_the_next_files_are_opened_before_they_are_asked_for(samples: list[Sample], threads: int) -> None:
    sources = [Source(str(one.path)) for one in samples[:1] * 6]
    with ChunkStream(sources, None, threads=threads) as stream:
        first = next(stream)
        assert first.source_index == 0
        assert wait_until(lambda: len(stream.records().files) >= 3), "nothing is read ahead"
        # Baskets are decoded ahead as well: those of the second file while the first is in use.
        assert wait_until(lambda: stream.records().files[1].baskets > 0)
        assert stream.records().files[0].entries == 50
        assert stream.records().files[1].entries == 0


def test_no_more_is_read_ahead_than_memory_allows(long: Path) -> None:
    with ChunkStream([Source(str(long))] * 5, None, memory_limit="10 MB") as stream:
        next(stream)
        time.sleep(0.2)
        records = stream.records()
        assert sum(one.plain_bytes for one in records.files) <= 15_000_000


@pytest.mark.parametrize("end", ["close", "with", "del", "error"])
@pytest.mark.parametrize("threads", [1, 4])
def test_the_end_of_a_stream_ends_its_threads_at_once(
    long: Path, end: str, threads: int, own_threads: Callable[[], int]
) -> None:
    stream = ChunkStream([Source(str(long))] * 30, None, threads=threads)
    # There are more where the disk is slow, as a busy one may be: they prefetch.
    assert wait_until(lambda: own_threads() > threads)
    assert len(next(stream)) > 0
    if end == "close":
        stream.close()
        stream.close()
    elif end == "with":
        with stream:
            pass
    elif end == "error":
        with pytest.raises(RuntimeError), stream:
            raise RuntimeError("of a wagon")
    else:
        del stream
        gc.collect()
    assert own_threads() == 0


def test_leaving_a_loop_over_steps_ends_the_threads(long: Path, own_threads: Callable[[], int]) -> None:
    for _ in branchline.iterate([f"{long}:events"] * 20, workers=3):
        break
    gc.collect()
    assert wait_until(lambda: own_threads() == 0)


def test_a_finished_stream_keeps_no_threads_and_stays_at_its_end(
    sample: Sample, own_threads: Callable[[], int]
) -> None:
    stream = ChunkStream([Source(str(sample.path))], None, threads=2)
    assert sum(len(chunk) for chunk in stream) == 100
    assert next(stream, None) is None
    stream.close()
    assert next(stream, None) is None
    assert stream.records().files[0].entries == 100
    assert own_threads() == 0


def test_chunks_of_a_closed_stream_stay(sample: Sample) -> None:
    stream = ChunkStream([Source(str(sample.path))], ["number"], step_size=30)
    chunk = next(stream)
    stream.close()
    assert next(stream, None) is None
    assert chunk.array("number").tolist() == sample.values.number[:30].tolist()
    assert chunk.array("energy").tolist() == sample.values.energy[:30].tolist()


def test_streams_at_the_same_time_do_not_disturb_each_other(samples: list[Sample]) -> None:
    sources = [Source(str(one.path)) for one in samples]
    streams = [ChunkStream(sources, None, step_size=step, threads=2) for step in (10, 33, "2 kB")]
    read: list[list[Any]] = [[] for _ in streams]
    running = list(range(len(streams)))
    while running:
        for index in list(running):
            chunk = next(streams[index], None)
            if chunk is None:
                running.remove(index)
            else:
                read[index].append(chunk.arrays())
    wanted = ak.concatenate([one.values for one in samples])
    for parts in read:
        whole = ak.concatenate(parts)
        assert ak.array_equal(whole, wanted[whole.fields])


def test_a_stream_of_nothing_ends(sample: Sample) -> None:
    assert list(ChunkStream([], None)) == []
    assert list(ChunkStream([Source(str(sample.path), "events", 50, 50)], None)) == []
    assert list(ChunkStream([Source(str(sample.path), "events", 5000)], None)) == []


def test_errors_come_after_the_chunks_before_them(
    samples: list[Sample], tmp_path: Path, own_threads: Callable[[], int]
) -> None:
    paths = [str(samples[0].path), str(tmp_path / "missing.root"), str(samples[2].path)]
    stream = ChunkStream([Source(path) for path in paths], ["number"], step_size=20, threads=2)
    assert [len(next(stream)) for _ in range(3)] == [20, 20, 10]
    with pytest.raises(branchline.MissingFileError, match=r"missing\.root"):
        next(stream)
    assert own_threads() == 0


def test_with_bad_files_skipped_the_others_come_whole(samples: list[Sample], tmp_path: Path) -> None:
    paths = [str(samples[0].path), str(tmp_path / "missing.root"), str(samples[2].path)]
    with ChunkStream([Source(path) for path in paths], ["number"], step_size=20, skip_bad_files=True) as stream:
        assert sum(len(chunk) for chunk in stream) == 116
    (skipped,) = stream.skipped
    assert (skipped.path, skipped.entries_lost) == (paths[1], None)
    assert "missing.root" in skipped.error


def test_a_branch_that_is_not_there_is_no_bad_file(samples: list[Sample]) -> None:
    stream = ChunkStream([Source(str(samples[0].path))], ["numbr"], skip_bad_files=True)
    with pytest.raises(branchline.NoSuchKeyError, match="did you mean number"):
        next(stream)


def test_branches_are_found_where_each_file_has_them(tmp_path: Path) -> None:
    orders = ("abc", "cab", "cb", "bca", "abc")
    for number, order in enumerate(orders):
        with uproot.recreate(tmp_path / f"{number}.root") as file:
            file["t"] = {name: np.full(3, 10 * number + "abc".index(name)) for name in order}
    sources = [Source(str(tmp_path / f"{number}.root"), "t", 0, None) for number in range(len(orders))]
    for chunk, (number, order) in zip(
        ChunkStream(sources, ["a", "b", "c"], optional=["a"]), enumerate(orders), strict=True
    ):
        assert chunk.branches == [name for name in "abc" if name in order]
        for name in chunk.branches:
            assert chunk.array(name).to_list() == [10 * number + "abc".index(name)] * 3
