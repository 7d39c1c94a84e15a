"""The record of a job, field by field: the content of job.json, from which all reports are created.

job.json files are kept for years and sent to servers, so the format has a version and a JSON Schema next to this file
(``job.schema.json``, written by ``python -m branchline.records.sensors.schema``). Times are wall seconds unless a name
contains ``cpu``; sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from branchline.base.plain import from_plain, to_plain
from branchline.reading.access import PLANNED, Access
from branchline.records.sensors.job_measures import MeasureRecord
from branchline.records.sensors.record_parts import (
    BasketCounts,
    DatasetFile,
    JoinRecord,
    LookupRecord,
    LuminosityRecord,
    MissingCompanion,
    ParameterRecord,
    ReadCounts,
    RecoveredFile,
    RequestCounts,
    ResultRecord,
    SampleRecord,
    SourceRecord,
    TableRecord,
)

#: Version of the format; increased when a field changes its meaning or is removed. Version 2 added all access settings.
SCHEMA_VERSION = 2

# Statuses of a job or wagon: running, all events processed by all wagons, some events missing, no events processed.
RUNNING, FINISHED, PARTIAL, FAILED = "running", "finished", "partial", "failed"
STOPPED = "stopped"  # Status of a wagon that stopped before its first event.


@dataclass
class WagonFault:
    """The error that stopped a wagon: the file and entries of the chunk (None before the first chunk), the line in the
    user's files that raised the error (empty if none), and the traceback in the user's code.
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
        """Return the error as a sentence that names the wagon."""
        where = f" at {self.path}" if self.path else ""
        if self.path and self.entry_start is not None and self.entry_stop is not None:
            where += f", entries {self.entry_start} to {self.entry_stop}"
        line = f" ({self.line})" if self.line else ""
        return f"wagon {name} stopped{where}: {self.type}: {self.message}{line}"


@dataclass
class CutRecord:
    """The number of events that pass a cut and all earlier cuts, and the sum of their weights (None if not finite)."""

    name: str
    events: int = 0
    weight: float | None = None


@dataclass
class CutflowRecord:
    """A cutflow that a wagon returned. ``name`` is its position in the wagon's return value; empty if it is the whole
    value.
    """

    name: str
    cuts: list[CutRecord] = field(default_factory=list)


@dataclass
class WagonRecord:
    """The cost of a wagon. ``seconds`` is the time in process() without waiting for columns; during ``core_wait_s`` of
    that time, other threads occupied the cores. ``python_lines_per_event`` counts the executed lines of the user's code
    in one chunk, up to about two per event. ``subjobs_reused`` counts sub-jobs with results from an earlier run;
    ``not_reusable`` is the reason if results can never be reused, ``rerun_cause`` the change that made the other
    sub-jobs run again. ``code_sha256`` is the hash of the class's source.
    ``parameters`` are the declared parameters with their values. ``cutflows`` are the first cutflows that the wagon
    returned, ``cutflows_left_out`` counts the others. ``warnings`` are reasons why the result may be wrong.
    """

    name: str
    seconds: float = 0.0
    cpu_s: float = 0.0
    core_wait_s: float = 0.0
    python_lines_per_event: float | None = None
    events: int = 0
    chunks: int = 0
    misses: int = 0
    output_bytes: int = 0
    branches: list[str] = field(default_factory=list)
    requires: list[str] = field(default_factory=list)
    code_sha256: str | None = None
    subjobs_reused: int = 0
    not_reusable: str = ""
    rerun_cause: str = ""
    parameters: list[ParameterRecord] = field(default_factory=list)
    cutflows: list[CutflowRecord] = field(default_factory=list)
    cutflows_left_out: int = 0
    error: WagonFault | None = None
    status: str = FINISHED
    warnings: list[str] = field(default_factory=list)


@dataclass
class FileRecord(ReadCounts):
    """The cost of reading a file. ``entries`` counts the entries of its tree, ``events`` those passed to wagons. If the
    dataset has several trees of a file, one in each folder, ``folders`` counts those that were read, and ``entries``
    their entries; otherwise ``folders`` is 0.
    ``open_s`` is the time to open the file; times of other steps are sums over threads. ``subjobs`` counts sub-jobs
    that read the file, ``subjobs_reused`` those with results from an earlier run. ``site`` is the worker's site,
    ``replica`` the URL that was read if it is not ``path``; ``replicas_failed`` lists failed replicas with their
    errors.
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
    folders: int = 0


@dataclass
class BranchRecord(BasketCounts):
    """The cost of a branch's baskets in all files."""

    name: str
    codec: str = ""


@dataclass
class StorageRecord(RequestCounts):
    """Reads from a storage element."""

    name: str
    files: int = 0


