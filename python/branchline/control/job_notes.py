"""Extracts from job records, for findings: the job's hosts with lost workers, its wagons, and its tail.

The tail of a job is the time at its end in which fewer than half of its processes were busy.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import astuple, dataclass

from branchline.base.limits import BATCH_SITES_MAX, TAIL_PROCESSES_MIN
from branchline.control.reports.tables import shown_name
from branchline.records.sensors.record import JobRecord

NOTES = ("job_hosts", "job_tails", "wagon_runs")


@dataclass(frozen=True)
class Tail:
    """The tail of a job.

    ``processes`` is the number of processes, and ``seconds`` the time from the first start to the last end. In the last
    ``tail_s`` of these seconds, fewer than half of the processes were busy. ``lost_s`` is the total time for which
    processes were idle after they had finished.
    """

    processes: int
    seconds: float
    tail_s: float
    lost_s: float


def note_record(connection: sqlite3.Connection, job_id: int, hour: str, record: JobRecord) -> None:
    """Store the extracts from a job's record. Replaces the extracts from earlier records of the job."""
    for table in NOTES:
        connection.execute(f"DELETE FROM {table} WHERE job_id = ?", (job_id,))  # noqa: S608 - constant
    workers = Counter(shown_name(one.host or record.host) for one in record.worker_phases)
    lost = Counter(shown_name(one.host or record.host) for one in record.workers_lost)
    hosts = sorted(set(workers) | set(lost), key=lambda one: (-lost[one], one))[:BATCH_SITES_MAX]
    connection.executemany(
        "INSERT INTO job_hosts VALUES (?, ?, ?, ?, ?)", [(job_id, hour, one, workers[one], lost[one]) for one in hosts]
    )
    tail = tail_of(record)
    if tail is not None:
        connection.execute("INSERT INTO job_tails VALUES (?, ?, ?, ?, ?, ?)", (job_id, hour, *astuple(tail)))
    runs = {shown_name(one.name): (one.events, one.cpu_s) for one in record.wagons[:BATCH_SITES_MAX]}
    connection.executemany(
        "INSERT INTO wagon_runs VALUES (?, ?, ?, ?, ?)", [(job_id, hour, name, *run) for name, run in runs.items()]
    )


def tail_of(record: JobRecord) -> Tail | None:
    """Return the tail of a job; None if the job had fewer than TAIL_PROCESSES_MIN processes."""
    spans = [one for one in record.activity if one.stage == 0 and one.end_s > one.begin_s]
    ends = sorted(one.end_s for one in spans)
    if len(ends) < TAIL_PROCESSES_MIN:
        return None
    begin = min(one.begin_s for one in spans)
    half = ends[len(ends) // 2]
    last = ends[-1]
    return Tail(len(ends), last - begin, last - half, sum(last - one for one in ends))
