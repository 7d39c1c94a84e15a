"""A job of a study: what it is to do, and what it measured. Both cross processes and machines, as JSON."""

from __future__ import annotations

import json
import platform
import socket
from dataclasses import dataclass, field
from pathlib import Path

from branchline.base.plain import finite, from_plain, to_plain
from branchline.lab.study import JobSettings, Value

JOB_VERSION = 1


@dataclass(frozen=True)
class JobRequest:
    """What one job does: its client reads its files. ``number`` counts the jobs of a sample from 0. ``folder`` is its
    own, for what it writes. ``trace`` is a file: client ranges repeats it, others record it.
    """

    number: int
    client: str
    files: list[str]
    folder: str
    tree: str = ""
    branches: list[str] = field(default_factory=list)
    options: dict[str, Value] = field(default_factory=dict)
    train: str = ""
    companions: list[str] = field(default_factory=list)
    command: str = ""
    stage: str = ""
    trace: str = ""
    job_version: int = JOB_VERSION

    @classmethod
    def of(cls, number: int, settings: JobSettings, files: list[str], folder: Path) -> JobRequest:
        """The job with this number of an arm."""
        return cls(
            number,
            settings.client,
            files,
            str(folder),
            settings.tree,
            list(settings.branches),
            dict(settings.options),
            settings.train,
            list(settings.companions),
            settings.command,
            settings.stage,
        )

    def to_json(self) -> str:
        return json.dumps(to_plain(self))

    @classmethod
    def from_json(cls, text: str) -> JobRequest:
        """Raises ValueError."""
        found: JobRequest = from_plain(cls, json.loads(text))
        return found


@dataclass(frozen=True)
class JobOutcome:
    """What a job took: seconds of wall and of CPU time with all that it started, without its start and its imports.

    ``events`` and ``bytes_read`` are None where the client does not know. ``disk_bytes`` came from a disk, as the
    kernel counts it for these processes. ``begin_s`` is the time of the clock, since 1970. ``file_bytes`` are the
    sizes of its files, None where they are not known. ``error`` is empty when it succeeded.
    """

    number: int
    begin_s: float = 0.0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    events: int | None = None
    bytes_read: int | None = None
    read_calls: int | None = None
    disk_bytes: int = 0
    phases: dict[str, float] = field(default_factory=dict)
    host: str = ""
    processor: str = ""
    error: str = ""
    file_bytes: int | None = None
    job_version: int = JOB_VERSION

    def to_json(self) -> str:
        return json.dumps(finite(to_plain(self)))

    @classmethod
    def from_json(cls, text: str) -> JobOutcome:
        """Raises ValueError."""
        found: JobOutcome = from_plain(cls, json.loads(text))
        return found


@dataclass(frozen=True)
class Counts:
    """What a client knows of what it read."""

    events: int | None = None
    bytes_read: int | None = None
    read_calls: int | None = None
    phases: dict[str, float] = field(default_factory=dict)


def this_host() -> str:
    return socket.gethostname()


def this_processor() -> str:
    """The kind of processor, as the kernel names it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()