@dataclass
class SiteReading:
    """Reads by workers at a site from a storage element. ``nearness`` is where the element is: on the worker's
    ``host``, at the worker's ``site`` or ``elsewhere``. ``files`` counts files read by sub-jobs, ``failures`` failed
    replicas. ``wall_s`` is the time that workers spent on the files, ``fetch_s`` the thread time in read calls.
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
    """A remark of the storage layer, and the number of files that the remark applies to."""

    text: str
    files: int = 0


@dataclass
class LinkRecord:
    """The measured link from a site to a storage element, and the read settings chosen for the link. ``choices`` counts
    the different settings.
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
    """Failures at a storage element. ``retries`` counts repeated requests; ``timeouts``, ``resets``, ``wrong_answers``
    and ``other_errors`` count the causes. ``replicas_left`` counts files for which reading continued at another
    replica, ``replicas_refused`` counts replicas with different content. ``waits`` counts waits that the server
    requested, ``waited_s`` is their total time. ``lost_s`` is the time of failed requests and of subsequent delays.
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
    """A file that was skipped. ``entries_lost`` is None if the number of lost entries is unknown."""

    path: str
    entries_lost: int | None = None
    error: str = ""


@dataclass
class MissingEntries:
    """Entries of a file that a missing sub-job should have read; ``entry_stop`` None means the end of the tree.
    ``part`` describes a part of the file whose first and last entries are unknown.
    """

    path: str
    entry_start: int = 0
    entry_stop: int | None = None
    part: str = ""

    def count(self) -> int | None:
        """Return the number of entries, or None if unknown."""
        return self.entry_stop - self.entry_start if self.entry_stop is not None and not self.part else None

    def words(self) -> str:
        """Describe the entries, without the file's path."""
        if self.entry_stop is None and not self.entry_start:
            return self.part or "all entries"
        part = f"{self.part} of " if self.part else ""
        stop = "the end" if self.entry_stop is None else self.entry_stop
        return f"{part}entries {self.entry_start} to {stop}"


@dataclass
class MissingSubJob:
    """A sub-job without a result: the files that it should have read, the ``cause`` that ended its last attempt, and
    its last step (``doing``).
    """

    index: int
    label: str = ""
    files: list[MissingEntries] = field(default_factory=list)
    cause: str = ""
    doing: str = ""
    attempts: int = 1

    def skipped(self) -> list[SkippedFile]:
        """Return the sub-job's entries as skipped files."""
        return [
            SkippedFile(one.path, one.count(), f"{one.words()}: its sub-job is missing: {self.cause}")
            for one in self.files
        ]


@dataclass
class MemoryRetry:
    """A sub-job that ran out of memory and then succeeded with less memory. If ``chunk_divisor`` is 1, only the memory
    for reading was reduced. Otherwise chunks had 1/``chunk_divisor`` of the entries, and floating-point sums of the
    wagons in ``inexact`` may differ in the last bits from sums over whole chunks.
    """

    subjob: str
    chunk_divisor: int = 1
    inexact: list[str] = field(default_factory=list)


@dataclass
class ActivitySpan:
    """A time span in which a process of a job worked, in seconds from the job's start. ``stage`` is 0 for processing
    events, otherwise the merge stage; ``is_last`` marks the merge that writes the results.
    """

    host: str = ""
    stage: int = 0
    begin_s: float = 0.0
    end_s: float = 0.0
    is_last: bool = False


@dataclass(frozen=True)
class MergeStage:
    """The cost of a merge stage so far: the number of merged ``results``, the number of completed ``nodes`` of the
    tree, and the total ``seconds`` of all processes. Stage 1 merges the sub-jobs' results.
    """

    stage: int
    results: int = 0
    nodes: int = 0
    seconds: float = 0.0


@dataclass
class FailureGroup:
    """Sub-jobs that failed in the same way: at the same line of code, or by the same cause. ``example`` is the first
    sub-job's traceback, or the end of its log file ``log``.
    """

    message: str = ""
    subjobs: list[int] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    example: str = ""
    log: str = ""


