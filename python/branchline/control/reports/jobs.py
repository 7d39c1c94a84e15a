"""Jobs as the pages and scripts see them: a row of the list of jobs, what may be asked of the list, one job whole."""

from __future__ import annotations

from dataclasses import dataclass, field

from branchline.records.sending.message import JobIdentity
from branchline.records.sensors.record import FileRecord, JobRecord, TimePoint
from branchline.records.sensors.status import TrainStatus

#: A job that runs, but has sent nothing for so long that it may be dead. It is shown beside the states of TrainStatus.
SILENT = "silent"


@dataclass(frozen=True)
class JobRow:
    """A job in the list. Times are ISO 8601, UTC; ``seen`` is when its last batch came. ``efficiency`` is the CPU time
    by the wall time of its workers, 0 to 1; None until the job has ended.
    """

    identity: JobIdentity
    status: str = "running"
    phase: str = "run"
    seen: str = ""
    ended: str = ""
    seconds: float = 0.0
    fraction_done: float | None = None
    subjobs: int = 0
    done: int = 0
    failed: int = 0
    events: int = 0
    bytes_read: int = 0
    cpu_s: float | None = None
    efficiency: float | None = None

    @property
    def events_per_s(self) -> float:
        """Events a second since the start."""
        return self.events / self.seconds if self.seconds > 0 else 0.0

    @property
    def bytes_per_s(self) -> float:
        """Compressed bytes a second since the start."""
        return self.bytes_read / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class JobQuery:
    """Which jobs to list. An empty text asks for all. ``search`` is a part of the name, the command or the user;
    ``site`` and ``element`` select jobs whose workers at that site read from that storage element, and ``distance``
    ("local" or "remote") those that read what is at the site of their workers, or elsewhere; ``host`` those
    that had workers on a machine. ``since`` and ``until`` (ISO 8601, UTC) bound the start. Jobs come with the newest
    start first, or by ``order``.
    """

    search: str = ""
    status: str = ""
    user: str = ""
    site: str = ""
    element: str = ""
    distance: str = ""
    wagon: str = ""
    host: str = ""
    since: str = ""
    until: str = ""
    order: str = "started"
    first: int = 0
    count: int = 50


@dataclass(frozen=True)
class JobsPage:
    """Some of the jobs that a query found, and how many it found in all."""

    rows: list[JobRow] = field(default_factory=list)
    total: int = 0


@dataclass(frozen=True)
class JobDetails:
    """All that is known of a job. ``points`` is its profile over time, as far as it was reported; ``record`` is None
    until the job has ended.
    """

    row: JobRow
    status: TrainStatus | None = None
    points: list[TimePoint] = field(default_factory=list)
    record: JobRecord | None = None


@dataclass(frozen=True)
class FilesPage:
    """Some of the files that a job has read, in the order in which it reported them, and how many there are in all: a
    file that several sub-jobs have read is there several times. Those that were forgotten since are not counted.
    """

    files: list[FileRecord] = field(default_factory=list)
    total: int = 0
