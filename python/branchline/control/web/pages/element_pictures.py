"""Pictures of storage elements over time: how fast files were read, and how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from branchline.base.limits import ELEMENTS_DRAWN_MAX, PICTURE_BINS_MAX
from branchline.control.reports.readings import ElementHour
from branchline.control.web.pictures import Line, Picture, line_picture, seconds_since

#: Hours that one step of a line may stand for: few enough of them to be seen.
_BIN_HOURS = (1, 2, 3, 6, 12, 24, 48, 168, 336, 672)


@dataclass
class _Bin:
    """What was read in some hours: bytes, and the time of their files in workers."""

    bytes_read: int = 0
    wall_s: float = 0.0


def most_read(hours: Sequence[ElementHour]) -> dict[str, int]:
    """Bytes that were read from each storage element, the most first."""
    read: dict[str, int] = {}
    for one in hours:
        read[one.element] = read.get(one.element, 0) + one.reads.bytes_read
    return {name: read[name] for name in sorted(read, key=lambda name: (-read[name], name))}


def element_pictures(hours: Sequence[ElementHour]) -> list[Picture]:
    """Speed and amount over time, of the elements from which most was read; ``hours`` are in the order of time."""
    if not hours:
        return []
    start = hours[0].begin
    last = seconds_since(start, hours[-1].begin)
    shortest = hours[0].hours
    bin_hours = next(
        (one for one in _BIN_HOURS if one >= shortest and one * 3600 * PICTURE_BINS_MAX > last), _BIN_HOURS[-1]
    )
    bin_s = bin_hours * 3600.0
    names = list(most_read(hours))[:ELEMENTS_DRAWN_MAX]
    bins: dict[str, dict[int, _Bin]] = {name: {} for name in names}
    for one in hours:
        if one.element in bins:
            found = bins[one.element].setdefault(int(seconds_since(start, one.begin) // bin_s), _Bin())
            found.bytes_read += one.reads.bytes_read
            found.wall_s += one.reads.wall_s
    fullest = max(one.bytes_read for found in bins.values() for one in found.values()) / bin_hours
    unit, unit_bytes = ("GB", 1e9) if fullest >= 1e9 else ("MB", 1e6)
    speeds = [Line(name, _steps(_speeds(bins[name]), bin_s)) for name in names]
    amounts = [Line(name, _steps(_amounts(bins[name], unit_bytes * bin_hours), bin_s)) for name in names]
    return [
        line_picture("MB/s of a file in its worker", speeds, start),
        line_picture(f"{unit} read an hour", amounts, start),
    ]


def _speeds(bins: dict[int, _Bin]) -> dict[int, float]:
    return {index: one.bytes_read / one.wall_s / 1e6 for index, one in bins.items() if one.wall_s > 0}


def _amounts(bins: dict[int, _Bin], unit: float) -> dict[int, float]:
    """Also 0 where nothing was read."""
    whole = range(min(bins), max(bins) + 1) if bins else range(0)
    return {index: bins[index].bytes_read / unit if index in bins else 0.0 for index in whole}


def _steps(values: dict[int, float], bin_s: float) -> list[list[tuple[float, float]]]:
    """A line over bins: each is a step, and neighbours are joined."""
    parts: list[list[tuple[float, float]]] = []
    for _, group in groupby(enumerate(sorted(values)), key=lambda pair: pair[1] - pair[0]):
        parts.append([(at * bin_s, values[index]) for _, index in group for at in (index, index + 1)])
    return parts
