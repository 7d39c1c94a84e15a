"""`--trace`: every request of a job of ours, of all its processes, as a trace."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from branchline import _core
from branchline.errors import MissingFileError, OptionError
from branchline.report.whole_files import failed_writing
from branchline.tracing.form import UNFINISHED, Trace, check_replaceable
from branchline.tracing.journals import ABOUT, read_journals

#: Where processes look for the folder to which they tell their requests.
VARIABLE = "BRANCHLINE_TRACE"


@contextmanager
def recording(path: Path, command: str) -> Iterator[None]:
    """Records every request inside, by this process and by those that it starts, and writes the trace at the end.

    Until then it is collected in a folder beside, which `recover` reads if the job is killed. Raises OptionError if
    something is recorded already, StorageError if the folder cannot be written to.
    """
    if _core.trace_is_on() or os.environ.get(VARIABLE):
        raise OptionError("a trace is recorded already", hint="end it before another one is begun")
    started = time.time_ns()
    about = {
        "command": command,
        "program": "branchline",
        "host": socket.gethostname(),
        "started_unix_ns": started,
    }
    check_replaceable(path)
    with _held(path, json.dumps(about)) as folder:
        with failed_writing(path):
            _core.trace_begin(str(folder))
        os.environ[VARIABLE] = str(folder.resolve())
        try:
            yield
        finally:
            del os.environ[VARIABLE]
            with failed_writing(path):
                _core.trace_end()
            _finish(folder, path, {"wall_ns": time.time_ns() - started})


@contextmanager
def _held(path: Path, about: str) -> Iterator[Path]:
    """A new folder that nobody else records into or recovers meanwhile. What a killed job left there goes.

    Raises OptionError if another job records there, or the folder is no such folder, StorageError if there is no room.
    """
    folder = path.with_name(path.name + UNFINISHED)
    if folder.exists():
        with _not_in_use(folder):
            shutil.rmtree(folder)
    try:
        with failed_writing(path):
            folder.mkdir(parents=True)
            file = (folder / ABOUT).open("xb", buffering=0)
        with file:
            with failed_writing(path):
                _lock(file.fileno(), folder)
                file.write(about.encode())
            yield folder
    finally:
        # Of what was told something can be recovered, if it could not be written as a trace.
        if folder.is_dir() and not any(folder.glob("*.journal")):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _not_in_use(folder: Path) -> Iterator[None]:
    """Holds what a killed job left. Raises OptionError if the job still runs."""
    if not (folder / ABOUT).is_file():
        raise OptionError(f"{folder} is not what a trace left", hint="remove it, or name another file for the trace")
    with (folder / ABOUT).open("rb") as file:
        _lock(file.fileno(), folder)
        yield


def _lock(file: int, folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        hint = "wait until it has ended, or name another file for the trace"
        raise OptionError(f"a job that still runs records its requests in {folder}", hint=hint) from None
    except OSError:
        pass  # Not all file systems can hold a file; then nobody can tell.


def recover(path: Path) -> Trace:
    """Writes the trace of a job that was killed, from what it left. Raises MissingFileError if it left nothing."""
    folder = path.with_name(path.name + UNFINISHED)
    if not folder.is_dir():
        raise MissingFileError(f"nothing was left of a trace {path}", path=str(path))
    check_replaceable(path)
    with _not_in_use(folder):
        return _finish(folder, path, {"notes": ["The job did not end: its last moments may be missing."]})


def _finish(folder: Path, path: Path, more: dict[str, Any]) -> Trace:
    found = read_journals(folder)
    trace = Trace(found.rows, {**found.about, **more})
    trace.write(path)
    shutil.rmtree(folder)
    return trace
