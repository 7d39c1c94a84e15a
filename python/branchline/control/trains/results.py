"""The result files of a train. Code of users wrote them, so their number, size, type and content are checked.

The server copies results from its own sandbox folder, or from the process of another user, as the same stream of files.
Links and special files are rejected.
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
from branchline.trains.out_folder.lock import JOBS, STATUS

# Header line of a file: JSON may escape every character of its name.
_LINE_MAX_BYTES = 4 * TAKEN_NAME_MAX + 200


def files_of(record: JobRecord | None) -> list[str]:
    """The names of the files that a run wrote, relative to its directory."""
    if record is None:
        return []
    tables = [name for one in record.tables for name in one.files]
    return list(dict.fromkeys([*record.written, *tables]))


def result_file(out: Path, record: JobRecord | None, name: str) -> Path | None:
    """Where a file of the results is: only what the record lists and what lies in the directory, whatever else is
    there; None for anything else.
    """
    if name not in files_of(record):
        return None
    try:
        path = (out / name).resolve()
        return path if path.is_relative_to(out.resolve()) and path.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None


class Stream(Protocol):
    """What files come from."""

    def readline(self, limit: int, /) -> bytes:
        """A line of at most so many bytes."""
        ...

    def read(self, count: int, /) -> bytes:
        """At most so many bytes; none at the end."""
        ...


def content_of(folder: Path, name: str, bytes_max: int) -> bytes:
    """The content of a plain file below a folder in which others write. Raises OSError for a link and whatever else is
    no plain file, ValueError for a longer one.
    """
    with _opened(folder, name) as (file, _):
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise ValueError(f"{name} is longer than {bytes_max} bytes")
    return content


def record_of(folder: Path) -> JobRecord | None:
    """The record of the run that writes to a folder; None if there is none whose values are what they should be."""
    try:
        record = JobRecord.from_dict(json.loads(content_of(folder, JOB, JOB_FILE_MAX_BYTES)))
        check_types(record)
        return record
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def at_work_in(folder: Path) -> TrainStatus | None:
    """What a run says while it works; None if there is nothing whose values are what they should be."""
    try:
        status = TrainStatus.from_dict(json.loads(content_of(folder, STATUS, JOB_FILE_MAX_BYTES)))
        check_types(status)
        return status
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def send_results(folder: Path, to: BinaryIO) -> None:
    """Writes the record of a run and the files that it lists, each behind a line with its name and size."""
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
    """Takes files over into a directory, whose earlier ones they replace once all have come.

    Raises StorageError for what is no result, too much or cut off, or cannot be written.
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
            raise StorageError(f"its results have more than {size(TAKEN_BYTES_MAX)}, and were not taken over")
        path = coming / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Names that differ for the sender may be one file here.
        with path.open("xb") as file:
            _copy(source, file, size_bytes)
    raise StorageError(f"its results have more than {count(TAKEN_FILES_MAX)} files, and were not taken over")


def _announced(line: bytes) -> tuple[str, int] | None:
    """The name and the size of the file that follows; None at the end. Raises StorageError."""
    try:
        plain = json.loads(line)
    except (ValueError, RecursionError):
        raise StorageError("its results were cut off, and were not taken over", retry=True) from None
    if plain == {}:
        return None
    name, size_bytes = (plain.get("name"), plain.get("size_bytes")) if isinstance(plain, dict) else (None, None)
    is_named = isinstance(name, str) and (name == JOB or _is_result(name))
    if not is_named or not isinstance(size_bytes, int) or isinstance(size_bytes, bool) or size_bytes < 0:
        raise StorageError(f"{name!r:.200} is no file of results, and nothing was taken over")
    return str(name), size_bytes


def _copy(source: Stream | BinaryIO, to: BinaryIO, size_bytes: int) -> None:
    left_bytes = size_bytes
    while left_bytes:
        piece = source.read(min(left_bytes, TAKEN_PIECE_BYTES))
        if not piece:
            raise StorageError("its results were cut off, and were not taken over", retry=True)
        to.write(piece)
        left_bytes -= len(piece)


def _is_result(name: str) -> bool:
    """Whether a name can be that of a file of results: below the directory, and nothing that a run begins with. What
    batch jobs begin with is code, as who resumes a train reads it.
    """
    parts = PurePosixPath(name).parts
    if not 0 < len(name) <= TAKEN_NAME_MAX or not name.isprintable() or name != "/".join(parts):
        return False
    is_hidden = any(one.startswith(".") for one in parts)
    return not is_hidden and parts[0] not in (JOBS, STATUS) and ".sqlite" not in name


@contextmanager
def _opened(folder: Path, name: str) -> Iterator[tuple[BinaryIO, int]]:
    """A plain file below a folder, and its size; no part of its path is a link, whenever that is put there."""
    *parents, last = PurePosixPath(name).parts
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for parent in parents:
            below = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
            os.close(place)
            place = below
        # A pipe would be waited for when it is opened.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(last, flags, dir_fd=place), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise StorageError(f"{name} is no plain file", path=str(folder))
            yield file, status.st_size
    finally:
        os.close(place)