@dataclass
class RetryRecord:
    """A resubmission of sub-jobs by the last job of a submitted train, or by the user (``is_by_user``). ``causes``
    counts the sub-jobs by cause, ``sent_s`` is the time of the resubmission in seconds after the submission.
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
    """A sub-job that ran twice at the end of a job because its first worker was slow; ``why`` is the reason. ``kept``
    is the worker whose result was used, ``dropped`` the worker whose result was dropped.
    """

    subjob: str
    why: str = ""
    kept: str = ""
    dropped: str = ""


@dataclass
class LostWorker:
    """A worker process that was killed after ``seconds`` without progress, or that died (``is_dead``). ``doing`` is its
    last step, ``subjobs`` are the sub-jobs that were reassigned. ``host`` is empty if it is the job's machine. ``log``
    is the end of the worker's standard error, if separate from the job's standard error.
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
class TimePoint:
    """Cumulative counts since the job's start. Counts of the machine are None if workers are on other machines."""

    t_s: float
    events: int = 0
    bytes_read: int = 0
    plain_bytes: int = 0
    machine_cpu_s: float | None = None
    machine_iowait_s: float | None = None
    machine_received_bytes: int | None = None


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
    """The wall time of a worker, whose phases add up to ``wall_s``, and the model of its ``processor``."""

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
    processor: str = ""


@dataclass
class AccessRecord:
    """How files were read: the mode, ``local``, and the settings of ``branchline.Access`` that differ from their
    defaults; other settings are None. None in ``local``, as in old records, means "advised", its default at that time.
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
    timeout: float | None = None
    server_wait: float | None = None
    tries: int | None = None
    retry_pause: float | None = None
    throttle: str | None = None
    fault: str | None = None

    @classmethod
    def of(cls, access: Access) -> AccessRecord:
        """Return the record of an access configuration."""
        record = cls(access.mode)
        for name in cls.names():
            if name == "local" or getattr(access, name) != getattr(PLANNED, name):
                setattr(record, name, getattr(access, name))
        return record

    def access(self) -> Access:
        """Return the recorded access configuration."""
        values = {name: getattr(self, name) for name in self.names() if getattr(self, name) is not None}
        return from_plain(Access, {"mode": self.mode, "local": "advised", **values})

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of the settings other than the mode."""
        return [one.name for one in fields(cls) if one.name != "mode"]

    def chosen(self) -> list[tuple[str, object]]:
        """Return the names and values of the settings that differ from their defaults."""
        pairs = [(name, getattr(self, name)) for name in self.names()]
        return [(name, value) for name, value in pairs if value not in (None, getattr(PLANNED, name))]


@dataclass
class JobRecord:
    """A job: its conditions, costs and results.

    ``phases`` is the job's wall time by phase, ``access`` the read settings, and ``options`` the other options of
    ``branchline.run`` that are not defaults, as strings. ``versions`` are the versions of packages that results depend
    on, ``sources`` the wagons' source files, and ``environment`` the variables that can change numerical results.
    ``subjobs_reused`` counts sub-jobs whose results all come from an earlier run; ``reuse_notes`` are the reasons why
    other results could not be reused. ``sites`` are the reads by site and storage element. ``allow_missing`` is the
    maximum fraction of ``missing`` sub-jobs, whose files are also in ``skipped``. With ``max_events`` or ``max_files``,
    only the first events or files of each dataset are read, and ``dataset`` lists only these. ``seed`` is the seed of
    the wagons' random numbers. ``lookups`` are the lookups of files in catalogues. ``left_out`` lists files that were
    not written because a package is not installed. ``process`` is only set while a job runs. ``measures``
    are the corrective actions requested by the control room, ``measures_ignored`` is the number of unknown ones.
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
    options: dict[str, str] = field(default_factory=dict)
    memory_limit_bytes: int = 0
    step_entries: int = 0
    interrupted: bool = False
    wall_s: float = 0.0
    cpu_s: float = 0.0
    machine_cpu_s: float | None = None
    machine_iowait_s: float | None = None
    machine_received_bytes: int | None = None
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
    lookups: list[LookupRecord] = field(default_factory=list)
    samples: list[SampleRecord] = field(default_factory=list)
    luminosities: list[LuminosityRecord] = field(default_factory=list)
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
    joins: list[JoinRecord] = field(default_factory=list)
    measures: list[MeasureRecord] = field(default_factory=list)
    measures_ignored: int = 0
    workers_lost: list[LostWorker] = field(default_factory=list)
    worker_phases: list[WorkerPhases] = field(default_factory=list)
    timeline: list[TimePoint] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """Return the content of job.json: dicts, lists, numbers and strings."""
        return to_plain(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, object]) -> JobRecord:
        """Create a record from the content of a job.json. A record without ``schema_version`` was written by
        Branchline 0.1.0, with the fields of version 1. Missing fields get their defaults. Unknown fields are ignored.
        Raises ValueError if the content is not a record, or if its ``schema_version`` is newer than this Branchline.
        """
        version = plain.get("schema_version", SCHEMA_VERSION)
        if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= SCHEMA_VERSION:
            what = f"the record has version {version!r}; this Branchline supports versions up to {SCHEMA_VERSION}"
            raise ValueError(what)
        return from_plain(cls, {**plain, "schema_version": SCHEMA_VERSION})
