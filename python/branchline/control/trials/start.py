"""Starting the process of a trial, and what came of it whatever happened to the process."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from branchline.base.limits import TRIAL_LOG_MAX_BYTES, TRIAL_OUTCOME_MAX_BYTES, TRIAL_WALL_S
from branchline.base.processes import own_python
from branchline.base.texts import printable
from branchline.base.whole_files import write_whole
from branchline.control.sandbox.code_rules import CodeRunning
from branchline.control.sandbox.sandbox import on_data
from branchline.control.sandbox.watch import TRIAL_MARK, OutcomePipe, Watch, end_all
from branchline.control.trials.trial import TrialOutcome, TrialRequest

_REQUEST = "request.json"
# The stop of the server is noticed so fast.
_LOOK_S = 0.1


def run_trial(
    request: TrialRequest, folder: Path, running: CodeRunning, stopped: threading.Event
) -> TrialOutcome | None:
    """Runs it in a process of its own, in the sandbox if there is one; None if ``stopped`` ended it.

    The process, and all that it starts, end after TRIAL_WALL_S seconds, or when they take too much together. Raises
    StorageError, OptionError.
    """
    readable: list[Path] = []
    sandbox = running.sandbox
    if sandbox is not None:
        request = _on_data(request, running.data)
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
        process = subprocess.Popen(  # noqa: S603 - the program is ours
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            # What the sandbox clears can still be read of the program that makes it.
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
    """Waits for the end of a process, or until it has to be ended; why that is, empty if it ended or was stopped."""
    begin_s = time.monotonic()
    watch = Watch(process.pid)
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
    """What the process wrote; it ran code of users, so nothing of it is believed."""
    try:
        return TrialOutcome.from_dict(json.loads(bytes(pipe.content)))
    except (ValueError, TypeError, AttributeError, RecursionError):
        code = process.returncode
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        return TrialOutcome(error=f"its process ended {how} and without an outcome{_said(log)}")


def _said(log: IO[bytes]) -> str:
    """The end of what the process wrote to its terminal."""
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - TRIAL_LOG_MAX_BYTES))
    text = printable(log.read().decode(errors="replace")).strip()
    return f"; the last that it wrote:\n{text}" if text else ""


def _on_data(request: TrialRequest, data: Sequence[Path]) -> TrialRequest:
    """The request with files that the sandbox has. Raises OptionError for others."""
    hint = "give the dataset a short sample on this machine"
    return replace(request, files=on_data(request.files, data, hint))
