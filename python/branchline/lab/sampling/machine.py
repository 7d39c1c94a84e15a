"""What else happens on the machine while a sample is taken: other programs, clocks, throttling, full disks."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

#: proc(5): the fields of the first line of /proc/stat that count a busy core, and the one of time stolen by the host.
_BUSY, _STOLEN = (0, 1, 2, 5, 6, 7), 7
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
#: What is worth a note: parts of the machine's time, seconds, and bytes left.
OTHERS_TELLING, STOLEN_TELLING = 0.05, 0.02
CLOCK_STEP_TELLING_S = 0.1
DISK_LOW_BYTES = 10**9
#: Shorter samples are a few ticks of the kernel's clock: shares of them mean nothing.
TELLING_S = 0.5


@dataclass(frozen=True)
class Moment:
    """Counters of the machine: seconds that its cores were busy or were stolen from it, seconds of CPU time of servers
    of ours, bytes over its network and over its loopback, and how often it was throttled.
    """

    monotonic_s: float
    clock_s: float
    busy_s: float
    stolen_s: float
    servers_s: float
    network_bytes: int
    loopback_bytes: int
    throttled: int

    @classmethod
    def now(cls, servers: Collection[str] = ()) -> Moment:
        """``servers`` are names of processes, as /proc/PID/comm has them."""
        fields = [int(one) for one in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]]
        network, loopback = _network_bytes()
        return cls(
            time.monotonic(),
            time.time(),
            sum(fields[one] for one in _BUSY) / _TICKS_PER_S,
            fields[_STOLEN] / _TICKS_PER_S,
            sum(_cpu_s(one) for one in _processes(servers)) if servers else 0.0,
            network,
            loopback,
            _throttled(),
        )


@dataclass(frozen=True)
class Surroundings:
    """What happened beside the jobs of a sample. ``others_share`` is the CPU time of other programs as a part of the
    machine's. ``received_before_bytes`` is where the counters of network and loopback stood when it began.
    """

    others_share: float = 0.0
    server_cpu_s: float = 0.0
    network_bytes: int = 0
    loopback_bytes: int = 0
    load: float = 0.0
    notes: tuple[str, ...] = ()
    received_before_bytes: int = 0

    @classmethod
    def between(cls, before: Moment, after: Moment, jobs_cpu_s: float, folder: Path) -> Surroundings:
        """What happened from one moment to another. ``folder`` lies on the disk that must not be full."""
        whole_s = max(after.monotonic_s - before.monotonic_s, 1e-9)
        cores_s = whole_s * (os.cpu_count() or 1)
        servers_s = after.servers_s - before.servers_s
        stolen_s = after.stolen_s - before.stolen_s
        others_s = max(0.0, after.busy_s - before.busy_s - stolen_s - servers_s - jobs_cpu_s)
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
        )


def _network_bytes() -> tuple[int, int]:
    """Bytes received by all interfaces but the loopback, and by that."""
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
    """proc(5): of the fields of stat behind the name in brackets the 12th and 13th, in ticks."""
    try:
        fields = (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _throttled() -> int:
    """How often the cores were throttled since the machine started, where the kernel says it."""
    count = 0
    for one in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/core_throttle_count"):
        try:
            count += int(one.read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
    return count
