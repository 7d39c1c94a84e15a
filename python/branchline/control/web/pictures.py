"""Pictures of numbers over time, as SVG in the page: no script draws them, and they print."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from branchline.base.quantities import duration, significant

# The area of the lines, in units of the picture.
WIDTH, HEIGHT = 1000.0, 220.0
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
