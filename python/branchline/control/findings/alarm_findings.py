"""Findings from the alarms of watched storage systems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from branchline.base.quantities import counted
from branchline.control.findings.finding import Cell, Finding
from branchline.control.watched_storages import WatchSchedule
from branchline.lab.studies.alarms import UNREADABLE, WRONG_VALUES, Alarm
from branchline.records.diagnosis import remedies
from branchline.records.diagnosis.remedies import Estimate

#: Path of the page with the histories of watched storage systems.
WATCHED_PAGE = "/watched"


def alarms_of(schedules: Sequence[WatchSchedule]) -> Iterable[Finding]:
    """Return findings for all alarms. They are present problems, whatever the period."""
    for schedule in schedules:
        for alarm in schedule.alarms:
            yield _finding(schedule.name, alarm)


def _finding(schedule: str, alarm: Alarm) -> Finding:
    change = alarm.change
    # The part of failed samples is exact, so the interval has zero width.
    estimate = Estimate(alarm.lost_part, alarm.lost_part, alarm.lost_part, 1.0)
    if change is not None:
        estimate = Estimate(change.factor, change.low, change.high, 0.95)
    return Finding(
        alarm.kind,
        alarm.sentence,
        [Cell(storage_element=alarm.storage)],
        estimate=estimate,
        unit="times" if change is not None else "of the samples",
        since=alarm.at,
        evidence=WATCHED_PAGE,
        compared=[f"{counted(alarm.turns, 'turn')} of the schedule {schedule}"],
        advice={WRONG_VALUES: remedies.WRONG_VALUES, UNREADABLE: remedies.UNREADABLE}.get(
            alarm.kind, remedies.SLOWER_THAN_BEFORE
        ),
        p_value=None if change is None else change.p_value,
    )
