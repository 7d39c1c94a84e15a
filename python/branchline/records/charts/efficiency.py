"""The CPU efficiency of user jobs and of trains over months, and the gain of moving user jobs into trains.

It follows figure 2 of L Betev et al., "Performance optimisations for distributed analysis in ALICE" (2014), which
estimates the gain of moving half of the user jobs to organised analysis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from branchline.base.palette import BLUE, ORANGE
from branchline.base.quantities import counted, percent, significant
from branchline.records.charts.axes import Axis, Tick, time_axis
from branchline.records.charts.chart import Chart, Curve

#: Fraction of the user jobs that move into trains in the estimate of the gain.
MOVED_PART = 0.5


@dataclass(frozen=True)
class EfficiencySum:
    """Sums over the user jobs, or over the trains, that started in a day or a month.

    A user job has one wagon, a train has several. ``begin`` is the date of the first day. ``wall_s`` is the time for
    which the jobs occupied cores.
    """

    begin: str
    is_month: bool
    is_train: bool
    jobs: int
    wagons: int
    cpu_s: float
    wall_s: float


@dataclass(frozen=True)
class TrainGain:
    """The efficiency of all jobs, as it is and if a part of the user jobs ran in trains of ``wagons`` wagons."""

    before: float
    after: float
    wagons: float


def train_gain(sums: Sequence[EfficiencySum]) -> TrainGain | None:
    """Estimate the gain of moving ``MOVED_PART`` of the user jobs into trains with the mean number of wagons.

    The jobs of a train read the same bytes once instead of once each, so they spend the time without CPU once. Their
    CPU time stays the same. None without user jobs or without trains.
    """
    users, trains = ([one for one in sums if one.is_train == is_train] for is_train in (False, True))
    user_cpu_s, user_wall_s = sum(one.cpu_s for one in users), sum(one.wall_s for one in users)
    trains_count = sum(one.jobs for one in trains)
    if user_wall_s <= 0 or not trains_count:
        return None
    wagons = max(sum(one.wagons for one in trains) / trains_count, 1.0)
    cpu_s = user_cpu_s + sum(one.cpu_s for one in trains)
    wall_s = user_wall_s + sum(one.wall_s for one in trains)
    saved_s = MOVED_PART * max(user_wall_s - user_cpu_s, 0.0) * (1 - 1 / wagons)
    return TrainGain(cpu_s / wall_s, cpu_s / (wall_s - saved_s), wagons)


def efficiency_chart(sums: Sequence[EfficiencySum], *, is_simulated: bool = False) -> Chart:
    """Return a chart of the efficiencies, with the gain in the note. ``sums`` must be sorted by time."""
    scale = Axis("CPU time / wall time", 0.0, 1.0, [Tick(part / 4, f"{25 * part} %") for part in range(5)])
    title = "CPU efficiency of user jobs and trains"
    sums = [one for one in sums if 0 < one.wall_s < math.inf]
    if not sums:
        return Chart(title, time_axis("", 0, 1), scale, empty="No job with CPU time ended in this period.")
    start = _midnight(sums[0].begin)
    curves = []
    for name, colour, is_train in (("user jobs", BLUE, False), ("trains", ORANGE, True)):
        own = [one for one in sums if one.is_train == is_train]
        if own:
            jobs, part = sum(one.jobs for one in own), sum(one.cpu_s for one in own) / sum(one.wall_s for one in own)
            x, y = _steps(own, start)
            curves.append(Curve(name, colour, x, y, f"{counted(jobs, 'job')}, mean {percent(part, 1.0)}"))
    end_s = max(one.x[-1] for one in curves)
    axis = time_axis("start of the jobs (UTC)", 0.0, end_s, start.isoformat())
    return Chart(title, axis, scale, curves, note=_gain_note(train_gain(sums)), is_simulated=is_simulated)


def _gain_note(gain: TrainGain | None) -> str:
    rule = "A user job has one wagon, a train several."
    if gain is None:
        return f"{rule} What trains would gain is not estimated, since this needs both in the period."
    return (
        f"{rule} If half of the user jobs ran in trains of {significant(gain.wagons, 2)} wagons, the mean here, the "
        f"efficiency of all jobs would be {percent(gain.after, 1.0)} instead of {percent(gain.before, 1.0)}. This "
        "assumes that the jobs of a train read the same bytes, that they spend all time without CPU waiting for these "
        "bytes, once instead of once each, and that their CPU time stays the same."
    )


def _steps(sums: Sequence[EfficiencySum], start: datetime) -> tuple[list[float], list[float | None]]:
    """Return the edges and values of a step line, with gaps where no job started."""
    x: list[float] = []
    y: list[float | None] = []
    for one in sums:
        begin = _midnight(one.begin)
        end = (begin.replace(day=1) + timedelta(days=32)).replace(day=1) if one.is_month else begin + timedelta(days=1)
        begin_s, end_s = ((moment - start).total_seconds() for moment in (begin, end))
        if x and x[-1] < begin_s:
            y.append(None)
        if not x or x[-1] < begin_s:
            x.append(begin_s)
        x.append(end_s)
        y.append(min(one.cpu_s / one.wall_s, 1.0) if one.wall_s > 0 else None)
    return x, y


def _midnight(day: str) -> datetime:
    return datetime.fromisoformat(f"{day}T00:00:00+00:00")
