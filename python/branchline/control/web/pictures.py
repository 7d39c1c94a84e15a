"""Pictures as inline SVG, which need no script and can be printed.

Line pictures show numbers over time. Bin pictures show a histogram of two runs as steps, with their ratio below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from branchline.base.quantities import duration, significant
from branchline.control.trains.run_comparison import BinsDrawn

# The area of the lines, in units of the picture.
WIDTH, HEIGHT = 1000.0, 220.0
#: The area of the ratio, below that of the bins.
RATIO_HEIGHT = 90.0
TICKS = 5
# Steps between marks of time, in seconds: minutes, hours, days and weeks that people count in.
_TIME_STEPS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800,
                 21600, 43200, 86400, 172_800, 604_800, 1_209_600, 2_419_200, 7_257_600, 31_449_600)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A line with its name: points of time and value, in the order of time, in parts with gaps between them."""

    name: str
    parts: list[list[tuple[float, float]]] = field(default_factory=list)

    @property
    def points(self) -> list[tuple[float, float]]:
        """The points of all parts."""
        return [point for part in self.parts for point in part]


@dataclass(frozen=True)
class Tick:
    """A mark of an axis: where it is, and its number."""

    at: float
    text: str


@dataclass(frozen=True)
class DrawnLine:
    """A line as a path of SVG. ``number`` chooses its colour; ``last`` is its last value."""

    name: str
    number: int
    path: str
    last: str


@dataclass(frozen=True)
class Picture:
    """Lines in an area of WIDTH by HEIGHT, with marks on both axes. There are no lines if there is nothing to show."""

    title: str
    lines: list[DrawnLine] = field(default_factory=list)
    x_ticks: list[Tick] = field(default_factory=list)
    y_ticks: list[Tick] = field(default_factory=list)


def line_picture(title: str, lines: Sequence[Line], start: str = "") -> Picture:
    """The picture of some lines over one time axis in seconds; the value axis begins at 0. If the seconds count from a
    ``start`` (ISO 8601), the marks of the axis are the times of day.
    """
    shown = [one for one in lines if one.points]
    if not shown:
        return Picture(title)
    times = [t for one in shown for t, _ in one.points]
    begin, end = min(times), max(times)
    top = _round_above(max(value for one in shown for _, value in one.points))
    span = (end - begin) or 1.0

    def at(t: float, value: float) -> str:
        return f"{(t - begin) / span * WIDTH:.1f} {HEIGHT * (1 - value / top):.1f}"

    drawn = [
        DrawnLine(
            one.name,
            number,
            "".join("M" + "L".join(at(t, value) for t, value in part) for part in one.parts if part),
            significant(one.points[-1][1]),
        )
        for number, one in enumerate(shown)
    ]
    parts = [index / (TICKS - 1) for index in range(TICKS)]
    y_ticks = [Tick(HEIGHT * (1 - part), _short(part * top)) for part in parts]
    x_ticks = [Tick((t - begin) / span * WIDTH, _time_text(t, start, span)) for t in _round_times(begin, end)]
    return Picture(title, drawn, x_ticks, y_ticks)


def seconds_since(begin: str, moment: str) -> float:
    """The seconds between two times (ISO 8601)."""
    return (datetime.fromisoformat(moment) - datetime.fromisoformat(begin)).total_seconds()


def _round_times(begin: float, end: float) -> list[float]:
    """Up to TICKS + 1 round times from ``begin`` to ``end``."""
    step = next((one for one in _TIME_STEPS_S if one * TICKS >= end - begin), (end - begin) / TICKS)
    first = math.ceil(begin / step)
    return [index * step for index in range(first, math.floor(end / step) + 1)]


def _time_text(t: float, start: str, span: float) -> str:
    """A mark of the time axis: a duration, or the time of day, with the date where it lasts for days."""
    if not start:
        return duration(t) if t else "0"
    moment = datetime.fromisoformat(start) + timedelta(seconds=t)
    if span > 3 * 86_400:
        return f"{moment:%m-%d}"
    return f"{moment:%m-%d %H:%M}" if span > 43_200 else f"{moment:%H:%M}"


def _short(value: float) -> str:
    """A round number with few digits."""
    for power, prefix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= power:
            return f"{value / power:g}{prefix}"
    return f"{value:g}"


def _round_above(value: float) -> float:
    """The next of 1, 2, 4, 8 times a power of ten: its quarters are short numbers."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 8, 10) if step * power >= value * (1 - 1e-9))


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
        [Tick(RATIO_HEIGHT * part, significant(1 + reach * (1 - 2 * part))) for part in (0.0, 0.5, 1.0)],
    )


def _fraction(value: float, low: float, high: float) -> float:
    """Where a value lies between two others, from 0 to 1. Halves, since the distance of two doubles may be none."""
    span = high / 2 - low / 2
    return min(max((value / 2 - low / 2) / span, 0.0), 1.0) if span > 0 and math.isfinite(value) else 0.0


def _step_path(x: Sequence[float], values: Sequence[float | None], low: float, high: float, height: float) -> str:
    """A path of horizontal lines, with gaps where there is no value."""
    path, is_down = "", False
    for left, right, value in zip(x, x[1:], values, strict=False):
        if value is None:
            is_down = False
            continue
        y = height * (1 - _fraction(value, low, high))
        path += f"{'L' if is_down else 'M'}{left:.1f} {y:.1f}H{right:.1f}"
        is_down = True
    return path


def _axis_ticks(low: float, high: float, length: float, *, is_height: bool) -> list[Tick]:
    parts = [index / (TICKS - 1) for index in range(TICKS)]
    values = [low * (1 - part) + high * part for part in parts]
    at = [length * (1 - part if is_height else part) for part in parts]
    return [Tick(place, significant(value)) for place, value in zip(at, values, strict=True)]
