"""The efficiencies of user jobs and trains are sums over their CPU and wall times, by month or day."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.control.batches import identity

from branchline.control.reports.readings import Period
from branchline.control.room import ControlRoom
from branchline.records.charts.efficiency import EfficiencySum
from branchline.records.sending.message import TRACE, ReportBatch
from branchline.records.sensors.record import FINISHED, JobRecord, WorkerPhases


def ended(
    name: str, started: str, wagons: list[str], cpu_s: float, worker_s: float, kind: str = "train"
) -> ReportBatch:
    who = replace(identity(name), started=started, wagons=wagons, kind=kind)
    workers = [WorkerPhases(0, wall_s=worker_s / 2), WorkerPhases(1, wall_s=worker_s / 2)]
    record = JobRecord(status=FINISHED, wall_s=worker_s, cpu_s=cpu_s, worker_phases=workers)
    return ReportBatch(who, "job", 0, started, record=record)


def test_jobs_are_summed_by_month_and_by_day(tmp_path: Path) -> None:
    room = ControlRoom(tmp_path / "room")
    try:
        for batch in (
            ended("one", "2026-01-05T10:00:00+00:00", ["a"], 10.0, 40.0),
            ended("two", "2026-01-31T23:00:00+00:00", ["b"], 5.0, 20.0),
            ended("train", "2026-01-05T12:00:00+00:00", ["a", "b", "c"], 30.0, 60.0),
            ended("later", "2026-03-01T00:00:00+00:00", ["a"], 1.0, 10.0),
            ended("idle", "2026-01-05T10:00:00+00:00", ["a"], 0.0, 40.0),
            ended("program", "2026-01-05T10:00:00+00:00", ["a"], 9.0, 9.0, TRACE),
        ):
            room.take(batch)
        assert room.efficiencies(Period(), by_month=True) == [
            EfficiencySum("2026-01-01", True, False, 2, 2, 15.0, pytest.approx(60.0)),
            EfficiencySum("2026-01-01", True, True, 1, 3, 30.0, pytest.approx(60.0)),
            EfficiencySum("2026-03-01", True, False, 1, 1, 1.0, pytest.approx(10.0)),
        ]
        days = room.efficiencies(Period(until="2026-02"), by_month=False)
        assert [(one.begin, one.is_train, one.jobs) for one in days] == [
            ("2026-01-05", False, 1),
            ("2026-01-05", True, 1),
            ("2026-01-31", False, 1),
        ]
        assert room.efficiencies(Period(since="2026-04"), by_month=True) == []
        times = room.job_times(Period(until="2026-02"))
        assert [one.seconds for one in times] == [20.0, 60.0, 40.0, 40.0]
    finally:
        room.close()
