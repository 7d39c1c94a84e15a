"""The memory limit is kept: many times its bytes go through a process whose peak stays below it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.patience import HANG_S
from tests.sampled import long_but

MIB = 1 << 20
LIMIT_BYTES = 64 * MIB
FILES = 6
ENTRIES = 1_000_000
BASKET_BYTES = 15_000_000

PROGRAM = """
import json, sys, time
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream

def status_bytes(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

tiny, paths, settings, pause_s = json.loads(sys.argv[1])
with ChunkStream([Source(tiny)], None) as stream:
    next(stream).arrays()
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak is counted from here
before = status_bytes("VmRSS")
entries = 0
with ChunkStream([Source(path) for path in paths], None, **settings) as stream:
    for chunk in stream:
        entries += len(chunk.arrays())
        time.sleep(pause_s)
    files = stream.records().files
print(json.dumps({"entries": entries, "grown": status_bytes("VmHWM") - before,
                  "plain": sum(one.plain_bytes for one in files)}))
"""


def columns(entries: int) -> dict[str, Any]:
    """Numbers that repeat and shrink to a hundredth, arrays and strings."""
    numbers = (np.arange(entries) // 50).astype("f8")
    counts = np.tile([0, 1, 2, 3, 4], entries // 5)
    return {
        "a": numbers,
        "b": numbers + 1,
        "c": numbers + 2,
        "d": numbers + 3,
        "e": numbers + 4,
        "hits": ak.unflatten(np.zeros(counts.sum(), "f4"), counts),
        "label": ak.unflatten(np.full(8 * entries, ord("x"), "u1"), np.full(entries, 8)),
    }


KINDS = dict.fromkeys("abcde", "float64") | {"hits": "var * float32", "label": "var * uint8"}


def write(path: Path, clusters: int, entries: int, compression: Any) -> None:
    """A file of so many clusters of so many entries, 65 bytes each."""
    with uproot.recreate(path, compression=compression) as file:
        tree = file.mktree("events", KINDS, initial_basket_capacity=100)
        part = columns(entries)
        for _ in range(clusters):
            tree.extend(part)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of 70 MB after decompression: small clusters, the same not compressed, and one huge cluster; the same huge
    one as an RNTuple; and one of baskets of 15 MB that compress to two thirds.
    """
    folder = tmp_path_factory.mktemp("memory")
    write(folder / "tiny.root", 1, 100, uproot.ZSTD(1))
    write(folder / "small.root", 20, 50_000, uproot.ZSTD(1))
    write(folder / "plain.root", 20, 50_000, None)
    write(folder / "huge.root", 1, ENTRIES, uproot.ZSTD(1))
    with uproot.recreate(folder / "ntuple.root", compression=uproot.ZSTD(1)) as file:
        file.mkrntuple("events", columns(ENTRIES))
    draw = np.random.default_rng(1)
    with uproot.recreate(folder / "baskets.root", compression=uproot.ZSTD(1)) as file:
        numbers = {name: draw.integers(0, 1 << 16, BASKET_BYTES // 4).astype("u4") << 3 for name in "abcd"}
        tree = file.mktree("events", dict.fromkeys("abcd", "uint32"), initial_basket_capacity=100)
        tree.extend(numbers)
        tree.extend(numbers)
    return folder


def measured(path: Path, files: int = FILES, pause_s: float = 0.0, **settings: Any) -> dict[str, int]:
    settings.setdefault("memory_limit", LIMIT_BYTES)
    arguments = json.dumps([str(path.parent / "tiny.root"), [str(path)] * files, settings, pause_s])
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, arguments],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, int] = json.loads(ended.stdout)
    print(f"{found['grown'] / MIB:.0f} MiB for {found['plain'] / MIB:.0f} MiB")
    assert found["plain"] > files * LIMIT_BYTES
    return found


@pytest.mark.parametrize("threads", long_but([1, 4], [4]))
@pytest.mark.parametrize("name", ["small", "plain"])
def test_many_times_the_limit_goes_through_it(folder: Path, name: str, threads: int) -> None:
    found = measured(folder / f"{name}.root", threads=threads)
    assert found["grown"] < LIMIT_BYTES
    assert found["entries"] == FILES * ENTRIES


def test_a_slow_consumer_is_not_overrun(folder: Path) -> None:
    assert measured(folder / "small.root", threads=2, pause_s=0.01)["grown"] < LIMIT_BYTES


@pytest.mark.parametrize("threads", long_but([1, 4], [4]))
@pytest.mark.parametrize("name", ["huge", "ntuple"])
def test_a_cluster_larger_than_the_limit_is_read_within_it(folder: Path, name: str, threads: int) -> None:
    found = measured(folder / f"{name}.root", files=2, threads=threads)
    assert found["grown"] < LIMIT_BYTES
    assert found["entries"] == 2 * ENTRIES


@pytest.mark.long
def test_four_threads_at_large_baskets_stay_within_the_limit(folder: Path) -> None:
    found = measured(folder / "baskets.root", files=1, threads=4)
    assert found["grown"] < LIMIT_BYTES
    assert found["entries"] == 2 * BASKET_BYTES // 4


def test_steps_of_many_entries_stay_within_the_limit(folder: Path) -> None:
    assert measured(folder / "small.root", threads=2, step_size=100_000)["grown"] < LIMIT_BYTES
