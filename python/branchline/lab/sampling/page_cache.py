"""Evict files from the page cache, and check that the files are evicted."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from branchline.base.quantities import MIB
from branchline.errors import BranchlineError

BLOCK_BYTES = 8 * MIB
ATTEMPTS = 3
#: Matches the escape sequences of spaces, tabs, newlines and backslashes in mount points (proc(5)).
_OCTAL = re.compile(r"\\(0[0-7]{2}|1[0-7]{2})")


@dataclass(frozen=True)
class Temperature:
    """The state of the page cache before a run: how many of the ``local_bytes`` of some files were cached. ``remark``
    says what is unknown about the state.
    """

    local_bytes: int
    cached_bytes: int
    remark: str = ""

    @classmethod
    def of(cls, files: Sequence[str], remark: str = "") -> Temperature:
        """Return the present state of the page cache for some files."""
        sizes = {one: os.path.getsize(one) for one in files}
        # The last cached page may extend beyond the end of the file.
        return cls(sum(sizes.values()), sum(min(size, cached_bytes(one)) for one, size in sizes.items()), remark)


def fuse_remark(files: Iterable[str]) -> str:
    """Return a remark if files are on a FUSE mount, whose program may cache data in memory or on a disk, which
    mincore(2) does not show. Empty if all files are on kernel file systems.
    """
    points = _fuse_mounts()
    mounts = {one: _mount_of(os.path.realpath(one), points) for one in files} if points else {}
    found = next((one for one in mounts.values() if one), "")
    return f"{found} is a FUSE mount, whose own cache is not known and may be warm" if found else ""


def _fuse_mounts() -> dict[str, bool]:
    """Return all mount points, and whether each is a FUSE mount; empty if there are no FUSE mounts.

    In /proc/PID/mountinfo (proc(5)), the type of the file system is the first field after the hyphen. Disks with a FUSE
    driver (fuseblk) do not count, since they are local devices.
    """
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return {}
    points = {}
    for line in lines:
        before, _, behind = line.partition(" - ")
        point = _OCTAL.sub(lambda one: chr(int(one.group(1), 8)), before.split()[4])
        points[point] = behind.split(" ", 1)[0].partition(".")[0] == "fuse"
    return points if any(points.values()) else {}


def _mount_of(path: str, points: Mapping[str, bool]) -> str:
    """Return the mount point of a path if it is a FUSE mount; otherwise an empty string."""
    within = [one for one in points if path == one or path.startswith(one.rstrip("/") + "/")]
    deepest = max(within, key=len, default="")
    return deepest if points.get(deepest) else ""


class StillCachedError(BranchlineError):
    """The system keeps pages of a file in the page cache although it was asked to drop them."""


def forget(files: Iterable[str]) -> None:
    """Ask the system to evict files from the page cache. Dirty pages are written to disk first."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def cached_bytes(path: str) -> int:
    """Return how many bytes of a file are in the page cache according to mincore(2), rounded up to whole pages."""
    size = os.path.getsize(path)
    if size == 0:
        return 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapped:
        content = np.frombuffer(mapped, "u1")
        pages = np.zeros(-(-size // mmap.PAGESIZE), "u1")
        libc = ctypes.CDLL(None, use_errno=True)
        arguments = ctypes.c_void_p(content.ctypes.data), ctypes.c_size_t(size), ctypes.c_void_p(pages.ctypes.data)
        failed = libc.mincore(*arguments)
        del content, arguments  # a mapping cannot be closed while arrays refer to it
        if failed:
            raise OSError(ctypes.get_errno(), "mincore failed", path)
    return int((pages & 1).sum()) * mmap.PAGESIZE


def make_cold(files: list[str]) -> None:
    """Evict files from the page cache. Raises StillCachedError if pages remain."""
    for _ in range(ATTEMPTS):
        forget(files)
        left = {path: size for path in files if (size := cached_bytes(path))}
        if not left:
            return
        time.sleep(0.2)
    path, size = next(iter(left.items()))
    what = f"{size} bytes of {path} stay in the page cache"
    raise StillCachedError(what, path=path, hint="check whether another program reads the file")


def sequential_bytes_per_s(path: str) -> float:
    """Return the throughput of a disk, measured by evicting a file from the page cache and reading it sequentially."""
    make_cold([path])
    begin_s, size = time.perf_counter(), 0
    with open(path, "rb", buffering=0) as file:
        while block := file.read(BLOCK_BYTES):
            size += len(block)
    return size / (time.perf_counter() - begin_s)
