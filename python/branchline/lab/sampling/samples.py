"""Samples of a study, and the file that keeps them: a line for each, on the disk before the next one is taken."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from branchline.base.plain import finite, from_plain, to_plain
from branchline.errors import OptionError
from branchline.lab.sampling.job import JobOutcome
from branchline.lab.study import Study

#: proc(5): the fields of the first line of /proc/stat that count a busy core, and the one of time stolen by the host.
_BUSY, _STOLEN = (0, 1, 2, 5, 6, 7), 7
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
#: What is worth a note: parts of the machine's time, seconds, and bytes left.
OTHERS_TELLING, STOLEN_TELLING = 0.05, 0.02
CLOCK_STEP_TELLING_S = 0.1
DISK_LOW_BYTES = 10**9
#: Shorter samples are a few ticks of the kernel's clock: shares of them mean nothing.
TELLING_S = 0.5
SAMPLES, STUDY = "samples.jsonl", "study.json"
SAMPLE_VERSION = 1


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


SampleKind = Literal["arm", "control", "limit", "client", "network", "trace", "blocks"]


@dataclass(frozen=True)
class StudySample:
    """The jobs of an arm, run once at the same time: in a round at a position, from 0, of its drawn order. ``kind``
    says whether it is the arm itself, the baseline once more, or a limit of its storage: whole files, a bare client,
    the bare network, the ranges of its trace. In the sample of kind ``trace`` that is recorded.

    ``wall_s`` goes from the first begin to the last end, ``file_bytes`` are the sizes of all files. ``cached_bytes`` is
    what the page cache held of the files before, None where nothing had to be cold; ``cold_remark`` says what could not
    be made cold. ``place`` is the farm where its jobs ran, empty for this machine: there they begin when the farm lets
    them, those that failed are left out of its sums, and network and loopback bytes are those of all their machines.
    ``spent_s`` is what the study has taken so far, ``session`` counts its interruptions.
    """

    round: int
    position: int
    arm: str
    kind: SampleKind
    at: str
    wall_s: float
    jobs: list[JobOutcome]
    file_bytes: int | None = None
    cached_bytes: int | None = None
    cold_remark: str = ""
    surroundings: Surroundings = field(default_factory=Surroundings)
    spent_s: float = 0.0
    session: int = 0
    error: str = ""
    place: str = ""
    sample_version: int = SAMPLE_VERSION

    @property
    def key(self) -> tuple[int, str, str]:
        """No two samples of a study have the same."""
        return (self.round, self.kind, self.arm)

    @property
    def good_jobs(self) -> list[JobOutcome]:
        """Those that did not fail."""
        return [one for one in self.jobs if not one.error]

    @property
    def events(self) -> int | None:
        """Those of all jobs; None where a client does not count them."""
        counts = [one.events for one in self.good_jobs]
        return None if None in counts else sum(one for one in counts if one is not None)

    @property
    def cpu_s(self) -> float:
        return sum(one.cpu_s for one in self.good_jobs)

    def units(self, per: str) -> float | None:
        """How much was done, in what rates count."""
        amount = {"event": self.events, "byte": self.file_bytes, "job": len(self.good_jobs)}[per]
        return float(amount) if amount else None

    def rate(self, per: str) -> float | None:
        """Units per second of all jobs together; None for a sample that failed or counts no such units."""
        units = self.units(per)
        return units / self.wall_s if units and not self.error and self.wall_s > 0 else None


class SampleFile:
    """The samples of a study in a file, of which the last line may be torn by a kill."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[StudySample]:
        """All whole samples; a torn last line is cut off, and its sample is taken again. Raises OptionError."""
        if not self._path.exists():
            return []
        content = self._path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            with self._path.open("r+b") as file:
                file.truncate(len(whole))
        return list(self._samples(whole))

    def _samples(self, content: bytes) -> Iterator[StudySample]:
        seen = set()
        for number, line in enumerate(content.splitlines(), 1):
            try:
                sample: StudySample = from_plain(StudySample, json.loads(line))
            except ValueError as error:
                what = f"line {number} is no sample: {error}"
                raise OptionError(what, path=str(self._path), hint="begin in another directory") from None
            if sample.key not in seen:
                seen.add(sample.key)
                yield sample

    def add(self, sample: StudySample) -> None:
        """Writes a sample, and waits until it is on the disk."""
        line = json.dumps(finite(to_plain(sample))) + "\n"
        with self._path.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())


@dataclass(frozen=True)
class KeptStudy:
    """What a study's directory says of it: the study, the seed of its orders, the version that began it, and the
    command that did, without its seed; empty where Python code did.
    """

    study: Study
    seed: int
    digest: str
    branchline: str = ""
    command: str = ""


def load_kept(folder: Path) -> KeptStudy:
    """What a directory says of its study. Raises OptionError."""
    try:
        found: KeptStudy = from_plain(KeptStudy, json.loads((folder / STUDY).read_text(encoding="utf-8")))
    except OSError as error:
        raise OptionError(f"there is no study in it: {error.strerror}", path=str(folder)) from None
    except ValueError as error:
        raise OptionError(f"{STUDY} is damaged: {error}", path=str(folder)) from None
    return found
