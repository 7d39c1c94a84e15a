"""The page of watched storage systems: read time relative to a reference storage system, and the rates of the reference
job, over time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from branchline.base.quantities import MB
from branchline.control.watched_storages import WatchedStorage, WatchSchedule
from branchline.control.web.pages.page import Ask, Page
from branchline.control.web.pictures import LineChart, TimeSeries, line_picture
from branchline.lab.studies.history import ReferencePoint, counted_points

_WIDTH, _HEIGHT, _MARGIN = 320, 60, 4
#: SVG template of a plot: a line of values, and a thin horizontal line at the ratio 1.
_SVG = Markup(
    '<svg viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" aria-label="{2}">'
    '<path d="M0 {3:.1f}H{0}" stroke="currentColor" stroke-opacity="0.3"/>'
    '<polyline points="{4}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
)


@dataclass(frozen=True)
class Watched:
    """All schedules of studies that watch storage systems."""

    schedules: list[WatchSchedule]


def watched(ask: Ask) -> Page:
    """The histories that `branchline study schedule` and `study reference` store in the control room's directory."""
    shown = Watched(ask.room.watched())
    every = [(schedule.name, one) for schedule in shown.schedules for one in schedule.storages]
    pictures = {(name, one.name): _line(one) for name, one in every if one.reference is None}
    charts = {(name, one.name): _charts(one) for name, one in every if one.reference is not None}
    return Page("watched.html", "Watched storages", shown, {"pictures": pictures, "charts": charts})


def _charts(storage: WatchedStorage) -> list[LineChart]:
    """Plot the reading rate and the CPU benchmark of the reference job over time."""
    return [
        _chart(
            "MB per second of reading time",
            storage,
            ("storage", "both"),
            lambda one: None if one.fetch_bytes_per_s is None else one.fetch_bytes_per_s / MB,
        ),
        _chart("CPU time of the benchmark in s", storage, ("processor", "both"), lambda one: one.benchmark_cpu_s),
    ]


def _chart(
    title: str, storage: WatchedStorage, changed: tuple[str, ...], value: Callable[[ReferencePoint], float | None]
) -> LineChart:
    """Plot a quantity at all turns that count, and its median between changes."""
    counted = [(one, value(one.reference)) for one in counted_points(storage.turns) if one.reference is not None]
    known = [(one, number) for one, number in counted if number is not None and math.isfinite(number)]
    if not known:
        return LineChart(title)
    start = known[0][0].moment
    points = [((one.moment - start).total_seconds(), number) for one, number in known]
    changes = [one.processor if "processor" in changed and one.processor else one for one in storage.level_changes]
    begins = {one.at for one in changes if one.what in changed}
    edges = [t for (t, _), (one, _) in zip(points, known, strict=True) if one.at in begins]
    levels = []
    for begin, end in zip([-math.inf, *edges], [*edges, math.inf], strict=True):
        part = [(t, number) for t, number in points if begin <= t < end]
        if part:
            level = statistics.median(number for _, number in part)
            levels.append([(part[0][0], level), (part[-1][0], level)])
    return line_picture(
        title, [TimeSeries("turns", [points]), TimeSeries("median between changes", levels)], start.isoformat()
    )


def _line(storage: WatchedStorage) -> Markup:
    """Plot the logarithmic time ratios of the shown study runs. Higher values are slower."""
    logs = [math.log(one.ratio) for one in storage.turns if one.ratio and not one.is_busy]
    if not logs:
        return Markup("")
    low, high = min([*logs, 0.0]), max([*logs, 0.0])
    span = max(high - low, 0.1)

    def y(value: float) -> float:
        return _HEIGHT - _MARGIN - (value - low) / span * (_HEIGHT - 2 * _MARGIN)

    label = f"{len(logs)} turns, from {math.exp(min(logs)):.2f} to {math.exp(max(logs)):.2f} times the reference"
    step = (_WIDTH - 2 * _MARGIN) / max(len(logs) - 1, 1)
    points = " ".join(f"{_MARGIN + step * index:.1f},{y(value):.1f}" for index, value in enumerate(logs))
    return _SVG.format(_WIDTH, _HEIGHT, label, y(0.0), points)
