"""Store job reports. Each batch of reports is stored exactly once and atomically.

Batches that arrive at the same time share one transaction, because storing a batch mostly waits for the disk. A job's
final record is added to the hourly sums of the hour in which the job ended.
"""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from branchline.base.limits import (
    BATCH_FILES_MAX,
    BATCH_SITES_MAX,
    BATCHES_TOGETHER_MAX,
    JOB_POINTS_MAX,
    JOB_SOURCES_MAX,
    LOCATION_LENGTH_MAX,
    NAME_LENGTH_MAX,
)
from branchline.base.plain import check_types, to_plain
from branchline.base.texts import printable
from branchline.control.background_errors import trouble_of
from branchline.control.database import Database
from branchline.control.history.rows import packed_rows
from branchline.control.job_notes import note_record
from branchline.control.reports.periods import LOCAL, buckets_of, note_places, text_of
from branchline.control.reports.tables import keep_blob, packed, shown_name, unpacked
from branchline.records.sending.message import TRACE, TRAIN, JobIdentity, ReportBatch
from branchline.records.sensors.record import RUNNING, JobRecord
from branchline.records.sensors.status import TrainStatus

_JOB = re.compile(r"[0-9a-f]{32}")
# Largest integer that all JSON parsers read exactly.
_NUMBER_MAX = 2**53
_NEARNESS = (*LOCAL, "elsewhere")
# Worker phases that count as waiting: "wait" for data, "idle" for work.
_WAITING = ("wait", "idle")
# Upserts that add reads to a job's cell (_ADD_CELL), to a sum over jobs (_ADD_SUM), and to the hourly sum of a storage
# element (_ADD_ELEMENT_HOUR).
_ADD_READS = (
    "DO UPDATE SET files = files + excluded.files, bytes_read = bytes_read + excluded.bytes_read, failures = failures +"
    " excluded.failures, wall_s = wall_s + excluded.wall_s, fetch_s = fetch_s + excluded.fetch_s"
)
_CELL_KEY = "job_id, hour, site, element, nearness"
_ADD_CELL = f"INSERT INTO cells VALUES ({', '.join('?' * 10)}) ON CONFLICT ({_CELL_KEY}) {_ADD_READS}"  # noqa: S608 - constant
_SUM_KEY = "size, begin, site, element, nearness"
_ADD_SUM = f"INSERT INTO sums VALUES ({', '.join('?' * 10)}) ON CONFLICT ({_SUM_KEY}) {_ADD_READS}"  # noqa: S608 - constant
_ADD_ELEMENT_HOUR = f"INSERT INTO element_hours VALUES ({', '.join('?' * 7)}) ON CONFLICT (hour, element) {_ADD_READS}"  # noqa: S608
# Upserts that add a job's final record to the sums of the hour in which the job ended, and to the number of ended jobs.
_ADD_SITE_HOUR = (
    "INSERT INTO site_hours VALUES (?, ?, ?, ?) ON CONFLICT (hour, site) DO UPDATE SET"
    " wall_s = wall_s + excluded.wall_s, waiting_s = waiting_s + excluded.waiting_s"
)
_ADD_ENDED = "INSERT INTO ended_jobs VALUES (?, ?) ON CONFLICT (status) DO UPDATE SET jobs = jobs + excluded.jobs"
_ADD_WAGON_HOUR = (
    "INSERT INTO wagon_hours VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (hour, wagon) DO UPDATE SET"
    " jobs = jobs + excluded.jobs, events = events + excluded.events, seconds = seconds + excluded.seconds,"
    " cpu_s = cpu_s + excluded.cpu_s, output_bytes = output_bytes + excluded.output_bytes"
)


@dataclass(eq=False)
class _Request:
    batch: ReportBatch
    now: datetime
    reporter: str = ""
    taken: bool | None = None
    refusal: ValueError | None = None

    @property
    def is_answered(self) -> bool:
        return self.taken is not None or self.refusal is not None


