"""Caps on what processes read from a block device, by the controller of the kernel: cgroup v2's or v1's."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from studies.yard.skipping import LackingError

_UNIFIED, _BLKIO = Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/blkio")


class Group:
    """A group of processes, this one and all that it starts from now on, whose reads are capped for each device."""

    def __init__(self) -> None:
        self._home, self._is_new = _controller()
        self._folder = self._home / f"branchline-studies-{os.getpid()}"
        try:
            self._folder.mkdir(exist_ok=True)
            (self._folder / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
        except OSError as error:
            raise LackingError(f"no group of processes can be made to cap disks ({error.strerror})") from None

    def cap(self, device: str, bytes_per_s: int, requests_per_s: int) -> None:
        """Caps reads from a device, such as /dev/loop3."""
        number = os.stat(device).st_rdev
        place = f"{os.major(number)}:{os.minor(number)}"
        try:
            if self._is_new:
                text = f"{place} rbps={bytes_per_s} riops={requests_per_s}"
                (self._folder / "io.max").write_text(text, encoding="ascii")
                return
            for name, value in (("bps", bytes_per_s), ("iops", requests_per_s)):
                path = self._folder / f"blkio.throttle.read_{name}_device"
                path.write_text(f"{place} {value}", encoding="ascii")
        except OSError as error:
            raise LackingError(f"reads from {device} cannot be capped ({error.strerror})") from None

    def close(self) -> None:
        """This process leaves the group, which is removed when what it started has ended."""
        with suppress(OSError):
            (self._home / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
        with suppress(OSError):
            self._folder.rmdir()


def _controller() -> tuple[Path, bool]:
    """The folder of the controller, and whether it is that of version 2."""
    if os.geteuid() != 0:
        raise LackingError("only root may cap disks")
    if (_BLKIO / "blkio.throttle.read_bps_device").exists() or (_BLKIO / "cgroup.procs").exists():
        return _BLKIO, False
    with suppress(OSError):
        if "io" in (_UNIFIED / "cgroup.controllers").read_text(encoding="ascii").split():
            (_UNIFIED / "cgroup.subtree_control").write_text("+io", encoding="ascii")
            return _UNIFIED, True
    raise LackingError("the kernel has no controller of input and output: neither io of cgroup v2 nor blkio of v1")
