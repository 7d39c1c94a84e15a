"""`python -m benches tracing`: the overhead of `--trace`, from pairs of reads with and without a trace."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benches.data import SPLIT_TREE, TREE, collisions, shared_folder, split_object_files
from benches.places import served
from benches.rounds import Spread
from benches.tables import opening, spread, table

#: A pass repeats the reads for about this long. Short passes ensure that interference affects both passes of a pair.
PASS_S = 0.12
#: Number of bootstrap samples, and the confidence level of the interval of a median.
DRAWS, CONFIDENCE = 2000, 0.95


@dataclass(frozen=True)
class Read:
    """Files that are read completely in one way, repeated within a pass."""

    name: str
    files: list[str]
    tree: str
    mode: str


@contextmanager
def reads(cache: Path, files: int, events: int, progress: Callable[[str], None]) -> Iterator[list[Read]]:
    """Return the measured reads: small baskets from the page cache, the demo's files, and files on an XRootD server."""
    shared = shared_folder()
    real = shared / "data" / "root" / "AliESDs-0.root" if shared else None
    small = real if real is not None and real.exists() else split_object_files(cache, 1, progress)[0]
    demo = collisions(cache, files, events, progress)
    with served({small.name: small, demo[0].name: demo[0]}) as place:
        yield [
            Read(f"{small.name}, basket by basket", [str(small)], SPLIT_TREE, "plain"),
            Read(f"{small.name}, planned", [str(small)], SPLIT_TREE, "planned"),
            Read("the demo's collisions, basket by basket", [str(path) for path in demo], TREE, "plain"),
            Read("the demo's collisions, planned", [str(path) for path in demo], TREE, "planned"),
            Read(f"{small.name} over root://", [f"{place.url}/{small.name}"], SPLIT_TREE, "planned"),
            Read("collisions over root://", [f"{place.url}/{demo[0].name}"], TREE, "planned"),
        ]


def pass_of(read: Read, times: int, folder: Path | None) -> tuple[float, float]:
    """Return the wall and CPU seconds of reading the files this many times, with or without a trace in the folder."""
    from branchline import Access, _core
    from branchline.reading.sources import Source
    from branchline.reading.trees.stream import ChunkStream

    sources = [Source(path, read.tree) for path in read.files] * times
    if folder is not None:
        _core.trace_begin(str(folder))
    spent, begin = cpu_seconds(), time.perf_counter()
    with ChunkStream(sources, None, access=Access(mode=read.mode)) as stream:
        for chunk in stream:
            del chunk
    if folder is not None:
        _core.trace_end()
    return time.perf_counter() - begin, cpu_seconds() - spent


def cpu_seconds() -> float:
    return time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID)


def measured(read: Read, repeats: int, folder: Path) -> dict[str, Any]:
    """Measure pairs of passes with and without a trace, in alternating order."""
    pass_of(read, 1, None)
    once = pass_of(read, 1, None)[0]
    times = max(1, round(PASS_S / once)) if repeats > 1 else 1
    pairs, trace_bytes = [], 0
    for number in range(repeats):
        own = folder / str(number)
        own.mkdir(parents=True)
        order = (own, None) if number % 2 else (None, own)
        found = {place is not None: pass_of(read, times, place) for place in order}
        trace_bytes = sum(path.stat().st_size for path in own.iterdir())
        shutil.rmtree(own)
        pairs.append({"with": found[True], "without": found[False]})
    return {"read": read.name, "times": times, "trace_bytes": trace_bytes, "pairs": pairs}


@dataclass(frozen=True)
class Cost:
    """The relative overhead of a trace: the median of the pairs, and its confidence interval."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, ratios: list[float]) -> Cost:
        """Compute the interval with a bootstrap of the measured pairs."""
        drawn = np.random.default_rng(0).choice(np.array(ratios), (DRAWS, len(ratios)))
        low, high = np.quantile(np.median(drawn, axis=1), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        return cls(median(ratios), float(low), float(high))

    def __str__(self) -> str:
        return f"{100 * self.median:.2f} % ({100 * self.low:.2f} to {100 * self.high:.2f})"


def costs_of(found: dict[str, Any]) -> list[Cost]:
    """Return the overhead in wall time and in CPU time."""
    return [Cost.of([pair["with"][which] / pair["without"][which] - 1 for pair in found["pairs"]]) for which in (0, 1)]


def row_of(found: dict[str, Any]) -> list[str]:
    pairs, times = found["pairs"], found["times"]
    sides = [Spread.of([pair[side][0] / times for pair in pairs]) for side in ("with", "without")]
    best = min(pair["with"][0] for pair in pairs) / min(pair["without"][0] for pair in pairs) - 1
    trace_kb = f"{found['trace_bytes'] / times / 1000:.0f}"
    shown = (spread(side, scale=1000, digits=1) for side in sides)
    return [found["read"], *shown, *map(str, costs_of(found)), f"{100 * best:.2f} %", trace_kb]


def tracing_page(
    cache: Path, files: int, events: int, repeats: int, progress: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Measure and return the page with its rows."""
    rows = []
    cache.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="journals-", dir=cache))
    try:
        with reads(cache, files, events, progress) as chosen:
            for read in chosen:
                progress(f"{read.name}: {repeats} pairs")
                rows.append(measured(read, repeats, folder))
    finally:
        shutil.rmtree(folder)
    lines = opening("Overhead of --trace", repeats)
    head = ["read", "with a trace ms", "without ms", "overhead", "in CPU time", "fastest passes", "trace kB"]
    lines += [table(head, [row_of(row) for row in rows]), ""]
    lines += [
        "Each pass reads its files repeatedly for about 120 ms, from the page cache. A pair is a pass with a trace and",
        "one without, in alternating order. Times and bytes refer to reading the files once. Overheads are medians of",
        "the pairs with 95 % bootstrap intervals. With a trace, every request and every basket is recorded and written",
        "before the pass ends. Creating the journal, once per process, and converting it to a trace after the job are",
        "not included.",
    ]
    return "\n".join(lines) + "\n", rows
