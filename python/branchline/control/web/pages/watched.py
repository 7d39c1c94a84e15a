"""The page of watched storage systems: read time relative to a reference storage system, over time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from branchline.control.watched_storages import WatchedStorage, WatchSchedule, schedules
from branchline.control.web.pages.page import Ask, Page

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
    """The histories that `branchline study schedule` stores in the control room's directory."""
    shown = Watched(schedules(ask.room.folder))
    pictures = {(schedule.name, one.storage): _line(one) for schedule in shown.schedules for one in schedule.storages}
    return Page("watched.html", "Watched storages", shown, {"pictures": pictures})


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
