"""The page of watched storage systems: read time relative to a reference storage system, and the rates of the reference
job, over time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from branchline.base.palette import BLUE, GREY
from branchline.base.quantities import MB
from branchline.control.watched_storages import WatchedStorage, WatchSchedule
from branchline.control.web.pages.page import Ask, Page
from branchline.lab.studies.history import ReferencePoint, counted_points
from branchline.records.charts.axes import number_axis, time_axis
from branchline.records.charts.chart import Chart, Curve, Points

_WIDTH, _HEIGHT, _MARGIN = 320, 60, 4
#: Half of the height of the mark of a turn, as a part of the axis.
_MARK = 0.012
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


def _charts(storage: WatchedStorage) -> list[Chart]:
    """Plot the reading rate and the CPU benchmark of the reference job over time."""
    return [
        _chart(
            "Reading rate",
            "MB per second of reading time",
            storage,
            ("storage", "both"),
            lambda one: None if one.fetch_bytes_per_s is None else one.fetch_bytes_per_s / MB,
        ),
        _chart(
            "CPU benchmark",
            "CPU time of the benchmark in s",
            storage,
            ("processor", "both"),
            lambda one: one.benchmark_cpu_s,
        ),
    ]


def _chart(
    title: str,
    label: str,
    storage: WatchedStorage,
    changed: tuple[str, ...],
    value: Callable[[ReferencePoint], float | None],
) -> Chart:
    """Plot a quantity at all turns that count, and its median between changes."""
    counted = [(one, value(one.reference)) for one in counted_points(storage.turns) if one.reference is not None]
    known = [(one, number) for one, number in counted if number is not None and math.isfinite(number)]
    if not known:
        return Chart(title, number_axis("", 1.0), number_axis(label, 1.0), empty="No turn counts yet.")
    start = known[0][0].moment
    times = [(one.moment - start).total_seconds() for one, _ in known]
    values = [number for _, number in known]
    changes = [one.processor if "processor" in changed and one.processor else one for one in storage.level_changes]
    begins = {one.at for one in changes if one.what in changed}
    edges = [times[0], *(t for t, (one, _) in zip(times, known, strict=True) if one.at in begins), math.inf]
    levels = [
        statistics.median([number for t, number in zip(times, values, strict=True) if begin <= t < end] or values)
        for begin, end in pairwise(edges)
    ]
    end_s = max(times[-1], times[0] + 1.0)
    scale = number_axis(label, max(values))
    half = _MARK * scale.high
    marks = Points("turns", GREY, times, [one - half for one in values], [one + half for one in values])
    median = Curve("median between changes", BLUE, [*edges[:-1], end_s], levels)
    return Chart(title, time_axis("time", times[0], end_s, start.isoformat()), scale, [median], [marks])


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
