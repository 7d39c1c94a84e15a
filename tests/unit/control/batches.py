"""Batches as a job sends them."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from branchline.records.sending.message import JobIdentity, ReportBatch
from branchline.records.sensors.record import (
    FINISHED,
    FileRecord,
    JobRecord,
    SiteReading,
    Totals,
    WagonRecord,
    WorkerPhases,
)
from branchline.records.sensors.status import TrainStatus

BEGIN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def identity(name: str = "spectra", user: str = "ada", begin: datetime = BEGIN) -> JobIdentity:
    """Another job each time."""
    command = f"branchline run wagons.py data/*.root -o {name}"
    return JobIdentity(
        uuid.uuid4().hex,
        name=name,
        command=command,
        user=user,
        host="node1.example",
        site="example",
        started=begin.isoformat(),
        wagons=["Spectrum", "Counter"],
        datasets=["muons"],
    )


def read(
    path: str, element: str, size_bytes: int, seconds: float, site: str = "example"
) -> tuple[FileRecord, SiteReading]:
    """A file that was read, and the same by site and storage element."""
    near = "site" if site in element else "elsewhere"
    record = FileRecord(path, element, site=site, bytes_read=size_bytes, wall_s=seconds, events=100, subjobs=1)
    return record, SiteReading(site, element, near, 1, size_bytes, 0, seconds, seconds / 2)


def batch(of: JobIdentity, number: int, *reads: tuple[FileRecord, SiteReading], after_s: float = 10.0) -> ReportBatch:
    """A batch of a running job with what it read."""
    done = number + 1
    status = TrainStatus(seconds=after_s, events=100 * done, bytes_read=1000 * done, subjobs=4, done=done, running=1)
    made = (datetime.fromisoformat(of.started) + timedelta(seconds=after_s)).isoformat()
    return ReportBatch(of, "job", number, made, status, [one for one, _ in reads], [one for _, one in reads])


def last(of: JobIdentity, number: int, *, after_s: float = 60.0, cpu_s: float = 45.0) -> ReportBatch:
    """The last batch of a job that ended well."""
    phases = WorkerPhases(0, "node1.example", "example", after_s, wait=15.0, wagons=after_s - 15.0)
    record = JobRecord(
        status=FINISHED,
        wall_s=after_s,
        cpu_s=cpu_s,
        workers=1,
        threads=1,
        subjobs=4,
        subjobs_done=4,
        events=400,
        totals=Totals(bytes_read=4000),
        worker_phases=[phases],
        wagons=[WagonRecord("Spectrum", seconds=20.0, cpu_s=19.0, events=400, output_bytes=500)],
    )
    status = TrainStatus(seconds=after_s, events=400, bytes_read=4000, subjobs=4, done=4, status=FINISHED)
    return replace(batch(of, number, after_s=after_s), record=record, status=status)
