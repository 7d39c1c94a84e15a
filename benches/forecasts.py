"""Forecasts beside what was measured: reads over added latency, each predicted from a read without any.

The read that the rates come from is of another access mode and link than those that are predicted.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from branchline.access import Access
from branchline.dataset import DataFile
from branchline.forecast.conditions import Conditions
from branchline.forecast.forecasting import what_if
from branchline.forecast.reading import ReadingRequest, read
from branchline.forecast.subject import subject_of

ROUND_TRIPS_MS = (5, 20, 60)
MODES = ("plain", "cache", "planned", "prefetch")
BANDWIDTH = 50_000_000


@dataclass(frozen=True)
class Point:
    """A read: seconds as they were said, with the interval, and as they were."""

    mode: str
    round_trip_ms: int
    branches: int
    said_s: float
    low_s: float
    high_s: float
    measured_s: float

    @property
    def error(self) -> float:
        """As a part of what was measured."""
        return self.said_s / self.measured_s - 1

    @property
    def is_held(self) -> bool:
        """Whether the interval holds it."""
        return self.low_s <= self.measured_s <= self.high_s


def points(files: list[Path], tree: str, some: tuple[str, ...]) -> Iterator[Point]:
    """All combinations of access mode, round trip, and all or some branches."""
    for branches in (None, some):
        subject = subject_of([str(path) for path in files], branches)
        subject = replace(subject, threads=1, files=tuple(DataFile(str(path), tree) for path in files))
        for mode in MODES:
            for rtt in ROUND_TRIPS_MS:
                conditions = Conditions(rtt / 1e3, float(BANDWIDTH), mode)
                said = what_if(subject, conditions).then.wall_s
                throttle = Access(throttle=f"latency={rtt}ms,bandwidth={BANDWIDTH // 10**6}MB/s").throttle or ""
                request = ReadingRequest(
                    [str(path) for path in files], [tree] * len(files), list(branches or ()), mode, throttle
                )
                begin_s = time.monotonic()
                read(request)
                spent_s = time.monotonic() - begin_s
                yield Point(mode, rtt, len(branches or ()), said.value, said.low, said.high, spent_s)


def forecasts_page(files: list[Path], tree: str, some: tuple[str, ...]) -> str:
    """The table of all points, with the median error and the coverage of the intervals."""
    found = list(points(files, tree, some))
    lines = ["| access | round trip | branches | forecast | measured | error | held |", "|---|---|---|---|---|---|---|"]
    for one in found:
        which = str(one.branches) if one.branches else "all"
        lines.append(
            f"| {one.mode} | {one.round_trip_ms} ms | {which} | {one.said_s:.2f} s | {one.measured_s:.2f} s | "
            f"{one.error:+.0%} | {'yes' if one.is_held else 'no'} |"
        )
    median = statistics.median(abs(one.error) for one in found)
    near = sum(abs(one.error) <= 0.15 for one in found) / len(found)
    held = sum(one.is_held for one in found) / len(found)
    lines += ["", f"median error {median:.0%}; {near:.0%} within 15 %; {held:.0%} of the 90 % intervals hold"]
    return "\n".join(lines)


if __name__ == "__main__":
    tree_name, names, *paths = sys.argv[1:]
    print(forecasts_page([Path(path) for path in paths], tree_name, tuple(names.split(","))))
