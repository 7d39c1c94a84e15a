"""Stores the reports of jobs: each batch once, completely or not at all.

Batches that arrive at the same time share one transaction, since most of the cost of a batch is the wait for the disk.
The final record of a job is added to the sums of the hour in which it ended.
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
from branchline.records.sensors.record import RUNNING, JobRecord, SiteReading
from branchline.records.sensors.status import TrainStatus

_JOB = re.compile(r"[0-9a-f]{32}")
# JSON represents whole numbers exactly up to this one.
_NUMBER_MAX = 2**53
_NEARNESS = (*LOCAL, "elsewhere")
# Phases in which a worker waits: for data, or for work.
_WAITING = ("wait", "idle")
# Upserts that add reads to a job's cell, to a sum over jobs, and to an hour of a storage element.
_ADD_READS = (
    "DO UPDATE SET files = files + excluded.files, bytes_read = bytes_read + excluded.bytes_read, failures = failures +"
    " excluded.failures, wall_s = wall_s + excluded.wall_s, fetch_s = fetch_s + excluded.fetch_s"
)
_CELL_KEY = "job_id, hour, site, element, nearness"
_ADD_CELL = f"INSERT INTO cells VALUES ({', '.join('?' * 10)}) ON CONFLICT ({_CELL_KEY}) {_ADD_READS}"  # noqa: S608 - ours
_SUM_KEY = "size, begin, site, element, nearness"
_ADD_SUM = f"INSERT INTO sums VALUES ({', '.join('?' * 10)}) ON CONFLICT ({_SUM_KEY}) {_ADD_READS}"  # noqa: S608 - ours
_ADD_ELEMENT_HOUR = f"INSERT INTO element_hours VALUES ({', '.join('?' * 7)}) ON CONFLICT (hour, element) {_ADD_READS}"  # noqa: S608
# Upserts that add the final record of a job to the sums of its hour.
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
    """Takes batches for several threads at once. Whoever comes first takes what the others bring meanwhile, too."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._first_in_line = threading.Lock()
        self._lock = threading.Lock()
        self._waiting: list[_Request] = []
        self._trouble = ""

    @property
    def trouble(self) -> str:
        """Why the last batches could not be taken, which jobs send again; empty if they could."""
        return self._trouble

    def take(self, batch: ReportBatch, reporter: str = "") -> bool:
        """Takes a batch, which is on the disk then; False if it was taken before.

        Raises ValueError for one that no job would send, or whose job somebody else reports, DatabaseError.
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
        """Takes some of what waits, this one among them. Raises DatabaseError."""
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
            # The fault may be of any of them: this one is taken alone, and each of the others in its own thread.
            with self._lock:
                self._waiting = others + self._waiting
            if not isinstance(error, Exception):
                raise
            self._commit([own])

    def _commit(self, requests: Sequence[_Request]) -> None:
        """Takes all in one transaction; what is refused leaves nothing in it. Answers when all is on the disk."""
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
        """Whether each was taken, or why it is refused."""
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
    """The batch with texts that fit, and its time not after now. Raises ValueError for one that no job would send."""
    check_types(batch)
    identity = batch.identity
    if not _JOB.fullmatch(identity.job):
        raise ValueError("identity.job is not 32 hexadecimal digits")
    if identity.kind not in (TRAIN, TRACE):
        raise ValueError(f"identity.kind is {identity.kind!r:.40}, and not {TRAIN} or {TRACE}")
    if not 0 <= batch.number < _NUMBER_MAX:
        raise ValueError("the number of the batch is negative or too large")
    if len(batch.files) > BATCH_FILES_MAX or len(batch.sites) > BATCH_SITES_MAX:
        raise ValueError(f"a batch has up to {BATCH_FILES_MAX} files and {BATCH_SITES_MAX} sites")
    if not batch.source or len(batch.source) > NAME_LENGTH_MAX:
        raise ValueError(f"the source of a batch is a text of up to {NAME_LENGTH_MAX} characters")
    for one in batch.sites:
        _check_amounts("sites", (one.files, one.bytes_read, one.failures, one.wall_s, one.fetch_s))
        if one.nearness not in _NEARNESS:
            raise ValueError(f"nearness is {one.nearness!r:.40}, and not one of {', '.join(_NEARNESS)}")
    # Clocks of jobs differ; a batch of the future counts as of now.
    made = min(_moment(batch.made, "made"), now)
    started = min(_moment(identity.started, "identity.started"), now)
    return replace(
        batch,
        identity=_shortened(replace(identity, started=_text(started))),
        made=_text(made),
        sites=[
            replace(one, site=shown_name(one.site), storage_element=shown_name(one.storage_element))
            for one in batch.sites
        ],
    )


def _shortened(identity: JobIdentity) -> JobIdentity:
    names = {
        name: shown_name(getattr(identity, name)) for name in ("name", "user", "host", "site", "place", "branchline")
    }
    return replace(
        identity,
        command=_location(identity.command),
        out=_location(identity.out),
        wagons=[shown_name(one) for one in identity.wagons[:BATCH_SITES_MAX]],
        datasets=[shown_name(one) for one in identity.datasets[:BATCH_SITES_MAX]],
        **names,
    )


def _location(text: str) -> str:
    return printable(text)[:LOCATION_LENGTH_MAX]


def _check_amounts(what: str, amounts: Sequence[float]) -> None:
    if any(one < 0 for one in amounts):
        raise ValueError(f"{what} has a negative amount")


def _moment(text: str, what: str) -> datetime:
    """Raises ValueError for what is no time."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{what} is {text!r:.40}, which is no time of ISO 8601") from None


