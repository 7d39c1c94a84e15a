"""Write files atomically: each file appears under its final name only when it is complete."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from branchline.base.quantities import duration
from branchline.base.texts import print_line
from branchline.errors import StorageError, TakenNameError

_DOCTYPE = b"<!doctype html"

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
#: Errors of a directory that may end within minutes: it is full or read-only, or its server does not respond.
_PASSING = _NO_SPACE | {
    errno.EROFS,
    errno.EIO,
    errno.ESTALE,
    errno.ENOTCONN,
    errno.ENODEV,
    errno.ETIMEDOUT,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
}
#: Pauses between attempts to write; each is twice as long as the one before.
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.5, 15.0
Value = TypeVar("Value")


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


def retried(folder: Path, action: Callable[[], Value], wait_s: float, stops: Callable[[], bool]) -> Value:
    """Return the result of a function that reads or writes files in a folder.

    While the folder is missing, full, read-only or unreachable, the function is called again, for at most ``wait_s`` or
    until ``stops`` returns True. Each failure is printed. Raises the last error.
    """
    end_s = time.monotonic() + wait_s
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return action()
        except OSError as error:
            left_s = end_s - time.monotonic()
            if left_s <= 0 or stops() or not may_pass(error, folder):
                raise
            with contextlib.suppress(OSError):  # the output may be a file in the same folder
                print_line(f"{error}; trying again for up to {duration(left_s)}")
        time.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, _LAST_PAUSE_S)


def may_pass(error: BaseException, folder: Path) -> bool:
    """Return whether a failure to read or write files in a folder may end within minutes: the folder is missing, full,
    read-only or unreachable.
    """
    # Errors that are raised "from None" keep the original error as their context.
    cause = error if getattr(error, "errno", None) else error.__cause__ or error.__context__
    return (isinstance(cause, OSError) and cause.errno in _PASSING) or not folder.is_dir()


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
