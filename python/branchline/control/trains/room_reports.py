"""Reports for trains that cannot send reports: the control room reports the trains' states and records itself.

A resumed train's record contains all reads of the train, so only the reads since the previous end are reported.
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
from branchline.records.sensors.this_process import branchline_version, host, processor

#: Reporter of jobs that the control room reports itself. Not a valid account name, because it contains spaces.
REPORTER = "the control room"
# Source name of report batches with a train's state.
_STATE = "state"
# Numeric fields of file records that do not accumulate over reads.
_OF_THE_FILE = {"size_bytes", "entries", "open_s"}
Take = Callable[[ReportBatch, str], bool]


@dataclass(frozen=True)
class _TrainJob:
    identity: JobIdentity
    ends: int
    is_over: bool
    told: TrainReads


class RoomReports:
    """Reports a control room's trains. ``take`` stores a batch exactly once and syncs the batch to the disk.

    Several threads can call the methods for different trains. A call that failed with a DatabaseError, or during which
    the server was killed, can be repeated: the repeated call completes the report and stores nothing twice.
    """

    def __init__(self, database: Database, take: Take) -> None:
        self._database = database
        self._take = take
        self._lock = threading.Lock()
        self._noted: dict[int, tuple[float, TrainStatus]] = {}

    def begin(self, train: Train, out: Path) -> None:
        """Create a new job for a train that is about to start. ``out`` is the train's result directory."""
        earlier = self._job(train.number)
        if earlier is not None and not earlier.is_over and self._next(earlier.identity, _STATE):
            self.end(train, None, TrainStatus(status=STOPPED))
        identity = json.dumps(to_plain(_identity(train, out)))
        with self._database.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO train_jobs (train, identity) VALUES (?, ?)", (train.number, identity)
            )

    def resume(self, number: int) -> None:
        """Mark the job of a resumed train as running again."""
        with self._database.writing() as connection:
            connection.execute("UPDATE train_jobs SET is_over = 0, ends = ends + 1 WHERE train = ?", (number,))

    def note(self, train: Train, status: TrainStatus) -> None:
        """Report a train's state.

        Skips the report if the last report of the same phase is younger than REPORT_INTERVAL_S.
        """
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
        """Report the end of a train, with its final ``status`` and its ``record``, if there is one.

        Returns the reason why the record was refused; empty if the record was stored.
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
            # Use another source name, because parts of the refused batch may be stored with the same batch numbers.
            self._send(replace(batch, source=f"{source}, without its record"))
        # Keep the reported reads only for trains on batch systems, because only these are resumed as the same job.
        self._note_end(train.number, job, reads if train.order.is_submitted else TrainReads())
        return refused

    def job(self, number: int) -> str:
        """Return the ID of a train's current or last job; empty if the train was never reported."""
        query = "SELECT job FROM train_jobs JOIN jobs ON job = json_extract(identity, '$.job') WHERE train = ?"
        with self._database.reading() as connection:
            row = connection.execute(query, (number,)).fetchone()
        return "" if row is None else str(row[0])

    def at_work(self) -> set[int]:
        """Return the numbers of the trains whose jobs have not ended."""
        with self._database.reading() as connection:
            return {int(number) for (number,) in connection.execute("SELECT train FROM train_jobs WHERE NOT is_over")}

    def _send(self, batch: ReportBatch) -> str:
        """Store a batch as if a job had sent it: split the batch into parts and convert each part to JSON and back.

        Returns the reason for a refusal; empty if the batch was stored.
        """
        for _, body in split(batch):
            try:
                plain = json.loads(gzip.decompress(body))
                self._take(ReportBatch.from_dict(plain), REPORTER)
            except (ValueError, RecursionError) as error:
                return str(error)
        return ""

    def _next(self, identity: JobIdentity, source: str) -> int:
        """Return the next batch number of a source."""
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
        """Mark a train's job as ended, unless the train has been started or resumed meanwhile.

        Also stores the reads that were reported.
        """
        with self._lock:
            self._noted.pop(number, None)
        which = "train = ? AND json_extract(identity, '$.job') = ?"
        with self._database.writing() as connection:
            known = (number, job.identity.job)
            connection.execute(f"UPDATE train_jobs SET told = ? WHERE {which}", (packed(to_plain(told)), *known))  # noqa: S608 - constant
            connection.execute(
                f"UPDATE train_jobs SET is_over = 1, ends = ends + 1 WHERE {which} AND ends = ?",  # noqa: S608 - constant
                (*known, job.ends),
            )


def _identity(train: Train, out: Path) -> JobIdentity:
    order = train.order
    try:
        site = own_spot().site
    except BranchlineError:  # An invalid site file must not prevent the train.
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
    """Return a record without values that user code could have forged.

    Replaces the command and removes unknown wagons. For a train on this machine, also replaces all hosts and sites.
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
        worker_phases=[replace(one, site=site, host=machine, processor=processor()) for one in record.worker_phases],
    )


@dataclass(frozen=True)
class TrainReads:
    """All reads of a train so far, by file, and by site and storage element."""

    files: list[FileRecord] = field(default_factory=list)
    sites: list[SiteReading] = field(default_factory=list)

    @classmethod
    def of(cls, record: JobRecord) -> TrainReads:
        """Return the reads of a record. Omits files that were not read, because all their results were reused."""
        return cls([one for one in record.files if one.subjobs or not one.subjobs_reused], list(record.sites))

    def since(self, before: TrainReads) -> TrainReads:
        """Return the reads that are not in ``before``."""
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
        # If the count has decreased, the record does not include the earlier reads.
        if earlier is None or count(one) < count(earlier):
            found.append(one)
        elif count(one) > count(earlier):
            found.append(_subtract(one, earlier))
    return found


def _subtract(one: _ReadRecord, earlier: _ReadRecord) -> _ReadRecord:
    """Subtract the numbers in ``earlier`` that accumulate over reads. Negative results become 0."""
    grown: dict[str, int | float] = {}
    for name in {number.name for number in fields(one)} - _OF_THE_FILE:
        value, before = getattr(one, name), getattr(earlier, name)
        if isinstance(value, int | float) and isinstance(before, int | float):
            grown[name] = max(value - before, 0)
    return replace(one, **grown)  # type: ignore[arg-type]  # numbers of these fields


def _now() -> str:
    return datetime.now(UTC).isoformat()
