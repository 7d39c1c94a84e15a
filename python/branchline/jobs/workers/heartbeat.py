"""The heartbeat of workers: each writes the step that it is at into shared memory, which the job can read even when the
worker is stuck or dead.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from dataclasses import dataclass

import psutil

from branchline.base.limits import WORKER_BUSY_SHARE, WORKER_BUSY_TIMES, WORKER_TICK_MAX_S

# Steps so far, the kind of this one, and the bytes of the text behind that says what it is.
PAGE = struct.Struct("=QBH")
PAGE_BYTES = 4096
# A step that ends by deadlines which are kept in the worker itself, and any other.
READING, WORKING = 1, 0


class HeartbeatWriter:
    """The worker's side: notes each step."""

    def __init__(self, descriptor: int) -> None:
        self._page = mmap.mmap(descriptor, PAGE_BYTES)
        os.close(descriptor)
        self._steps = 0

    def at(self, what: str, kind: int = WORKING) -> None:
        """The next step begins."""
        text = what.encode(errors="replace")[: PAGE_BYTES - PAGE.size]
        self._steps += 1
        self._page[PAGE.size : PAGE.size + len(text)] = text
        PAGE.pack_into(self._page, 0, self._steps, kind, len(text))


@dataclass(frozen=True)
class Silence:
    """A worker that has come no step further: what it is at, for how long, and how its process stands."""

    doing: str
    seconds: float
    how: str


class HeartbeatReader:
    """The job's side: finds out whether the worker makes progress.

    Time counts only while the job itself is awake: a job that was suspended with its workers ends none of them.
    """

    def __init__(self) -> None:
        with tempfile.TemporaryFile(prefix="branchline-") as file:
            file.truncate(PAGE_BYTES)
            self._page = mmap.mmap(file.fileno(), PAGE_BYTES)
            #: For the worker, until it has it.
            self.descriptor = os.dup(file.fileno())
        self._steps = -1
        self._looked_s: float | None = None
        # Without a step; of that also without computing, in one piece; and the CPU time at the last look.
        self._silent_s = 0.0
        self._still_s = 0.0
        self._cpu_s = 0.0

    def handed_over(self) -> None:
        """The worker has been started with the descriptor."""
        os.close(self.descriptor)

    def heard(self) -> None:
        """Something came from the worker, which is as good as a step, or it waits for the job."""
        self._silent_s = self._still_s = 0.0
        # What has passed since the last look was no silence either.
        self._looked_s = None

    def doing(self) -> str:
        """The step that the worker is at, or was at when it died."""
        _, _, length = PAGE.unpack_from(self._page)
        return bytes(self._page[PAGE.size : PAGE.size + length]).decode(errors="replace") or "starting"

    def silence(self, pid: int, now_s: float, limit_s: float, reading_limit_s: float) -> Silence | None:
        """That of a worker which has neither come further nor computed for ``limit_s``, or computes at one step for
        several times as long; None for one that is well. One that reads has deadlines of its own for that,
        ``reading_limit_s`` together, which it keeps unless its process is stopped.
        """
        passed_s = 0.0 if self._looked_s is None else min(now_s - self._looked_s, WORKER_TICK_MAX_S)
        self._looked_s = now_s
        steps, kind, _ = PAGE.unpack_from(self._page)
        if steps != self._steps:
            self._steps = steps
            self._silent_s = self._still_s = 0.0
            return None
        self._silent_s += passed_s
        try:
            process = psutil.Process(pid)
            times, status = process.cpu_times(), process.status()
        except psutil.Error:
            return None  # It has ended, which its connection shows.
        cpu_s, self._cpu_s = times.user + times.system - self._cpu_s, times.user + times.system
        self._still_s = 0.0 if cpu_s > WORKER_BUSY_SHARE * passed_s else self._still_s + passed_s
        is_stopped = status in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
        still_limit_s = max(limit_s, reading_limit_s) if kind == READING and not is_stopped else limit_s
        if self._still_s < still_limit_s and self._silent_s < max(limit_s * WORKER_BUSY_TIMES, still_limit_s):
            return None
        doing = self.doing()
        how = "it computes" if self._still_s < still_limit_s else HOW.get(status, "it does nothing")
        return Silence(doing, self._silent_s, how)


HOW = {
    psutil.STATUS_STOPPED: "its process is stopped",
    psutil.STATUS_TRACING_STOP: "its process is held by a debugger",
    psutil.STATUS_DISK_SLEEP: "it waits for a file system",
    psutil.STATUS_SLEEPING: "it waits for something",
}
