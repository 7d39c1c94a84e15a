"""The state of a run in a file of its directory, for `branchline status`."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from branchline.base.limits import STATUS_HEARTBEAT_S, STATUS_INTERVAL_S
from branchline.base.whole_files import write_whole
from branchline.errors import StorageError
from branchline.records.sensors.status import TrainStatus

STATUS = "status.json"
#: The state of a run of which nothing was noted yet.
_NOTHING = TrainStatus()


class StatusFile:
    """Writes the last state that was noted, once a second at most, and at times also where nothing has changed: a state
    that is old says that the run stands still or is gone.
    """

    def __init__(self, out: Path) -> None:
        self._path = out / STATUS
        self._lock = threading.Lock()
        self._noted = (_NOTHING, time.monotonic())
        self._written: TrainStatus | None = None
        self._written_s = 0.0
        self._is_closed = threading.Event()

    def begin(self) -> None:
        """The run is there, though nothing is known of it yet: workers may wait for long in a queue."""
        self._write()
        threading.Thread(target=self._keep_writing, name="branchline-status", daemon=True).start()

    def note(self, now: TrainStatus) -> None:
        """The state is this one now. The first one and a new phase are written at once."""
        before = self._noted
        self._noted = (now, time.monotonic())
        if before[0] is _NOTHING or before[0].phase != now.phase:
            self._write()

    def close(self) -> None:
        """Removes it: the record of the job says how the run ended."""
        self._is_closed.set()
        with self._lock, suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _keep_writing(self) -> None:
        while not self._is_closed.wait(STATUS_INTERVAL_S):
            is_new = self._noted[0] is not self._written
            if is_new or time.monotonic() - self._written_s > STATUS_HEARTBEAT_S:
                self._write()

    def _write(self) -> None:
        with self._lock:
            if self._is_closed.is_set():
                return
            status, noted_s = self._noted
            since_s = time.monotonic() - noted_s
            now = replace(
                status,
                seconds=status.seconds + since_s,
                slowest_s=status.slowest_s + since_s if status.slowest else 0.0,
                updated=datetime.now(UTC).isoformat(timespec="seconds"),
                process=os.getpid(),
            )
            # The end of the run reports a full disk.
            with suppress(StorageError):
                write_whole(self._path, json.dumps(now.as_dict()).encode())
            self._written, self._written_s = status, time.monotonic()
