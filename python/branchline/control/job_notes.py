"""What findings need of each job's record, noted when it comes: hosts that lost workers, wagons, and the tail."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import astuple, dataclass

from branchline.base.limits import BATCH_SITES_MAX, TAIL_PROCESSES_MIN
from branchline.control.reports.tables import shown_name
from branchline.records.sensors.record import JobRecord

TABLES = """
CREATE TABLE IF NOT EXISTS job_hosts (
    job_id INTEGER NOT NULL, hour TEXT NOT NULL, host TEXT NOT NULL, workers INTEGER NOT NULL, lost INTEGER NOT NULL,
    PRIMARY KEY (job_id, host)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS job_hosts_by_hour ON job_hosts (hour);
CREATE INDEX IF NOT EXISTS job_hosts_by_host ON job_hosts (host);
CREATE TABLE IF NOT EXISTS job_tails (
    job_id INTEGER PRIMARY KEY, hour TEXT NOT NULL, processes INTEGER NOT NULL, seconds REAL NOT NULL,
    tail_s REAL NOT NULL, lost_s REAL NOT NULL);
CREATE INDEX IF NOT EXISTS job_tails_by_hour ON job_tails (hour);
CREATE TABLE IF NOT EXISTS wagon_runs (
    job_id INTEGER NOT NULL, hour TEXT NOT NULL, wagon TEXT NOT NULL, events INTEGER NOT NULL, cpu_s REAL NOT NULL,
    PRIMARY KEY (job_id, wagon)) WITHOUT ROWID;
"""
NOTES = ("job_hosts", "job_tails", "wagon_runs")


@dataclass(frozen=True)
class Tail:
    """The end of a job: its ``processes`` worked on events for ``seconds``; in the last ``tail_s`` fewer than half of
    them did, and all together stood still for ``lost_s``.
    """

    processes: int
    seconds: float
    tail_s: float
    lost_s: float


def note_record(connection: sqlite3.Connection, job_id: int, hour: str, record: JobRecord) -> None:
    """Notes a record, in the place of what was noted of the job before."""
    for table in NOTES:
        connection.execute(f"DELETE FROM {table} WHERE job_id = ?", (job_id,))  # noqa: S608 - ours
    _note_hosts(connection, job_id, hour, record)
    tail = tail_of(record)
    if tail is not None:
        connection.execute("INSERT INTO job_tails VALUES (?, ?, ?, ?, ?, ?)", (job_id, hour, *astuple(tail)))
    runs = {shown_name(one.name): (one.events, one.cpu_s) for one in record.wagons[:BATCH_SITES_MAX]}
    connection.executemany(
        "INSERT INTO wagon_runs VALUES (?, ?, ?, ?, ?)", [(job_id, hour, name, *run) for name, run in runs.items()]
    )


def _note_hosts(connection: sqlite3.Connection, job_id: int, hour: str, record: JobRecord) -> None:
    workers = Counter(shown_name(one.host or record.host) for one in record.worker_phases)
    lost = Counter(shown_name(one.host or record.host) for one in record.workers_lost)
    hosts = sorted(set(workers) | set(lost), key=lambda one: (-lost[one], one))[:BATCH_SITES_MAX]
    connection.executemany(
        "INSERT INTO job_hosts VALUES (?, ?, ?, ?, ?)", [(job_id, hour, one, workers[one], lost[one]) for one in hosts]
    )


def tail_of(record: JobRecord) -> Tail | None:
    """The end of a job; None for one of few processes."""
    spans = [one for one in record.activity if one.stage == 0 and one.end_s > one.begin_s]
    ends = sorted(one.end_s for one in spans)
    if len(ends) < TAIL_PROCESSES_MIN:
        return None
    begin = min(one.begin_s for one in spans)
    half = ends[len(ends) // 2]
    last = ends[-1]
    return Tail(len(ends), last - begin, last - half, sum(last - one for one in ends))
