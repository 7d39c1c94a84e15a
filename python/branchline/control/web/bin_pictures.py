"""Pictures of a histogram in two runs: both as steps over one axis, and below them the ratio, as SVG in the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from branchline.base.quantities import significant
from branchline.control.trains.comparison.compared import BinsDrawn
from branchline.control.web.pictures import HEIGHT, TICKS, WIDTH, Tick

#: The area of the ratio, below that of the bins.
RATIO_HEIGHT = 90.0


@dataclass(frozen=True)
class BinsPicture:
    """Paths of both runs in an area of WIDTH by HEIGHT, and of their ratio in one of WIDTH by RATIO_HEIGHT, with marks
    of the axes. ``one_at`` is the height of the ratio 1.
    """

    name: str
    axis: str
    first: str
    second: str
    ratio: str
    one_at: float
    x_ticks: list[Tick] = field(default_factory=list)
    y_ticks: list[Tick] = field(default_factory=list)
    ratio_ticks: list[Tick] = field(default_factory=list)


def bins_picture(name: str, bins: BinsDrawn) -> BinsPicture:
    """The picture of a histogram that has at least one bin."""
    begin, end = bins.edges[0], bins.edges[-1]
    low, high = min(0.0, *bins.first, *bins.second), max(0.0, *bins.first, *bins.second)
    ratios = [ours / theirs if theirs else None for ours, theirs in zip(bins.first, bins.second, strict=True)]
    known = [one for one in ratios if one is not None]
    reach = max([abs(one - 1) for one in known], default=0.0) or 0.1
    # A bin far away would flatten all others.
    reach = min(reach, 1.0)
    x = [_part(edge, begin, end) * WIDTH for edge in bins.edges]
    return BinsPicture(
        name,
        bins.axis,
        _steps(x, bins.first, low, high, HEIGHT),
        _steps(x, bins.second, low, high, HEIGHT),
        _steps(x, ratios, 1 - reach, 1 + reach, RATIO_HEIGHT),
        RATIO_HEIGHT / 2,
        _ticks(begin, end, WIDTH, is_height=False),
        _ticks(low, high, HEIGHT, is_height=True),
        [Tick(RATIO_HEIGHT * part, significant(1 + reach * (1 - 2 * part))) for part in (0.0, 0.5, 1.0)],
    )


def _part(value: float, low: float, high: float) -> float:
    """Where a value lies between two others, from 0 to 1. Halves, since the distance of two doubles may be none."""
    span = high / 2 - low / 2
    return min(max((value / 2 - low / 2) / span, 0.0), 1.0) if span > 0 and math.isfinite(value) else 0.0


def _steps(x: Sequence[float], values: Sequence[float | None], low: float, high: float, height: float) -> str:
    """A path of horizontal lines, with gaps where there is no value."""
    path, is_down = "", False
    for left, right, value in zip(x, x[1:], values, strict=False):
        if value is None:
            is_down = False
            continue
        y = height * (1 - _part(value, low, high))
        path += f"{'L' if is_down else 'M'}{left:.1f} {y:.1f}H{right:.1f}"
        is_down = True
    return path


def _ticks(low: float, high: float, length: float, *, is_height: bool) -> list[Tick]:
    parts = [index / (TICKS - 1) for index in range(TICKS)]
    values = [low * (1 - part) + high * part for part in parts]
    at = [length * (1 - part if is_height else part) for part in parts]
    return [Tick(place, significant(value)) for place, value in zip(at, values, strict=True)]
