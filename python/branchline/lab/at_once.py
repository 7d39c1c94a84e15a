"""Jobs of a sample on this machine: each in a process of its own, all told to begin at once."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO

from branchline.errors import OptionError
from branchline.lab.job import JobOutcome, JobRequest
from branchline.lab.job_process import GO, READY
from branchline.lab.limits import STUDY_ANSWER_MAX_BYTES, STUDY_START_S
from branchline.limits import TRIAL_LOG_MAX_BYTES
from branchline.report.texts import printable


def run_at_once(
    requests: Sequence[JobRequest],
    environment: Mapping[str, str],
    wait_s: float,
    before_start: Callable[[], None] = lambda: None,
) -> tuple[float, list[JobOutcome]]:
    """Runs jobs at the same time: the seconds from the first begin to the last end, and what each took.
    ``before_start`` is called when all are prepared, before any begins.

    A job that lasts longer than ``wait_s``, or dies, has an outcome with an error. Nothing is left running.
    """
    jobs: list[_Job] = []
    try:
        jobs += [_Job(one, environment) for one in requests]
        deadline_s = time.monotonic() + STUDY_START_S
        for one in jobs:
            one.wait_ready(deadline_s)
        if any(one.outcome for one in jobs):
            waited = "another job did not begin"
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
    """A process with one job."""

    def __init__(self, request: JobRequest, environment: Mapping[str, str]) -> None:
        self.request = request
        self.outcome: JobOutcome | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        self._rest = b""
        words = [sys.executable, "-m", "branchline.lab.job_process"]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env={**os.environ, **environment},
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            self._log.close()
            raise OptionError(f"a job of the study cannot be started: {error.strerror}") from None
        self._tell(request.to_json())

    def wait_ready(self, deadline_s: float) -> None:
        """Until its client is prepared; else it has an outcome."""
        line = self._line(deadline_s)
        if line != READY:
            self.outcome = self._understood(line, STUDY_START_S)

    def begin(self) -> None:
        self._tell(GO)

    def wait_outcome(self, deadline_s: float, wait_s: float) -> JobOutcome:
        return self._understood(self._line(deadline_s), wait_s)

    def end(self) -> None:
        """Ends the process with what it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            if pipe is not None:
                pipe.close()

    def _understood(self, line: str | None, wait_s: float) -> JobOutcome:
        if line is None and self._process.poll() is None:
            return self._failed(f"it took longer than {wait_s:g} s, and was ended")
        try:
            return JobOutcome.from_json(line or "")
        except ValueError:
            code = self._process.wait(timeout=STUDY_START_S)
            return self._failed(f"it died with code {code}: {_said(self._log)}")

    def _failed(self, error: str) -> JobOutcome:
        return JobOutcome(self.request.number, error=error)

    def _tell(self, text: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode() + b"\n")
        except BrokenPipeError:
            return  # It died; its answer says so.

    def _line(self, deadline_s: float) -> str | None:
        """The next line of its answers; None at the deadline or where it ended without one."""
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or not selector.select(left_s):
                    return None
                some = os.read(self._process.stdout.fileno(), 65536)
                self._rest += some
                if not some or len(self._rest) > STUDY_ANSWER_MAX_BYTES:
                    return ""
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace").strip()


def _said(log: IO[bytes]) -> str:
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - TRIAL_LOG_MAX_BYTES))
    return printable(log.read().decode(errors="replace")).strip()
