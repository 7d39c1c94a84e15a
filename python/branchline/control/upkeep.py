"""Background maintenance of the control room: retention, history compaction, and jobs that stopped reporting.

Retention deletes old file rows and old jobs, but keeps the sums over jobs.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from branchline.base.limits import (
    FORGETTING_PAUSE_S,
    HISTORY_DAYS,
    HISTORY_MAX_BYTES,
    JOBS_DAYS,
    JOBS_FORGOTTEN_TOGETHER,
    PENDING_AGE_S,
    PENDING_ROWS_MAX,
    RETENTION_DAYS_MAX,
    UPKEEP_END_S,
    UPKEEP_PAUSE_S,
)
from branchline.control.background_errors import trouble_of
from branchline.control.database import Database
from branchline.control.history.compaction import StoppedError, join_files, unlist, write_waiting
from branchline.control.history.parquet_folder import HistoryFolder
from branchline.control.job_notes import NOTES
from branchline.control.reports.jobs import silent_jobs
from branchline.errors import OptionError

# Tables whose rows belong to a job and are deleted with the job.
_TABLES = (
    "job_blobs",
    "job_reporters",
    "job_wagons",
    "job_places",
    "sources",
    "points",
    "cells",
    "history_jobs",
    *NOTES,
)


@dataclass(frozen=True)
class Retention:
    """How long data are kept.

    - ``files_days``: rows of file reads are deleted this number of days after the day of the reads.
    - ``files_bytes``: maximum total size of the history files; the oldest files above this size are deleted earlier.
    - ``jobs_days``: jobs are deleted this number of days after their last report; at least ``files_days``.
    """

    files_days: int = HISTORY_DAYS
    files_bytes: int = HISTORY_MAX_BYTES
    jobs_days: int = JOBS_DAYS

    def check(self) -> None:
        """Raise OptionError for invalid values."""
        if not 1 <= self.files_days <= self.jobs_days <= RETENTION_DAYS_MAX:
            what = f"cannot keep files for {self.files_days} days and jobs for {self.jobs_days}"
            hint = f"give 1 to {RETENTION_DAYS_MAX} days, for jobs at least as many as for files"
            raise OptionError(what, hint=hint)
        if self.files_bytes < 0:
            raise OptionError(f"the maximum size of file rows must be 0 or more, got {self.files_bytes} bytes")


class Upkeep:
    """A background thread that runs maintenance tasks when they are due, and retries them after errors."""

    def __init__(self, database: Database, folder: HistoryFolder, retention: Retention) -> None:
        self._database = database
        self._folder = folder
        self._retention = retention
        self._trouble = ""
        self._silent = 0
        self._forgotten_s = -FORGETTING_PAUSE_S
        self._one_at_a_time = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upkeep of the control room", daemon=True)
        self._thread.start()

    @property
    def trouble(self) -> str:
        """The error of the last maintenance run; empty on success."""
        return self._trouble

    def tidy(self) -> None:
        """Run all maintenance now: write pending rows, merge history files, apply retention. Raises BranchlineError."""
        with self._one_at_a_time:
            now = datetime.now(UTC)
            while write_waiting(self._folder):
                self._check_stop()
            while join_files(self._folder, now.date().isoformat(), self._check_stop):
                pass
            forget(self._folder, self._retention, now)

    def close(self) -> None:
        """Stop the thread. Waits until the thread has finished its current row group."""
        self._end.set()
        self._thread.join(UPKEEP_END_S)

    def _run(self) -> None:
        while not self._end.wait(UPKEEP_PAUSE_S):
            try:
                self._round(datetime.now(UTC))
                self._trouble = ""
            except StoppedError:
                return
            except Exception as error:  # noqa: BLE001 - an internal error must not end the thread
                self._trouble = trouble_of(error, "upkeep")

    def _round(self, now: datetime) -> None:
        # A job becomes silent without a report, so notify pages of a changed number of silent jobs.
        with self._database.reading() as connection:
            silent = silent_jobs(connection, now)
        if silent != self._silent:
            self._silent = silent
            self._database.changed()
        with self._one_at_a_time:
            while self._is_due(now) and write_waiting(self._folder):
                self._check_stop()
            while join_files(self._folder, now.date().isoformat(), self._check_stop):
                pass
            if time.monotonic() - self._forgotten_s >= FORGETTING_PAUSE_S:
                forget(self._folder, self._retention, now)
                self._forgotten_s = time.monotonic()

    def _is_due(self, now: datetime) -> bool:
        with self._database.reading() as connection:
            rows, first = connection.execute("SELECT ifnull(sum(rows), 0), min(taken) FROM pending").fetchone()
        if first is None:
            return False
        age_s = (now - datetime.fromisoformat(first)).total_seconds()
        return bool(rows >= PENDING_ROWS_MAX or abs(age_s) >= PENDING_AGE_S)

    def _check_stop(self) -> None:
        if self._end.is_set():
            raise StoppedError


@dataclass(frozen=True)
class Forgotten:
    """Numbers of file rows and jobs that retention deleted."""

    rows: int = 0
    jobs: int = 0


def forget(folder: HistoryFolder, retention: Retention, now: datetime) -> Forgotten:
    """Apply retention: delete old file rows and old jobs. Raises DatabaseError."""
    rows = _forget_files(folder, retention, now)
    before = (now - timedelta(days=retention.jobs_days)).isoformat(timespec="milliseconds")
    jobs = 0
    while some := _forget_jobs(folder, before):
        jobs += some
    return Forgotten(rows, jobs)


def _forget_files(folder: HistoryFolder, retention: Retention, now: datetime) -> int:
    """Delete the file rows of expired days, and the oldest history files above the size limit.

    Returns the number of deleted rows.
    """
    first_day = (now - timedelta(days=retention.files_days)).date().isoformat()
    with folder.database.reading() as connection:
        files = connection.execute("SELECT name, day, rows, bytes FROM history_files ORDER BY day DESC").fetchall()
        waiting = connection.execute("SELECT 1 FROM pending WHERE day < ? LIMIT 1", (first_day,)).fetchone()
    size_bytes, gone, rows = 0, [], 0
    for name, day, count, file_bytes in files:
        size_bytes += file_bytes
        if day < first_day or size_bytes > retention.files_bytes:
            gone.append(name)
            rows += count
    if not gone and not waiting:
        return 0
    with folder.database.writing() as connection:
        unlist(connection, gone)
        [more] = connection.execute("SELECT ifnull(sum(rows), 0) FROM pending WHERE day < ?", (first_day,)).fetchone()
        connection.execute("DELETE FROM pending WHERE day < ?", (first_day,))
    folder.remove(gone)
    return rows + int(more)


def _forget_jobs(folder: HistoryFolder, before: str) -> int:
    """Delete a batch of jobs whose last report came before the time ``before``. Return the number of deleted jobs.

    The costs of deleted jobs stay in the sums by user.
    """
    with folder.database.writing() as connection:
        query = "SELECT id FROM jobs WHERE seen < ? AND id NOT IN (SELECT job_id FROM pending) ORDER BY seen LIMIT ?"
        ids = connection.execute(query, (before, JOBS_FORGOTTEN_TOGETHER)).fetchall()
        for job_id in ids:
            connection.execute("INSERT OR IGNORE INTO forgotten_jobs SELECT job FROM jobs WHERE id = ?", job_id)
            connection.execute(
                "INSERT INTO forgotten_costs SELECT user, substr(started, 1, 13) || ':00:00+00:00', 1, events,"
                " bytes_read, ifnull(cpu_s, 0), seconds FROM jobs WHERE id = ? ON CONFLICT (user, started) DO UPDATE"
                " SET jobs = jobs + 1, events = events + excluded.events,"
                " bytes_read = bytes_read + excluded.bytes_read, cpu_s = cpu_s + excluded.cpu_s,"
                " seconds = seconds + excluded.seconds",
                job_id,
            )
            for table in _TABLES:
                connection.execute(f"DELETE FROM {table} WHERE job_id = ?", job_id)  # noqa: S608 - constant
            connection.execute("DELETE FROM jobs WHERE id = ?", job_id)
    return len(ids)
