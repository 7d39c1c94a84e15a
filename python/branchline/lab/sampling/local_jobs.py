"""Run the jobs of a sample on this machine: each in its own process, all started simultaneously.

The processes are forked from processes that have already imported the modules that their clients need.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from branchline.base.limits import TRIAL_LOG_MAX_BYTES
from branchline.base.processes import own_python, process_lives
from branchline.base.texts import end_of_log
from branchline.errors import OptionError
from branchline.lab.limits import STUDY_ANSWER_MAX_BYTES, STUDY_ENDING_S, STUDY_START_S
from branchline.lab.sampling.job import JobOutcome, JobRequest
from branchline.lab.sampling.job_process import GO, READY
from branchline.lab.sampling.job_starter import CODE, LIVES, MESSAGE, START

#: Interval in seconds at which the end of a process is polled.
_LOOK_S = 0.002


def run_at_once(
    requests: Sequence[JobRequest],
    environment: Mapping[str, str],
    wait_s: float,
    before_start: Callable[[], None] = lambda: None,
    starters: JobStarters | None = None,
) -> tuple[float, list[JobOutcome]]:
    """Run jobs concurrently. Return the time in seconds from the first start to the last end, and the outcomes.

    ``before_start`` is called when all jobs are ready, before any job starts. Jobs are ready sooner if ``starters`` of
    earlier jobs are passed. A job that exceeds ``wait_s`` or dies has an outcome with an error. No process is left
    running.
    """
    jobs: list[_Job] = []
    try:
        starters = starters or JobStarters()
        # `extend` keeps the jobs that were already started if a later job cannot be started, so that they are killed.
        jobs.extend(_Job(one, environment, starters) for one in requests)
        deadline_s = time.monotonic() + STUDY_START_S
        for one in jobs:
            one.wait_ready(deadline_s)
        if any(one.outcome for one in jobs):
            waited = "another job did not start"
            return 0.0, [one.outcome or JobOutcome(one.request.number, error=waited) for one in jobs]
        before_start()
        begin_s = time.monotonic()
        for one in jobs:
            one.begin()
        outcomes = [one.wait_outcome(begin_s + wait_s, wait_s) for one in jobs]
        return time.monotonic() - begin_s, outcomes
    finally:
        for one in jobs:
            one.end()


class _Job:
    """One job in its own process."""

    def __init__(self, request: JobRequest, environment: Mapping[str, str], starters: JobStarters) -> None:
        self.request = request
        self.outcome: JobOutcome | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        self._rest = b""
        its_input, self._input = os.pipe()
        self._answers, its_answers = os.pipe()
        try:
            self._started = starters.start(request.client, environment, (its_input, its_answers, self._log.fileno()))
        except OptionError:
            self._close()
            raise
        finally:
            os.close(its_input)
            os.close(its_answers)
        self._tell(request.to_json())

    def wait_ready(self, deadline_s: float) -> None:
        """Wait until the client is ready. If it fails to become ready, set the outcome."""
        line = self._line(deadline_s)
        if line != READY:
            self.outcome = self._understood(line, STUDY_START_S)

    def begin(self) -> None:
        self._tell(GO)

    def wait_outcome(self, deadline_s: float, wait_s: float) -> JobOutcome:
        return self._understood(self._line(deadline_s), wait_s)

    def end(self) -> None:
        """Kill the process and its child processes."""
        self._started.end()
        self._close()

    def _close(self) -> None:
        os.close(self._input)
        os.close(self._answers)
        self._log.close()

    def _understood(self, line: str | None, wait_s: float) -> JobOutcome:
        if line is None and self._started.is_alive:
            return self._failed(f"timed out after {wait_s:g} s")
        try:
            return JobOutcome.from_json(line or "")
        except ValueError:
            code = self._started.wait(STUDY_ENDING_S)
            said = end_of_log(self._log, TRIAL_LOG_MAX_BYTES)
            return self._failed(f"it died{'' if code is None else f' with code {code}'}: {said}")

    def _failed(self, error: str) -> JobOutcome:
        return JobOutcome(self.request.number, error=error)

    def _tell(self, text: str) -> None:
        content = text.encode() + b"\n"
        with suppress(BrokenPipeError):  # The process died, which reading its answer will report.
            while content:
                content = content[os.write(self._input, content) :]

    def _line(self, deadline_s: float) -> str | None:
        """Return the next line that the job prints, empty at the end of the output; None at the deadline."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                # Even with a timeout of zero, `select` returns data that arrived before the deadline.
                if not selector.select(max(0.0, deadline_s - time.monotonic())):
                    return None
                some = os.read(self._answers, 65536)
                self._rest += some
                if not some or len(self._rest) > STUDY_ANSWER_MAX_BYTES:
                    return ""
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace").strip()


