"""The record of a job, field by field: job.json contains it, and every report is made from it.

job.json is kept for years and sent to servers, so its form has a version and a JSON Schema next to this file
(``job.schema.json``, written by ``python -m branchline.records.sensors.schema``). Times are wall seconds unless a name
says ``cpu``; sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from branchline.base.plain import from_plain, to_plain
from branchline.reading.access import Access
from branchline.records.sensors.job_measures import MeasureRecord
from branchline.records.sensors.record_parts import (
    BasketCounts,
    ParameterRecord,
    ReadCounts,
    RequestCounts,
    ResultRecord,
    SampleRecord,
    SourceRecord,
    TableRecord,
)

#: Increased when a field changes its meaning or is removed; a new field does not increase it.
#: Version 2 names all settings of ``access``, with null for the usual ones.
SCHEMA_VERSION = 2

# The status of a job or a wagon: running, all events processed by all wagons, some missing, none processed.
RUNNING, FINISHED, PARTIAL, FAILED = "running", "finished", "partial", "failed"
# A wagon that stopped before its first event.
STOPPED = "stopped"


@dataclass
class DatasetFile:
    """A file of the dataset. ``entries`` is None if the file was not opened."""

    path: str = ""
    tree: str | None = None
    dataset: str = ""
    entries: int | None = None
    size_bytes: int | None = None


@dataclass
class WagonFault:
    """The error that stopped a wagon: the file and entries of the chunk (None before the first one), the line of the
    author's files that raised it (empty if none did), and the traceback in the author's own code.
    """

    type: str
    message: str
    path: str | None = None
    entry_start: int | None = None
    entry_stop: int | None = None
    line: str = ""
    traceback: str = ""

    @property
    def is_interruption(self) -> bool:
        """Whether a signal ended the wagon."""
        return self.type == KeyboardInterrupt.__name__

    def sentence(self, name: str) -> str:
        """The error in one sentence, with the name of the wagon."""
        where = f" at {self.path}" if self.path else ""
        if self.path and self.entry_start is not None and self.entry_stop is not None:
            where += f", entries {self.entry_start} to {self.entry_stop}"
        line = f" ({self.line})" if self.line else ""
        return f"wagon {name} stopped{where}: {self.type}: {self.message}{line}"


@dataclass
class CutRecord:
    """The events that pass a cut and all before it, and the sum of their weights; None if that is no finite number."""

    name: str
    events: int = 0
    weight: float | None = None


@dataclass
class CutflowRecord:
    """A cutflow that a wagon returned; ``name`` is where it stands in what it returned, empty if it is all of that."""

    name: str
    cuts: list[CutRecord] = field(default_factory=list)


@dataclass
class WagonRecord:
    """The cost of a wagon. ``seconds`` is the time in process() without waiting for columns; in ``core_wait_s`` of it
    other threads had the cores. ``subjobs_reused`` counts sub-jobs whose result comes from an earlier run;
    ``not_reusable`` is the reason why no result can be reused. ``code_sha256`` is the hash of the source of its class,
    None if there is no source. ``parameters`` are those that it declares, with their values; ``cutflows`` the first of
    those that it returned, without the last ``cutflows_left_out``. ``warnings`` say why its result may be wrong.
    """

    name: str
    seconds: float = 0.0
    cpu_s: float = 0.0
    core_wait_s: float = 0.0
    events: int = 0
    chunks: int = 0
    misses: int = 0
    output_bytes: int = 0
    branches: list[str] = field(default_factory=list)
    requires: list[str] = field(default_factory=list)
    code_sha256: str | None = None
    subjobs_reused: int = 0
    not_reusable: str = ""
    parameters: list[ParameterRecord] = field(default_factory=list)
    cutflows: list[CutflowRecord] = field(default_factory=list)
    cutflows_left_out: int = 0
    error: WagonFault | None = None
    status: str = FINISHED
    warnings: list[str] = field(default_factory=list)


@dataclass
class FileRecord(ReadCounts):
    """The cost of reading a file. ``entries`` counts those of its tree, ``events`` those that wagons got. ``open_s`` is
    the time to open it; times of other steps are sums over threads. ``subjobs`` counts the sub-jobs that read it,
    ``subjobs_reused`` those with results from an earlier run. ``site`` is the site of the worker, ``replica`` the URL
    that was read if it is not ``path``; ``replicas_failed`` lists failed replicas with their errors.
    """

    path: str
    storage_element: str = ""
    store: str = ""
    host: str = ""
    worker: str = ""
    subjobs: int = 0
    subjobs_reused: int = 0
    size_bytes: int | None = None
    entries: int | None = None
    events: int = 0
    wall_s: float = 0.0
    codec: str = ""
    gap_bytes: int = 0
    late_reads: int = 0
    open_s: float | None = None
    remarks: list[str] = field(default_factory=list)
    site: str = ""
    replica: str = ""
    replicas_failed: list[str] = field(default_factory=list)


@dataclass
class BranchRecord(BasketCounts):
    """The cost of the baskets of a branch, in all files."""

    name: str
    codec: str = ""


@dataclass
class StorageRecord(RequestCounts):
    """Reads from a storage element."""

    name: str
    files: int = 0


@dataclass
class SiteReading:
    """Reads of the workers at a site from a storage element. ``nearness`` is the place of the element: on the worker's
    ``host``, at its ``site`` or ``elsewhere``. ``files`` counts files that sub-jobs read there, ``failures`` failed
    replicas. ``wall_s`` is the time of the files in their workers, ``fetch_s`` thread time inside read calls.
    """

    site: str
    storage_element: str
    nearness: str = "elsewhere"
    files: int = 0
    bytes_read: int = 0
    failures: int = 0
    wall_s: float = 0.0
    fetch_s: float = 0.0


@dataclass
class StorageRemark:
    """A remark of the storage layer, and the number of files that it is about."""

    text: str
    files: int = 0


@dataclass
class LinkRecord:
    """The measured link from a site to a storage element, and the settings of reading that were chosen for it.

    ``choices`` counts changes of the settings.
    """

    name: str
    round_trip_s: float = 0.0
    bytes_per_second: float = 0.0
    gap_bytes: int = 0
    requests_in_flight: int = 0
    bytes_in_flight: int = 0
    choices: int = 0
    site: str = ""


@dataclass
class TroubleRecord:
    """Failures at a storage element: ``retries`` counts repeated requests, ``timeouts``, ``resets``,
    ``wrong_answers`` and ``other_errors`` the causes. ``replicas_left`` counts files whose reading continued at another
    replica, ``replicas_refused`` replicas that differ from the one read before. ``waits`` counts waits that the server
    asked for, which took ``waited_s``. ``lost_s`` is the time of failed requests and of the pauses after them.
    """

    name: str
    retries: int = 0
    timeouts: int = 0
    resets: int = 0
    wrong_answers: int = 0
    other_errors: int = 0
    replicas_left: int = 0
    replicas_refused: int = 0
    waits: int = 0
    waited_s: float = 0.0
    lost_s: float = 0.0


@dataclass
class SkippedFile:
    """A file that was skipped; ``entries_lost`` is None if unknown."""

    path: str
    entries_lost: int | None = None
    error: str = ""


@dataclass
class MissingEntries:
    """Entries of a file that a missing sub-job would have read; ``entry_stop`` None is the end of the tree.
    ``part`` describes a part of the file whose first and last entries are unknown.
    """

    path: str
    entry_start: int = 0
    entry_stop: int | None = None
    part: str = ""

    def count(self) -> int | None:
        """The number of entries, None if unknown."""
        return self.entry_stop - self.entry_start if self.entry_stop is not None and not self.part else None

    def words(self) -> str:
        """The entries, without the path."""
        if self.entry_stop is None and not self.entry_start:
            return self.part or "all entries"
        part = f"{self.part} of " if self.part else ""
        stop = "the end" if self.entry_stop is None else self.entry_stop
        return f"{part}entries {self.entry_start} to {stop}"


@dataclass
class MissingSubJob:
    """A sub-job without a result: the files that it would have read, the ``cause`` that ended its last attempt, and the
    step ``doing`` at which that happened.
    """

    index: int
    label: str = ""
    files: list[MissingEntries] = field(default_factory=list)
    cause: str = ""
    doing: str = ""
    attempts: int = 1

    def skipped(self) -> list[SkippedFile]:
        """Its entries as skipped files."""
        return [
            SkippedFile(one.path, one.count(), f"{one.words()}: its sub-job is missing: {self.cause}")
            for one in self.files
        ]


@dataclass
class MemoryRetry:
    """A sub-job that ran out of memory and finished with less. ``chunk_divisor`` 1 means that only the memory for
    reading was reduced. Else chunks had 1/``chunk_divisor`` of the entries, and sums of the wagons ``inexact`` may
    differ in their last bits from sums over whole chunks.
    """

    subjob: str
    chunk_divisor: int = 1
    inexact: list[str] = field(default_factory=list)


@dataclass
class ActivitySpan:
    """The time in which a process of a job worked, in seconds from the job's start. ``stage`` is 0 for processing
    events, else the stage of merging; ``is_last`` marks the merge that writes the results.
    """

    host: str = ""
    stage: int = 0
    begin_s: float = 0.0
    end_s: float = 0.0
    is_last: bool = False


@dataclass(frozen=True)
class MergeStage:
    """What a stage of the merge has cost so far: the ``results`` that were folded into others, ``nodes`` of the tree
    that are whole, and the ``seconds`` of all processes that folded them. Stage 1 folds results of sub-jobs.
    """

    stage: int
    results: int = 0
    nodes: int = 0
    seconds: float = 0.0


@dataclass
class FailureGroup:
    """Sub-jobs that failed in the same way: at the same place of the code, or by the same cause.

    ``example`` is the traceback of the first of them, or the end of its log file ``log``.
    """

    message: str = ""
    subjobs: list[int] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    example: str = ""
    log: str = ""


@dataclass
class RetryRecord:
    """Sub-jobs that the last job of a submitted train, or its user, sent again: how many by each cause, the nodes that
    got none of them, and when, in seconds since the submission.
    """

    subjobs: int = 0
    causes: dict[str, int] = field(default_factory=dict)
    excluded_nodes: list[str] = field(default_factory=list)
    sent_s: float = 0.0
    is_by_user: bool = False


@dataclass
class RestartedTask:
    """A task of a batch system that started more than once, and its machines."""

    task: str
    hosts: list[str] = field(default_factory=list)


@dataclass
class RepeatedSubJob:
    """A sub-job that ran twice at the end of a job because its first worker was slow; ``why`` is the reason in words.
    ``kept`` is the worker whose result counts, ``dropped`` the other one.
    """

    subjob: str
    why: str = ""
    kept: str = ""
    dropped: str = ""


@dataclass
class LostWorker:
    """A worker process that was ended because it sent nothing for ``seconds``, or that died by itself (``is_dead``).
    ``doing`` is its last step, ``subjobs`` are those that other workers got. ``host`` is empty for the machine of the
    job. ``log`` is the end of what it wrote to its standard error, where that is not the job's own.
    """

    worker: int
    pid: int = 0
    doing: str = ""
    seconds: float = 0.0
    how: str = ""
    subjobs: list[str] = field(default_factory=list)
    is_dead: bool = False
    host: str = ""
    log: str = ""


@dataclass
class MissingCompanion:
    """A companion that lacks some events, and the first of these."""

    name: str
    events_missing: int = 0
    first: list[str] = field(default_factory=list)


@dataclass
class RecoveredFile:
    """A file that was never closed, and the number of keys that were recovered."""

    path: str
    keys: int = 0


@dataclass
class TimePoint:
    """Cumulative counts at a time after the start of the job."""

    t_s: float
    events: int = 0
    bytes_read: int = 0
    plain_bytes: int = 0


@dataclass
class Totals(ReadCounts):
    """Sums over all files."""


@dataclass
class JobFault:
    """An error that stopped a job or made it partial."""

    type: str = "Error"
    message: str = ""
    path: str | None = None
    traceback: str | None = ""


@dataclass
class WorkerPhases:
    """The wall time of a worker by phases, which add up to ``wall_s``."""

    worker: int
    host: str = ""
    site: str = ""
    wall_s: float = 0.0
    start: float = 0.0
    plan: float = 0.0
    warmup: float = 0.0
    wait: float = 0.0
    decompress: float = 0.0
    decode: float = 0.0
    wagons: float = 0.0
    merge: float = 0.0
    write: float = 0.0
    idle: float = 0.0
    lost: float = 0.0
    other: float = 0.0


@dataclass
class AccessRecord:
    """How files were read: the mode, and those settings of ``branchline.Access`` that are not the usual ones; the
    others are None.
    """

    mode: str = "planned"
    read_ahead: int | None = None
    tree_cache: int | None = None
    local: str | None = None
    gap: int | None = None
    requests_in_flight: int | None = None
    bytes_in_flight: int | None = None
    streams: int | None = None
    cache_dir: str | None = None
    cache_size: int | None = None
    stage_dir: str | None = None
    throttle: str | None = None
    fault: str | None = None

    @classmethod
    def of(cls, access: Access) -> AccessRecord:
        """The record of a way of reading."""
        record, usual = cls(access.mode), Access()
        for name in cls.names():
            if getattr(access, name) != getattr(usual, name):
                setattr(record, name, getattr(access, name))
        return record

    @classmethod
    def names(cls) -> list[str]:
        """The settings besides the mode."""
        return [one.name for one in fields(cls) if one.name != "mode"]

    def chosen(self) -> list[tuple[str, int | str]]:
        """The settings that are not the usual ones, with their names."""
        pairs = [(name, getattr(self, name)) for name in self.names()]
        return [(name, value) for name, value in pairs if value is not None]


@dataclass
class JobRecord:
    """A job: its conditions, costs and results.

    ``phases`` is the wall time of the job by phases, ``access`` the settings of reading, ``versions`` the packages
    that results depend on, ``sources`` the files of the wagons' code, ``environment`` the variables that can change
    numbers, such as those of threads. ``subjobs_reused`` counts sub-jobs whose results all come from an earlier run;
    ``reuse_notes`` are reasons why others could not be reused. ``sites`` are the reads of the workers at each site
    from each storage element. ``allow_missing`` is the share of the sub-jobs that may be ``missing``; the files of
    these are in ``skipped`` too. With ``max_events`` or ``max_files`` only the first ones of each dataset were to be
    read, and ``dataset`` has these alone. ``seed`` is that of the random numbers of wagons. ``left_out`` names files
    that were not written because a package is not installed. ``process`` is only there while a job runs. ``measures``
    are those of the control room that the job was told of, ``measures_ignored`` how many it did not understand.
    """

    schema_version: int = SCHEMA_VERSION
    branchline: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    sources: list[SourceRecord] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    status: str = FAILED
    command: str = ""
    started: str = ""
    host: str = ""
    process: int | None = None
    cpu_count: int = 0
    machine_cpu_count: int | None = None
    workers: int = 0
    threads: int = 0
    access: AccessRecord = field(default_factory=AccessRecord)
    memory_limit_bytes: int = 0
    step_entries: int = 0
    interrupted: bool = False
    wall_s: float = 0.0
    cpu_s: float = 0.0
    machine_cpu_s: float | None = None
    memory_peak_bytes: int = 0
    phases: dict[str, float] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    subjobs: int = 0
    subjobs_done: int = 0
    subjobs_reused: int = 0
    reuse_notes: list[str] = field(default_factory=list)
    events: int = 0
    events_expected: int | None = None
    max_events: int | None = None
    max_files: int | None = None
    seed: int = 0
    errors: list[JobFault] = field(default_factory=list)
    wagons: list[WagonRecord] = field(default_factory=list)
    results: list[ResultRecord] = field(default_factory=list)
    tables: list[TableRecord] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    dataset: list[DatasetFile] = field(default_factory=list)
    samples: list[SampleRecord] = field(default_factory=list)
    files: list[FileRecord] = field(default_factory=list)
    branches: list[BranchRecord] = field(default_factory=list)
    misses: dict[str, int] = field(default_factory=dict)
    storage_elements: list[StorageRecord] = field(default_factory=list)
    sites: list[SiteReading] = field(default_factory=list)
    storage_remarks: list[StorageRemark] = field(default_factory=list)
    links: list[LinkRecord] = field(default_factory=list)
    troubles: list[TroubleRecord] = field(default_factory=list)
    skipped: list[SkippedFile] = field(default_factory=list)
    allow_missing: float = 0.0
    missing: list[MissingSubJob] = field(default_factory=list)
    memory_retries: list[MemoryRetry] = field(default_factory=list)
    repeated: list[RepeatedSubJob] = field(default_factory=list)
    failures: list[FailureGroup] = field(default_factory=list)
    restarted: list[RestartedTask] = field(default_factory=list)
    retries: list[RetryRecord] = field(default_factory=list)
    activity: list[ActivitySpan] = field(default_factory=list)
    merge_stages: list[MergeStage] = field(default_factory=list)
    recovered: list[RecoveredFile] = field(default_factory=list)
    companions_missing: list[MissingCompanion] = field(default_factory=list)
    measures: list[MeasureRecord] = field(default_factory=list)
    measures_ignored: int = 0
    workers_lost: list[LostWorker] = field(default_factory=list)
    worker_phases: list[WorkerPhases] = field(default_factory=list)
    timeline: list[TimePoint] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The content of job.json: dicts, lists, numbers and texts."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> JobRecord:
        """The record in the content of a job.json.

        A record without ``schema_version`` is of Branchline 0.1.0, whose fields are those of version 1: what it lacks
        has its default. Unknown fields, as of a later version, are ignored. Raises ValueError for anything that is no
        record, and for a record of a later version.
        """
        version = plain.get("schema_version", SCHEMA_VERSION)
        if not isinstance(version, int) or version > SCHEMA_VERSION:
            what = f"the record has version {version!r}, and this Branchline reads versions up to {SCHEMA_VERSION}"
            raise ValueError(what)
        record: JobRecord = from_plain(cls, {**plain, "schema_version": SCHEMA_VERSION})
        return record
