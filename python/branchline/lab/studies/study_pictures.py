"""Plots of a study as SVG: lines against the levels of a factor, intervals of ratios, and offsets against time.

Lines and intervals are drawn from numbers, offsets from the trace of the first job of an arm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup, escape

from branchline.base.quantities import counted
from branchline.errors import BranchlineError
from branchline.lab.sampling.traces import TRACED_CLIENTS, reads_of, trace_path
from branchline.lab.study import Study
from branchline.records.charts.axes import nice_ticks, tick_text
from branchline.records.charts.chart import Chart
from branchline.records.charts.offsets import offset_charts

#: Width and height of a plot, and its margins.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 300, 64, 16, 14, 44
#: Height of a row in a plot of intervals.
_ROW = 26
#: Half the length of the line that shows a limit at a single level.
_LONE = 24
#: Minimum distance between the labels of ratios, so that labels do not overlap.
_TICKS_APART = 32
#: Maximum number of characters in the name of an arm beside a plot of intervals.
_NAME_MAX = 44
#: Maximum number of lines in a plot. More lines could not be distinguished.
SERIES_MAX = 9
#: Maximum number of plots of offsets, which limits the length of the page.
ARMS_MAX = 8


@dataclass(frozen=True)
class Series:
    """A line: its values at the positions on the horizontal axis; None leaves a gap. The line of a limit is dashed."""

    name: str
    values: list[float | None]
    colour: str
    is_limit: bool = False


@dataclass(frozen=True)
class IntervalRow:
    """A ratio with its interval, for one row of a plot."""

    name: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class StudyPicture:
    """A plot with its title and legend."""

    title: str
    unit: str
    svg: Markup
    keys: list[tuple[str, str, bool]]


def lines(title: str, unit: str, places: Sequence[str], series: Sequence[Series], axis: str) -> StudyPicture:
    """Draw lines against the levels of a factor, which have equal distances.

    Points are joined only at levels that are numbers or have no label, since other levels have no order. If there are
    too many lines, only the first ones are drawn, and the unit has a remark.
    """
    if len(series) > SERIES_MAX:
        unit = "; ".join(filter(None, [unit, f"{SERIES_MAX} of {len(series)} lines are drawn"]))
        series = series[:SERIES_MAX]
    known = [one for line in series for one in line.values if one is not None]
    top = max(known, default=1.0) * 1.05 or 1.0
    ticks = nice_ticks(top)

    def x(index: int) -> float:
        inner = _WIDTH - _LEFT - _RIGHT
        return _LEFT + inner * (index + 0.5) / max(len(places), 1)

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * value / top

    parts = [_line(_LEFT, y(one), _WIDTH - _RIGHT, y(one), "grid") for one in ticks if one <= top]
    parts += [_text(_LEFT - 8, y(one) + 4, tick_text(one), "end") for one in ticks if one <= top]
    parts += [_text(x(index), _HEIGHT - _BOTTOM + 18, name, "middle") for index, name in enumerate(places)]
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, axis, "middle", "axis"))
    for one in series:
        parts += _curve(
            [None if value is None else (x(index), y(value)) for index, value in enumerate(one.values)],
            one,
            [not name or is_number(name) for name in places],
        )
    return StudyPicture(
        title, unit, _svg(_HEIGHT, title, parts), [(one.name, one.colour, one.is_limit) for one in series]
    )


def is_number(level: str) -> bool:
    """Return whether the name of a level is a number, with or without a unit, such as 16, 1.5 or "4 MiB"."""
    return level.removeprefix("-")[:1].isdigit()


def _curve(points: Sequence[tuple[float, float] | None], one: Series, joined: Sequence[bool]) -> list[Markup]:
    """Draw a line through the points at levels that are numbers. At other levels, a limit is drawn as a short separate
    line.
    """
    path, is_begun = "", False
    for point, is_joined in zip(points, joined, strict=True):
        if point is None or not is_joined:
            is_begun = False
        if point is None:
            continue
        left, right = (point[0] - _LONE, point[0] + _LONE) if one.is_limit and not is_joined else (point[0], None)
        path += f"{'L' if is_begun else 'M'}{left:.1f} {point[1]:.1f}"
        path += f"L{right:.1f} {point[1]:.1f}" if right is not None else ""
        is_begun = is_joined
    dash = Markup(' stroke-dasharray="6 5"') if one.is_limit else Markup("")
    drawn = [Markup('<path d="{}" class="curve" stroke="{}"{}/>').format(path, one.colour, dash)]
    if not one.is_limit:
        dot = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="3.5" fill="{}"/>')
        drawn += [dot.format(*point, one.colour) for point in points if point is not None]
    return drawn


def intervals(title: str, unit: str, rows: Sequence[IntervalRow]) -> StudyPicture:
    """Draw ratios with their intervals, one per row, on a logarithmic axis with a line at 1."""
    ends = [one for row in rows for one in (row.value, row.low or row.value, row.high or row.value)]
    low, high = min([*ends, 0.95]) / 1.03, max([*ends, 1.05]) * 1.03
    left, height = 300, _ROW * len(rows) + _BOTTOM

    def x(value: float) -> float:
        return left + (_WIDTH - _RIGHT - left) * math.log(value / low) / math.log(high / low)

    wanted = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2, 5, 10, 20, 50, 100)
    ticks = [float(one) for one in wanted if low <= one <= high]
    if high / low > 4:
        ticks = [one for one in ticks if one in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)]
    parts = []
    for one in _apart(ticks, x):
        parts.append(_line(x(one), 4, x(one), height - _BOTTOM + 6, "zero" if one == 1.0 else "grid"))
        parts.append(_text(x(one), height - _BOTTOM + 22, f"{one:g}", "middle"))
    parts.append(_text((left + _WIDTH - _RIGHT) / 2, height - 4, unit, "middle", "axis"))
    for number, row in enumerate(rows):
        middle = _ROW * (number + 0.5) + 4
        parts.append(_text(left - 12, middle + 4, _shortened(row.name), "end"))
        if row.low is not None and row.high is not None:
            parts.append(_line(x(row.low), middle, x(row.high), middle, "span"))
        parts.append(Markup('<circle cx="{:.1f}" cy="{:.1f}" r="4" class="dot"/>').format(x(row.value), middle))
    return StudyPicture(title, "", _svg(height, title, parts), [])


def _shortened(name: str) -> str:
    """Return the name of an arm, without its middle if it is long: arms often differ only in the last factor, such as
    the number of jobs.
    """
    if len(name) <= _NAME_MAX:
        return name
    kept = (_NAME_MAX - 3) // 2
    return f"{name[: _NAME_MAX - 3 - kept]}...{name[-kept:]}"


def _apart(ticks: Sequence[float], x: Callable[[float], float]) -> list[float]:
    """Return ticks whose labels do not overlap. Ticks close to 1 are preferred."""
    kept: list[float] = []
    for one in sorted(ticks, key=lambda tick: abs(math.log(tick))):
        if all(abs(x(one) - x(other)) >= _TICKS_APART for other in kept):
            kept.append(one)
    return kept


def offset_charts_of(study: Study, folder: Path) -> list[Chart]:
    """Return charts of offsets and seeks for the first arms that have a trace."""
    made: list[Chart] = []
    arms_count = 0
    for arm in study.arms():
        path = trace_path(folder, arm.name, 0)
        try:
            reads = reads_of(path) if path.exists() and arms_count < ARMS_MAX else []
        except BranchlineError:
            continue  # The trace of a killed job may be incomplete.
        if reads:
            arms_count += 1
            made += offset_charts(arm.name, [(one.seconds, one.offsets, one.sizes) for one in reads])
    return made


def offset_remark(study: Study, folder: Path) -> str:
    """Return a remark if some arms that could have a plot of offsets have none."""
    arms = [one.name for one in study.arms() if one.settings.client in TRACED_CLIENTS]
    shown = min(ARMS_MAX, sum(trace_path(folder, one, 0).exists() for one in arms))
    if shown == len(arms):
        return ""
    return f"{shown} of {counted(len(arms), 'arm')} are shown, as time permitted recording them, up to {ARMS_MAX}."


def _svg(height: float, title: str, parts: Sequence[Markup]) -> Markup:
    head = Markup('<svg class="picture" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(_WIDTH, height, title)
    return head + Markup("").join(parts) + Markup("</svg>")


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return Markup('<path class="{}" d="M{:.1f} {:.1f}L{:.1f} {:.1f}"/>').format(kind, x1, y1, x2, y2)


def _text(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> Markup:
    shown = escape(text)
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(kind, x, y, anchor, shown)