class Intake:
    """Stores batches from several threads. The first thread also commits the batches that other threads have queued."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._first_in_line = threading.Lock()
        self._lock = threading.Lock()
        self._waiting: list[_Request] = []
        self._trouble = ""

    @property
    def trouble(self) -> str:
        """The error that prevented storing the last batches; empty on success. Jobs resend unstored batches."""
        return self._trouble

    def take(self, batch: ReportBatch, reporter: str = "") -> bool:
        """Store a batch and wait until the batch is on disk. Returns False if the batch was stored before.

        Raises ValueError for an invalid batch, or if a person other than ``reporter`` reports this job. Raises
        DatabaseError if the database cannot be written.
        """
        now = datetime.now(UTC)
        own = _Request(checked(batch, now), now, reporter)
        with self._lock:
            self._waiting.append(own)
        with self._first_in_line:
            if not own.is_answered:
                self._take_with(own)
        if own.refusal is not None:
            raise own.refusal
        return bool(own.taken)

    def _take_with(self, own: _Request) -> None:
        """Store a request in one transaction with other queued requests. Raises DatabaseError."""
        with self._lock:
            self._waiting.remove(own)
            others = self._waiting[: BATCHES_TOGETHER_MAX - 1]
            del self._waiting[: BATCHES_TOGETHER_MAX - 1]
        if not others:
            self._commit([own])
            return
        try:
            self._commit([own, *others])
        except BaseException as error:
            # Any request may be the cause. Retry ``own`` alone, and return the other requests to the queue.
            with self._lock:
                self._waiting = others + self._waiting
            if not isinstance(error, Exception):
                raise
            self._commit([own])

    def _commit(self, requests: Sequence[_Request]) -> None:
        """Store requests in one transaction that skips refused requests. Set all answers once the data are on disk."""
        try:
            answers = self._answers(requests)
        except Exception as error:
            self._trouble = trouble_of(error, "reports")
            raise
        self._trouble = ""
        for one, answer in zip(requests, answers, strict=True):
            if isinstance(answer, ValueError):
                one.refusal = answer
            else:
                one.taken = answer

    def _answers(self, requests: Sequence[_Request]) -> list[bool | ValueError]:
        """Store requests. Return for each request whether its batch was new, or the reason for the refusal."""
        answers: list[bool | ValueError] = []
        with self._database.writing() as connection:
            for one in requests:
                connection.execute("SAVEPOINT batch")
                try:
                    answers.append(take(connection, one.batch, one.now, one.reporter))
                except ValueError as refusal:
                    connection.execute("ROLLBACK TO batch")
                    answers.append(refusal)
                connection.execute("RELEASE batch")
        return answers


def checked(batch: ReportBatch, now: datetime) -> ReportBatch:
    """Return a batch with truncated strings and no time after ``now``. Raises ValueError for an invalid batch."""
    check_types(batch)
    identity = batch.identity
    if not _JOB.fullmatch(identity.job):
        raise ValueError("identity.job is not 32 hexadecimal digits")
    if identity.kind not in (TRAIN, TRACE):
        raise ValueError(f"identity.kind must be {TRAIN} or {TRACE}, got {identity.kind!r:.40}")
    if not 0 <= batch.number < _NUMBER_MAX:
        raise ValueError("the number of the batch is negative or too large")
    if len(batch.files) > BATCH_FILES_MAX or len(batch.sites) > BATCH_SITES_MAX:
        raise ValueError(f"a batch can have at most {BATCH_FILES_MAX} files and {BATCH_SITES_MAX} sites")
    if not batch.source or len(batch.source) > NAME_LENGTH_MAX:
        raise ValueError(f"the source of a batch must have 1 to {NAME_LENGTH_MAX} characters")
    for one in batch.sites:
        if any(amount < 0 for amount in (one.files, one.bytes_read, one.failures, one.wall_s, one.fetch_s)):
            raise ValueError("sites has a negative amount")
        if one.nearness not in _NEARNESS:
            raise ValueError(f"nearness must be one of {', '.join(_NEARNESS)}, got {one.nearness!r:.40}")
    # The clock of the job's machine may be fast.
    made = min(_moment(batch.made, "made"), now)
    started = min(_moment(identity.started, "identity.started"), now)
    names = {
        name: shown_name(getattr(identity, name)) for name in ("name", "user", "host", "site", "place", "branchline")
    }
    shortened = replace(
        identity,
        command=_location(identity.command),
        out=_location(identity.out),
        started=_text(started),
        wagons=[shown_name(one) for one in identity.wagons[:BATCH_SITES_MAX]],
        datasets=[shown_name(one) for one in identity.datasets[:BATCH_SITES_MAX]],
        **names,
    )
    return replace(
        batch,
        identity=shortened,
        made=_text(made),
        sites=[
            replace(one, site=shown_name(one.site), storage_element=shown_name(one.storage_element))
            for one in batch.sites
        ],
    )


def _location(text: str) -> str:
    return printable(text)[:LOCATION_LENGTH_MAX]


def _moment(text: str, what: str) -> datetime:
    """Parse an ISO 8601 time, by default in UTC. Raises a ValueError that names the field ``what``."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{what} must be a time in ISO 8601, got {text!r:.40}") from None


