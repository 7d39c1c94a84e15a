"""The record that a job sends at its end, and what it adds to the sums of its hour."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import datetime
from typing import Literal

from branchline.base.limits import BATCH_SITES_MAX
from branchline.control.job_notes import note_record
from branchline.control.reports.buckets import text_of
from branchline.control.stored import keep_blob, packed, shown_name, unpacked
from branchline.records.sensors.record import RUNNING, JobRecord

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
# Phases in which a worker waits: for data, or for work.
_WAITING = ("wait", "idle")


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


def _hour_of(made: str) -> str:
    return text_of(datetime.fromisoformat(made))


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
