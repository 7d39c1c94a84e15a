"""Query the list of jobs and the details of one job, for pages and scripts."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from branchline.base.limits import JOB_SILENT_S, JOBS_PAGE_MAX
from branchline.control.reports.periods import FAR, NEAR
from branchline.control.reports.tables import unpacked
from branchline.errors import OptionError
from branchline.records.sending.message import JobIdentity
from branchline.records.sensors.record import RUNNING, FileRecord, JobRecord, TimePoint
from branchline.records.sensors.status import TrainStatus

#: Status of a running job that has sent no report for ``JOB_SILENT_S`` and may be dead. TrainStatus has no such status.
SILENT = "silent"
# Names of the sort orders of the job list, with their SQL expressions.
ORDERS = {
    "started": "started DESC",
    "seen": "seen DESC",
    "name": "name",
    "user": "user",
    "status": "status",
    "seconds": "seconds DESC",
    "events": "events DESC",
    "bytes_read": "bytes_read DESC",
    "efficiency": "efficiency",
    "failed": "failed DESC",
}
_COLUMNS = (
    "job, kind, name, command, user, host, site, place, out, started, branchline, wagons, datasets, status, phase,"
    " seen, ended, seconds, fraction_done, subjobs, done, failed, events, bytes_read, cpu_s, efficiency"
)


@dataclass(frozen=True)
class JobRow:
    """A job in the job list. Times are ISO 8601, UTC.

    ``seen`` is the time of the job's last report. ``efficiency`` is the workers' CPU time divided by their wall time,
    from 0 to 1; None until the job has ended.
    """

    identity: JobIdentity
    status: str = "running"
    phase: str = "run"
    seen: str = ""
    ended: str = ""
    seconds: float = 0.0
    fraction_done: float | None = None
    subjobs: int = 0
    done: int = 0
    failed: int = 0
    events: int = 0
    bytes_read: int = 0
    cpu_s: float | None = None
    efficiency: float | None = None

    @property
    def events_per_s(self) -> float:
        """Events per second since the start of the job."""
        return self.events / self.seconds if self.seconds > 0 else 0.0

    @property
    def bytes_per_s(self) -> float:
        """Compressed bytes read per second since the start of the job."""
        return self.bytes_read / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class JobQuery:
    """Filters and sort order for the job list. An empty string disables a filter.

    - ``search``: a part of the job's name, command or user.
    - ``site``, ``element``: jobs whose workers at this site read from this storage element.
    - ``distance``: jobs with reads at this distance, "local" or "remote".
    - ``host``: jobs with workers on this machine.
    - ``since``, ``until``: earliest and latest start time (ISO 8601, UTC).
    """

    search: str = ""
    status: str = ""
    user: str = ""
    site: str = ""
    element: str = ""
    distance: str = ""
    wagon: str = ""
    host: str = ""
    since: str = ""
    until: str = ""
    order: str = "started"
    first: int = 0
    count: int = 50


@dataclass(frozen=True)
class JobsPage:
    """A page of the jobs that match a query, and the total number of matching jobs."""

    rows: list[JobRow] = field(default_factory=list)
    total: int = 0


@dataclass(frozen=True)
class JobDetails:
    """A job with its status, its progress over time (``points``) and its final ``record`` (None until the job ends)."""

    row: JobRow
    status: TrainStatus | None = None
    points: list[TimePoint] = field(default_factory=list)
    record: JobRecord | None = None


@dataclass(frozen=True)
class FilesPage:
    """A page of the files that a job has read, in report order, and the total number of these files.

    A file that several sub-jobs have read is listed several times. Rows that retention has deleted are not counted.
    """

    files: list[FileRecord] = field(default_factory=list)
    total: int = 0


def jobs_page(connection: sqlite3.Connection, query: JobQuery, now: datetime) -> JobsPage:
    """Return a page of the job list. Raises OptionError for an unknown order or distance."""
    if query.distance not in ("", NEAR, FAR):
        raise OptionError(f"unknown distance {query.distance!r:.40}", hint=f"choose {NEAR} or {FAR}")
    if query.order not in ORDERS:
        hint = f"choose one of {', '.join(ORDERS)}"
        raise OptionError(f"jobs cannot be ordered by {query.order!r:.40}", hint=hint)
    where, values = _conditions(query, now)
    [total] = connection.execute(f"SELECT count(*) FROM jobs {where}", values).fetchone()  # noqa: S608 - constant
    order = f"ORDER BY {ORDERS[query.order]}, id DESC"
    # Sort only job IDs first, which is ten times faster than sorting whole rows.
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM jobs WHERE id IN (SELECT id FROM jobs {where} {order} LIMIT ? OFFSET ?) {order}",  # noqa: S608
        (*values, max(0, min(query.count, JOBS_PAGE_MAX)), max(0, query.first)),
    )
    silent = _silent_before(now)
    return JobsPage([_row(one, silent) for one in rows], int(total))


def job_details(connection: sqlite3.Connection, job: str, now: datetime) -> JobDetails | None:
    """Return the details of a job; None if the job does not exist."""
    query = f"SELECT {_COLUMNS}, id, state, record FROM jobs LEFT JOIN job_blobs ON job_id = id WHERE job = ?"  # noqa: S608 - constant
    found = connection.execute(query, (job,)).fetchone()
    if found is None:
        return None
    *row, job_id, state, record = found
    points = connection.execute(
        "SELECT t_s, events, bytes_read, plain_bytes FROM points WHERE job_id = ? ORDER BY t_s", (job_id,)
    )
    return JobDetails(
        _row(row, _silent_before(now)),
        None if state is None else TrainStatus.from_dict(unpacked(state)),
        [TimePoint(*one) for one in points],
        None if record is None else JobRecord.from_dict(unpacked(record)),
    )


def silent_jobs(connection: sqlite3.Connection, now: datetime) -> int:
    """Return the number of running jobs that have sent no report for ``JOB_SILENT_S``."""
    query = "SELECT count(*) FROM jobs WHERE status = ? AND seen < ?"
    [count] = connection.execute(query, (RUNNING, _silent_before(now))).fetchone()
    return int(count)


def _silent_before(now: datetime) -> str:
    """Return the time limit for silent jobs: a running job is silent if its last report is older."""
    return (now - timedelta(seconds=JOB_SILENT_S)).isoformat(timespec="milliseconds")


def _conditions(query: JobQuery, now: datetime) -> tuple[str, list[object]]:
    conditions: list[str] = []
    values: list[object] = []

    def add(condition: str, *given: object) -> None:
        conditions.append(condition)
        values.extend(given)

    if query.search:
        like = "%" + query.search.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        add("(name LIKE ? ESCAPE '\\' OR command LIKE ? ESCAPE '\\' OR user LIKE ? ESCAPE '\\')", like, like, like)
    if query.status == SILENT:
        add("status = ? AND seen < ?", RUNNING, _silent_before(now))
    elif query.status == RUNNING:
        add("status = ? AND seen >= ?", RUNNING, _silent_before(now))
    elif query.status:
        add("status = ?", query.status)
    if query.user:
        add("user = ?", query.user)
    if query.since:
        add("started >= ?", query.since)
    if query.until:
        add("started < ?", query.until)
    _add_places(query, add)
    return (f"WHERE {' AND '.join(conditions)}" if conditions else "", values)


class AddCondition(Protocol):
    """A function that adds an SQL condition and its values to a query."""

    def __call__(self, condition: str, /, *values: object) -> None: ...


def _add_places(query: JobQuery, add: AddCondition) -> None:
    """Add the query's conditions on sites, storage elements, distances, hosts and wagons."""
    # The unary plus keeps SQLite from using the index on id. SQLite then reads jobs in the sort order of the list.
    places: dict[str, object] = {"site = ?": query.site, "element = ?": query.element}
    given = {condition: value for condition, value in places.items() if value}
    if query.distance:
        given["is_local = ?"] = query.distance == NEAR
    if given:
        add(f"+id IN (SELECT job_id FROM job_places WHERE {' AND '.join(given)})", *given.values())  # noqa: S608 - constant
    if query.host:
        add("(host = ? OR +id IN (SELECT job_id FROM job_hosts WHERE host = ?))", query.host, query.host)
    if query.wagon:
        add("+id IN (SELECT job_id FROM job_wagons WHERE wagon = ?)", query.wagon)


def _row(values: Sequence[object], silent_before: str) -> JobRow:
    given = dict(zip(_COLUMNS.split(", "), values, strict=True))
    identity = JobIdentity(
        **{name: str(given[name]) for name in ("job", "kind", "name", "command", "user", "host", "site", "place")},
        out=str(given["out"]),
        started=str(given["started"]),
        branchline=str(given["branchline"]),
        wagons=json.loads(str(given["wagons"])),
        datasets=json.loads(str(given["datasets"])),
    )
    status = str(given["status"])
    if status == RUNNING and str(given["seen"]) < silent_before:
        status = SILENT
    names = ("phase", "seen", "ended", "seconds", "fraction_done", "subjobs", "done", "failed", "events", "bytes_read")
    rest = {name: given[name] for name in (*names, "cpu_s", "efficiency")}
    if status in (RUNNING, SILENT):
        # Clear the end time of a resumed job's previous run.
        rest["ended"] = ""
    return JobRow(identity, status, **rest)  # type: ignore[arg-type]