# --- processes of jobs ------------------------------------------------------------------------------------------------


class JobStarters:
    """Starts jobs. For each client and environment, a process imports the client once; it ends when this object is
    deleted.
    """

    def __init__(self) -> None:
        self._starters: dict[tuple[str, frozenset[tuple[str, str]]], _Starter] = {}

    def start(self, client: str, environment: Mapping[str, str], descriptors: Sequence[int]) -> StartedJob:
        """Start a job with these file descriptors as input, answers and errors. Raises OptionError."""
        key = client, frozenset(environment.items())
        if key not in self._starters:
            self._starters[key] = _Starter(client, environment)
        try:
            return StartedJob(self._starters[key], self._starters[key].ask(START, 0, descriptors))
        except OSError as error:
            # Drop the starter, so that the next job gets a new one.
            self._starters.pop(key).end()
            raise OptionError(f"a job of the study cannot be started: {error.strerror or error}") from None


class StartedJob:
    """The process of a job, which has its own session."""

    def __init__(self, starter: _Starter, process: int) -> None:
        self._starter, self.process = starter, process

    @property
    def is_alive(self) -> bool:
        """Whether the process is still running."""
        return self._look() == LIVES

    def wait(self, seconds: float) -> int | None:
        """Return the exit code, negative for a signal; None after the timeout or if the code is unknown."""
        end_s = time.monotonic() + seconds
        while (code := self._look()) == LIVES and time.monotonic() < end_s:
            time.sleep(_LOOK_S)
        return None if code == LIVES else code

    def _look(self) -> int | None:
        try:
            return self._starter.ask(CODE, self.process)
        except OSError:
            # After the starter died, another process reaps the job, and the exit code of the job is lost.
            return LIVES if process_lives(self.process) else None

    def end(self) -> None:
        """Kill the process and its child processes."""
        with suppress(ProcessLookupError):
            os.killpg(self.process, signal.SIGKILL)
        self.wait(STUDY_ENDING_S)


class _Starter:
    """A process from which jobs are forked."""

    def __init__(self, client: str, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(STUDY_START_S)
        try:
            process = subprocess.Popen(  # noqa: S603 - a module of this package
                [*own_python(), "-m", "branchline.lab.sampling.job_starter", client],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        except OSError as error:
            self._socket.close()
            raise OptionError(f"a job of the study cannot be started: {error.strerror}") from None
        finally:
            theirs.close()
        self.end = weakref.finalize(self, _end, process, self._socket)

    def ask(self, kind: bytes, number: int, descriptors: Sequence[int] = ()) -> int:
        """Send a message and return the number in the response. Raises OSError if the starter's process is gone."""
        socket.send_fds(self._socket, [MESSAGE.pack(kind, number)], list(descriptors))
        answer = b""
        while len(answer) < MESSAGE.size:
            some = self._socket.recv(MESSAGE.size - len(answer))
            if not some:
                raise ConnectionError("the process that starts jobs died")
            answer += some
        return int(MESSAGE.unpack(answer)[1])


def _end(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    connection.close()
    process.kill()
    process.wait()
