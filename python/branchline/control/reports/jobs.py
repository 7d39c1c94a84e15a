"""Queries for jobs, with their results for pages and scripts: the list of jobs, and one job in full."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from branchline.base.limits import JOB_SILENT_S, JOBS_PAGE_MAX
from branchline.control.reports.periods import FAR, NEAR
from branchline.control.reports.tables import unpacked
from branchline.errors import OptionError
from branchline.records.sending.message import JobIdentity
from branchline.records.sensors.record import RUNNING, FileRecord, JobRecord, TimePoint
from branchline.records.sensors.status import TrainStatus

#: A job that runs, but has sent nothing for so long that it may be dead. It is shown beside the states of TrainStatus.
SILENT = "silent"
# What a list may be ordered by, and the column of each.
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
    """A job in the list. Times are ISO 8601, UTC; ``seen`` is when its last batch came. ``efficiency`` is the CPU time
    by the wall time of its workers, 0 to 1; None until the job has ended.
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
        """Events a second since the start."""
        return self.events / self.seconds if self.seconds > 0 else 0.0

    @property
    def bytes_per_s(self) -> float:
        """Compressed bytes a second since the start."""
        return self.bytes_read / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class JobQuery:
    """Which jobs to list. An empty text asks for all. ``search`` is a part of the name, the command or the user;
    ``site`` and ``element`` select jobs whose workers at that site read from that storage element, and ``distance``
    ("local" or "remote") those that read what is at the site of their workers, or elsewhere; ``host`` those
    that had workers on a machine. ``since`` and ``until`` (ISO 8601, UTC) bound the start. Jobs come with the newest
    start first, or by ``order``.
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
    """Some of the jobs that a query found, and how many it found in all."""

    rows: list[JobRow] = field(default_factory=list)
    total: int = 0


@dataclass(frozen=True)
class JobDetails:
    """All that is known of a job. ``points`` is its profile over time, as far as it was reported; ``record`` is None
    until the job has ended.
    """

    row: JobRow
    status: TrainStatus | None = None
    points: list[TimePoint] = field(default_factory=list)
    record: JobRecord | None = None


@dataclass(frozen=True)
class FilesPage:
    """Some of the files that a job has read, in the order in which it reported them, and how many there are in all: a
    file that several sub-jobs have read is there several times. Those that were forgotten since are not counted.
    """

    files: list[FileRecord] = field(default_factory=list)
    total: int = 0


def jobs_page(connection: sqlite3.Connection, query: JobQuery, now: datetime) -> JobsPage:
    """Raises OptionError for an order or a distance that there is not."""
    if query.distance not in ("", NEAR, FAR):
        raise OptionError(f"jobs read {NEAR} or {FAR}, and not {query.distance!r:.40}")
    if query.order not in ORDERS:
        raise OptionError(f"jobs cannot be ordered by {query.order!r:.40}", hint=f"by {', '.join(ORDERS)}")
    where, values = _conditions(query, now)
    [total] = connection.execute(f"SELECT count(*) FROM jobs {where}", values).fetchone()  # noqa: S608 - ours
    order = f"ORDER BY {ORDERS[query.order]}, id DESC"
    # Sorting numbers of jobs and not whole rows is ten times faster.
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM jobs WHERE id IN (SELECT id FROM jobs {where} {order} LIMIT ? OFFSET ?) {order}",  # noqa: S608
        (*values, max(0, min(query.count, JOBS_PAGE_MAX)), max(0, query.first)),
    )
    silent = _silent_before(now)
    return JobsPage([_row(one, silent) for one in rows], int(total))


def job_details(connection: sqlite3.Connection, job: str, now: datetime) -> JobDetails | None:
    """None if there is no such job."""
    query = f"SELECT {_COLUMNS}, id, state, record FROM jobs LEFT JOIN job_blobs ON job_id = id WHERE job = ?"  # noqa: S608 - columns are ours
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
    """How many jobs are silent."""
    query = "SELECT count(*) FROM jobs WHERE status = ? AND seen < ?"
    [count] = connection.execute(query, (RUNNING, _silent_before(now))).fetchone()
    return int(count)


def _silent_before(now: datetime) -> str:
    """Running jobs that were last seen before this time are silent."""
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


def _add_places(query: JobQuery, add: Callable[..., None]) -> None:
    """Conditions on where jobs read, and by what."""
    # With the plus the order is that of an index on jobs, and not of what is looked up.
    places: dict[str, object] = {"site = ?": query.site, "element = ?": query.element}
    given = {condition: value for condition, value in places.items() if value}
    if query.distance:
        given["is_local = ?"] = query.distance == NEAR
    if given:
        add(f"+id IN (SELECT job_id FROM job_places WHERE {' AND '.join(given)})", *given.values())  # noqa: S608 - ours
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
        # It had ended before, and was resumed.
        rest["ended"] = ""
    return JobRow(identity, status, **rest)  # type: ignore[arg-type]
