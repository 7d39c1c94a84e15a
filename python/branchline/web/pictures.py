"""Pictures of numbers over time, as SVG in the page: no script draws them, and they print."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from branchline.quantities import significant

# The area of the lines, in units of the picture.
WIDTH, HEIGHT = 1000.0, 220.0
TICKS = 5


@dataclass(frozen=True)
class Line:
    """A line with its name: points of time and value, in the order of time."""

    name: str
    points: list[tuple[float, float]] = field(default_factory=list)


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
    time_unit: str
    lines: list[DrawnLine] = field(default_factory=list)
    x_ticks: list[Tick] = field(default_factory=list)
    y_ticks: list[Tick] = field(default_factory=list)


def line_picture(title: str, lines: Sequence[Line], time_unit: str = "s") -> Picture:
    """The picture of some lines over one time axis; the value axis begins at 0."""
    shown = [one for one in lines if one.points]
    if not shown:
        return Picture(title, time_unit)
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
            "M" + "L".join(at(t, value) for t, value in (one.points if len(one.points) > 1 else one.points * 2)),
            significant(one.points[-1][1]),
        )
        for number, one in enumerate(shown)
    ]
    parts = [index / (TICKS - 1) for index in range(TICKS)]
    x_ticks = [Tick(part * WIDTH, significant(begin + part * span)) for part in parts]
    y_ticks = [Tick(HEIGHT * (1 - part), significant(part * top)) for part in parts]
    return Picture(title, time_unit, drawn, x_ticks, y_ticks)


def hours_since(begin: str, moment: str) -> float:
    """The hours between two times (ISO 8601)."""
    return (datetime.fromisoformat(moment) - datetime.fromisoformat(begin)).total_seconds() / 3600


def _round_above(value: float) -> float:
    """The next of 1, 2, 4, 8 times a power of ten: its quarters are short numbers."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 8, 10) if step * power >= value * (1 - 1e-9))
