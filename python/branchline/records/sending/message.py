"""Messages from a job to a control room: the job's identity, its status, and what it has read since the last message.

Messages are sent as compressed JSON and split to stay within the server's size limits.
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

#: Version of the message format; increased when a field changes its meaning or is removed. New fields have defaults.
BATCH_VERSION = 1
#: Kinds of jobs that send reports.
TRAIN, TRACE = "train", "trace"
Value = TypeVar("Value")


@dataclass(frozen=True)
class JobIdentity:
    """The identity of a job, the same in all of its messages.

    - ``job`` consists of 32 random hexadecimal digits.
    - ``name`` is a display name, by default the name of the directory ``out``.
    - ``place`` is where its sub-jobs run: "here", "dask", "executor", "slurm" or "htcondor".
    - ``started`` is the start time (ISO 8601, UTC).
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
    """Return the identity of a job that starts now in this process.

    ``job`` is the job's ID if it already has one. ``name`` defaults to the name of the results directory.
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
    """Return the user's name; empty if it is unknown, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _site() -> str:
    try:
        return own_spot().site
    except BranchlineError:  # the job itself reports an invalid site file
        return ""


@dataclass(frozen=True)
class ReportBatch:
    """One message of a job.

    Each sending process (a ``source``) numbers its messages from 0. A server ignores messages with a number that it
    already has, so messages can be resent.

    - ``files`` are the file reads since the previous message, one per sub-job and file.
    - ``sites`` are the same reads by site and storage element.
    - ``status`` is the job's state at the time ``made`` (ISO 8601, UTC); None if this source does not know the state.
    - ``record`` is only in the last message of a job. The record's list of files is empty, because earlier messages
      contained the files.
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
        """Return the message as dicts, lists, numbers and strings."""
        plain: dict[str, object] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, object]) -> ReportBatch:
        """Create a message from the output of ``as_dict``.

        Raises ValueError for any other input, and for a newer version of the format.
        """
        version = plain.get("batch_version")
        if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= BATCH_VERSION:
            what = f"the batch has version {version!r}; this Branchline supports versions up to {BATCH_VERSION}"
            raise ValueError(what)
        batch: ReportBatch = from_plain(cls, plain)
        return batch


# --- batches as bytes -------------------------------------------------------------------------------------------------


def encoded(batch: ReportBatch) -> bytes:
    """Return the request body for a message."""
    # Equivalent to as_dict, but ten times as fast. File names may contain bytes that are not valid UTF-8.
    text = json.dumps(batch, default=_plain, ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode(errors="replace"), REPORT_ZLIB_LEVEL, mtime=0)


def _plain(value: object) -> object:
    """Return the fields of a dataclass as a dict, or a NumPy number as a Python number."""
    return value.item() if hasattr(value, "item") else vars(value)


def split(batch: ReportBatch) -> Iterator[tuple[ReportBatch, bytes]]:
    """Split a message into parts that the server accepts; yield each part with its request body.

    Parts are numbered consecutively, starting with the message's number. The last part contains the record. If the
    record is too large, its longest lists are emptied. A part that is still too large is yielded anyway, and the server
    rejects it.
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
    """Return whether a server accepts a body of this size."""
    # A gzip file ends with its uncompressed size in four bytes.
    return len(body) <= REQUEST_MAX_BYTES and int.from_bytes(body[-4:], "little") <= REPORT_PLAIN_MAX_BYTES


def _shorter(record: JobRecord) -> JobRecord | None:
    """Return a copy of the record with its longest list emptied; None if all lists that may be emptied are empty.

    Only lists that grow with the dataset may be emptied. The file job.json still contains them.
    """
    names = ("dataset", "skipped", "missing", "branches", "timeline", "activity", "worker_phases", "workers_lost")
    longest = max(names, key=lambda name: len(getattr(record, name)))
    if not getattr(record, longest):
        return None
    note = f"the list {longest} was too large for the report to the control room; it is only in job.json"
    shorter = replace(record, reuse_notes=[*record.reuse_notes, note])
    setattr(shorter, longest, [])
    return shorter