def take(connection: sqlite3.Connection, batch: ReportBatch, now: datetime, reporter: str = "") -> bool:
    """Store a checked batch in an open transaction. Returns False if the batch was stored before.

    Raises ValueError if retention has deleted the job, if the job has too many sources, or if a person other than
    ``reporter`` reports the job.
    """
    job_id = _job_id(connection, batch.identity, now)
    if reporter:
        # Only the person who sent a job's first report may send more. The user name in a report is not authenticated.
        connection.execute("INSERT OR IGNORE INTO job_reporters VALUES (?, ?)", (job_id, reporter))
        [first] = connection.execute("SELECT person FROM job_reporters WHERE job_id = ?", (job_id,)).fetchone()
        if first != reporter:
            raise ValueError("another person reports this job")
    if not _is_new(connection, job_id, batch.source, batch.number):
        return False
    hour = _hour_of(batch.made)
    if batch.status is not None:
        _take_status(connection, job_id, batch.status, batch.made)
    if batch.sites:
        note_places(connection, job_id, hour, batch.sites)
        buckets = buckets_of(hour)
        for one in batch.sites:
            values = (one.files, one.bytes_read, one.failures, one.wall_s, one.fetch_s)
            place = (one.site, one.storage_element, shown_name(one.nearness))
            connection.execute(_ADD_CELL, (job_id, hour, *place, *values))
            connection.executemany(_ADD_SUM, [(*bucket, *place, *values) for bucket in buckets])
            connection.execute(_ADD_ELEMENT_HOUR, (hour, one.storage_element, *values))
    if batch.files:
        connection.execute(
            "INSERT INTO pending (job_id, day, made, taken, rows, content) VALUES (?, ?, ?, ?, ?, ?)",
            (job_id, batch.made[:10], batch.made, _text(now), len(batch.files), packed_rows(batch.files)),
        )
    if batch.record is not None:
        take_record(connection, job_id, batch.record, batch.made)
    return True


def _job_id(connection: sqlite3.Connection, identity: JobIdentity, now: datetime) -> int:
    row = connection.execute("SELECT id FROM jobs WHERE job = ?", (identity.job,)).fetchone()
    if row is not None:
        connection.execute("UPDATE jobs SET seen = ? WHERE id = ?", (_text(now), row[0]))
        return int(row[0])
    if connection.execute("SELECT 1 FROM forgotten_jobs WHERE job = ?", (identity.job,)).fetchone():
        raise ValueError(f"job {identity.job} was deleted here after its retention time")
    plain = to_plain(identity)
    names = ("job", "kind", "name", "command", "user", "host", "site", "place", "out", "started", "branchline")
    made = connection.execute(
        "INSERT INTO jobs (job, kind, name, command, user, host, site, place, out, started, branchline, wagons,"
        " datasets, seen) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(plain[name] for name in names),
            json.dumps(identity.wagons),
            json.dumps(identity.datasets),
            _text(now),
        ),
    )
    job_id = int(made.lastrowid or 0)
    connection.executemany("INSERT OR IGNORE INTO job_wagons VALUES (?, ?)", [(one, job_id) for one in identity.wagons])
    return job_id


def _is_new(connection: sqlite3.Connection, job_id: int, source: str, number: int) -> bool:
    """Mark a source's batch number as stored. Returns False if the number was already marked."""
    query = "SELECT next, later FROM sources WHERE job_id = ? AND source = ?"
    row = connection.execute(query, (job_id, source)).fetchone()
    if row is None:
        [count] = connection.execute("SELECT count(*) FROM sources WHERE job_id = ?", (job_id,)).fetchone()
        if count >= JOB_SOURCES_MAX:
            raise ValueError(f"the job has more than {JOB_SOURCES_MAX} sources")
    following, later = (0, set()) if row is None else (int(row[0]), set(json.loads(row[1])))
    if number < following or number in later:
        return False
    later.add(number)
    while following in later:
        later.remove(following)
        following += 1
    connection.execute(
        "INSERT OR REPLACE INTO sources VALUES (?, ?, ?, ?)", (job_id, source, following, json.dumps(sorted(later)))
    )
    return True


