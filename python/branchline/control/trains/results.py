"""Read, send and receive a train's result files.

User code wrote the files, so their number, size, type and content are checked. Links and special files are rejected.
The server receives results from its own sandbox folder or from another user's process, in the same stream format.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from branchline.base.limits import JOB_FILE_MAX_BYTES
from branchline.base.plain import check_types
from branchline.base.quantities import count, size
from branchline.base.whole_files import failed_writing
from branchline.control.sandbox.sandbox import TAKEN_BYTES_MAX, TAKEN_FILES_MAX, TAKEN_NAME_MAX, TAKEN_PIECE_BYTES
from branchline.errors import StorageError
from branchline.records.result_files.job_files import JOB
from branchline.records.sensors.record import JobRecord
from branchline.records.sensors.status import TrainStatus
from branchline.trains.out_folder.claim import JOBS, STATUS

# Maximum length of the header line before a file in the stream. JSON may escape each character of the file name.
_LINE_MAX_BYTES = 4 * TAKEN_NAME_MAX + 200


def files_of(record: JobRecord | None) -> list[str]:
    """Return the paths of the result files that a run's record lists, relative to the run's directory."""
    if record is None:
        return []
    tables = [name for one in record.tables for name in one.files]
    return list(dict.fromkeys([*record.written, *tables]))


def result_file(out: Path, record: JobRecord | None, name: str) -> Path | None:
    """Return the path of the result file ``name`` of a run with output directory ``out``.

    Returns None if the record does not list the file, or if the path leads out of the directory.
    """
    if name not in files_of(record):
        return None
    try:
        path = (out / name).resolve()
        return path if path.is_relative_to(out.resolve()) and path.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None


class Stream(Protocol):
    """A readable stream of result files."""

    def readline(self, limit: int, /) -> bytes:
        """Read a line of at most ``limit`` bytes."""
        ...

    def read(self, count: int, /) -> bytes:
        """Read at most ``count`` bytes. Returns no bytes at the end of the stream."""
        ...


def content_of(folder: Path, name: str, bytes_max: int) -> bytes:
    """Read a regular file from a folder to which user code can write.

    Raises OSError for links and special files, and ValueError for files with more than ``bytes_max`` bytes.
    """
    with _opened(folder, name) as (file, _):
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise ValueError(f"{name} is longer than {bytes_max} bytes")
    return content


def record_of(folder: Path) -> JobRecord | None:
    """Read the record of the run that writes to ``folder``. Returns None if the record is missing or invalid."""
    try:
        record = JobRecord.from_dict(json.loads(content_of(folder, JOB, JOB_FILE_MAX_BYTES)))
        check_types(record)
        return record
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def at_work_in(folder: Path) -> TrainStatus | None:
    """Read the state of a run in progress from its folder. Returns None if the state is missing or invalid."""
    try:
        status = TrainStatus.from_dict(json.loads(content_of(folder, STATUS, JOB_FILE_MAX_BYTES)))
        check_types(status)
        return status
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def send_results(folder: Path, to: BinaryIO) -> None:
    """Write the files that a run's record lists to a stream, then the record.

    A header line with name and size precedes each file. The line ``{}`` marks the end of the stream.
    """
    names = [name for name in files_of(record_of(folder)) if _is_result(name) and name != JOB]
    for name in [*names, JOB]:
        try:
            with _opened(folder, name) as (file, size_bytes):
                to.write(json.dumps({"name": name, "size_bytes": size_bytes}).encode() + b"\n")
                _copy(file, to, size_bytes)
        except FileNotFoundError:
            continue
    to.write(b"{}\n")


def receive_results(source: Stream, results: Path) -> None:
    """Receive result files. When all files have arrived, they replace the content of the folder ``results``.

    Raises StorageError for invalid names, too many files or bytes, a truncated stream, and failed writes.
    """
    coming = results.with_name("coming")
    with failed_writing(coming):
        shutil.rmtree(coming, ignore_errors=True)
        coming.mkdir()
        try:
            _receive_all(source, coming)
            shutil.rmtree(results, ignore_errors=True)
            coming.rename(results)
        finally:
            shutil.rmtree(coming, ignore_errors=True)


def _receive_all(source: Stream, coming: Path) -> None:
    left_bytes = TAKEN_BYTES_MAX
    for _ in range(TAKEN_FILES_MAX + 1):
        announced = _announced(source.readline(_LINE_MAX_BYTES))
        if announced is None:
            return
        name, size_bytes = announced
        left_bytes -= size_bytes
        if left_bytes < 0:
            raise StorageError(f"the results have more than {size(TAKEN_BYTES_MAX)} and were not copied")
        path = coming / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Mode "x" fails if the file exists: on a case-insensitive file system, two names can denote one file.
        with path.open("xb") as file:
            _copy(source, file, size_bytes)
    raise StorageError(f"the results have more than {count(TAKEN_FILES_MAX)} files and were not copied")


def _announced(line: bytes) -> tuple[str, int] | None:
    """Parse a header line into file name and size; None for the end marker. Raises StorageError for invalid lines."""
    try:
        plain = json.loads(line)
    except (ValueError, RecursionError):
        raise StorageError("the results were truncated and not copied", retry=True) from None
    if plain == {}:
        return None
    name, size_bytes = (plain.get("name"), plain.get("size_bytes")) if isinstance(plain, dict) else (None, None)
    is_named = isinstance(name, str) and (name == JOB or _is_result(name))
    if not is_named or not isinstance(size_bytes, int) or isinstance(size_bytes, bool) or size_bytes < 0:
        raise StorageError(f"invalid result file {name!r:.200}; no results were copied")
    return str(name), size_bytes


def _copy(source: Stream | BinaryIO, to: BinaryIO, size_bytes: int) -> None:
    left_bytes = size_bytes
    while left_bytes:
        piece = source.read(min(left_bytes, TAKEN_PIECE_BYTES))
        if not piece:
            raise StorageError("the results were truncated and not copied", retry=True)
        to.write(piece)
        left_bytes -= len(piece)


def _is_result(name: str) -> bool:
    """Whether a name is valid for a result file: a relative path, and not the name of an internal file of a run.

    Batch job files are internal files, because resuming a train executes them.
    """
    parts = PurePosixPath(name).parts
    if not 0 < len(name) <= TAKEN_NAME_MAX or not name.isprintable() or name != "/".join(parts):
        return False
    is_hidden = any(one.startswith(".") for one in parts)
    return not is_hidden and parts[0] not in (JOBS, STATUS) and ".sqlite" not in name


@contextmanager
def _opened(folder: Path, name: str) -> Iterator[tuple[BinaryIO, int]]:
    """Open a regular file in a folder without following links and without race conditions. Yield file and size."""
    *parents, last = PurePosixPath(name).parts
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for parent in parents:
            below = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
            os.close(place)
            place = below
        # O_NONBLOCK, because opening a named pipe would otherwise block.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(last, flags, dir_fd=place), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise StorageError(f"{name} is not a regular file", path=str(folder))
            yield file, status.st_size
    finally:
        os.close(place)
