"""What the control room does in the background: files of the history, forgetting, and states that time changes."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

from branchline.base.limits import FORGETTING_PAUSE_S, PENDING_AGE_S, PENDING_ROWS_MAX, UPKEEP_END_S, UPKEEP_PAUSE_S
from branchline.control.database import Database
from branchline.control.faults import trouble_of
from branchline.control.history.compaction import StoppedError, join_files, write_waiting
from branchline.control.history.parquet_folder import HistoryFolder
from branchline.control.reports.job_list import silent_jobs
from branchline.control.retention import Retention, forget


class Upkeep:
    """A thread that does what is due. What it cannot do it tries again; reports are taken all the while."""

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
        """Why the last round failed; empty if it did not."""
        return self._trouble

    def tidy(self) -> None:
        """Writes all rows that wait to files, joins what may be joined, and forgets what is too old.

        Raises BranchlineError.
        """
        with self._one_at_a_time:
            now = datetime.now(UTC)
            while write_waiting(self._folder):
                self._check_stop()
            while join_files(self._folder, now.date().isoformat(), self._check_stop):
                pass
            forget(self._folder, self._retention, now)

    def close(self) -> None:
        """Ends the thread, within one group of rows."""
        self._end.set()
        self._thread.join(UPKEEP_END_S)

    def _run(self) -> None:
        while not self._end.wait(UPKEEP_PAUSE_S):
            try:
                self._round(datetime.now(UTC))
                self._trouble = ""
            except StoppedError:
                return
            except Exception as error:  # noqa: BLE001 - a fault of ours must not end the thread: rows would wait for ever
                self._trouble = trouble_of(error, "upkeep")

    def _round(self, now: datetime) -> None:
        self._notice_silence(now)
        with self._one_at_a_time:
            while self._is_due(now) and write_waiting(self._folder):
                self._check_stop()
            while join_files(self._folder, now.date().isoformat(), self._check_stop):
                pass
            if time.monotonic() - self._forgotten_s >= FORGETTING_PAUSE_S:
                forget(self._folder, self._retention, now)
                self._forgotten_s = time.monotonic()

    def _notice_silence(self, now: datetime) -> None:
        """A job turns silent by doing nothing: pages are told here."""
        with self._database.reading() as connection:
            silent = silent_jobs(connection, now)
        if silent != self._silent:
            self._silent = silent
            self._database.changed()

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
