"""Run a trial's process and return the trial's outcome, even if the process dies or exceeds its limits."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import IO

from branchline.base.limits import TRIAL_LOG_MAX_BYTES, TRIAL_OUTCOME_MAX_BYTES, TRIAL_WALL_S
from branchline.base.processes import own_python
from branchline.base.texts import end_of_log
from branchline.base.whole_files import write_whole
from branchline.control.sandbox.code_rules import CodeRunning
from branchline.control.sandbox.sandbox import on_data
from branchline.control.sandbox.watch import TRIAL_MARK, OutcomePipe, ProcessWatch, end_all
from branchline.control.trials.trial import TrialOutcome, TrialRequest

_REQUEST = "request.json"
# Polling interval in seconds while a trial runs.
_LOOK_S = 0.1


def run_trial(
    request: TrialRequest, folder: Path, running: CodeRunning, stopped: threading.Event
) -> TrialOutcome | None:
    """Run a trial in a separate process, in the sandbox if ``running`` has one. Return None if ``stopped`` was set.

    The process and its descendants are killed after TRIAL_WALL_S seconds, or when they exceed their limits. Raises
    StorageError, and OptionError for files that the sandbox cannot read.
    """
    readable: list[Path] = []
    sandbox = running.sandbox
    if sandbox is not None:
        hint = "add a short sample of the dataset on this machine"
        request = replace(request, files=on_data(request.files, running.data, hint))
        readable = [one for one in running.data if one.exists()]
    write_whole(folder / _REQUEST, json.dumps(request.as_dict()).encode())
    mark = secrets.token_hex(16)
    with OutcomePipe() as pipe, tempfile.TemporaryFile() as log:
        command = [
            *own_python(),
            "-m",
            "branchline.control.trials.trial_process",
            str(folder / _REQUEST),
            str(pipe.writing),
        ]
        if sandbox is not None:
            command = sandbox.command(command, folder, [folder, *readable])
        process = subprocess.Popen(  # noqa: S603 - own program
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            # The sandbox clears its own environment, but the environment of bwrap is readable in /proc.
            env={**os.environ, TRIAL_MARK: mark} if sandbox is None else sandbox.environment,
            pass_fds=[pipe.writing],
        )
        pipe.close_writing()
        try:
            why = _waited_for(process, pipe, stopped)
        finally:
            end_all(process, mark)
        pipe.read()
        if why:
            return TrialOutcome(error=f"{why}{_said(log)}")
        return None if process.returncode == -signal.SIGKILL and stopped.is_set() else _outcome(pipe, process, log)


def _waited_for(process: subprocess.Popen[bytes], pipe: OutcomePipe, stopped: threading.Event) -> str:
    """Wait for the end of a process. Return the reason to kill it; empty if it has ended or ``stopped`` is set."""
    begin_s = time.monotonic()
    watch = ProcessWatch(process.pid)
    while process.poll() is None and not stopped.wait(_LOOK_S):
        pipe.read()
        if pipe.is_too_long:
            return f"its outcome is longer than {TRIAL_OUTCOME_MAX_BYTES} bytes"
        if time.monotonic() - begin_s > TRIAL_WALL_S:
            return f"it ran for more than {TRIAL_WALL_S:.0f} s and was ended"
        if excess := watch.excess():
            return f"{excess} and was ended"
    return ""


def _outcome(pipe: OutcomePipe, process: subprocess.Popen[bytes], log: IO[bytes]) -> TrialOutcome:
    """Parse the outcome that the process wrote. The outcome is untrusted, because the process ran user code."""
    try:
        return TrialOutcome.from_dict(json.loads(bytes(pipe.content)))
    except (ValueError, TypeError, AttributeError, RecursionError):
        code = process.returncode
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        return TrialOutcome(error=f"its process ended {how} without an outcome{_said(log)}")


def _said(log: IO[bytes]) -> str:
    """Return the end of the process's output, as a continuation of an error message."""
    text = end_of_log(log, TRIAL_LOG_MAX_BYTES)
    return f"; its last output:\n{text}" if text else ""
