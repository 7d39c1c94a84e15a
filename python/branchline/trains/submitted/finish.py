"""The last steps of a submitted train, which fold the results of neighbouring sub-jobs in stages, and then write the
output directory.

The job record includes the times and machines of the tasks, the restarted tasks, and the retries.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from branchline.base.limits import OUT_REFUSES_WAIT_S, TABLE_FOLD_STAGES
from branchline.errors import BadFileError, MissingFileError, StorageError
from branchline.jobs.fold_tree import FoldNode
from branchline.jobs.interruption import Interruption
from branchline.jobs.local import LocalProcesses
from branchline.jobs.package_versions import OtherVersionsError, require_versions
from branchline.jobs.subjob import AfterLoss, Place
from branchline.reading.access import longest_wait_s
from branchline.records.sensors.record import ActivitySpan, RestartedTask, RetryRecord
from branchline.records.sensors.this_process import MachineCounters, cpu_s, host
from branchline.trains.out_folder.claim import claimed
from branchline.trains.out_folder.write_results import write
from branchline.trains.plan import LoadedWagons, TrainPlan
from branchline.trains.running.job_record import JobStart, RecordMaker, postprocess
from branchline.trains.running.missing import Missing, SetAside
from branchline.trains.running.result import TrainResult
from branchline.trains.running.table_files import MakePlace, merge_neighbours, merge_tables
from branchline.trains.subjobs.folding import MergeCosts, Merger, fold
from branchline.trains.subjobs.share_result import JobError, WorkerTimes
from branchline.trains.submitted.ledger_rows import enter_rows
from branchline.trains.submitted.submission import JobsRecord, Submission
from branchline.trains.submitted.submission_folder import BatchFolder
from branchline.trains.submitted.unit_failures import causes_of, failures_of
from branchline.trains.submitted.units import MergeSpan, UnitResult, has_result, joined_workers, subjob_nodes
from branchline.trains.wagons.clock import PhaseClock


@dataclass
class Collected:
    """The results that were found in the folder. ``parts`` are the results of the highest nodes of the tree.
    ``missing`` are the units without a result, with the reason if known. ``done_alone`` are the sub-jobs of missing
    units that have a separate result.
    """

    parts: list[UnitResult] = field(default_factory=list)
    missing: dict[FoldNode, str] = field(default_factory=dict)
    done_alone: set[int] = field(default_factory=set)


def merge(folder: BatchFolder, submission: Submission, node: FoldNode) -> bool:
    """Fold the results of a node's parts, and write the result of the node. Returns False if a part has no result, or
    if the node already has a result.
    """
    if has_result(folder, node, submission.id):
        return False
    begin_s = time.time()
    submission.sources.install()
    parts = [_result(folder, one) for one in submission.tree.parts_of(node)]
    found = [one for one in parts if isinstance(one, UnitResult)]
    if len(found) < len(parts):
        return False
    lost = [one for part in found for one in part.lost]
    costs = MergeCosts(one for part in found for one in part.merge_stages)
    with costs.folding(node.stage, len(found), nodes=1):
        folded = fold([one.folded for one in found])
        # Merge tables in every second stage only, so that two stages copy each byte only once.
        if node.stage % TABLE_FOLD_STAGES == 0:
            merge_neighbours(folded, folder.tables, submission.train_plan().settings.memory_limit_bytes)
    merges = [one for part in found for one in part.merges]
    merges.append(MergeSpan(host(), node.stage, begin_s, time.time()))
    result = UnitResult(node, folded, joined_workers(found), lost, merges, tuple(costs.stages()))
    return result.write(folder, submission.id)


def _result(folder: BatchFolder, node: FoldNode) -> UnitResult | str:
    """Return the result of a node. If it cannot be read, return the reason; empty if the node has no result."""
    try:
        return UnitResult.read(folder, node)
    except MissingFileError:
        return ""
    except (BadFileError, StorageError) as error:
        return str(error)


def collect(folder: BatchFolder, submission: Submission) -> Collected:
    """Read all results. If the result of a node is missing or damaged, the results of the nodes below are read
    instead.
    """
    collected = Collected()

    def look(node: FoldNode) -> None:
        found = _result(folder, node)
        if isinstance(found, UnitResult):
            collected.parts.append(found)
        elif node.stage > submission.unit_stage:
            for part in submission.tree.parts_of(node):
                look(part)
        else:
            collected.missing[node] = found
            alone = [_result(folder, one) for one in subjob_nodes(submission.tree, node)]
            collected.parts += (results := [one for one in alone if isinstance(one, UnitResult)])
            collected.done_alone |= {one.node.index for one in results}

    look(submission.tree.root)
    return collected


def finish(folder: BatchFolder, submission: Submission) -> TrainResult:
    """Fold all results and write the output directory, as a local run does. Raises the errors of ``claimed``."""
    interruption = Interruption()
    with interruption.installed(), claimed(folder.out, force=True) as claim:
        begin_s = time.time()
        submission = submission.with_dataset(folder)
        plan = submission.train_plan()
        collected, refused = collect(folder, submission), _other_versions(submission)
        if refused is not None:
            collected.parts = []
        # Determine why the other sub-jobs have no result.
        causes = causes_of(folder, submission, collected.missing)
        failures = failures_of(folder, submission, causes, collected.done_alone)
        set_aside = {index: SetAside(failure) for index, failure in failures.items()}
        hint = f"submit them again: branchline resume {folder.out}"
        missing = Missing(plan.shares, set_aside, plan.settings.allow_missing, hint)
        clock = PhaseClock("run", time.monotonic() - (begin_s - submission.submitted_s))
        merger = Merger(plan.loaded.wagons, plan.shares, plan.faults, plan.looked_at)
        for part in collected.parts:
            for cost in part.merge_stages:
                merger.costs.add(cost)
            merger.take_folded(part.node, part.folded)
        clock.switch("merge")
        merged = merger.finish()
        merged.skipped += missing.skipped()
        stopped_by = refused or merged.error or missing.error()
        tables = merge_tables(merged, folder.tables, plan.settings.memory_limit_bytes, _merging_place(submission, plan))
        with clock.during("wagons"):
            # Do not unpickle wagons that never processed a chunk: they may have killed every worker that unpickled
            # them.
            never_ran = {name for name, share in merged.wagons.items() if not share.chunks}
            wagons = submission.wagons.unpacked_but(never_ran)
            outputs = postprocess(wagons, merged)
        # The job record contains the code and parameters of the wagons.
        plan = replace(plan, loaded=LoadedWagons(wagons, ()))
        is_whole = stopped_by is None and not missing.set_aside
        notes = enter_rows(folder.out, is_whole=is_whole) if submission.wagon_keys else []
        maker = replace(
            _record_maker(submission, plan, collected, missing, clock),
            not_reusable={name: one.unknown for name, one in submission.wagon_keys.items() if one.key is None},
            reuse_notes=[*submission.reuse_notes, *notes],
            rerun_causes=submission.rerun_causes,
        )
        record = maker.record(merged, outputs, stopped_by)
        record.tables = tables
        record.merge_stages = merger.costs.stages()
        record.restarted = restarted_tasks(folder)
        record.retries = retries_of(folder, submission)
        record.activity = activity_of(submission, collected.parts, begin_s)
        clock.switch("write")
        result = TrainResult(outputs, record, stopped_by, _close_clock=maker.close_clock)
        write(result, claim, submission.pictures, wait_s=OUT_REFUSES_WAIT_S)
        if is_whole and not record.errors:
            folder.tables.remove()
    return result


def _other_versions(submission: Submission) -> JobError | None:
    """Return an error if this process has different package versions than planned. In this case, the process must not
    add up results; they are kept, so that a resumed train can add them up.
    """
    try:
        require_versions(submission.code.packages, host())
    except OtherVersionsError as error:
        return JobError.of(error)
    return None


def _merging_place(submission: Submission, plan: TrainPlan) -> MakePlace:
    """Return a function that creates places for merging tables, with worker processes of this task."""

    def make(after_loss: AfterLoss, tasks_count: int, _interruption: Interruption) -> Place:
        workers, timeout_s = min(submission.site.cpus, tasks_count), plan.settings.worker_timeout_s
        return LocalProcesses(workers, (), timeout_s, longest_wait_s(plan.settings.reading), after_loss=after_loss)

    return make


def is_good(result: TrainResult) -> bool:
    """Return whether the train succeeded: nothing failed, and no more sub-jobs are missing than allowed."""
    record = result.record
    failed = record.errors or record.interrupted or any(one.error is not None for one in record.wagons)
    # Files skipped because of --skip-bad-files do not count as missing sub-jobs.
    return not failed and (not record.skipped or record.allow_missing > 0)


def _record_maker(
    submission: Submission, plan: TrainPlan, collected: Collected, missing: Missing, clock: PhaseClock
) -> RecordMaker:
    """Return an object that creates the job record, for a job that started at the submission. Time during which a
    worker was queued or had already ended counts as idle.
    """
    workers = joined_workers(collected.parts)
    lost = [one for part in collected.parts for one in part.lost]
    run_s = clock.spent("run")
    times: dict[int, WorkerTimes] = {}
    for number, span in enumerate(sorted(workers, key=lambda one: (one.begin_s, one.attempt, one.worker))):
        phases = dict(span.times.phases)
        phases["idle"] += max(0.0, run_s - sum(phases.values()))
        times[number] = replace(span.times, until_s=time.monotonic(), phases=phases)
    count = max(1, len(times))
    return RecordMaker(
        plan=replace(plan, settings=replace(plan.settings, workers=count)),
        start=JobStart(datetime.fromisoformat(submission.started), clock, cpu_s(), MachineCounters()),
        times=times,
        workers_count=count,
        timeline=[],
        step_entries=submission.learning.step or 0,
        interrupted=False,
        lost=lost,
        missing=missing,
        command=submission.command,
        provenance=submission.provenance,
    )


def activity_of(submission: Submission, parts: Sequence[UnitResult], last_begin_s: float) -> list[ActivitySpan]:
    """Return when the workers, the jobs that folded results, and the last job were active. The last job started at
    ``last_begin_s``.
    """
    zero_s = submission.submitted_s
    workers = joined_workers(list(parts))
    spans = [ActivitySpan(one.times.host, 0, one.begin_s - zero_s, one.until_s - zero_s) for one in workers]
    for part in parts:
        spans += [ActivitySpan(one.host, one.stage, one.begin_s - zero_s, one.end_s - zero_s) for one in part.merges]
    last = ActivitySpan(host(), submission.tree.stages, last_begin_s - zero_s, time.time() - zero_s, is_last=True)
    return [*sorted(spans, key=lambda one: (one.begin_s, one.end_s)), last]


def restarted_tasks(folder: BatchFolder) -> list[RestartedTask]:
    """Return the tasks that started more than once, and the machines of their attempts. Each attempt leaves a file that
    names its machine.
    """
    hosts: dict[str, list[tuple[float, str]]] = {}
    for path in folder.accounts.iterdir():
        task, _, attempt = path.name.rpartition(".")
        if attempt not in ("exit", "node", "idle"):
            try:
                hosts.setdefault(task, []).append((path.stat().st_mtime, path.read_text().partition(" ")[0]))
            except OSError:
                continue  # the file has just been removed
    return [RestartedTask(task, [one for _, one in sorted(at)]) for task, at in sorted(hosts.items()) if len(at) > 1]


def retries_of(folder: BatchFolder, submission: Submission) -> list[RetryRecord]:
    """Return records of the retries: all submissions except the first one."""
    return [
        RetryRecord(
            subjobs=sum(one.causes.values()),
            causes=dict(one.causes),
            excluded_nodes=list(one.excluded),
            sent_s=one.submitted_s - submission.submitted_s,
            is_by_user=not one.retry,
        )
        for one in JobsRecord.read_all(folder)[1:]
    ]
