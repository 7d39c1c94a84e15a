"""Plots as inline SVG, which need no scripts and can be printed.

Line plots show values over time. Histogram plots show a histogram from two runs as step lines, with the ratio below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from branchline.base.quantities import duration, significant
from branchline.control.trains.run_comparison import BinsDrawn

# Width and height of the plot area, in SVG units.
WIDTH, HEIGHT = 1000.0, 220.0
#: Height of the ratio plot below a histogram, in SVG units.
RATIO_HEIGHT = 90.0
TICKS = 5
# Possible tick intervals of the time axis, in seconds: round numbers of seconds, minutes, hours, days and weeks.
_TIME_STEPS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800,
                 21600, 43200, 86400, 172_800, 604_800, 1_209_600, 2_419_200, 7_257_600, 31_449_600)  # fmt: skip


@dataclass(frozen=True)
class TimeSeries:
    """A named line of points (time, value), sorted by time. Gaps separate the ``parts`` of the line."""

    name: str
    parts: list[list[tuple[float, float]]] = field(default_factory=list)

    @property
    def points(self) -> list[tuple[float, float]]:
        """The points of all parts."""
        return [point for part in self.parts for point in part]


@dataclass(frozen=True)
class AxisTick:
    """A tick of an axis, with position and label."""

    at: float
    text: str


@dataclass(frozen=True)
class DrawnLine:
    """A line as an SVG path. ``number`` selects the colour of the line. ``last`` is the formatted last value."""

    name: str
    number: int
    path: str
    last: str


@dataclass(frozen=True)
class LineChart:
    """Lines in an area of WIDTH by HEIGHT, with ticks on both axes. Has no lines and ticks if there are no data."""

    title: str
    lines: list[DrawnLine] = field(default_factory=list)
    x_ticks: list[AxisTick] = field(default_factory=list)
    y_ticks: list[AxisTick] = field(default_factory=list)


def line_picture(title: str, lines: Sequence[TimeSeries], start: str = "") -> LineChart:
    """Draw lines over a common time axis in seconds. The value axis begins at 0.

    If ``start`` (ISO 8601) is given, times are relative to ``start``, and the labels of the time axis are dates and
    times of day.
    """
    shown = [one for one in lines if one.points]
    if not shown:
        return LineChart(title)
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
    y_ticks = [AxisTick(HEIGHT * (1 - part), _short(part * top)) for part in parts]
    # Choose an interval with at most TICKS + 1 ticks at round times.
    step = next((one for one in _TIME_STEPS_S if one * TICKS >= end - begin), (end - begin) / TICKS)
    round_times = [index * step for index in range(math.ceil(begin / step), math.floor(end / step) + 1)]
    x_ticks = [AxisTick((t - begin) / span * WIDTH, _time_text(t, start, span)) for t in round_times]
    return LineChart(title, drawn, x_ticks, y_ticks)


def seconds_since(begin: str, moment: str) -> float:
    """Return the number of seconds from ``begin`` to ``moment`` (ISO 8601)."""
    return (datetime.fromisoformat(moment) - datetime.fromisoformat(begin)).total_seconds()


def _time_text(t: float, start: str, span: float) -> str:
    """Return a time axis label: a duration if ``start`` is empty; otherwise a time of day, a date, or both."""
    if not start:
        return duration(t) if t else "0"
    moment = datetime.fromisoformat(start) + timedelta(seconds=t)
    if span > 3 * 86_400:
        return f"{moment:%m-%d}"
    return f"{moment:%m-%d %H:%M}" if span > 43_200 else f"{moment:%H:%M}"


def _short(value: float) -> str:
    """Format a number with an SI prefix."""
    for power, prefix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= power:
            return f"{value / power:g}{prefix}"
    return f"{value:g}"


def _round_above(value: float) -> float:
    """Round up to 1, 2, 4 or 8 times a power of ten, so that ticks at quarters of the result are short numbers."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 8, 10) if step * power >= value * (1 - 1e-9))


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
