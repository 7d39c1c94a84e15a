"""Run the jobs of a sample on this machine: each in its own process, all started simultaneously.

The processes are forked from fork servers. Each server imports only the modules of the client of one arm.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress

from branchline.base.limits import TRIAL_LOG_MAX_BYTES
from branchline.base.texts import end_of_log
from branchline.errors import OptionError
from branchline.jobs.workers.fork_client import ForkServer
from branchline.jobs.workers.memory import EXIT_NOT_KNOWN
from branchline.lab.limits import STUDY_ANSWER_MAX_BYTES, STUDY_ENDING_S, STUDY_START_S
from branchline.lab.sampling.cpu_share import equal_share
from branchline.lab.sampling.job import JobOutcome, JobRequest
from branchline.lab.sampling.job_process import GO, READY, ForkableJob

#: The fork server of each client and environment.
JobServers = dict[tuple[str, frozenset[tuple[str, str]]], ForkServer]


def run_at_once(
    requests: Sequence[JobRequest],
    environment: Mapping[str, str],
    wait_s: float,
    before_start: Callable[[], None] = lambda: None,
    servers: JobServers | None = None,
) -> tuple[float, list[JobOutcome]]:
    """Run jobs concurrently. Return the time in seconds from the first start to the last end, and the outcomes.

    ``before_start`` is called when all jobs are ready, before any job starts. Jobs are ready sooner if ``servers`` of
    earlier jobs are passed. A job that exceeds ``wait_s`` or dies has an outcome with an error. No process is left
    running.
    """
    jobs: list[_Job] = []
    group = ExitStack()
    try:
        servers = {} if servers is None else servers
        # `extend` keeps the jobs that were already started if a later job cannot be started, so that they are killed.
        jobs.extend(_Job(one, environment, servers) for one in requests)
        deadline_s = time.monotonic() + STUDY_START_S
        for one in jobs:
            one.wait_ready(deadline_s)
        if any(one.outcome for one in jobs):
            waited = "another job did not start"
            return 0.0, [one.outcome or JobOutcome(one.request.number, error=waited) for one in jobs]
        group.enter_context(equal_share([one.pid for one in jobs]))
        before_start()
        begin_s = time.monotonic()
        for one in jobs:
            one.begin()
        outcomes = [one.wait_outcome(begin_s + wait_s, wait_s) for one in jobs]
        return time.monotonic() - begin_s, outcomes
    finally:
        for one in jobs:
            one.end()
        group.close()


class _Job:
    """One job in its own process."""

    def __init__(self, request: JobRequest, environment: Mapping[str, str], servers: JobServers) -> None:
        self.request = request
        self.outcome: JobOutcome | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        self._rest = b""
        its_input, self._input = os.pipe()
        self._answers, its_answers = os.pipe()
        try:
            key = request.client, frozenset(environment.items())
            server = servers.setdefault(key, ForkServer(environment, STUDY_START_S))
            self._process = server.start(ForkableJob(request.client), [its_input], its_answers, self._log.fileno())
        except BaseException as error:
            self._close()
            if isinstance(error, OSError):
                raise OptionError(f"a job of the study cannot be started: {error.strerror or error}") from None
            raise
        finally:
            os.close(its_input)
            os.close(its_answers)
        self._tell(request.to_json())

    @property
    def pid(self) -> int:
        return self._process.pid

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
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()  # It may not have its own process group yet.
        self._exit_code()
        self._close()

    def _exit_code(self) -> int:
        """Wait for the process. Return its exit code, negative for a signal, or EXIT_NOT_KNOWN."""
        try:
            return self._process.wait(STUDY_ENDING_S)
        except subprocess.TimeoutExpired:
            return EXIT_NOT_KNOWN

    def _close(self) -> None:
        os.close(self._input)
        os.close(self._answers)
        self._log.close()

    def _understood(self, line: str | None, wait_s: float) -> JobOutcome:
        if line is None and self._process.poll() is None:
            return self._failed(f"timed out after {wait_s:g} s")
        try:
            return JobOutcome.from_json(line or "")
        except ValueError:
            code = self._exit_code()
            said = end_of_log(self._log, TRIAL_LOG_MAX_BYTES)
            return self._failed(f"it died{'' if code == EXIT_NOT_KNOWN else f' with code {code}'}: {said}")

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
