"""A worker process as its job sees it: started, sent to, watched, ended.

Its standard error is passed on, and the last part of it kept for the record of its death.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import psutil

from branchline.base.limits import FAILED_LOG_BYTES, KILL_GRACE_S
from branchline.jobs.program import check_installation
from branchline.jobs.subjob import Finished, Lost, SubJob, WorkerDiedError
from branchline.jobs.workers.heartbeat import HeartbeatReader, Silence
from branchline.jobs.workers.launcher import start_worker
from branchline.jobs.workers.memory import EXIT_NOT_KNOWN, EXIT_OUT_OF_MEMORY, MemoryWitness
from branchline.jobs.workers.messages import JobConnection, SentResult

#: Bytes that are read from its standard error at a time, and the descriptor of our own.
_READ_BYTES, _STANDARD_ERROR = 65536, 2


class WorkerProcess:
    """One worker process, the socket to it, and the sub-jobs that it holds. ``module`` is that of the callable which it
    works on. ``errors`` is its standard error, if that is not ours.
    """

    def __init__(self, number: int, module: str, errors: ErrorOutput | None = None) -> None:
        ours, theirs = socket.socketpair()
        self.heartbeat = HeartbeatReader()
        self._memory = MemoryWitness()
        try:
            written_to = None if errors is None else errors.writer
            self.process = start_worker(theirs.fileno(), self.heartbeat.descriptor, written_to, module)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            self.heartbeat.handed_over()
            if errors is not None:
                errors.handed_over()
        self.connection = JobConnection(ours)
        self.number = number
        self.holds: deque[SubJob] = deque()
        self.is_parked = False
        self.is_done = False
        self.is_dead = False
        #: The worker knows that there are no more sub-jobs.
        self.is_dismissed = False
        #: Why we ended it for the memory that it took; empty if we did not.
        self.ended_for_memory = ""
        #: Since when it works on the first of its sub-jobs.
        self.first_since_s = time.monotonic()

    @property
    def name(self) -> str:
        """For messages and the record."""
        return f"worker {self.number} (process {self.process.pid})"

    def fileno(self) -> int:
        return self.connection.fileno()

    def send(self, content: Any) -> None:
        self.heartbeat.heard()
        self.connection.send(content)

    def silence(self, timeout_s: float, reading_timeout_s: float) -> Silence | None:
        if self.is_done or self.is_parked:
            self.heartbeat.heard()
            return None
        return self.heartbeat.silence(self.process.pid, time.monotonic(), timeout_s, reading_timeout_s)

    def lost(self, silence: Silence) -> Lost:
        subjobs = tuple(one.label for one in self.holds)
        return Lost(self.number, self.process.pid, silence.doing, silence.seconds, silence.how, subjobs)

    def finished(self, result: SentResult) -> Finished:
        """It is done with a sub-job."""
        self.let_go(result.index)
        return Finished(result.index, result.value.value(), self.number)

    def hold(self, subjob: SubJob) -> None:
        """It has been given a sub-job."""
        if not self.holds:
            self.first_since_s = time.monotonic()
        # The time that it waited for the job is no silence.
        self.heartbeat.heard()
        self.holds.append(subjob)

    def let_go(self, index: int) -> None:
        """It is done with a sub-job."""
        self.holds = deque(one for one in self.holds if one.index != index)
        self.first_since_s = time.monotonic()

    def memory_bytes(self) -> int:
        """What the process takes of the memory now; 0 if it is gone."""
        try:
            return int(psutil.Process(self.process.pid).memory_info().rss)
        except psutil.Error:
            return 0

    def interrupt(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def _exit_code(self) -> tuple[int, bool]:
        """That of a process whose connection has ended, and whether it had to be killed, since it lived on without."""
        try:
            return self.process.wait(KILL_GRACE_S), False
        except subprocess.TimeoutExpired:
            self.process.kill()
        with suppress(subprocess.TimeoutExpired):
            # One that a dead file system holds does not even end now.
            self.process.wait(KILL_GRACE_S)
        return -signal.SIGKILL, not self.ended_for_memory

    def death(self) -> tuple[WorkerDiedError, Lost]:
        """How a process that is gone ended: as an error, and for the record. Raises InstallationChangedError where one
        that had no sub-job yet could have met other code than that of the job.
        """
        if not self.holds:
            check_installation()
        code, has_hung_up = self._exit_code()
        is_memory = bool(self.ended_for_memory) or self._memory.was_memory(code)
        how = f"ended with exit code {code}"
        hint = "the lines above may say why"
        if code == EXIT_OUT_OF_MEMORY:
            how = "ran out of memory (MemoryError)"
        elif code == EXIT_NOT_KNOWN:
            how, hint = "ended, and how is not known", "does this program ignore SIGCHLD, or wait for all its children?"
        elif code < 0:
            how = f"was killed by signal {-code} ({signal.Signals(-code).name})"
            how += " for want of memory" if is_memory else ""
        if has_hung_up:
            how, hint = "closed its connection to the job", "does a wagon close files that it has not opened?"
        how = self.ended_for_memory or how
        if is_memory or (code == -signal.SIGKILL and not has_hung_up):
            hint = (
                "the kernel does so when memory is short: try fewer --workers, a smaller --step-size or --memory-limit"
            )
        what = f"worker {self.number} (process {self.process.pid}) {how} before it had a sub-job"
        if self.holds:
            what = f"worker {self.number} (process {self.process.pid}) {how} in {self.holds[0].label}"
        subjobs = tuple(one.label for one in self.holds)
        doing = self.heartbeat.doing()
        lost = Lost(self.number, self.process.pid, doing, 0.0, how, subjobs, is_dead=True, is_memory=is_memory)
        return WorkerDiedError(what, hint=hint, retry=True), lost


def end_processes(processes: Iterable[WorkerProcess]) -> None:
    """Waits for the processes that are done, ends the others; none is left but what a dead file system holds."""
    processes = list(processes)
    for process in processes:
        process.connection.close()
        if not process.is_done:
            process.process.kill()
    for process in processes:
        try:
            process.process.wait(KILL_GRACE_S)
        except subprocess.TimeoutExpired:
            process.process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.process.wait(KILL_GRACE_S)


class ErrorOutput:
    """A pipe that is the standard error of a process."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._end = b""
        #: Whether anything more may come.
        self.is_open = True

    def fileno(self) -> int:
        """The end to read from, for a selector."""
        return self._reader

    def handed_over(self) -> None:
        """The process has its end."""
        os.close(self.writer)

    def pass_on(self) -> None:
        """Writes what has come to our own standard error."""
        with suppress(BlockingIOError):
            while self.is_open:
                content = os.read(self._reader, _READ_BYTES)
                self.is_open = bool(content)
                self._end = (self._end + content)[-FAILED_LOG_BYTES:]
                # Where nobody reads our standard error the record still has the end.
                with suppress(OSError):
                    os.write(_STANDARD_ERROR, content)

    def end(self) -> str:
        """The last that it wrote."""
        self.pass_on()
        return self._end.decode(errors="replace")

    def close(self) -> None:
        """Nothing more is read."""
        os.close(self._reader)
