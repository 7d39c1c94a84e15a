"""The messages of a job to a control room: who it is, its status, and what it has read since the last message.

Batches travel as compressed JSON, each split into as many as it takes to stay within the limits of a server.
"""

from __future__ import annotations

import getpass
import gzip
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from branchline.base.limits import (
    BATCH_FILES_MAX,
    BATCH_SITES_MAX,
    REPORT_PLAIN_MAX_BYTES,
    REPORT_ZLIB_LEVEL,
    REQUEST_MAX_BYTES,
)
from branchline.base.plain import from_plain, to_plain
from branchline.errors import BranchlineError
from branchline.jobs.sites import own_spot
from branchline.records.sensors.record import FileRecord, JobRecord, SiteReading
from branchline.records.sensors.status import TrainStatus
from branchline.records.sensors.this_process import branchline_version, host

#: Raised when a field changes its meaning or goes away; new fields have defaults.
BATCH_VERSION = 1
#: Kinds of jobs that report.
TRAIN, TRACE = "train", "trace"
Value = TypeVar("Value")


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


def identity_of(
    kind: str,
    *,
    job: str = "",
    name: str = "",
    command: str = "",
    place: str = "here",
    out: Path | None = None,
    wagons: Iterable[str] = (),
    datasets: Iterable[str] = (),
) -> JobIdentity:
    """That of a job which begins now in this process; ``job`` is its number if it has one already. Without a name it
    has that of its directory of results.
    """
    return JobIdentity(
        job=job or uuid.uuid4().hex,
        kind=kind,
        name=name or (out.absolute().name if out is not None else ""),
        command=command,
        user=_user(),
        host=host(),
        site=_site(),
        place=place,
        out="" if out is None else str(out.absolute()),
        started=datetime.now(UTC).isoformat(),
        branchline=branchline_version(),
        wagons=list(wagons),
        datasets=list(datasets),
    )


def _user() -> str:
    """The user's name; empty where there is none, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _site() -> str:
    try:
        return own_spot().site
    except BranchlineError:  # The job itself refuses a site's file that is wrong.
        return ""


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


# --- batches as bytes -------------------------------------------------------------------------------------------------


def encoded(batch: ReportBatch) -> bytes:
    """The body of a request with this batch."""
    # This gives what as_dict does, ten times as fast. A name of a file may have bytes that are no text.
    text = json.dumps(batch, default=_plain, ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode(errors="replace"), REPORT_ZLIB_LEVEL, mtime=0)


def _plain(value: object) -> object:
    """The fields of a dataclass, which are its attributes; a number of NumPy's as one of Python's."""
    return value.item() if hasattr(value, "item") else vars(value)


def split(batch: ReportBatch) -> Iterator[tuple[ReportBatch, bytes]]:
    """A batch as one or several that servers take, numbered from that of the batch on, with their bodies.

    The record is in the last one. A record that is too large goes without its longest lists; readings that are too
    large alone come as they are, and the server refuses them.
    """
    number = batch.number
    count = max(1, -(-len(batch.files) // BATCH_FILES_MAX), -(-len(batch.sites) // BATCH_SITES_MAX))
    parts = [
        replace(
            batch, files=_part(batch.files, place, BATCH_FILES_MAX), sites=_part(batch.sites, place, BATCH_SITES_MAX)
        )
        for place in range(count)
    ]
    parts[:-1] = [replace(part, record=None) for part in parts[:-1]]
    while parts:
        part = replace(parts.pop(0), number=number)
        body = encoded(part)
        if is_taken(body):
            number += 1
            yield part, body
        elif len(part.files) > 1:
            half = len(part.files) // 2
            first, second = part.files[:half], part.files[half:]
            parts[:0] = [replace(part, files=first, record=None), replace(part, files=second, sites=[])]
        elif part.record is not None and (shorter := _shorter(part.record)) is not None:
            parts[:0] = [replace(part, record=shorter)]
        else:
            number += 1
            yield part, body


def _part(values: list[Value], place: int, size: int) -> list[Value]:
    return values[place * size : (place + 1) * size]


def is_taken(body: bytes) -> bool:
    """Whether a server takes a body of this size."""
    # The last four bytes of a gzip file are the size of its content.
    return len(body) <= REQUEST_MAX_BYTES and int.from_bytes(body[-4:], "little") <= REPORT_PLAIN_MAX_BYTES


def _shorter(record: JobRecord) -> JobRecord | None:
    """The record without the longest of the lists that grow with the dataset; None if all of them are empty. job.json
    has them.
    """
    names = ("dataset", "skipped", "missing", "branches", "timeline", "activity", "worker_phases", "workers_lost")
    longest = max(names, key=lambda name: len(getattr(record, name)))
    if not getattr(record, longest):
        return None
    note = f"the report to the control room was too large for its list {longest}; job.json has it"
    shorter = replace(record, reuse_notes=[*record.reuse_notes, note])
    setattr(shorter, longest, [])
    return shorter
