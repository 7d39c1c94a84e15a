"""Report trains that cannot reach the control room: it reports what it sees of them, as these trains would.

The record of a resumed train contains all its reads, so only the reads since the previous end are reported.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from branchline.base.limits import REPORT_INTERVAL_S
from branchline.base.plain import from_plain, to_plain
from branchline.control.database import Database
from branchline.control.reports.tables import packed, unpacked
from branchline.control.trains.train import HERE, Train
from branchline.errors import BranchlineError
from branchline.jobs.sites import own_spot
from branchline.reading.locations import shown_command
from branchline.records.sending.message import JobIdentity, ReportBatch, split
from branchline.records.sensors.record import FileRecord, JobRecord, SiteReading
from branchline.records.sensors.status import STOPPED, TrainStatus
from branchline.records.sensors.this_process import branchline_version, host

#: The job that each start of a train is. ``ends`` counts its ends and how often it was resumed; ``told`` has all reads
#: that were taken with its ends.
TABLES = """
CREATE TABLE IF NOT EXISTS train_jobs (
    train INTEGER PRIMARY KEY, identity TEXT NOT NULL, ends INTEGER NOT NULL DEFAULT 0,
    is_over INTEGER NOT NULL DEFAULT 0, told BLOB);
CREATE INDEX IF NOT EXISTS train_jobs_at_work ON train_jobs (is_over, train);
"""
#: Whose job such a train is: no account can have a name with a space, so nobody else reports it.
REPORTER = "the control room"
# Source of the batches with the state of a train.
_STATE = "state"
# Numbers of a file that no further read of it changes.
_OF_THE_FILE = {"size_bytes", "entries", "open_s"}
Take = Callable[[ReportBatch, str], bool]


@dataclass(frozen=True)
class _TrainJob:
    identity: JobIdentity
    ends: int
    is_over: bool
    told: TrainReads


class RoomReports:
    """Reports of the trains of a control room. ``take`` takes a batch once, whole, and has it on the disk then.

    Its methods may be called by several threads at once, for different trains. They raise DatabaseError; what they did
    not come to do then, or when the server was killed, the same call does later, and nothing is taken twice.
    """

    def __init__(self, database: Database, take: Take) -> None:
        self._database = database
        self._take = take
        self._lock = threading.Lock()
        self._noted: dict[int, tuple[float, TrainStatus]] = {}

    def begin(self, train: Train, out: Path) -> None:
        """A train is about to be started, with results in ``out``: that is a new job."""
        earlier = self._job(train.number)
        if earlier is not None and not earlier.is_over and self._next(earlier.identity, _STATE):
            self.end(train, None, TrainStatus(status=STOPPED))
        identity = json.dumps(to_plain(_identity(train, out)))
        with self._database.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO train_jobs (train, identity) VALUES (?, ?)", (train.number, identity)
            )

    def resume(self, number: int) -> None:
        """The job of a train goes on."""
        with self._database.writing() as connection:
            connection.execute("UPDATE train_jobs SET is_over = 0, ends = ends + 1 WHERE train = ?", (number,))

    def note(self, train: Train, status: TrainStatus) -> None:
        """How a train stands, unless that was reported a moment ago."""
        now_s = time.monotonic()
        with self._lock:
            noted_s, noted = self._noted.get(train.number, (float("-inf"), None))
            if now_s - noted_s < REPORT_INTERVAL_S and noted is not None and noted.phase == status.phase:
                return
            self._noted[train.number] = (now_s, status)
        job = self._job(train.number)
        if job is None or job.is_over:
            return
        self._send(ReportBatch(job.identity, _STATE, self._next(job.identity, _STATE), _now(), status))

    def end(self, train: Train, record: JobRecord | None, status: TrainStatus) -> str:
        """A train has ended as ``status`` says, with a record if it wrote one. Gives the reason why that was not taken,
        empty if all of it was.
        """
        job = self._job(train.number)
        if job is None or job.is_over:
            return ""
        source = f"end {job.ends + 1}"
        batch = ReportBatch(job.identity, source, 0, _now(), status)
        reads, refused = job.told, ""
        if record is not None:
            record = _trusted_record(record, train, job.identity)
            reads = TrainReads.of(record)
            new = reads.since(job.told)
            full = replace(batch, files=new.files, sites=new.sites, record=replace(record, files=[]))
            refused = self._send(full)
        if record is None or refused:
            # What was taken of the others has numbers before this one.
            self._send(replace(batch, source=f"{source}, without its record"))
        # Only a train of a batch system goes on as the same job.
        self._note_end(train.number, job, reads if train.order.is_submitted else TrainReads())
        return refused

    def job(self, number: int) -> str:
        """The job that a train is, or was last; empty if nothing was reported of it."""
        query = "SELECT job FROM train_jobs JOIN jobs ON job = json_extract(identity, '$.job') WHERE train = ?"
        with self._database.reading() as connection:
            row = connection.execute(query, (number,)).fetchone()
        return "" if row is None else str(row[0])

    def at_work(self) -> set[int]:
        """Numbers of the trains whose jobs have no end yet."""
        with self._database.reading() as connection:
            return {int(number) for (number,) in connection.execute("SELECT train FROM train_jobs WHERE NOT is_over")}

    def _send(self, batch: ReportBatch) -> str:
        """Takes a batch as the server takes what is sent to it: in parts that are not too large, and nothing that JSON
        does not have. Gives the reason of a refusal.
        """
        for _, body in split(batch):
            try:
                plain = json.loads(gzip.decompress(body))
                self._take(ReportBatch.from_dict(plain), REPORTER)
            except (ValueError, RecursionError) as error:
                return str(error)
        return ""

    def _next(self, identity: JobIdentity, source: str) -> int:
        """The number of the next batch of a source."""
        query = "SELECT next FROM sources JOIN jobs ON id = job_id WHERE job = ? AND source = ?"
        with self._database.reading() as connection:
            row = connection.execute(query, (identity.job, source)).fetchone()
        return 0 if row is None else int(row[0])

    def _job(self, number: int) -> _TrainJob | None:
        query = "SELECT identity, ends, is_over, told FROM train_jobs WHERE train = ?"
        with self._database.reading() as connection:
            row: sqlite3.Row | None = connection.execute(query, (number,)).fetchone()
        if row is None:
            return None
        identity, ends, is_over, told = row
        reads = TrainReads() if told is None else from_plain(TrainReads, unpacked(told))
        return _TrainJob(from_plain(JobIdentity, json.loads(identity)), int(ends), bool(is_over), reads)

    def _note_end(self, number: int, job: _TrainJob, told: TrainReads) -> None:
        """The job is over, unless the train was started or resumed meanwhile."""
        with self._lock:
            self._noted.pop(number, None)
        which = "train = ? AND json_extract(identity, '$.job') = ?"
        with self._database.writing() as connection:
            known = (number, job.identity.job)
            connection.execute(f"UPDATE train_jobs SET told = ? WHERE {which}", (packed(to_plain(told)), *known))  # noqa: S608 - ours
            connection.execute(
                f"UPDATE train_jobs SET is_over = 1, ends = ends + 1 WHERE {which} AND ends = ?",  # noqa: S608 - ours
                (*known, job.ends),
            )


def _identity(train: Train, out: Path) -> JobIdentity:
    order = train.order
    try:
        site = own_spot().site
    except BranchlineError:  # A file of sites that is wrong ends no train.
        site = ""
    return JobIdentity(
        job=uuid.uuid4().hex,
        name=order.name,
        command=shown_command(train.command),
        user=order.owner,
        host=host(),
        site=site,
        place=order.place,
        out=str(out),
        started=_now(),
        branchline=branchline_version(),
        wagons=train.wagons or [one.rpartition("/")[2] for one in order.wagons],
        datasets=[order.dataset],
    )


def _trusted_record(record: JobRecord, train: Train, identity: JobIdentity) -> JobRecord:
    """The record without what the control room knows better than the code that could write it: its command, its wagons,
    and of a train on this machine where it worked.
    """
    wagons = [one for one in record.wagons if one.name in identity.wagons]
    record = replace(record, command=identity.command, wagons=wagons)
    if train.order.place != HERE:
        return record
    site, machine = identity.site, identity.host
    return replace(
        record,
        host=machine,
        files=[replace(one, site=site, host=machine) for one in record.files],
        sites=[replace(one, site=site) for one in record.sites],
        worker_phases=[replace(one, site=site, host=machine) for one in record.worker_phases],
    )


@dataclass(frozen=True)
class TrainReads:
    """All reads of a train so far: by file, and by site and storage element."""

    files: list[FileRecord] = field(default_factory=list)
    sites: list[SiteReading] = field(default_factory=list)

    @classmethod
    def of(cls, record: JobRecord) -> TrainReads:
        """Those of a record. Files of which an earlier run made all results were not read."""
        return cls([one for one in record.files if one.subjobs or not one.subjobs_reused], list(record.sites))

    def since(self, before: TrainReads) -> TrainReads:
        """Those that came after ``before``."""
        return TrainReads(
            _new_reads(self.files, before.files, lambda one: one.path, lambda one: one.subjobs),
            _new_reads(
                self.sites,
                before.sites,
                lambda one: (one.site, one.storage_element, one.nearness),
                lambda one: one.files,
            ),
        )


_ReadRecord = TypeVar("_ReadRecord", FileRecord, SiteReading)


def _new_reads(
    now: Sequence[_ReadRecord],
    before: Sequence[_ReadRecord],
    key: Callable[[_ReadRecord], object],
    count: Callable[[_ReadRecord], int],
) -> list[_ReadRecord]:
    known = {key(one): one for one in before}
    found = []
    for one in now:
        earlier = known.get(key(one))
        # A record that has less than before does not contain what was read before.
        if earlier is None or count(one) < count(earlier):
            found.append(one)
        elif count(one) > count(earlier):
            found.append(_subtract(one, earlier))
    return found


def _subtract(one: _ReadRecord, earlier: _ReadRecord) -> _ReadRecord:
    """The difference in every number that grows."""
    grown: dict[str, int | float] = {}
    for name in {number.name for number in fields(one)} - _OF_THE_FILE:
        value, before = getattr(one, name), getattr(earlier, name)
        if isinstance(value, int | float) and isinstance(before, int | float):
            grown[name] = max(value - before, 0)
    return replace(one, **grown)  # type: ignore[arg-type]  # numbers of these fields


def _now() -> str:
    return datetime.now(UTC).isoformat()
