"""Creates the job record from the results of the sub-jobs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime

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
    FileRecord,
    JobFault,
    JobRecord,
    LostWorker,
    RepeatedSubJob,
    SkippedFile,
    TimePoint,
    WagonFault,
    WagonRecord,
    WorkerPhases,
)
from branchline.records.sensors.record_parts import DatasetFile, LookupRecord, RecoveredFile
from branchline.records.sensors.storage_counts import added_troubles, joined_links, take_troubles
from branchline.records.sensors.this_process import (
    MachineCounters,
    branchline_version,
    code_sha256,
    cpu_count,
    cpu_s,
    host,
    memory_peak_bytes,
    versions,
)
from branchline.trains.plan import TrainPlan
from branchline.trains.reuse.provenance import Provenance
from branchline.trains.running.luminosity_records import luminosity_records
from branchline.trains.running.missing import Missing
from branchline.trains.running.sample_sums import sample_records
from branchline.trains.subjobs.folding import FoldedResult
from branchline.trains.subjobs.locality import MeasuresTold
from branchline.trains.subjobs.share_records import (
    added_joins,
    companions_missing,
    skipped_files,
    storage_elements,
    storage_remarks,
    totals_of,
)
from branchline.trains.subjobs.share_result import CannotPickleError, JobError, WorkerTimes, pickled_bytes
from branchline.trains.sums.cutflow import cutflow_records
from branchline.trains.wagons.clock import PHASES, PhaseClock
from branchline.trains.wagons.faults import fault_of, in_cells, reason
from branchline.trains.wagons.wagon_settings import parameter_records
from branchline.trains.wagons.wagons import Wagon
from branchline.trains.worker.isolation import CHILD_RETURNED, ForkedChildren


def postprocess(wagons: Sequence[Wagon], merged: FoldedResult) -> dict[str, object]:
    """Return the results by wagon. If a wagon's ``postprocess`` raises or is interrupted by a signal, its result is the
    unprocessed sum, and the wagon gets an error.
    """
    outputs = {wagon.name: merged.wagons[wagon.name].total for wagon in wagons}
    forked = ForkedChildren(list(outputs))
    for wagon in wagons:
        share = merged.wagons[wagon.name]
        if share.chunks == 0:
            continue
        # Use a new Interruption instead of the job's: a Ctrl-C that ended the run must not interrupt postprocessing
        # too.
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
            share.error = share.error or WagonFault("ChildProcessError", f"in postprocess: {CHILD_RETURNED}")
    return outputs


@dataclass(frozen=True)
class JobStart:
    """The start of a job, read from several clocks."""

    started: datetime
    clock: PhaseClock
    cpu_s: float
    machine: MachineCounters

    @classmethod
    def now(cls) -> JobStart:
        """Read all clocks now."""
        return cls(datetime.now(UTC), PhaseClock("other"), cpu_s(), MachineCounters.now())


@dataclass
class RecordMaker:
    """Creates the job record from the results of the sub-jobs and the state of the run."""

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
    rerun_causes: Mapping[str, str] = field(default_factory=dict)
    reuse_notes: Sequence[str] = ()
    repeated: Sequence[Repeated] = ()
    told: MeasuresTold | None = None
    provenance: Provenance = field(default_factory=Provenance)

    def record(self, merged: FoldedResult, outputs: Mapping[str, object], stopped_by: JobError | None) -> JobRecord:
        """Return the record of the whole job."""
        plan, files = self.plan, merged.files
        missing = [SkippedFile(one.path, None, one.missing_reason) for one in plan.missing]
        skipped = skipped_files([*missing, *merged.skipped])
        wagons = [self._wagon(one, merged, outputs[one.name]) for one in plan.loaded.wagons]
        entries = {one.path: one.entries for one in files}
        dataset = [
            DatasetFile(one.path, one.tree, one.dataset, entries.get(one.path), one.size_bytes, one.version)
            for one in plan.dataset
        ]
        processes = [] if plan.is_in_this_process else [one.memory_peak_bytes for one in self.times.values()]
        misses: Counter[str] = Counter()
        for share in merged.wagons.values():
            misses.update(share.misses)
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
            memory_peak_bytes=memory_peak_bytes() + sum(processes),
            command=self.command,
            access=AccessRecord.of(plan.settings.reading),
            options=dict(plan.options),
            memory_limit_bytes=plan.settings.memory_limit_bytes,
            interrupted=self.interrupted,
            step_entries=self.step_entries,
            subjobs=len(plan.shares),
            subjobs_done=merged.subjobs_done,
            subjobs_reused=merged.subjobs_reused,
            reuse_notes=list(self.reuse_notes),
            dataset=dataset,
            lookups=_lookups(plan.dataset),
            samples=sample_records(plan.dataset, files, skipped, plan.settings.reading)
            if any(one.sample is not None for one in plan.dataset)
            else [],
            luminosities=luminosity_records(plan.dataset, plan.loaded.wagons, merged.wagons),
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
            misses=dict(misses),
            errors=[] if stopped_by is None else [stopped_by.fault(), *self.missing.further_faults()],
            files=files,
            branches=merged.branches,
            storage_elements=storage_elements(files),
            sites=merged.sites,
            storage_remarks=storage_remarks(files),
            measures=merged.measures if self.told is None else self.told.with_heard(merged.measures),
            measures_ignored=0 if self.told is None else self.told.ignored,
            links=joined_links(merged.links),
            troubles=added_troubles([*merged.troubles, *take_troubles()]),
            companions_missing=companions_missing(merged.companions_missing),
            joins=added_joins(merged.joins),
            timeline=self.timeline,
            totals=totals_of(files),
        )
        _check_events(record)
        _judge(record)
        self.close_clock(record)
        return record

    def close_clock(self, record: JobRecord) -> None:
        """Update the wall time, the CPU time and the phases in the record to their current values."""
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
        if self.plan.settings.on is None:
            machine = MachineCounters.now().since(self.start.machine)
            record.machine_cpu_s = machine.cpu_s
            record.machine_iowait_s = machine.iowait_s
            record.machine_received_bytes = machine.received_bytes

    def _activity(self, merge_s: float, wall_s: float) -> list[ActivitySpan]:
        """Return when each worker was active, from its first to its last message, and when the final merge ran."""
        spans = []
        for _, one in sorted(self.times.items()):
            end_s = one.until_s - self.start.clock.begin_s
            begin_s = max(0.0, end_s - sum(one.phases.values()))
            spans.append(ActivitySpan(one.host, 0, begin_s, max(begin_s, end_s)))
        return [*spans, ActivitySpan(host(), 1, max(0.0, wall_s - merge_s), wall_s, is_last=True)]

    def _worker_phases(self, worker: int, run_s: float) -> WorkerPhases:
        """Return the phases of a worker.

        A worker is idle from its last message to the end of the run, or all the time if it never sent a message. The
        remaining time counts as "lost" for a replaced worker, as "idle" for a worker on another machine, and otherwise
        as "other".
        """
        times = self.times.get(worker)
        if times is None:
            phases = dict.fromkeys(PHASES, 0.0) | {"idle": run_s}
        else:
            phases = dict(times.phases)
            phases["idle"] += min(run_s, max(0.0, self.start.clock.ended_s("run") - times.until_s))
        # Workers on other machines may join at any time. Local workers start with the run, or replace lost workers.
        is_replaced = any(one.worker == worker for one in self.lost)
        rest = "idle" if self.plan.settings.on is not None else "lost" if is_replaced else "other"
        phases[rest] += max(0.0, run_s - sum(phases.values()))
        where, site, kind = (times.host, times.site, times.processor) if times else (host(), "", "")
        return WorkerPhases(worker, where, site, run_s, **phases, processor=kind)

    def _wagon(self, wagon: Wagon, merged: FoldedResult, output: object) -> WagonRecord:
        share = merged.wagons[wagon.name]
        not_reusable = self.not_reusable.get(wagon.name, "")
        ran_again = not not_reusable and share.reused_count < merged.subjobs_done
        cutflows, left_out = cutflow_records(output)
        # Warn if this wagon, or another wagon of the train, is known to change other wagons' results.
        changers = self.plan.changers
        own = [changers[wagon.name]] if wagon.name in changers else []
        others = [(one, what) for one, what in changers.items() if one != wagon.name]
        return WagonRecord(
            name=wagon.name,
            seconds=share.seconds,
            cpu_s=share.cpu_s,
            core_wait_s=share.core_wait_s,
            python_lines_per_event=share.python_lines / share.python_events if share.python_events else None,
            events=share.events,
            chunks=share.chunks,
            misses=sum(share.misses.values()),
            subjobs_reused=share.reused_count,
            not_reusable=not_reusable,
            rerun_cause=self.rerun_causes.get(wagon.name, "") if ran_again else "",
            output_bytes=_output_bytes(output),
            branches=sorted(share.touched),
            requires=list(wagon.requires),
            code_sha256=code_sha256(wagon.code),
            parameters=parameter_records(wagon),
            cutflows=cutflows,
            cutflows_left_out=left_out,
            error=None if share.error is None else in_cells(share.error),
            warnings=[*own, *(f"its result may have been changed by {one}: {what}" for one, what in others)],
        )


def _lost(lost: Lost) -> LostWorker:
    values = {one.name: getattr(lost, one.name) for one in fields(LostWorker)}
    return LostWorker(**values | {"subjobs": list(lost.subjobs)})


def _judge(record: JobRecord) -> None:
    """Set the status of the job and of its wagons."""
    is_whole = not (record.errors or record.skipped or record.interrupted)
    for wagon in record.wagons:
        if wagon.error is not None:
            wagon.status = PARTIAL if wagon.events else STOPPED
        else:
            # A wagon has seen all events only if the whole job has read them.
            wagon.status = FINISHED if is_whole else PARTIAL
    is_whole = is_whole and all(wagon.error is None for wagon in record.wagons)
    record.status = FINISHED if is_whole else PARTIAL if record.events else FAILED


def _lookups(dataset: Dataset) -> list[LookupRecord]:
    lookups = {id(one.lookup): one.lookup for one in dataset if one.lookup is not None}
    return [
        LookupRecord(
            one.name,
            one.server,
            one.time,
            list(one.schemes),
            one.rses,
            one.files,
            dict(one.replicas),
            one.tape_replicas,
            list(one.without_replicas),
        )
        for one in lookups.values()
    ]


def _check_events(record: JobRecord) -> None:
    """Add an error to the record unless every event of the dataset was processed exactly once."""
    all_stopped = all(wagon.error is not None for wagon in record.wagons)
    if record.errors or record.skipped or record.interrupted or all_stopped:
        return
    unread = [one.path for one in record.dataset if one.entries is None]
    if unread:
        what = f"{len(unread)} files of the dataset were never read, starting with {unread[0]}"
        record.errors.append(_contradiction(what, unread[0]))
    if record.events_expected is not None and record.events != record.events_expected:
        what = f"the train processed {record.events} events, but its files contain {record.events_expected}"
        record.errors.append(_contradiction(what))


def _contradiction(what: str, path: str | None = None) -> JobFault:
    hint = (
        "unless a file was replaced during the run, this is a bug in Branchline: run again, and if the error"
        " persists, report it with job.json"
    )
    return JobFault(InternalError.__name__, str(InternalError(what, path=path, hint=hint)), path)


def _events_expected(dataset: Dataset, files: Sequence[FileRecord], skipped: Sequence[SkippedFile]) -> int | None:
    """Return the expected number of events of the dataset, including known events of skipped files.

    Returns None if a file was neither skipped nor opened, or if several trees of one file are read, except for the
    trees of all its folders.
    """
    of_folders = {one.path: one.trees for one in dataset if one.trees}
    alone = [one for one in dataset if not one.trees]
    is_unclear = (
        len({(one.path, one.tree) for one in alone}) > len({one.path for one in alone})
        or any(one.path in of_folders for one in alone)
        or any(one.trees and one.entry_stop is not None for one in dataset)
    )
    if is_unclear:
        return None
    read = {record.path: record for record in files}
    lost = {record.path: record.entries_lost for record in skipped}
    total = 0
    for path, entries_lost in lost.items():
        record = read.get(path, FileRecord(path))
        total += (record.entries or 0) if entries_lost is None else record.events + entries_lost
    for path, folders in of_folders.items():
        if path in lost:
            continue
        if path not in read or read[path].folders != folders or read[path].entries is None:
            return None
        total += read[path].entries or 0
    for one in alone:
        if one.path in lost:
            continue
        count = None if one.path not in read else read[one.path].entries
        if count is None:
            return None
        stop = count if one.entry_stop is None else min(count, one.entry_stop)
        total += max(0, stop - one.entry_start)
    return total


def _output_bytes(output: object) -> int:
    try:
        return pickled_bytes(output)
    except (CannotPickleError, MemoryError):
        return 0  # the result of postprocess need not be picklable
