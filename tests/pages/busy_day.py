"""A day at three sites: jobs that end, run and fail, and read near and far."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tests.unit.control.batches import identity, read

from branchline.records.sending.message import JobIdentity, ReportBatch
from branchline.records.sensors.record import (
    FAILED,
    RUNNING,
    FileRecord,
    JobRecord,
    SiteReading,
    TimePoint,
    Totals,
    WagonFault,
    WagonRecord,
    WorkerPhases,
)
from branchline.records.sensors.status import TrainStatus

#: Each site and the storage element near to it.
SITES = {
    "gsi.example": "root://se.gsi.example",
    "kit.example": "root://dcache.kit.example:1094",
    "cern.example": "root://eos.cern.example",
}
USERS = ("ada", "emmy", "lise")
WAGONS = ("Spectra", "Jets", "DimuonMass")
FILES_PER_BATCH, EVENTS_PER_FILE, FILE_BYTES = 6, 120_000, 2_100_000_000
STATES = ("finished", "finished", "running", "finished", "failed")


def busy_day(jobs: int = 24) -> Iterator[ReportBatch]:
    """All batches of some jobs, the oldest job first."""
    draw = random.Random(2014)
    begin = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=55 * jobs)
    states = itertools.cycle(STATES)
    for index in range(jobs):
        site = list(SITES)[index % len(SITES)]
        who = identity(f"{WAGONS[index % 3].lower()}-{index:02}", USERS[index % 2 if index < 9 else 2])
        started = begin + timedelta(minutes=50 * index)
        who = replace(who, started=started.isoformat(), site=site, host=f"node{index}.{site}")
        yield from job_batches(replace(who, wagons=list(WAGONS)), next(states), draw)


def job_batches(who: JobIdentity, state: str, draw: random.Random) -> Iterator[ReportBatch]:
    """The batches of one job: four if it ends, else two."""
    points = [TimePoint(0.0)]
    for number in range(2 if state == RUNNING else 4):
        reads = [reading(who, f"run{number}/{index:03}", draw) for index in range(FILES_PER_BATCH)]
        status = status_of(number, state)
        points.append(TimePoint(status.seconds, status.events, status.bytes_read))
        made = datetime.fromisoformat(who.started) + timedelta(seconds=status.seconds)
        record = None if status.status == RUNNING else record_of(who, status, points)
        files, sites = [one for one, _ in reads], [one for _, one in reads]
        yield ReportBatch(who, "job", number, made.isoformat(), status, files, sites, record)


def reading(who: JobIdentity, name: str, draw: random.Random) -> tuple[FileRecord, SiteReading]:
    """A file that is read near the worker, or from farther away and slower."""
    near = SITES[who.site]
    element = near if draw.random() < 0.7 else draw.choice([one for one in SITES.values() if one != near])
    seconds = FILE_BYTES / (90e6 if element == near else 14e6) * draw.uniform(0.7, 1.3)
    record, reads = read(f"{element}//store/{name}.root", element, FILE_BYTES, seconds, who.site)
    return record, replace(reads, nearness="site" if element == near else "elsewhere")


def status_of(number: int, state: str) -> TrainStatus:
    """How the job stands when this batch is made."""
    done = FILES_PER_BATCH * (number + 1)
    is_last = number == 3
    return TrainStatus(
        seconds=900.0 * (number + 1),
        events=done * EVENTS_PER_FILE,
        bytes_read=done * FILE_BYTES,
        status=state if is_last else RUNNING,
        phase="write" if is_last else "run",
        subjobs=4 * FILES_PER_BATCH,
        done=done,
        running=0 if is_last else 4,
        queued=0 if is_last else 4 * FILES_PER_BATCH - done - 4,
        workers=4,
        errors=["Jets: KeyError: no branch 'Jet_pt'"] if is_last and state == FAILED else [],
    )


def record_of(who: JobIdentity, status: TrainStatus, points: list[TimePoint]) -> JobRecord:
    """The record at the end of a job."""
    wall_s = status.seconds
    phases = [
        WorkerPhases(one, who.host, who.site, wall_s, wait=wall_s * 0.35, decode=wall_s * 0.2, wagons=wall_s * 0.45)
        for one in range(4)
    ]
    wagons = [
        WagonRecord(name, wall_s * share, wall_s * share * 0.9, events=status.events, output_bytes=40_000)
        for name, share in zip(WAGONS, (0.1, 0.6, 0.3), strict=True)
    ]
    if status.status == FAILED:
        wagons[1].status, wagons[1].error = FAILED, WagonFault("KeyError", "no branch 'Jet_pt'", line="wagons.py:31")
    return JobRecord(
        status=status.status,
        wall_s=wall_s,
        cpu_s=wall_s * 2.6,
        workers=4,
        subjobs=status.subjobs,
        subjobs_done=status.done,
        events=status.events,
        totals=Totals(bytes_read=status.bytes_read),
        phases={"plan": 12.0, "run": wall_s - 40, "merge": 20.0, "write": 8.0},
        worker_phases=phases,
        timeline=points,
        wagons=wagons,
    )
