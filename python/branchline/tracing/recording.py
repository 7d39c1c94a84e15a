"""`--trace`: every request of a job of ours, of all its processes, as a trace."""

from __future__ import annotations

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
from branchline.tracing.form import UNFINISHED, Trace
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
    folder = path.with_name(path.name + UNFINISHED)
    started = time.time_ns()
    about = {
        "command": command,
        "program": "branchline",
        "host": socket.gethostname(),
        "started_unix_ns": started,
    }
    with failed_writing(path):
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        (folder / ABOUT).write_text(json.dumps(about), encoding="utf-8")
        _core.trace_begin(str(folder))
    os.environ[VARIABLE] = str(folder.resolve())
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        with failed_writing(path):
            _core.trace_end()
        _finish(folder, path, {"wall_ns": time.time_ns() - started})


def recover(path: Path) -> Trace:
    """Writes the trace of a job that was killed, from what it left. Raises MissingFileError if it left nothing."""
    folder = path.with_name(path.name + UNFINISHED)
    if not folder.is_dir():
        raise MissingFileError(f"nothing was left of a trace {path}", path=str(path))
    return _finish(folder, path, {"notes": ["The job did not end: its last moments may be missing."]})


def _finish(folder: Path, path: Path, more: dict[str, Any]) -> Trace:
    found = read_journals(folder)
    trace = Trace(found.rows, {**found.about, **more})
    trace.write(path)
    shutil.rmtree(folder)
    return trace
