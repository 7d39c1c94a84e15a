"""The heartbeat of workers: each worker writes its current step to shared memory.

The job can read the step even if the worker hangs or is dead.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from dataclasses import dataclass

import psutil

from branchline.base.limits import WORKER_BUSY_SHARE, WORKER_BUSY_TIMES, WORKER_TICK_MAX_S

# Format of a heartbeat: the number of steps so far, the kind of the current step, and the length of the description
# that follows.
PAGE = struct.Struct("=QBH")
PAGE_BYTES = 4096
# Kinds of steps. READING: the worker reads, and has timeouts of its own. WORKING: all other steps.
READING, WORKING = 1, 0


class HeartbeatWriter:
    """The worker's side of the heartbeat, which records each step."""

    def __init__(self, descriptor: int) -> None:
        self._page = mmap.mmap(descriptor, PAGE_BYTES)
        os.close(descriptor)
        self._steps = 0

    def at(self, what: str, kind: int = WORKING) -> None:
        """Record the start of the next step."""
        text = what.encode(errors="replace")[: PAGE_BYTES - PAGE.size]
        self._steps += 1
        self._page[PAGE.size : PAGE.size + len(text)] = text
        PAGE.pack_into(self._page, 0, self._steps, kind, len(text))


@dataclass(frozen=True)
class Silence:
    """A worker that makes no progress: its current step, the seconds without progress, and the state of its process."""

    doing: str
    seconds: float
    how: str


class HeartbeatReader:
    """The job's side of the heartbeat, which detects whether the worker makes progress.

    Time during which the job itself is suspended is not counted. A job that was suspended together with its workers
    therefore does not kill them.
    """

    def __init__(self) -> None:
        with tempfile.TemporaryFile(prefix="branchline-") as file:
            file.truncate(PAGE_BYTES)
            self._page = mmap.mmap(file.fileno(), PAGE_BYTES)
            #: Descriptor that the worker inherits; closed after the worker was started.
            self.descriptor = os.dup(file.fileno())
        self._steps = -1
        self._looked_s: float | None = None
        # _silent_s is the time since the last new step, _still_s the time since the last new step or CPU use, and
        # _cpu_s the CPU time of the process at the last check.
        self._silent_s = 0.0
        self._still_s = 0.0
        self._cpu_s = 0.0

    def handed_over(self) -> None:
        """Close the descriptor after the worker has inherited it."""
        os.close(self.descriptor)

    def heard(self) -> None:
        """Reset the timers. Called when the worker sends a message, which counts as a step, or waits for the job."""
        self._silent_s = self._still_s = 0.0
        # Do not count the time since the last check either.
        self._looked_s = None

    def doing(self) -> str:
        """Return the worker's current step, or the last step if the worker is dead."""
        _, _, length = PAGE.unpack_from(self._page)
        return bytes(self._page[PAGE.size : PAGE.size + length]).decode(errors="replace") or "starting"

    def silence(self, pid: int, now_s: float, limit_s: float, reading_limit_s: float) -> Silence | None:
        """Return how long the worker has made no progress if the timeout is exceeded, otherwise None.

        The timeout is ``limit_s`` without a new step and without CPU use. With CPU use, it is several times as long.
        While the worker reads, the timeout is at least ``reading_limit_s``, the maximum total of the worker's own
        timeouts, unless the process is stopped.
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
            return None  # the process has ended, which the job detects when the connection closes
        cpu_s, self._cpu_s = times.user + times.system - self._cpu_s, times.user + times.system
        self._still_s = 0.0 if cpu_s > WORKER_BUSY_SHARE * passed_s else self._still_s + passed_s
        is_stopped = status in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
        still_limit_s = max(limit_s, reading_limit_s) if kind == READING and not is_stopped else limit_s
        if self._still_s < still_limit_s and self._silent_s < max(limit_s * WORKER_BUSY_TIMES, still_limit_s):
            return None
        doing = self.doing()
        how = "it computes" if self._still_s < still_limit_s else HOW.get(status, "it is idle")
        return Silence(doing, self._silent_s, how)


HOW = {
    psutil.STATUS_STOPPED: "its process is stopped",
    psutil.STATUS_TRACING_STOP: "its process is held by a debugger",
    psutil.STATUS_DISK_SLEEP: "it waits for a file system",
    psutil.STATUS_SLEEPING: "it is sleeping",
}
