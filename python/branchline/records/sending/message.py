"""What a job sends to a control room: who it is, how it stands, and what it has read since the last time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from branchline.base.plain import from_plain, to_plain
from branchline.records.sensors.record import FileRecord, JobRecord, SiteReading
from branchline.records.sensors.status import TrainStatus

#: Raised when a field changes its meaning or goes away; new fields have defaults.
BATCH_VERSION = 1
# What kind of job reports.
TRAIN, TRACE = "train", "trace"


@dataclass(frozen=True)
class JobIdentity:
    """A job, the same in all of its batches.

    ``job`` is 32 random hexadecimal digits. ``name`` is what people call it, by default that of its directory ``out``.
    ``place`` is where its sub-jobs run: "here", "dask", "executor", "slurm" or "htcondor". ``started`` is ISO 8601,
    UTC.
    """

    job: str
    kind: str = TRAIN
    name: str = ""
    command: str = ""
    user: str = ""
    host: str = ""
    site: str = ""
    place: str = "here"
    out: str = ""
    started: str = ""
    branchline: str = ""
    wagons: list[str] = field(default_factory=list)
    datasets: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ReportBatch:
    """One message of a job. Each process that sends, a ``source``, numbers its batches from 0: a server takes each
    number once, however often it comes.

    ``files`` are readings of files since the batch before, one for each sub-job that read it, ``sites`` the same reads
    by site and storage element. ``status`` is the state of the job when the batch was made, at ``made`` (ISO 8601,
    UTC); None if this source does not know it. ``record`` is in the last batch of a job; its own list of files is
    empty, since all of them were sent.
    """

    identity: JobIdentity
    source: str = "job"
    number: int = 0
    made: str = ""
    status: TrainStatus | None = None
    files: list[FileRecord] = field(default_factory=list)
    sites: list[SiteReading] = field(default_factory=list)
    record: JobRecord | None = None
    batch_version: int = BATCH_VERSION

    def as_dict(self) -> dict[str, object]:
        """The message as dicts, lists, numbers and texts."""
        plain: dict[str, object] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, object]) -> ReportBatch:
        """The batch in what ``as_dict`` gave. Raises ValueError for anything else, and for a later version."""
        version = plain.get("batch_version")
        if not isinstance(version, int) or not 1 <= version <= BATCH_VERSION:
            what = f"the batch has version {version!r}, and this Branchline takes versions up to {BATCH_VERSION}"
            raise ValueError(what)
        batch: ReportBatch = from_plain(cls, plain)
        return batch