def _take_status(connection: sqlite3.Connection, job_id: int, status: TrainStatus, made: str) -> None:
    """Store a job's state, unless a later state or a later end of the job is known."""
    # Outdated states still become points of the job's profile.
    connection.execute(
        "INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?, ?)",
        (job_id, max(0.0, status.seconds), status.events, status.bytes_read, status.plain_bytes),
    )
    [count] = connection.execute("SELECT count(*) FROM points WHERE job_id = ?", (job_id,)).fetchone()
    if count > JOB_POINTS_MAX:
        # Remove every other point of a long profile.
        query = "SELECT t_s FROM points WHERE job_id = ? ORDER BY t_s"
        times = [t_s for (t_s,) in connection.execute(query, (job_id,))]
        gone = [(job_id, t_s) for t_s in times[1:-1:2]]
        connection.executemany("DELETE FROM points WHERE job_id = ? AND t_s = ?", gone)
    # A state later than the job's end means that the job was resumed, so clear has_ended.
    changed = connection.execute(
        "UPDATE jobs SET has_ended = 0, made = ?, status = ?, phase = ?, seconds = ?, fraction_done = ?, subjobs = ?,"
        " done = ?, failed = ?, events = ?, bytes_read = ? WHERE id = ? AND made <= ? AND (NOT has_ended OR ended < ?)",
        (
            made,
            shown_name(status.status),
            shown_name(status.phase),
            status.seconds,
            status.fraction_done,
            status.subjobs,
            status.done,
            status.failed,
            status.events,
            status.bytes_read,
            job_id,
            made,
            made,
        ),
    )
    if changed.rowcount:
        keep_blob(connection, job_id, "state", packed(status.as_dict()))


def take_record(connection: sqlite3.Connection, job_id: int, record: JobRecord, made: str) -> None:
    """Store a job's final record, unless a later record of the job is known.

    The record of a resumed job replaces the earlier record, also in the sums.
    """
    query = "SELECT ended, record FROM jobs LEFT JOIN job_blobs ON job_id = id WHERE id = ?"
    ended, before = connection.execute(query, (job_id,)).fetchone()
    if record.status == RUNNING or (ended and made <= ended):
        return
    if before is not None:
        _add_to_sums(connection, _hour_of(ended), JobRecord.from_dict(unpacked(before)), -1)
    workers_s = sum(one.wall_s for one in record.worker_phases)
    cores = max(1, record.threads)
    efficiency = min(1.0, record.cpu_s / (workers_s * cores)) if workers_s > 0 else None
    connection.execute(
        "UPDATE jobs SET status = ?, phase = 'write', ended = ?, seconds = ?, subjobs = ?, done = ?, failed = ?,"
        " fraction_done = ?, events = ?, bytes_read = ?, cpu_s = ?, efficiency = ?, has_ended = 1 WHERE id = ?",
        (
            shown_name(record.status),
            made,
            record.wall_s,
            record.subjobs,
            record.subjobs_done,
            max(0, record.subjobs - record.subjobs_done),
            record.subjobs_done / record.subjobs if record.subjobs else None,
            record.events,
            record.totals.bytes_read,
            record.cpu_s,
            efficiency,
            job_id,
        ),
    )
    keep_blob(connection, job_id, "record", packed(replace(record, files=[]).as_dict()))
    _add_to_sums(connection, _hour_of(made), record, 1)
    note_record(connection, job_id, _hour_of(made), record)


def _add_to_sums(connection: sqlite3.Connection, hour: str, record: JobRecord, sign: Literal[1, -1]) -> None:
    """Add a record to the sums of an hour if ``sign`` is 1, or subtract the record if ``sign`` is -1."""
    connection.execute(_ADD_ENDED, (shown_name(record.status), sign))
    times: dict[str, list[float]] = {}
    for one in record.worker_phases:
        site = times.setdefault(shown_name(one.site), [0.0, 0.0])
        site[0] += sign * one.wall_s
        site[1] += sign * sum(getattr(one, phase) for phase in _WAITING)
    connection.executemany(_ADD_SITE_HOUR, [(hour, site, *both) for site, both in times.items()])
    costs = [(one.name, (one.events, one.seconds, one.cpu_s, one.output_bytes)) for one in record.wagons]
    connection.executemany(
        _ADD_WAGON_HOUR,
        [(hour, shown_name(name), sign, *(sign * one for one in cost)) for name, cost in costs[:BATCH_SITES_MAX]],
    )


def _hour_of(made: str) -> str:
    return text_of(datetime.fromisoformat(made))


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
