"""Disks: loop devices over files that are read with the timing of a kind of disk, file systems on them, and RAIDs."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from branchline.base.quantities import KIB, MB, MIB, rate
from studies.yard.skipping import LackingError

REPOSITORY = Path(__file__).parents[2]
#: Name of the program that serves images.
PROGRAM = "emulated-disk"
#: Maximum relative difference between the measured rate of a disk and the rate of its kind.
OFF_MAX = 0.2
#: Time in which an emulated disk has to appear, and for which its rate is measured.
START_S, MEASURED_S = 10.0, 1.0
#: Priority of the emulation among real-time processes. A real disk does not wait for a processor.
PRIORITY = 10


@dataclass(frozen=True)
class DiskKind:
    """What is emulated.

    A seek takes ``shortest_ms`` to the next track and ``longest_ms`` over the whole disk; after it, the disk turns for
    ``turn_ms`` on average until the data are below the head. The image is the whole disk, as if its files filled it.
    ``read_ahead_bytes`` is the read-ahead of the kernel for the device.
    """

    name: str
    bytes_per_s: int
    shortest_ms: float
    longest_ms: float
    turn_ms: float
    read_ahead_bytes: int = 128 * KIB

    @property
    def seeks_per_s(self) -> float:
        """The number of small reads at random places per second. The mean of the square root of the distance of two
        random places, as a part of the disk, is 8/15.
        """
        return 1000 / (self.shortest_ms + 8 / 15 * (self.longest_ms - self.shortest_ms) + self.turn_ms)


#: A SATA disk of 2008 with 7200 turns per minute, and a slower one of 2009.
HARD_DISK = DiskKind("hard disk, 70 MB/s", 70 * MB, 0.8, 17.0, 4.17)
SLOW_DISK = DiskKind("hard disk, 50 MB/s", 50 * MB, 0.8, 17.0, 4.17)
#: Solid state disks of 2009 and 2013.
SOLID_STATE = DiskKind("solid state disk, 130 MB/s", 130 * MB, 0.1, 0.1, 0.0)
FAST_SOLID_STATE = DiskKind("solid state disk, 266 MB/s", 266 * MB, 0.1, 0.1, 0.0)


class OffLimitError(Exception):
    """An emulated disk is faster or slower than its kind, so that nothing measured on it holds."""


@dataclass(frozen=True)
class EmulatedDisk:
    """A loop device, the process that serves its image, and the folder where it serves it."""

    kind: DiskKind
    device: str
    process: subprocess.Popen[bytes]
    folder: Path

    def check(self) -> float:
        """Read the start of the device for about a second and return the rate in bytes per second. Raises OffLimitError
        if it differs from the rate of the kind by more than OFF_MAX.
        """
        found = sequential_bytes_per_s(self.device, int(MEASURED_S * self.kind.bytes_per_s))
        if abs(found / self.kind.bytes_per_s - 1) > OFF_MAX:
            raise OffLimitError(f"the emulated {self.kind.name}, reads {rate(found, 1.0)}")
        return found

    def close(self) -> None:
        for words in (["losetup", "-d", self.device], ["umount", "-l", str(self.folder)]):
            with suppress(LackingError):
                _run(*words)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(START_S)
        self.process.kill()
        self.process.wait()


class Disks:
    """Emulated disks with file systems on them, mounted below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.emulated: list[EmulatedDisk] = []
        self._mounts: list[Path] = []

    def disk(self, name: str, kind: DiskKind, size_bytes: int) -> tuple[Path, str]:
        """Return the folder where a disk is mounted, and its device."""
        device = self._device(name, kind, size_bytes)
        _run("mkfs.ext4", "-q", "-F", "-E", "nodiscard", device)
        return self._mounted(device, name), device

    def raid(self, name: str, kind: DiskKind, count: int, size_bytes: int, level: str) -> tuple[Path, str]:
        """Return the folder where a RAID of ``count`` disks is mounted, and its first device. It is made by btrfs,
        because kernels in containers often have no md.
        """
        each = max(256 * MB, size_bytes // (count - 1) + 128 * MB)
        devices = [self._device(f"{name}{number}", kind, each) for number in range(count)]
        _run("mkfs.btrfs", "-q", "-f", "-K", "-d", level, "-m", "raid1", *devices)
        return self._mounted(devices[0], name), devices[0]

    def _device(self, name: str, kind: DiskKind, size_bytes: int) -> str:
        image, folder = self._folder / f"{name}.img", self._folder / f"{name}.served"
        with image.open("wb") as file:
            file.truncate(size_bytes // MIB * MIB)
        folder.mkdir()
        microseconds = [str(round(1000 * one)) for one in (kind.shortest_ms, kind.longest_ms, kind.turn_ms)]
        words = [str(_program()), str(image), str(folder), str(kind.bytes_per_s), *microseconds]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        file_ = folder / "disk"
        until_s = time.monotonic() + START_S
        while not file_.exists():
            if process.poll() is not None or time.monotonic() > until_s:
                process.kill()
                process.wait()
                raise LackingError("no file system can be mounted through FUSE, which emulates disks")
            time.sleep(0.01)
        os.sched_setscheduler(process.pid, os.SCHED_FIFO, os.sched_param(PRIORITY))
        try:
            device = _run("losetup", "-f", "--show", "--direct-io=on", str(file_)).strip()
        except LackingError:
            _run("umount", "-l", str(folder))
            process.wait(START_S)
            raise
        self.emulated.append(EmulatedDisk(kind, device, process, folder))
        _run("blockdev", "--setra", str(kind.read_ahead_bytes // 512), device)
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
        for one in reversed(self.emulated):
            one.close()


def sequential_bytes_per_s(device: str, size_bytes: int) -> float:
    """Read the first bytes of a device, bypassing the page cache, and return the rate."""
    descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, MIB) as buffer:
            done, start_s = 0, time.monotonic()
            while done < size_bytes and (read := os.preadv(descriptor, [buffer], done)):
                done += read
            return done / (time.monotonic() - start_s)
    finally:
        os.close(descriptor)


def read_ahead_of(mounted: Path) -> Path:
    """Return the file in which the kernel keeps the read-ahead of a mounted file system, in KiB."""
    number = os.stat(mounted).st_dev
    for one in Path("/sys/class/bdi").iterdir():
        if one.name == f"{os.major(number)}:{os.minor(number)}":
            return one / "read_ahead_kb"
    # Btrfs has its own number, not the number of its device: it counts its file systems.
    own = sorted(Path("/sys/class/bdi").glob("btrfs-*"), key=lambda one: int(one.name.rpartition("-")[2]))
    if not own:
        raise LackingError(f"the read-ahead of {mounted} cannot be set here")
    return own[-1] / "read_ahead_kb"


@cache
def _program() -> Path:
    """Return the program that serves images, which is compiled if its sources have changed."""
    if os.geteuid() != 0:
        raise LackingError("only root may mount emulated disks")
    target = REPOSITORY / "target" / "disk"
    manifest = REPOSITORY / "studies" / "disk" / "Cargo.toml"
    _run("cargo", "build", "--release", "--locked", "--manifest-path", str(manifest), "--target-dir", str(target))
    return target / "release" / PROGRAM


def _run(program: str, *arguments: str) -> str:
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
    if found is None:
        raise LackingError(f"the program {program} is missing")
    done = subprocess.run([found, *arguments], capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise LackingError(f"{program} {' '.join(arguments)}: {done.stderr.strip()[-300:]}")
    return done.stdout
