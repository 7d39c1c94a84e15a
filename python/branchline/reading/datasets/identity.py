"""Detects changed files without reading the whole files."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from branchline.base.quantities import NS_PER_S
from branchline.reading.locations import is_url

XROOTD_SCHEMES = ("root", "roots", "xroot", "xroots")

#: Number of bytes at the start of a file that are hashed. In a ROOT file, they contain the sizes and the UUID, which
#: is different in every written file.
HEAD_BYTES = 100


# Types of checksums that may be given as the version of a file, and their number of hexadecimal digits.
_CHECKSUM_DIGITS = {"adler32": 8, "md5": 32, "sha256": 64}
# Maximum size of a file. Trains divide files by their sizes, so that a wrong size could make billions of sub-jobs.
_SIZE_MAX_BYTES = 10**13
_CHECKSUM = re.compile(r"([a-z0-9]+):([0-9A-Fa-f]+)")


def checksum_version(text: str) -> str:
    """Return a given version, such as ``adler32:0a1b2c3d``, in lower case and with leading zeros. Raises ValueError
    unless it is a known checksum.
    """
    found = _CHECKSUM.fullmatch(text)
    digits_count = _CHECKSUM_DIGITS.get(found[1], 0) if found else 0
    if found is None or len(found[2]) > digits_count:
        known = ", ".join(f"{kind}: and {count} hexadecimal digits" for kind, count in _CHECKSUM_DIGITS.items())
        raise ValueError(f"{text!r:.80} is not a checksum; write {known}")
    return f"{found[1]}:{found[2].lower().zfill(digits_count)}"


def checked_size(given: object) -> int | None:
    """Return the size of a file as given by a list or a catalogue; None if unknown. Raises ValueError."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= _SIZE_MAX_BYTES:
        raise ValueError(f"a file's size is {given!r:.80}, not a number of bytes up to {_SIZE_MAX_BYTES}")
    return given


def content_identity(path: str) -> str:
    """Return a string that changes whenever a local file changes; empty for URLs and unreadable files.

    The string contains the file's size, its modification time, its inode change time, and a digest of the first bytes.
    The inode change time (``ctime``) detects edited files whose modification time was restored.
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
    """Return the identity that the engine would report when it opens a local file; empty for unreadable files."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    seconds, nanoseconds = divmod(status.st_mtime_ns, NS_PER_S)
    return f"{status.st_size} {status.st_dev}:{status.st_ino} {seconds}.{nanoseconds:09}"


def version_of(url: str, size_bytes: int, identity: str | None) -> str:
    """Convert the identity that the storage reports for a remote file to the version format of folder listings."""
    version = (identity or "").removeprefix(f"{size_bytes} ")
    if version and url.split("://", 1)[0].lower() in XROOTD_SCHEMES:
        # Keep only the modification time, since a folder listing contains nothing else.
        return f"written {version.split()[-1]} s"
    return version


def is_checksum(version: str) -> bool:
    """Whether a version is a checksum from a list or catalogue, and not the modification time or ETag of a server."""
    return version.partition(":")[0] in _CHECKSUM_DIGITS


def is_other_version(one: str, other: str) -> bool:
    """Whether two versions of a remote file differ. Returns False for versions that cannot be compared, such as a
    modification time and an ETag.
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
