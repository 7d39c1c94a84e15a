"""The environment of a sample: other load, busy disks, clock changes, throttled processors, full disks."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from branchline.base.quantities import GB
from branchline.records.sensors.this_process import cpu_count

#: Indices of the fields in the first line of /proc/stat (proc(5)) that count busy time, and of the field that counts
#: the time that the host took away.
_BUSY, _STOLEN = (0, 1, 2, 5, 6, 7), 7
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
#: Thresholds for notes: the fractions of the machine's CPU time that other programs used and that the host took away.
OTHERS_TELLING, STOLEN_TELLING = 0.05, 0.02
#: Minimum fraction of disturbed samples for the machine to count as busy: a ratio is robust against a few of them.
BUSY_PART = 0.25
CLOCK_STEP_TELLING_S = 0.1
DISK_LOW_BYTES = GB
#: Size of a sector in /proc/diskstats, on all devices.
_SECTOR_BYTES = 512
#: Minimum duration in seconds of a sample for its fractions to be meaningful. Shorter samples last only a few ticks of
#: the kernel's clock.
TELLING_S = 0.5


@dataclass(frozen=True)
class Moment:
    """Counters of the machine at a moment.

    CPU times in seconds: of all processes, of this process, of local server processes, and the time that the host took
    away. Numbers of bytes received over the network and over the loopback interface. The number of throttling
    events of the processor. The counters of each block device.
    """

    monotonic_s: float
    clock_s: float
    busy_s: float
    own_s: float
    stolen_s: float
    servers_s: float
    network_bytes: int
    loopback_bytes: int
    throttled: int
    devices: dict[int, DeviceCounts]

    @classmethod
    def now(cls, servers: Collection[str] = (), devices: Collection[int] = ()) -> Moment:
        """Read the counters. ``servers`` are names of processes as in /proc/PID/comm, ``devices`` device numbers as
        returned by ``devices_of``.
        """
        fields = [int(one) for one in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]]
        network, loopback = _network_bytes()
        return cls(
            time.monotonic(),
            time.time(),
            sum(fields[one] for one in _BUSY) / _TICKS_PER_S,
            time.process_time(),
            fields[_STOLEN] / _TICKS_PER_S,
            sum(_cpu_s(one) for one in _processes(servers)) if servers else 0.0,
            network,
            loopback,
            _throttled(),
            _device_counts(devices),
        )


@dataclass(frozen=True)
class DeviceCounts:
    """Bytes read from a block device, and the time in seconds for which it had requests."""

    read_bytes: int
    busy_s: float


@dataclass(frozen=True)
class Surroundings:
    """Activity on the machine during a sample.

    - ``others_share`` and ``stolen_share`` are the fractions of the machine's CPU time that other programs used and
      that the host of a virtual machine took away.
    - ``throttled`` is the number of throttling events of the processor.
    - ``cores`` is the number of processors that the jobs may use; 0 if unknown.
    - ``device_bytes`` is the number of bytes read from the block devices of the files, by any program, and
      ``device_busy_share`` the fraction of the time for which the busiest of them had requests. Both are None for files
      that are not on a block device of this machine.
    - ``received_before_bytes`` is the sum of the network and loopback counters at the start.
    """

    others_share: float = 0.0
    server_cpu_s: float = 0.0
    network_bytes: int = 0
    loopback_bytes: int = 0
    load: float = 0.0
    notes: tuple[str, ...] = ()
    received_before_bytes: int = 0
    stolen_share: float = 0.0
    throttled: int = 0
    cores: int = 0
    device_bytes: int | None = None
    device_busy_share: float | None = None

    @classmethod
    def between(cls, before: Moment, after: Moment, jobs_cpu_s: float, folder: Path) -> Surroundings:
        """Return the activity between two moments. ``folder`` is on the disk whose free space is checked."""
        whole_s = max(after.monotonic_s - before.monotonic_s, 1e-9)
        cores_s = whole_s * (os.cpu_count() or 1)
        servers_s = after.servers_s - before.servers_s
        stolen_s = after.stolen_s - before.stolen_s
        known_s = stolen_s + servers_s + jobs_cpu_s + after.own_s - before.own_s
        others_s = max(0.0, after.busy_s - before.busy_s - known_s)
        device_use = [
            DeviceCounts(after.devices[number].read_bytes - one.read_bytes, after.devices[number].busy_s - one.busy_s)
            for number, one in before.devices.items()
            if number in after.devices
        ]
        notes = []
        if whole_s >= TELLING_S and others_s > OTHERS_TELLING * cores_s:
            notes.append("other programs were at work")
        if whole_s >= TELLING_S and stolen_s > STOLEN_TELLING * cores_s:
            notes.append("the host of this virtual machine took time away")
        if abs(after.clock_s - before.clock_s - whole_s) > CLOCK_STEP_TELLING_S:
            notes.append("the clock was set")
        if after.throttled > before.throttled:
            notes.append("the processor was throttled")
        if shutil.disk_usage(folder).free < DISK_LOW_BYTES:
            notes.append("the disk was nearly full")
        return cls(
            others_s / cores_s,
            servers_s,
            after.network_bytes - before.network_bytes,
            after.loopback_bytes - before.loopback_bytes,
            os.getloadavg()[0],
            tuple(notes),
            before.network_bytes + before.loopback_bytes,
            stolen_s / cores_s,
            after.throttled - before.throttled,
            cpu_count(),
            sum(one.read_bytes for one in device_use) if device_use else None,
            min(1.0, max(one.busy_s for one in device_use) / whole_s) if device_use else None,
        )


def was_busy(samples: Sequence[tuple[float, Surroundings]]) -> bool:
    """Return whether the machine was busy with other programs during these samples, given with their durations in
    seconds. Samples shorter than ``TELLING_S`` are averaged.
    """
    long = [one for seconds, one in samples if seconds >= TELLING_S]
    short = [(seconds, one) for seconds, one in samples if seconds < TELLING_S]
    short_s = sum(seconds for seconds, _ in short)
    others = sum(seconds * one.others_share for seconds, one in short)
    stolen = sum(seconds * one.stolen_share for seconds, one in short)
    disturbed = sum(_is_disturbed(one.others_share, one.stolen_share) for one in long)
    disturbed += len(short) if short_s and _is_disturbed(others / short_s, stolen / short_s) else 0
    return disturbed > BUSY_PART * len(samples)


def _is_disturbed(others_share: float, stolen_share: float) -> bool:
    return others_share > OTHERS_TELLING or stolen_share > STOLEN_TELLING


def devices_of(paths: Iterable[str]) -> frozenset[int]:
    """Return the numbers of the devices (``st_dev``) that hold these files and folders."""
    found = set()
    for path in paths:
        with suppress(OSError):
            found.add(os.stat(path).st_dev)
    return frozenset(found)


def _device_counts(devices: Collection[int]) -> dict[int, DeviceCounts]:
    """Return the counters of block devices in /proc/diskstats; other devices, such as tmpfs, have none."""
    found: dict[int, DeviceCounts] = {}
    if not devices:
        return found
    with suppress(OSError):
        for line in Path("/proc/diskstats").read_text(encoding="ascii", errors="replace").splitlines():
            major, minor, _, *counts = line.split()
            number = os.makedev(int(major), int(minor))
            if number in devices:
                found[number] = DeviceCounts(int(counts[2]) * _SECTOR_BYTES, int(counts[9]) / 1000)
    return found


def _network_bytes() -> tuple[int, int]:
    """Return the numbers of bytes received by all interfaces except the loopback, and by the loopback."""
    network = loopback = 0
    try:
        lines = Path("/proc/net/dev").read_text(encoding="ascii", errors="replace").splitlines()[2:]
    except OSError:
        return 0, 0
    for line in lines:
        name, _, fields = line.partition(":")
        received = int(fields.split()[0])
        if name.strip() == "lo":
            loopback += received
        else:
            network += received
    return network, loopback


def _processes(names: Collection[str]) -> list[Path]:
    found = []
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            try:
                name = (one / "comm").read_text(encoding="utf-8", errors="replace").strip()
            except OSError:
                continue
            if name in names:
                found.append(one)
    return found


def _cpu_s(process: Path) -> float:
    """Return the CPU time of a process in seconds: the 12th and 13th field after the name in /proc/PID/stat
    (proc(5)).
    """
    try:
        fields = (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _throttled() -> int:
    """Return the number of throttling events on all cores since boot; 0 if the kernel does not report it."""
    count = 0
    for one in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/core_throttle_count"):
        try:
            count += int(one.read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
    return count
