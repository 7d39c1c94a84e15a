"""`--trace`: records every request of all processes of a job as a trace."""

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
from branchline.base.whole_files import failed_writing
from branchline.errors import MissingFileError, OptionError
from branchline.tracing.journals import INCOMPLETE, JOB_FILE, read_journals
from branchline.tracing.trace import UNFINISHED, Trace, TracedJob, check_replaceable

#: The environment variable with the folder in which processes record their requests.
VARIABLE = "BRANCHLINE_TRACE"
#: Tries to take a folder that other jobs remove at the same moment.
CLAIMS_MAX = 20


@contextmanager
def recording(path: Path, command: str) -> Iterator[None]:
    """Records every request inside, by this process and by those that it starts, and writes the trace at the end.

    Until then requests are collected in a folder next to it, which `recover` reads if the job is killed.
    Raises OptionError if something is recorded already, StorageError if the folder cannot be written to.
    """
    if _core.trace_is_on() or os.environ.get(VARIABLE):
        raise OptionError("a trace is being recorded already", hint="end it before you begin another one")
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
    """A folder without journals that no other job may use until the end. What a killed job left in it is removed.

    Raises OptionError if another job records there, or the folder is no such folder, StorageError if there is no room.
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
            # Journals that could not be written as a trace stay, so that they can be recovered.
            if _is_at(file, folder) and not any(folder.glob("*.journal")):
                _remove(folder)


def _claimed(folder: Path, *, makes: bool) -> FileIO:
    """The locked file that describes the job of a folder; ``makes`` creates it if there is none.

    Raises OptionError if a running job holds it, or the folder is not one for traces.
    """
    in_use = OptionError(
        f"a job that still runs records its requests in {folder}",
        hint="wait until it has ended, or name another file for the trace",
    )
    why = in_use
    # Another job may end between any two of these steps and remove its folder: then all steps are repeated.
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
    return OptionError(f"{folder} is not what a trace left", hint="remove it, or name another file for the trace")


def _is_free(file: FileIO) -> bool:
    """Locks a file. False if another has done so."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # Some file systems have no locks; then the file counts as free.
    return True


def _is_at(file: FileIO, folder: Path) -> bool:
    """Whether a file is still the one that describes the job of the folder."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), (folder / JOB_FILE).stat())
    except OSError:
        return False


def _remove(folder: Path) -> None:
    """Removes a folder that we hold. It is renamed first, so that another job may create it again at once."""
    going = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
    folder.rename(going)
    shutil.rmtree(going, ignore_errors=True)


def recover(path: Path) -> Trace:
    """Writes the trace of a killed job from its journals. Raises MissingFileError if there are none."""
    folder = path.with_name(path.name + UNFINISHED)
    if not folder.is_dir():
        what = f"no killed job left requests for a trace {path}"
        raise MissingFileError(what, path=str(path), hint=f"they would be in the folder {folder}")
    check_replaceable(path)
    with _claimed(folder, makes=False):
        return _finish(folder, path, notes=("The job did not end: its last moments may be missing.",))


def _finish(folder: Path, path: Path, notes: tuple[str, ...] = (), wall_ns: int | None = None) -> Trace:
    found = read_journals(folder)
    job = found.job if wall_ns is None else replace(found.job, wall_ns=wall_ns)
    trace = replace(found, job=replace(job, notes=(*job.notes, *notes)))
    trace.write(path)
    _remove(folder)
    return trace
