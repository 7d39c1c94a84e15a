"""Files thrown out of the page cache before a pass, and the proof that they are out of it."""

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

from branchline.errors import BranchlineError

BLOCK_BYTES = 8 * 2**20
ATTEMPTS = 3
#: proc(5): a space, a tab, a newline or a backslash in the name of a mount.
_OCTAL = re.compile(r"\\(0[0-7]{2}|1[0-7]{2})")


@dataclass(frozen=True)
class Temperature:
    """How much of the ``local_bytes`` of files the page cache held before a run; ``remark`` says what is not known."""

    local_bytes: int
    cached_bytes: int
    remark: str = ""

    @classmethod
    def of(cls, files: Sequence[str], remark: str = "") -> Temperature:
        """That of files as they are now."""
        sizes = {one: os.path.getsize(one) for one in files}
        # The last page of a file is longer than the file.
        return cls(sum(sizes.values()), sum(min(size, cached_bytes(one)) for one, size in sizes.items()), remark)


def fuse_remark(files: Iterable[str]) -> str:
    """What is not known of files that a program of this machine gives to the kernel: it may keep what it has read in
    its own memory or on a disk, which mincore(2) does not see. Empty where all are of the kernel's own file systems.
    """
    points = _fuse_mounts()
    mounts = {one: _mount_of(os.path.realpath(one), points) for one in files} if points else {}
    found = next((one for one in mounts.values() if one), "")
    return f"{found} is a FUSE mount, whose own cache is not known and may be warm" if found else ""


def _fuse_mounts() -> dict[str, bool]:
    """Where something is mounted, and whether by FUSE (proc(5), /proc/PID/mountinfo: the type of the file system is the
    first field behind the hyphen). A disk of a FUSE driver (fuseblk) is none: its program reads a device here.
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
    """The mount that a path lies in if it is one of FUSE, else an empty text."""
    within = [one for one in points if path == one or path.startswith(one.rstrip("/") + "/")]
    deepest = max(within, key=len, default="")
    return deepest if points.get(deepest) else ""


class StillCachedError(BranchlineError):
    """The system keeps pages of a file though it was asked to drop them."""


def forget(files: Iterable[str]) -> None:
    """Asks the system to throw files out of the page cache, which it does with pages that are on the disk."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def cached_bytes(path: str) -> int:
    """How much of a file is in the page cache, as mincore(2) says."""
    size = os.path.getsize(path)
    if size == 0:
        return 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapped:
        content = np.frombuffer(mapped, "u1")
        pages = np.zeros(-(-size // mmap.PAGESIZE), "u1")
        libc = ctypes.CDLL(None, use_errno=True)
        arguments = ctypes.c_void_p(content.ctypes.data), ctypes.c_size_t(size), ctypes.c_void_p(pages.ctypes.data)
        failed = libc.mincore(*arguments)
        del content, arguments  # a mapping can be closed when nothing points into it
        if failed:
            raise OSError(ctypes.get_errno(), "mincore failed", path)
    return int((pages & 1).sum()) * mmap.PAGESIZE


def make_cold(files: list[str]) -> None:
    """Throws files out of the page cache; StillCachedError if they do not leave it."""
    for _ in range(ATTEMPTS):
        forget(files)
        left = {path: size for path in files if (size := cached_bytes(path))}
        if not left:
            return
        time.sleep(0.2)
    path, size = next(iter(left.items()))
    what = f"{size} bytes of {path} stay in the page cache"
    raise StillCachedError(what, path=path, hint="does another program read it?")


def sequential_bytes_per_s(path: str) -> float:
    """What the disk gives of a file that is read from its begin to its end and is in no page cache."""
    make_cold([path])
    begin_s, size = time.perf_counter(), 0
    with open(path, "rb", buffering=0) as file:
        while block := file.read(BLOCK_BYTES):
            size += len(block)
    return size / (time.perf_counter() - begin_s)
