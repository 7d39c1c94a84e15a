"""What tells the content of a file from another content under the same name, without reading all of it."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from branchline.reading.locations import is_url

XROOTD_SCHEMES = ("root", "roots", "xroot", "xroots")

#: Bytes at the beginning of a ROOT file that hold its sizes and its UUID, which every file that is written gets anew.
HEAD_BYTES = 100


def content_identity(path: str) -> str:
    """Return a text that is another one after any change of a local file: its size, the times of its last changes, and
    a digest of its first bytes. It is empty for a URL, and for what cannot be read.

    The time of the change of the inode (``ctime``) tells a file that was edited and got its old time back.
    """
    if is_url(path):
        return ""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return ""
        head = hashlib.sha256(os.pread(descriptor, HEAD_BYTES, 0)).hexdigest()[:16]
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return f"{status.st_size} bytes, written {status.st_mtime_ns} ns, changed {status.st_ctime_ns} ns, head {head}"


def opened_identity(path: str) -> str:
    """Return what the engine has as the identity of a local file that it opens now; empty for what cannot be read."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    seconds, nanoseconds = divmod(status.st_mtime_ns, 10**9)
    return f"{status.st_size} {status.st_dev}:{status.st_ino} {seconds}.{nanoseconds:09}"


def version_of(url: str, size_bytes: int, identity: str | None) -> str:
    """Return the version of a file at a server, as listings of folders have it, from what its storage gives."""
    version = (identity or "").removeprefix(f"{size_bytes} ")
    if version and url.split("://", 1)[0].lower() in XROOTD_SCHEMES:
        # The listing of a folder says no more than when a file was written.
        return f"written {version.split()[-1]} s"
    return version


def is_other_version(one: str, other: str) -> bool:
    """Return whether two versions of a file at a server differ. A listing may give the time where the file itself has
    an ETag: of these two it is not known.
    """
    if one == other or not one or not other:
        return False
    if one.startswith("written ") and other.startswith("written "):
        return True
    if '"' in one and '"' in other:
        return True
    times = _time_of(one), _time_of(other)
    return None not in times and times[0] != times[1]


def _time_of(version: str) -> datetime | None:
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError):
            found = parse(version)
            return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return None
