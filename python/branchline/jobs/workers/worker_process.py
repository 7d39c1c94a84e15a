"""A worker process as seen by its job, which starts it, sends messages to it, monitors it and ends it.

The worker's standard error is forwarded, and its last part is kept for the record in case the worker dies.
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

import psutil

from branchline.base.limits import FAILED_LOG_BYTES, KILL_GRACE_S
from branchline.jobs.installation import check_installation
from branchline.jobs.subjob import Finished, Lost, SubJob, WorkerDiedError
from branchline.jobs.workers.heartbeat import HeartbeatReader, Silence
from branchline.jobs.workers.launcher import start_worker
from branchline.jobs.workers.memory import EXIT_NOT_KNOWN, EXIT_OUT_OF_MEMORY, MemoryWitness
from branchline.jobs.workers.messages import JobConnection, SentResult

#: Maximum number of bytes per read of a worker's standard error, and the descriptor of this process's standard error.
_READ_BYTES, _STANDARD_ERROR = 65536, 2


class WorkerProcess:
    """A worker process, the socket to it, and its sub-jobs.

    ``module`` is the module of the callable that the worker runs. ``errors`` is the worker's standard error, if not
    shared with this process.
    """

    def __init__(self, number: int, module: str, errors: ErrorOutput | None = None) -> None:
        ours, theirs = socket.socketpair()
        self.heartbeat = HeartbeatReader()
        self._memory = MemoryWitness()
        try:
            written_to = _STANDARD_ERROR if errors is None else errors.writer
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
        #: Whether the worker has been informed that there are no more sub-jobs.
        self.is_dismissed = False
        #: How the worker exceeded its memory limit, if it was killed for this reason; otherwise empty.
        self.ended_for_memory = ""
        #: Time at which the worker started the first of its current sub-jobs.
        self.first_since_s = time.monotonic()

    @property
    def name(self) -> str:
        """The worker's name, for messages and the record."""
        return f"worker {self.number} (process {self.process.pid})"

    def fileno(self) -> int:
        return self.connection.fileno()

    def send(self, content: object) -> None:
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
        """Return the result message of a sub-job, and remove the sub-job from the worker's sub-jobs."""
        self.let_go(result.index)
        return Finished(result.index, result.value.value(), self.number)

    def hold(self, subjob: SubJob) -> None:
        """Add a sub-job that was sent to the worker."""
        if not self.holds:
            self.first_since_s = time.monotonic()
        # The time before this, in which the worker waited for the job, does not count as time without progress.
        self.heartbeat.heard()
        self.holds.append(subjob)

    def let_go(self, index: int) -> None:
        """Remove a sub-job that is done from the worker's sub-jobs."""
        self.holds = deque(one for one in self.holds if one.index != index)
        self.first_since_s = time.monotonic()

    def memory_bytes(self) -> int:
        """Return the resident memory of the process; 0 if the process is gone."""
        try:
            return int(psutil.Process(self.process.pid).memory_info().rss)
        except psutil.Error:
            return 0

    def interrupt(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def _exit_code(self) -> tuple[int, bool]:
        """Return the exit code of a process that closed its connection, and whether the process had to be killed
        because it kept running.
        """
        try:
            return self.process.wait(KILL_GRACE_S), False
        except subprocess.TimeoutExpired:
            self.process.kill()
        with suppress(subprocess.TimeoutExpired):
            # A process that is blocked by an unresponsive file system may not exit even after SIGKILL.
            self.process.wait(KILL_GRACE_S)
        return -signal.SIGKILL, not self.ended_for_memory

    def death(self) -> tuple[WorkerDiedError, Lost]:
        """Return how a dead process ended, as an error to raise and as a message for the job record.

        Raises InstallationChangedError if the process died before its first sub-job and the installation has changed.
        """
        if not self.holds:
            check_installation()
        code, has_hung_up = self._exit_code()
        is_memory = bool(self.ended_for_memory) or self._memory.was_memory(code)
        how = f"ended with exit code {code}"
        hint = "see the output above for the cause"
        if code == EXIT_OUT_OF_MEMORY:
            how = "ran out of memory (MemoryError)"
        elif code == EXIT_NOT_KNOWN:
            how, hint = (
                "ended with an unknown exit status",
                "does this program ignore SIGCHLD, or wait for all its children?",
            )
        elif code < 0:
            how = f"was killed by signal {-code} ({signal.Signals(-code).name})"
            how += " (out of memory)" if is_memory else ""
        if has_hung_up:
            how, hint = "closed its connection to the job", "does a wagon close files that it has not opened?"
        how = self.ended_for_memory or how
        if is_memory or (code == -signal.SIGKILL and not has_hung_up):
            hint = (
                "the kernel kills processes when memory runs out: "
                "try fewer --workers, a smaller --step-size or --memory-limit"
            )
        what = f"worker {self.number} (process {self.process.pid}) {how} before it had a sub-job"
        if self.holds:
            what = f"worker {self.number} (process {self.process.pid}) {how} in {self.holds[0].label}"
        subjobs = tuple(one.label for one in self.holds)
        doing = self.heartbeat.doing()
        lost = Lost(self.number, self.process.pid, doing, 0.0, how, subjobs, is_dead=True, is_memory=is_memory)
        return WorkerDiedError(what, hint=hint, retry=True), lost


def end_processes(processes: Iterable[WorkerProcess]) -> None:
    """Kill the processes that are not done, and wait until all processes have ended.

    Only a process that is blocked by an unresponsive file system may remain.
    """
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
    """A pipe used as the standard error of a process."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._end = b""
        #: Whether the other end of the pipe is still open.
        self.is_open = True

    def fileno(self) -> int:
        """The descriptor to read from, for use with selectors."""
        return self._reader

    def handed_over(self) -> None:
        """Close the writing end, which the process has inherited."""
        os.close(self.writer)

    def pass_on(self) -> None:
        """Forward the available output to the standard error of this process."""
        with suppress(BlockingIOError):
            while self.is_open:
                content = os.read(self._reader, _READ_BYTES)
                self.is_open = bool(content)
                self._end = (self._end + content)[-FAILED_LOG_BYTES:]
                # The last part is kept for the record even if the standard error of this process is closed.
                with suppress(OSError):
                    os.write(_STANDARD_ERROR, content)

    def end(self) -> str:
        """Return the last part of the output."""
        self.pass_on()
        return self._end.decode(errors="replace")

    def close(self) -> None:
        """Close the reading end of the pipe."""
        os.close(self._reader)