def take(connection: sqlite3.Connection, batch: ReportBatch, now: datetime, reporter: str = "") -> bool:
    """Takes a checked batch inside a transaction; False if it was taken before.

    Raises ValueError for a job that was forgotten since, for one of too many sources, and for one that somebody else
    than ``reporter`` reports.
    """
    job_id = _job_id(connection, batch.identity, now)
    if reporter:
        _check_reporter(connection, job_id, reporter)
    if not _is_new(connection, job_id, batch.source, batch.number):
        return False
    hour = _hour_of(batch.made)
    if batch.status is not None:
        _take_status(connection, job_id, batch.status, batch.made)
    if batch.sites:
        note_places(connection, job_id, hour, batch.sites)
        _take_reads(connection, job_id, hour, batch.sites)
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
        raise ValueError(f"the job {identity.job} was over, and is no longer kept here")
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


def _check_reporter(connection: sqlite3.Connection, job_id: int, reporter: str) -> None:
    """Who reports a job first is the only one who may: what a job says of its user proves nothing."""
    connection.execute("INSERT OR IGNORE INTO job_reporters VALUES (?, ?)", (job_id, reporter))
    [first] = connection.execute("SELECT person FROM job_reporters WHERE job_id = ?", (job_id,)).fetchone()
    if first != reporter:
        raise ValueError("somebody else reports this job")


def _is_new(connection: sqlite3.Connection, job_id: int, source: str, number: int) -> bool:
    """Notes that a number was taken; False if it was before."""
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
    """The state of a job, unless a later one is known, or how it ended after that."""
    # Late states are points of the profile nevertheless.
    connection.execute(
        "INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?, ?)",
        (job_id, max(0.0, status.seconds), status.events, status.bytes_read, status.plain_bytes),
    )
    _thin(connection, job_id)
    # A job that had ended and reports later that it runs was resumed.
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


def _thin(connection: sqlite3.Connection, job_id: int) -> None:
    """Every second point of a long profile goes."""
    [count] = connection.execute("SELECT count(*) FROM points WHERE job_id = ?", (job_id,)).fetchone()
    if count > JOB_POINTS_MAX:
        query = "SELECT t_s FROM points WHERE job_id = ? ORDER BY t_s"
        times = [t_s for (t_s,) in connection.execute(query, (job_id,))]
        gone = [(job_id, t_s) for t_s in times[1:-1:2]]
        connection.executemany("DELETE FROM points WHERE job_id = ? AND t_s = ?", gone)


def _take_reads(connection: sqlite3.Connection, job_id: int, hour: str, sites: Sequence[SiteReading]) -> None:
    buckets = buckets_of(hour)
    for one in sites:
        values = (one.files, one.bytes_read, one.failures, one.wall_s, one.fetch_s)
        place = (one.site, one.storage_element, shown_name(one.nearness))
        connection.execute(_ADD_CELL, (job_id, hour, *place, *values))
        connection.executemany(_ADD_SUM, [(*bucket, *place, *values) for bucket in buckets])
        connection.execute(_ADD_ELEMENT_HOUR, (hour, one.storage_element, *values))


def take_record(connection: sqlite3.Connection, job_id: int, record: JobRecord, made: str) -> None:
    """The end of a job, unless a later one is known. One of a job that was resumed takes the place of the one before,
    also in the sums.
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
    """Adds a record to the sums of an hour, or takes it out of them."""
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
