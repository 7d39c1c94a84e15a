"""Writing files so that each appears under its final name only when it is whole."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from branchline.errors import StorageError

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary path next to ``path`` to write to, and rename it to ``path`` when the block ends well.

    The temporary file keeps the suffix of ``path``, since some writers choose their format by it. On any error it is
    removed. Raises StorageError, which names ``path``, when the system refuses to write.
    """
    temporary = path.parent / f".writing-{uuid.uuid4().hex}{path.suffix}"
    try:
        with failed_writing(path):
            _check_replaceable(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


@contextlib.contextmanager
def failed_writing(path: Path) -> Iterator[None]:
    """Turn a refusal of the system inside the block into a StorageError that names ``path``."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise _storage_error(path, error) from error


def check_writable(path: Path) -> None:
    """Raise StorageError, which names ``path``, if no file could be written there; leaves no file."""
    probe = path.parent / f".writing-{uuid.uuid4().hex}{path.suffix}"
    with failed_writing(path):
        _check_replaceable(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()


def _check_replaceable(path: Path) -> None:
    """Raise for a device or a pipe: renaming a file to its name would replace it, for all users if root does so."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise StorageError(f"{path} is a pipe or a device, not a file", path=str(path), hint="name a file")


def write_whole(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path``, which appears only when it is whole. Raises StorageError."""
    with whole_file(path) as temporary:
        temporary.write_bytes(content)


@contextlib.contextmanager
def open_plain(path: Path) -> Iterator[BinaryIO]:
    """Open a plain file for reading that others may have put there. Raises OSError for anything else."""
    # A pipe would be waited for when it is opened.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file", str(path))
        yield file


def read_plain(path: Path, bytes_max: int) -> bytes:
    """The content of a plain file that others may have put there: it is not waited for, and has an end.

    Raises OSError for what cannot be read or is no plain file, ValueError for more than ``bytes_max`` bytes.
    """
    with open_plain(path) as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise ValueError(f"{path} is longer than {bytes_max} bytes")
    return content


def _storage_error(path: Path, error: OSError) -> StorageError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _NO_SPACE:
        return StorageError(
            f"{path} could not be written: {reason}",
            path=str(path),
            hint="make room there or choose another output directory; what was written before is kept",
            retry=True,
        )
    return StorageError(
        f"{path} could not be written: {reason}",
        path=str(path),
        hint="check that the output directory may be written to",
    )
