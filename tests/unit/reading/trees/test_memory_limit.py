"""The memory limit: what does not fit is refused with a limit that is enough, and what fits never waits for ever."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.sampled import long_but

import branchline
from branchline.errors import MemoryLimitError

CLUSTERS = 3
ENTRIES = 60_000
# A stream that waits for memory that nobody gives back would wait for ever.
PATIENCE_S = 240


def columns(seed: int) -> dict[str, Any]:
    """Numbers of 0.24 MB that compress to two thirds, lists and strings."""
    random = np.random.default_rng(seed)
    counts = random.integers(0, 4, ENTRIES)
    return {
        "number": (random.integers(0, 1 << 16, ENTRIES) << 3).astype("u4"),
        "other": (random.integers(0, 1 << 16, ENTRIES) << 5).astype("u4"),
        "hits": ak.unflatten((random.integers(0, 1 << 16, counts.sum()) << 3).astype("u4"), counts),
        "label": ak.enforce_type(ak.Array(np.char.mod("%d", np.arange(ENTRIES))), "string"),
    }


@pytest.fixture(scope="module")
def values() -> ak.Array:
    return ak.concatenate([ak.zip(columns(seed), depth_limit=1) for seed in range(CLUSTERS)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same entries in baskets, in pages, and in baskets that are not compressed."""
    folder = tmp_path_factory.mktemp("limit")
    for name, compression in (("tree", uproot.ZSTD(1)), ("lzma", uproot.LZMA(1)), ("plain", None)):
        with uproot.recreate(folder / f"{name}.root", compression=compression) as file:
            kinds = {"number": "uint32", "other": "uint32", "hits": "var * uint32", "label": "string"}
            tree = file.mktree("events", kinds, initial_basket_capacity=100)
            for seed in range(CLUSTERS):
                tree.extend(columns(seed))
    with uproot.recreate(folder / "ntuple.root", compression=uproot.ZSTD(1)) as file:
        ntuple = file.mkrntuple("events", columns(0))
        for seed in range(1, CLUSTERS):
            ntuple.extend(columns(seed))
    return folder


def same(read: ak.Array, values: ak.Array) -> bool:
    return all(ak.array_equal(read[name], values[name], dtype_exact=False) for name in values.fields)


def enough(error: MemoryLimitError) -> int:
    """Return the sufficient limit in the message, in MiB."""
    said = re.search(r'memory_limit to at least "(\d+) MiB"', str(error))
    assert said is not None, error
    return int(said[1])


@pytest.mark.parametrize("workers", long_but([1, 4], [4]))
@pytest.mark.parametrize("name", ["tree", "lzma", "plain", "ntuple"])
def test_a_limit_that_is_too_small_says_which_is_enough(
    folder: Path, values: ak.Array, name: str, workers: int
) -> None:
    with pytest.raises(MemoryLimitError, match="exceeds the memory limit of") as caught:
        list(branchline.iterate(f"{folder}/{name}.root:events", memory_limit="150 kB", workers=workers))
    assert f"{name}.root" in str(caught.value)
    limit = f"{enough(caught.value)} MiB"
    parts = list(branchline.iterate(f"{folder}/{name}.root:events", memory_limit=limit, workers=workers))
    assert len(parts) >= CLUSTERS
    assert same(ak.concatenate(parts), values)


@pytest.mark.parametrize("name", ["tree", "plain", "ntuple"])
def test_steps_of_too_many_entries_are_refused_with_a_limit_that_is_enough(
    folder: Path, values: ak.Array, name: str
) -> None:
    settings: dict[str, Any] = {"step_size": 50_000, "workers": 2}
    with pytest.raises(MemoryLimitError, match="read fewer entries at a time") as caught:
        list(branchline.iterate(f"{folder}/{name}.root:events", memory_limit="5 MiB", **settings))
    limit = f"{enough(caught.value)} MiB"
    parts = list(branchline.iterate(f"{folder}/{name}.root:events", memory_limit=limit, **settings))
    assert [len(part) for part in parts] == [50_000] * 3 + [30_000]
    assert same(ak.concatenate(parts), values)


@pytest.mark.parametrize("name", ["tree", "lzma", "plain", "ntuple"])
def test_arrays_may_be_larger_than_the_limit_of_their_reading(folder: Path, values: ak.Array, name: str) -> None:
    tree = branchline.open(f"{folder}/{name}.root:events")
    for limit in ("8 MiB", "1 GiB"):
        assert same(tree.arrays(memory_limit=limit, workers=3), values)
    if name == "lzma":
        with pytest.raises(MemoryLimitError):
            tree.arrays(memory_limit="150 kB")


# Each in a process of its own, so that one that hangs is reported.
ENDS = """
import sys
import branchline
from branchline.errors import MemoryLimitError
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream

place, way = sys.argv[1:]
settings = dict(memory_limit="5 MiB", workers=8)
if way == "one entry at a time":
    tree = branchline.open(place)
    steps = tree.iterate(step_size=1, entry_start=59_900, entry_stop=60_100, **settings)
    assert sum(len(part) for part in steps) == 200
elif way == "left early":
    for _ in range(20):
        for part in branchline.iterate([place] * 3, **settings):
            break
elif way == "two at once":
    left, right = (branchline.iterate([place] * 2, **settings) for _ in range(2))
    assert sum(len(one) + len(other) for one, other in zip(left, right, strict=True)) == 4 * 180_000
elif way == "all kept":
    assert sum(map(len, list(branchline.iterate([place] * 2, **settings)))) == 2 * 180_000
elif way == "hardly any memory":
    try:
        for part in branchline.iterate(place, step_size=1, memory_limit="300 kB", workers=8):
            break
    except MemoryLimitError as error:
        assert "set memory_limit to at least" in str(error)
elif way == "a stream that nobody reads":
    ignored = ChunkStream([Source(place.removesuffix(":events"))] * 5, None, memory_limit="5 MiB", threads=8)
    parts = branchline.iterate(place, **settings)
    assert sum(map(len, parts)) == 180_000
    ignored.close()
"""


@pytest.mark.parametrize("name", long_but(["tree", "ntuple"], ["tree"]))
@pytest.mark.parametrize(
    "way",
    [
        "one entry at a time",
        "left early",
        "two at once",
        "all kept",
        "hardly any memory",
        "a stream that nobody reads",
    ],
)
def test_little_memory_stops_nothing(folder: Path, name: str, way: str) -> None:
    command = [sys.executable, "-c", ENDS, f"{folder}/{name}.root:events", way]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 0, ended.stderr
