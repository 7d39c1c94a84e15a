"""Write files atomically: each file appears under its final name only when it is complete."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from branchline.errors import StorageError, TakenNameError

_DOCTYPE = b"<!doctype html"

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to ``path``, and rename the file to ``path`` if the block succeeds.

    The temporary path has the suffix of ``path``, since some writers choose their format by the suffix. The temporary
    file is removed on any error. Raises StorageError with ``path`` if writing fails.
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
    """Convert an OSError in the block to a StorageError with ``path``."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        if error.errno in _NO_SPACE:
            raise StorageError(
                f"{path} could not be written: {reason}",
                path=str(path),
                hint="free some space or choose another output directory; files written before are kept",
                retry=True,
            ) from error
        raise StorageError(
            f"{path} could not be written: {reason}",
            path=str(path),
            hint="check the permissions of the output directory",
        ) from error


def check_writable(path: Path) -> None:
    """Raise StorageError if no file can be written at ``path``. Does not create the file."""
    probe = path.parent / f".writing-{uuid.uuid4().hex}{path.suffix}"
    with failed_writing(path):
        _check_replaceable(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()


def _check_replaceable(path: Path) -> None:
    """Raise StorageError if ``path`` is a device or a pipe, which a rename would replace with a regular file."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise StorageError(f"{path} is a pipe or a device, not a file", path=str(path), hint="give the path of a file")


def write_whole(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` atomically. Raises StorageError."""
    with whole_file(path) as temporary:
        temporary.write_bytes(content)


def write_html(path: Path, page: str) -> None:
    """Write an HTML page to ``path`` atomically. Raises StorageError, and TakenNameError if the path has something else
    than a page.
    """
    try:
        with open_plain(path) as file:
            is_page = file.read(len(_DOCTYPE)).lower() in (_DOCTYPE, b"")
    except FileNotFoundError:
        is_page = True
    except OSError:
        is_page = False
    if not is_page:
        what = f"{path} exists and is not a page, so it is not replaced"
        raise TakenNameError(what, path=str(path), hint="give another name")
    write_whole(path, page.encode("utf-8"))


@contextlib.contextmanager
def open_plain(path: Path) -> Iterator[BinaryIO]:
    """Open an untrusted path for reading. Raises OSError unless the path is a regular file."""
    # Without O_NONBLOCK, opening a pipe would block.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        yield file


def read_plain(path: Path, bytes_max: int) -> bytes:
    """Return the content of an untrusted path, without blocking on pipes or reading endless devices.

    Raises OSError if the path cannot be read or is not a regular file, and ValueError for more than ``bytes_max``
    bytes.
    """
    with open_plain(path) as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise ValueError(f"{path} is longer than {bytes_max} bytes")
    return content
