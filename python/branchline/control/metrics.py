"""A control room's metrics for monitoring systems, and the last errors of its background tasks.

Names and units follow the Prometheus conventions: base units, and the suffix ``_total`` for counters. Jobs, files and
users are never labels, since each job, file or user would create a permanent time series.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from branchline.base.limits import METRICS_CELLS_MAX
from branchline.control.reports.jobs import SILENT, silent_jobs
from branchline.control.reports.periods import FAR, LOCAL, MONTH, NEAR
from branchline.control.room import ControlRoom
from branchline.records.sensors.record import RUNNING

# Kinds of metrics.
COUNTER, GAUGE = "counter", "gauge"
# Read metrics, each with the metric's name, a column of the table ``sums``, a help text and a unit.
_CELLS = (
    ("branchline_files_read", "files", "Files that sub-jobs read.", ""),
    ("branchline_read_bytes", "bytes_read", "Compressed bytes that were read.", "bytes"),
    ("branchline_read_worker_seconds", "wall_s", "Wall time of files in workers.", "seconds"),
    ("branchline_fetch_seconds", "fetch_s", "Time of threads inside read calls.", "seconds"),
    ("branchline_replica_failures", "failures", "Replicas that failed.", ""),
)


@dataclass(frozen=True)
class MetricValue:
    """A value of a metric for one combination of labels."""

    value: float
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Metric:
    """A metric with its current values. ``name`` lacks the suffix ``_total``, but ends with ``unit`` if not empty."""

    name: str
    kind: str
    help: str
    readings: list[MetricValue]
    unit: str = ""


def metrics_of(room: ControlRoom) -> list[Metric]:
    """Return the current metrics of a control room. Raises DatabaseError."""
    now = datetime.now(UTC)
    with room.reading() as connection:
        found = [*_reads(connection), *_sites(connection), *_jobs(connection, now), *_states(connection)]
        found += _upkeep(connection, room)
    found += [_findings(room), *_disk(room.folder)]
    about = MetricValue(1, {"version": version("branchline")})
    return [*found, Metric("branchline_build_info", GAUGE, "The version of Branchline that runs this server.", [about])]


def _reads(connection: sqlite3.Connection) -> Iterator[Metric]:
    """Yield metrics of all-time reads by site, storage element and distance (local or remote).

    Only the METRICS_CELLS_MAX combinations with the most bytes are included.
    """
    columns = ", ".join(f"total({column})" for _, column, _, _ in _CELLS)
    rows = connection.execute(
        f"SELECT site, element, nearness IN (?, ?), {columns} FROM sums WHERE size = ? GROUP BY 1, 2, 3"  # noqa: S608
        " ORDER BY total(bytes_read) DESC, 1, 2, 3",
        (*LOCAL, MONTH),
    ).fetchall()
    shown = rows[:METRICS_CELLS_MAX]
    labels = [{"site": row[0], "storage_element": row[1], "distance": NEAR if row[2] else FAR} for row in shown]
    for index, (name, _, text, unit) in enumerate(_CELLS, 3):
        readings = [MetricValue(row[index], own) for row, own in zip(shown, labels, strict=True)]
        yield Metric(name, COUNTER, text, readings, unit)
    left = MetricValue(len(rows) - len(shown))
    yield Metric("branchline_places_left_out", GAUGE, "Places without series because others read more bytes.", [left])


def _sites(connection: sqlite3.Connection) -> Iterator[Metric]:
    rows = connection.execute(
        "SELECT site, sum(wall_s), sum(waiting_s) FROM site_hours GROUP BY site ORDER BY 2 DESC LIMIT ?",
        (METRICS_CELLS_MAX,),
    ).fetchall()
    texts = {1: "Time of the workers of ended jobs.", 2: "Time in which workers of ended jobs waited for data or work."}
    for index, name in ((1, "branchline_worker_seconds"), (2, "branchline_worker_waiting_seconds")):
        readings = [MetricValue(row[index], {"site": row[0]}) for row in rows]
        yield Metric(name, COUNTER, texts[index], readings, "seconds")


def _jobs(connection: sqlite3.Connection, now: datetime) -> Iterator[Metric]:
    counts = dict(connection.execute("SELECT status, count(*) FROM jobs GROUP BY status").fetchall())
    silent = silent_jobs(connection, now)
    counts |= {SILENT: silent, RUNNING: max(0, counts.get(RUNNING, 0) - silent)}
    readings = [MetricValue(count, {"state": state}) for state, count in sorted(counts.items())]
    yield Metric("branchline_jobs", GAUGE, "Jobs in the database.", readings)
    ended = connection.execute("SELECT status, jobs FROM ended_jobs ORDER BY status").fetchall()
    readings = [MetricValue(count, {"state": state}) for state, count in ended]
    yield Metric("branchline_jobs_ended", COUNTER, "Ended jobs by final state.", readings)
    [seen] = connection.execute("SELECT max(seen) FROM jobs").fetchone()
    if seen is not None:
        age_s = max(0.0, (now - datetime.fromisoformat(seen)).total_seconds())
        text = "Time since the last report of any job."
        yield Metric("branchline_last_report_age_seconds", GAUGE, text, [MetricValue(age_s)], "seconds")


def _states(connection: sqlite3.Connection) -> Iterator[Metric]:
    for table, text in (("trials", "Trials of wagons."), ("trains", "Trains.")):
        rows = connection.execute(f"SELECT state, count(*) FROM {table} GROUP BY state ORDER BY state")  # noqa: S608
        readings = [MetricValue(count, {"state": state}) for state, count in rows]
        yield Metric(f"branchline_{table}", GAUGE, text, readings)


def _findings(room: ControlRoom) -> Metric:
    counts: dict[str, int] = {}
    for one in room.findings.last("day").findings:
        counts[one.kind] = counts.get(one.kind, 0) + 1
    readings = [MetricValue(count, {"kind": kind}) for kind, count in sorted(counts.items())]
    return Metric("branchline_findings", GAUGE, "Problems found in the last day.", readings)


def _upkeep(connection: sqlite3.Connection, room: ControlRoom) -> Iterator[Metric]:
    [rows] = connection.execute("SELECT ifnull(sum(rows), 0) FROM pending").fetchone()
    yield Metric("branchline_waiting_rows", GAUGE, "Rows of files not yet written to the history.", [MetricValue(rows)])
    readings = [MetricValue(int(bool(one.why)), {"part": one.part}) for one in troubles_of(room)]
    yield Metric("branchline_trouble", GAUGE, "1 if the last round of this part failed.", readings)


def _disk(folder: Path) -> Sequence[Metric]:
    names = ("control.sqlite", "control.sqlite-wal")
    size_bytes = sum(path.stat().st_size for name in names if (path := folder / name).exists())
    free_bytes = shutil.disk_usage(folder).free
    return (
        Metric("branchline_database_bytes", GAUGE, "Size of the database.", [MetricValue(size_bytes)], "bytes"),
        Metric(
            "branchline_disk_free_bytes",
            GAUGE,
            "Free space on the disk of the control room.",
            [MetricValue(free_bytes)],
            "bytes",
        ),
    )


@dataclass(frozen=True)
class Trouble:
    """A background task of the control room. ``why`` is the error of the task's last run, empty on success."""

    part: str
    why: str = ""


def troubles_of(room: ControlRoom) -> list[Trouble]:
    """Return all background tasks with the errors of their last runs."""
    plans = "; ".join(f"{address}: {why}" for address, why in sorted(room.plans.troubles.items()))
    return [
        Trouble("upkeep", room.upkeep.trouble),
        Trouble("findings", room.findings.trouble),
        Trouble("trials", room.trials.trouble),
        Trouble("trains", room.trains.trouble),
        Trouble("plans", plans),
        Trouble("reports", room.intake_trouble),
    ]
