"""Disks: loop devices over sparse files with the rate and the requests per second of a kind of disk, and RAIDs."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from studies.yard.caps import Group
from studies.yard.skipping import LackingError

MB = 10**6


@dataclass(frozen=True)
class DiskKind:
    """What is emulated. ``read_ahead_bytes`` is the kernel's for the device. A cap counts requests wherever they are
    on the disk; the heads of a real disk take longer the farther they go.
    """

    name: str
    bytes_per_s: int
    requests_per_s: int
    read_ahead_bytes: int = 128 * 1024


#: The single SATA disk of 2008: hdparm gave 70 MB/s. So many requests of 128 KiB make this rate.
HARD_DISK = DiskKind("hard disk, 70 MB/s", 70 * MB, 540)
#: That of 2009, beside which a solid state disk of 130 MB/s was set, and that of 2013 with 266 MB/s.
SLOW_DISK = DiskKind("hard disk, 50 MB/s", 50 * MB, 390)
SOLID_STATE = DiskKind("solid state disk, 130 MB/s", 130 * MB, 20_000)
FAST_SOLID_STATE = DiskKind("solid state disk, 266 MB/s", 266 * MB, 20_000)


class Disks:
    """Loop devices with file systems on them, mounted below a folder."""

    def __init__(self, folder: Path, group: Group) -> None:
        self._folder, self._group = folder, group
        self._devices: list[str] = []
        self._mounts: list[Path] = []

    def disk(self, name: str, kind: DiskKind, size_bytes: int) -> tuple[Path, str]:
        """A mounted disk, and its device."""
        device = self._device(name, kind, size_bytes)
        _run("mkfs.ext4", "-q", "-F", "-E", "nodiscard", device)
        return self._mounted(device, name), device

    def raid(self, name: str, kind: DiskKind, count: int, size_bytes: int, level: str) -> tuple[Path, str]:
        """A RAID of so many disks by btrfs, which does what md does where the kernel has no md."""
        each = max(256 * MB, size_bytes // (count - 1) + 128 * MB)
        devices = [self._device(f"{name}{number}", kind, each) for number in range(count)]
        _run("mkfs.btrfs", "-q", "-f", "-K", "-d", level, "-m", "raid1", *devices)
        return self._mounted(devices[0], name), devices[0]

    def _device(self, name: str, kind: DiskKind, size_bytes: int) -> str:
        image = self._folder / f"{name}.img"
        with image.open("wb") as file:
            file.truncate(size_bytes)
        device = _run("losetup", "-f", "--show", "--direct-io=on", str(image)).strip()
        self._devices.append(device)
        _run("blockdev", "--setra", str(kind.read_ahead_bytes // 512), device)
        self._group.cap(device, kind.bytes_per_s, kind.requests_per_s)
        return device

    def _mounted(self, device: str, name: str) -> Path:
        place = self._folder / name
        place.mkdir()
        _run("mount", "-o", "noatime", device, str(place))
        self._mounts.append(place)
        place.chmod(0o755)
        return place

    def close(self) -> None:
        for place in reversed(self._mounts):
            with suppress(LackingError):
                _run("umount", "-l", str(place))
        for device in reversed(self._devices):
            with suppress(LackingError):
                _run("losetup", "-d", device)


def read_ahead_of(mounted: Path) -> Path:
    """Where the kernel has the read-ahead of a mounted file system, in KiB."""
    number = os.stat(mounted).st_dev
    for one in Path("/sys/class/bdi").iterdir():
        if one.name == f"{os.major(number)}:{os.minor(number)}":
            return one / "read_ahead_kb"
    # The numbers of btrfs are not those of its device: it counts its file systems.
    own = sorted(Path("/sys/class/bdi").glob("btrfs-*"), key=lambda one: int(one.name.rpartition("-")[2]))
    if not own:
        raise LackingError(f"the read-ahead of {mounted} cannot be set here")
    return own[-1] / "read_ahead_kb"


def _run(program: str, *arguments: str) -> str:
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
    if found is None:
        raise LackingError(f"the program {program} is missing")
    done = subprocess.run([found, *arguments], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise LackingError(f"{program} {' '.join(arguments)}: {done.stderr.strip()[-300:]}")
    return done.stdout
