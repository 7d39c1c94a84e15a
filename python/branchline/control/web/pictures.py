"""Plots of a histogram from two runs as step lines in SVG, with the ratio below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from branchline.base.quantities import significant
from branchline.control.trains.run_comparison import BinsDrawn

# Width and height of the plot area, in SVG units.
WIDTH, HEIGHT = 1000.0, 220.0
#: Height of the ratio plot below a histogram, in SVG units.
RATIO_HEIGHT = 90.0
TICKS = 5


@dataclass(frozen=True)
class AxisTick:
    """A tick of an axis, with position and label."""

    at: float
    text: str


@dataclass(frozen=True)
class BinsPicture:
    """A histogram from two runs as SVG paths in an area of WIDTH by HEIGHT, with axis ticks.

    The ratio of the runs has an area of WIDTH by RATIO_HEIGHT, in which the ratio 1 has the vertical position
    ``one_at``.
    """

    name: str
    axis: str
    first: str
    second: str
    ratio: str
    one_at: float
    x_ticks: list[AxisTick] = field(default_factory=list)
    y_ticks: list[AxisTick] = field(default_factory=list)
    ratio_ticks: list[AxisTick] = field(default_factory=list)


def bins_picture(name: str, bins: BinsDrawn) -> BinsPicture:
    """Draw a histogram from two runs. The histogram must have at least one bin."""
    begin, end = bins.edges[0], bins.edges[-1]
    low, high = min(0.0, *bins.first, *bins.second), max(0.0, *bins.first, *bins.second)
    ratios = [ours / theirs if theirs else None for ours, theirs in zip(bins.first, bins.second, strict=True)]
    known = [one for one in ratios if one is not None]
    reach = max([abs(one - 1) for one in known], default=0.0) or 0.1
    # Limit the range of the ratio axis, because a single outlier would flatten all other bins.
    reach = min(reach, 1.0)
    x = [_fraction(edge, begin, end) * WIDTH for edge in bins.edges]
    return BinsPicture(
        name,
        bins.axis,
        _step_path(x, bins.first, low, high, HEIGHT),
        _step_path(x, bins.second, low, high, HEIGHT),
        _step_path(x, ratios, 1 - reach, 1 + reach, RATIO_HEIGHT),
        RATIO_HEIGHT / 2,
        _axis_ticks(begin, end, WIDTH, is_height=False),
        _axis_ticks(low, high, HEIGHT, is_height=True),
        [AxisTick(RATIO_HEIGHT * part, significant(1 + reach * (1 - 2 * part))) for part in (0.0, 0.5, 1.0)],
    )


def _fraction(value: float, low: float, high: float) -> float:
    """Return the position of ``value`` between ``low`` and ``high``, from 0 to 1.

    Calculates with halved values, because ``high - low`` may overflow.
    """
    span = high / 2 - low / 2
    return min(max((value / 2 - low / 2) / span, 0.0), 1.0) if span > 0 and math.isfinite(value) else 0.0


def _step_path(x: Sequence[float], values: Sequence[float | None], low: float, high: float, height: float) -> str:
    """Return a step line as an SVG path, with gaps for missing values."""
    path, is_down = "", False
    for left, right, value in zip(x, x[1:], values, strict=False):
        if value is None:
            is_down = False
            continue
        y = height * (1 - _fraction(value, low, high))
        path += f"{'L' if is_down else 'M'}{left:.1f} {y:.1f}H{right:.1f}"
        is_down = True
    return path


def _axis_ticks(low: float, high: float, length: float, *, is_height: bool) -> list[AxisTick]:
    parts = [index / (TICKS - 1) for index in range(TICKS)]
    values = [low * (1 - part) + high * part for part in parts]
    at = [length * (1 - part if is_height else part) for part in parts]
    return [AxisTick(place, significant(value)) for place, value in zip(at, values, strict=True)]
