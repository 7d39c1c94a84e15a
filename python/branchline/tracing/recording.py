"""`--trace`: records all requests of all processes of a job as a trace."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import FileIO
from pathlib import Path

from branchline import _core
from branchline.base.environment import TRACE
from branchline.base.whole_files import failed_writing
from branchline.errors import MissingFileError, OptionError
from branchline.tracing.journals import INCOMPLETE, JOB_FILE, read_journals
from branchline.tracing.trace import UNFINISHED, Trace, TracedJob, check_replaceable

#: Name of the environment variable that contains the folder in which processes record their requests.
VARIABLE = TRACE
#: Maximum number of attempts to lock a folder that other jobs remove at the same time.
CLAIMS_MAX = 20


@contextmanager
def recording(path: Path, command: str) -> Iterator[None]:
    """Record all requests in the context, by this process and its child processes, and write the trace at the end.

    Until then, requests are collected in a folder next to the trace, which `recover` reads if the job is killed.
    Raises OptionError if a trace is already being recorded, StorageError if the folder cannot be written to.
    """
    if _core.trace_is_on() or os.environ.get(VARIABLE):
        raise OptionError("a trace is already being recorded", hint="end it before starting another one")
    started = time.time_ns()
    job = TracedJob(command, "branchline", socket.gethostname(), started)
    check_replaceable(path)
    with _held(path, job) as folder:
        with failed_writing(path):
            _core.trace_begin(str(folder))
        os.environ[VARIABLE] = str(folder.resolve())
        try:
            yield
        finally:
            del os.environ[VARIABLE]
            with failed_writing(path):
                _core.trace_end()
            _finish(folder, path, wall_ns=time.time_ns() - started)


@contextmanager
def _held(path: Path, job: TracedJob) -> Iterator[Path]:
    """Create and lock an empty folder for journals, and remove the files that a killed job left in the folder.

    Raises OptionError if another job records in the folder, or if the folder contains something other than journals,
    and StorageError if the disk is full.
    """
    folder = path.with_name(path.name + UNFINISHED)
    if folder.is_file():
        raise _foreign(folder)
    with failed_writing(path):
        file = _claimed(folder, makes=True)
    with file:
        try:
            with failed_writing(path):
                for left in (*folder.glob("*.journal"), *folder.glob(f"*{INCOMPLETE}")):
                    left.unlink()
                file.truncate(0)
                file.write(json.dumps(job.to_json()).encode())
            yield folder
        finally:
            # If the trace could not be written, keep the journals for `recover`.
            if _is_at(file, folder) and not any(folder.glob("*.journal")):
                _remove(folder)


def _claimed(folder: Path, *, makes: bool) -> FileIO:
    """Lock and return the file that describes the job of a folder. With ``makes``, create the file if necessary.

    Raises OptionError if a running job holds the lock, or if the folder contains something other than journals.
    """
    in_use = OptionError(
        f"a running job records its requests in {folder}",
        hint="wait until it has ended, or choose another file for the trace",
    )
    why = in_use
    # Another job may remove the folder at any point of the loop body, so each attempt repeats all steps.
    for _ in range(CLAIMS_MAX):
        try:
            if makes:
                folder.mkdir(parents=True, exist_ok=True)
            inside = {path.name for path in folder.iterdir()}
            if JOB_FILE not in inside and (inside or not makes):
                why = _foreign(folder)
                continue
            file = FileIO(folder / JOB_FILE, "a" if makes else "r")
        except (FileNotFoundError, FileExistsError):
            continue
        is_free, why = _is_free(file), in_use
        is_at = _is_at(file, folder)
        if is_free and is_at:
            return file
        file.close()
        if is_at:
            break
    raise why


def _foreign(folder: Path) -> OptionError:
    hint = "remove it, or choose another file for the trace"
    return OptionError(f"{folder} is not a folder with request journals", hint=hint)


def _is_free(file: FileIO) -> bool:
    """Lock a file; returns False if it is already locked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # Some file systems do not support locks; treat the file as unlocked.
    return True


def _is_at(file: FileIO, folder: Path) -> bool:
    """Return whether an open file is still the folder's job description, and was not removed or replaced."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), (folder / JOB_FILE).stat())
    except OSError:
        return False


def _remove(folder: Path) -> None:
    """Remove a folder that this process has locked.

    The folder is renamed first, so that another job can create a new one immediately.
    """
    going = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
    folder.rename(going)
    shutil.rmtree(going, ignore_errors=True)


def recover(path: Path) -> Trace:
    """Write the trace of a killed job from its journals. Raises MissingFileError if there are no journals."""
    folder = path.with_name(path.name + UNFINISHED)
    if not folder.is_dir():
        what = f"no journals of a killed job found for the trace {path}"
        raise MissingFileError(what, path=str(path), hint=f"they would be in the folder {folder}")
    check_replaceable(path)
    with _claimed(folder, makes=False):
        return _finish(folder, path, notes=("The job was killed: its last moments may be missing.",))


def _finish(folder: Path, path: Path, notes: tuple[str, ...] = (), wall_ns: int | None = None) -> Trace:
    found = read_journals(folder)
    job = found.job if wall_ns is None else replace(found.job, wall_ns=wall_ns)
    trace = replace(found, job=replace(job, notes=(*job.notes, *notes)))
    trace.write(path)
    _remove(folder)
    return trace
