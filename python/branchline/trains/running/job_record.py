"""Makes the record of a job from what its sub-jobs brought back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

from branchline.errors import InternalError
from branchline.jobs.interruption import Interruption
from branchline.jobs.subjob import Lost, Repeated
from branchline.reading.datasets.dataset import Dataset
from branchline.records.sensors.record import (
    FAILED,
    FINISHED,
    PARTIAL,
    STOPPED,
    AccessRecord,
    ActivitySpan,
    DatasetFile,
    FileRecord,
    JobFault,
    JobRecord,
    LostWorker,
    RecoveredFile,
    RepeatedSubJob,
    SkippedFile,
    TimePoint,
    WagonFault,
    WagonRecord,
    WorkerPhases,
)
from branchline.records.sensors.storage_counts import added_troubles, joined_links, take_troubles
from branchline.records.sensors.this_process import (
    branchline_version,
    code_sha256,
    cpu_count,
    cpu_s,
    host,
    machine_cpu_s,
    memory_peak_bytes,
    versions,
)
from branchline.trains.plan import TrainPlan
from branchline.trains.reuse.provenance import Provenance
from branchline.trains.running.missing import Missing
from branchline.trains.running.sample_sums import sample_records
from branchline.trains.subjobs.folding import FoldedResult
from branchline.trains.subjobs.locality import MeasuresTold
from branchline.trains.subjobs.record_sums import (
    companions_missing,
    skipped_files,
    storage_elements,
    storage_remarks,
    totals_of,
)
from branchline.trains.subjobs.share_result import CannotPickleError, JobError, WagonShare, WorkerTimes, pickled_bytes
from branchline.trains.sums.cutflow import cutflow_records
from branchline.trains.wagons.clock import PHASES, PhaseClock
from branchline.trains.wagons.faults import fault_of, reason
from branchline.trains.wagons.wagon_settings import parameter_records
from branchline.trains.wagons.wagons import Wagon
from branchline.trains.worker.isolation import MESSAGE, ForkedChildren


def postprocess(wagons: Sequence[Wagon], merged: FoldedResult) -> dict[str, Any]:
    """The results by wagon. Where ``postprocess`` raises, or a signal cuts it off, the sum is kept as it is and the
    wagon has an error.
    """
    outputs = {wagon.name: merged.wagons[wagon.name].total for wagon in wagons}
    forked = ForkedChildren([wagon.name for wagon in wagons])
    for wagon in wagons:
        share = merged.wagons[wagon.name]
        if share.chunks == 0:
            continue
        # Another one than that of the job: a signal that came before does not cut off what is done with the sums.
        interruption = Interruption()
        with interruption.installed():
            try:
                with interruption.allowed(), forked.ended(wagon.name):
                    output = wagon.postprocess(share.total)
                outputs[wagon.name] = output
            except BaseException as error:  # noqa: BLE001 - a wagon may raise anything
                fault = fault_of(error, wagon, is_cut_off=interruption.asked)
                share.error = share.error or replace(fault, message=f"in postprocess: {reason(error)}")
        for name in forked.take():
            share = merged.wagons[name]
            share.error = share.error or WagonFault("ChildProcessError", f"in postprocess: {MESSAGE}")
    return outputs


@dataclass(frozen=True)
class JobStart:
    """When a job began, by several clocks."""

    started: datetime
    clock: PhaseClock
    cpu_s: float
    machine_cpu_s: float | None

    @classmethod
    def now(cls) -> JobStart:
        """It begins."""
        return cls(datetime.now(UTC), PhaseClock("other"), cpu_s(), machine_cpu_s())


@dataclass
class RecordMaker:
    """What is known of a job besides what its sub-jobs brought back."""

    plan: TrainPlan
    start: JobStart
    times: dict[int, WorkerTimes]
    workers_count: int
    timeline: list[TimePoint]
    step_entries: int
    interrupted: bool
    lost: list[Lost]
    missing: Missing
    command: str
    not_reusable: Mapping[str, str] = field(default_factory=dict)
    reuse_notes: Sequence[str] = ()
    repeated: Sequence[Repeated] = ()
    told: MeasuresTold = field(default_factory=MeasuresTold)
    provenance: Provenance = field(default_factory=Provenance)

    def record(self, merged: FoldedResult, outputs: Mapping[str, Any], stopped_by: JobError | None) -> JobRecord:
        """The record of the whole job."""
        plan, files = self.plan, merged.files
        missing = [SkippedFile(one.path, None, "there is no such file") for one in plan.missing]
        skipped = skipped_files([*missing, *merged.skipped])
        wagons = [self._wagon(one, merged.wagons[one.name], outputs[one.name]) for one in plan.loaded.wagons]
        record = JobRecord(
            branchline=branchline_version(),
            versions={**self.provenance.versions, **versions()},
            sources=list(self.provenance.sources),
            environment=dict(self.provenance.environment),
            host=host(),
            cpu_count=cpu_count(),
            machine_cpu_count=os.cpu_count(),
            workers=self.workers_count,
            threads=max((one.threads for one in self.times.values()), default=plan.threads),
            started=self.start.started.isoformat(),
            memory_peak_bytes=self._memory_peak_bytes(),
            command=self.command,
            access=AccessRecord.of(plan.settings.access),
            memory_limit_bytes=plan.settings.memory_limit_bytes,
            interrupted=self.interrupted,
            step_entries=self.step_entries,
            subjobs=len(plan.shares),
            subjobs_done=merged.subjobs_done,
            subjobs_reused=merged.subjobs_reused,
            reuse_notes=list(self.reuse_notes),
            dataset=self._dataset(files),
            samples=sample_records(plan.dataset, files, skipped, plan.settings.access),
            max_events=plan.settings.max_events,
            max_files=plan.settings.max_files,
            seed=plan.settings.seed,
            events=merged.events,
            events_expected=_events_expected(plan.dataset, files, skipped),
            wagons=wagons,
            skipped=skipped,
            workers_lost=[_lost(one) for one in self.lost],
            allow_missing=self.missing.allow_missing,
            missing=self.missing.records,
            failures=self.missing.failures(),
            memory_retries=merged.memory_retries,
            repeated=[RepeatedSubJob(**vars(one)) for one in self.repeated],
            recovered=[RecoveredFile(path, count) for path, count in merged.recovered.items()],
            misses=_misses(merged),
            errors=[] if stopped_by is None else [stopped_by.fault(), *self.missing.further_faults()],
        )
        self._add_reading(record, merged)
        _check_events(record)
        _judge(record)
        self.close_clock(record)
        return record

    def _add_reading(self, record: JobRecord, merged: FoldedResult) -> None:
        """Adds what the reading took."""
        files = merged.files
        record.files = files
        record.branches = merged.branches
        record.storage_elements = storage_elements(files)
        record.sites = merged.sites
        record.storage_remarks = storage_remarks(files)
        record.measures, record.measures_ignored = self.told.with_heard(merged.measures), self.told.ignored
        record.links = joined_links(merged.links)
        record.troubles = added_troubles([*merged.troubles, *take_troubles()])
        record.companions_missing = companions_missing(merged.companions_missing)
        record.timeline = self.timeline
        record.totals = totals_of(files)

    def close_clock(self, record: JobRecord) -> None:
        """Sets the wall time, the CPU time and the phases to what they are now."""
        seconds = self.start.clock.seconds()
        run_s = seconds.pop("run", 0.0)
        record.worker_phases = [self._worker_phases(worker, run_s) for worker in range(self.workers_count)]
        record.phases = {}
        for phase in PHASES:
            of_workers = sum(getattr(one, phase) for one in record.worker_phases) / self.workers_count
            record.phases[phase] = seconds.get(phase, 0.0) + of_workers
        record.wall_s = sum(seconds.values()) + run_s
        record.activity = record.activity or self._activity(seconds.get("merge", 0.0), record.wall_s)
        record.cpu_s = cpu_s() - self.start.cpu_s
        if not self.plan.is_in_this_process:
            record.cpu_s += sum(one.cpu_s for one in self.times.values())
        now_s = machine_cpu_s()
        is_here = self.plan.settings.on is None
        if is_here and now_s is not None and self.start.machine_cpu_s is not None:
            record.machine_cpu_s = now_s - self.start.machine_cpu_s

    def _activity(self, merge_s: float, wall_s: float) -> list[ActivitySpan]:
        """When workers were at work, from their first to their last message, and the merge at the end."""
        spans = []
        for _, one in sorted(self.times.items()):
            end_s = one.until_s - self.start.clock.begin_s
            begin_s = max(0.0, end_s - sum(one.phases.values()))
            spans.append(ActivitySpan(one.host, 0, begin_s, max(begin_s, end_s)))
        return [*spans, ActivitySpan(host(), 1, max(0.0, wall_s - merge_s), wall_s, is_last=True)]

    def _worker_phases(self, worker: int, run_s: float) -> WorkerPhases:
        """The phases of a worker. From its last message to the end of the run it is idle, and one that never sent any
        is so all the time; what its clock has in no phase is in ``other``.
        """
        times = self.times.get(worker)
        if times is None:
            phases = dict.fromkeys(PHASES, 0.0) | {"idle": run_s}
        else:
            phases = dict(times.phases)
            phases["idle"] += min(run_s, max(0.0, self.start.clock.ended_s("run") - times.until_s))
        # A worker of a place elsewhere comes when it comes; those here are started with the run, or in place of others.
        is_replaced = any(one.worker == worker for one in self.lost)
        rest = "idle" if self.plan.settings.on is not None else "lost" if is_replaced else "other"
        phases[rest] += max(0.0, run_s - sum(phases.values()))
        where, site = (times.host, times.site) if times else (host(), "")
        return WorkerPhases(worker, where, site, run_s, **phases)

    def _memory_peak_bytes(self) -> int:
        processes = [] if self.plan.is_in_this_process else [one.memory_peak_bytes for one in self.times.values()]
        return memory_peak_bytes() + sum(processes)

    def _dataset(self, files: Sequence[FileRecord]) -> list[DatasetFile]:
        entries = {one.path: one.entries for one in files}
        return [
            DatasetFile(one.path, one.tree, one.dataset, entries.get(one.path), one.size_bytes)
            for one in self.plan.dataset
        ]

    def _wagon(self, wagon: Wagon, share: WagonShare, output: Any) -> WagonRecord:
        cutflows, left_out = cutflow_records(output)
        return WagonRecord(
            name=wagon.name,
            seconds=share.seconds,
            cpu_s=share.cpu_s,
            core_wait_s=share.core_wait_s,
            events=share.events,
            chunks=share.chunks,
            misses=sum(share.misses.values()),
            subjobs_reused=share.reused_count,
            not_reusable=self.not_reusable.get(wagon.name, ""),
            output_bytes=_output_bytes(output),
            branches=sorted(share.touched),
            requires=list(wagon.requires),
            code_sha256=code_sha256(wagon.code),
            parameters=parameter_records(wagon),
            cutflows=cutflows,
            cutflows_left_out=left_out,
            error=share.error,
            warnings=self._warnings(wagon.name),
        )

    def _warnings(self, name: str) -> list[str]:
        """Why a result may be wrong: a wagon of the train is known to change others, or it is this one."""
        own = [self.plan.changers[name]] if name in self.plan.changers else []
        others = [(one, what) for one, what in self.plan.changers.items() if one != name]
        return [*own, *(f"its result may have been changed by {one}: {what}" for one, what in others)]


def _lost(lost: Lost) -> LostWorker:
    values = {one.name: getattr(lost, one.name) for one in fields(LostWorker)}
    return LostWorker(**values | {"subjobs": list(lost.subjobs)})


def _judge(record: JobRecord) -> None:
    """Sets how the job and its wagons stand."""
    is_whole = not (record.errors or record.skipped or record.interrupted)
    for wagon in record.wagons:
        wagon.status = _wagon_status(wagon, is_whole=is_whole)
    is_whole = is_whole and all(wagon.error is None for wagon in record.wagons)
    record.status = FINISHED if is_whole else PARTIAL if record.events else FAILED


def _check_events(record: JobRecord) -> None:
    """Every event of the dataset was seen exactly once, or an error is added that says so."""
    all_stopped = all(wagon.error is not None for wagon in record.wagons)
    if record.errors or record.skipped or record.interrupted or all_stopped:
        return
    unread = [one.path for one in record.dataset if one.entries is None]
    if unread:
        what = f"the train never read {len(unread)} files of its dataset, the first is {unread[0]}"
        record.errors.append(_contradiction(what, unread[0]))
    if record.events_expected is not None and record.events != record.events_expected:
        what = f"the train saw {record.events} events where its files hold {record.events_expected}"
        record.errors.append(_contradiction(what))


def _contradiction(what: str, path: str | None = None) -> JobFault:
    hint = (
        "unless a file was replaced while it ran, this is a fault of Branchline: run it again, and report it with"
        " job.json if it is said again"
    )
    return JobFault(InternalError.__name__, str(InternalError(what, path=path, hint=hint)), path)


def _wagon_status(wagon: WagonRecord, *, is_whole: bool) -> str:
    """``is_whole`` says whether the job brought it all events."""
    if wagon.error is not None:
        return PARTIAL if wagon.events else STOPPED
    return FINISHED if is_whole else PARTIAL


def _misses(merged: FoldedResult) -> dict[str, int]:
    misses: dict[str, int] = {}
    for share in merged.wagons.values():
        for branch, count in share.misses.items():
            misses[branch] = misses.get(branch, 0) + count
    return misses


def _events_expected(dataset: Dataset, files: Sequence[FileRecord], skipped: Sequence[SkippedFile]) -> int | None:
    """The events of the dataset, those of skipped files among them as far as they are known; None if another file was
    not opened, or if trees of one file cannot be distinguished.
    """
    entries = {record.path: record.entries for record in files}
    lost = {record.path: record.entries_lost for record in skipped}
    if len({(one.path, one.tree) for one in dataset}) > len({one.path for one in dataset}):
        return None
    events = {record.path: record.events for record in files}
    total = sum(
        (entries.get(path) or 0) if entries_lost is None else events.get(path, 0) + entries_lost
        for path, entries_lost in lost.items()
    )
    for one in dataset:
        count = entries.get(one.path)
        if one.path in lost:
            continue
        if count is None:
            return None
        stop = count if one.entry_stop is None else min(count, one.entry_stop)
        total += max(0, stop - one.entry_start)
    return total


def _output_bytes(output: Any) -> int:
    try:
        return pickled_bytes(output)
    except (CannotPickleError, MemoryError):
        return 0  # what postprocess returns need not travel any more
