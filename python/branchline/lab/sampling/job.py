"""The request for a study's job, and its outcome. Both are sent between processes and machines as JSON."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, field
from pathlib import Path

from branchline.base.plain import finite, from_plain, to_plain
from branchline.lab.reference.measures import ReferenceMeasures
from branchline.lab.study import JobSettings, Value

JOB_VERSION = 1


@dataclass(frozen=True)
class JobRequest:
    """The work of one job: a client that reads files.

    ``number`` is the index of the job in its sample. ``folder`` is the job's own output folder. ``trace`` is a file:
    the client ``ranges`` repeats the reads in it, other clients record their reads to it.
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
        """Create the request for the job of an arm with this index."""
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
        """Parse a request. Raises ValueError."""
        found: JobRequest = from_plain(cls, json.loads(text))
        return found


@dataclass(frozen=True)
class JobOutcome:
    """The measurements of a job: wall and CPU time in seconds, including child processes, but not the start and
    imports.

    ``events`` and ``bytes_read`` are None if the client does not know them. ``disk_bytes`` is the number of bytes read
    from disks according to the kernel. ``begin_s`` is the Unix time of the start. ``file_bytes`` is the total size of
    the job's files, None if unknown. ``error`` is empty if the job succeeded. ``reference`` are the measurements of the
    client ``reference``.
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
    reference: ReferenceMeasures | None = None
    job_version: int = JOB_VERSION

    def to_json(self) -> str:
        return json.dumps(finite(to_plain(self)))

    @classmethod
    def from_json(cls, text: str) -> JobOutcome:
        """Parse an outcome. Raises ValueError."""
        found: JobOutcome = from_plain(cls, json.loads(text))
        return found


@dataclass(frozen=True)
class Counts:
    """Counts that a client reports; unknown counts are None."""

    events: int | None = None
    bytes_read: int | None = None
    read_calls: int | None = None
    phases: dict[str, float] = field(default_factory=dict)
    reference: ReferenceMeasures | None = None


def this_host() -> str:
    return socket.gethostname()
