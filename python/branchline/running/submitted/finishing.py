"""The last steps of a submitted train: neighbours are folded in stages, then the directory of results is written."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby

from branchline.errors import BadFileError, BranchlineError, MissingFileError, StorageError
from branchline.jobs import FoldNode, Interruption
from branchline.running.claim import claimed
from branchline.running.submitted.causes import causes_of
from branchline.running.submitted.folder import BatchFolder
from branchline.running.submitted.reusing import enter_rows
from branchline.running.submitted.submission import Submission
from branchline.running.submitted.units import UnitResult, has_result, joined_workers
from branchline.running.writing import write
from branchline.sensors import cpu_s
from branchline.sensors.record import JobFault, SkippedFile
from branchline.train import JobError, TrainResult
from branchline.train.clock import PhaseClock
from branchline.train.folding import fold
from branchline.train.job_record import JobStart, RecordMaker, postprocess
from branchline.train.merging import Merger
from branchline.train.plan import TrainPlan
from branchline.train.share_result import WorkerTimes


class MissingSubJobsError(BranchlineError):
    """Sub-jobs of a submitted train came to no result."""


@dataclass
class Collected:
    """What results there are: the highest nodes of the tree that have one, and the units that have none."""

    parts: list[UnitResult] = field(default_factory=list)
    missing: dict[FoldNode, str] = field(default_factory=dict)


def merge(folder: BatchFolder, submission: Submission, node: FoldNode) -> bool:
    """Folds the results below a node into one; False if one of them is missing, or it is done."""
    if has_result(folder, node, submission.id):
        return False
    submission.sources.install()
    parts = [_result(folder, one) for one in submission.tree.parts_of(node)]
    found = [one for one in parts if isinstance(one, UnitResult)]
    if len(found) < len(parts):
        return False
    lost = [one for part in found for one in part.lost]
    result = UnitResult(node, fold([one.folded for one in found]), joined_workers(found), lost)
    return result.write(folder, submission.id)


def _result(folder: BatchFolder, node: FoldNode) -> UnitResult | str:
    """The result of a node, or why there is none."""
    try:
        return UnitResult.read(folder, node)
    except MissingFileError:
        return ""
    except (BadFileError, StorageError) as error:
        return str(error)


def collect(folder: BatchFolder, submission: Submission) -> Collected:
    """Reads the results. A node that was not folded, or is damaged, is made of those below it."""
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

    look(submission.tree.root)
    return collected


def finish(folder: BatchFolder, submission: Submission) -> TrainResult:
    """Folds all results and writes the directory, as a run on one machine does. Raises what claiming it raises."""
    interruption = Interruption()
    with interruption.installed(), claimed(folder.out, force=True) as claim:
        begin_s = time.time()
        plan = submission.train_plan()
        collected = collect(folder, submission)
        missing = causes_of(folder, submission, collected.missing)
        clock = PhaseClock("run", time.monotonic() - (begin_s - submission.submitted_s))
        merger = Merger(plan.loaded.wagons, plan.shares, plan.faults, plan.looked_at)
        for part in collected.parts:
            merger.take_folded(part.node, part.folded)
        clock.switch("merge")
        merged = merger.finish()
        is_allowed = _missing_part(submission, missing) <= submission.allow_missing
        merged.skipped += _skipped(submission, missing)
        stopped_by = merged.error
        if missing and not is_allowed:
            stopped_by = stopped_by or _error_of(folder, submission, missing)
        with clock.during("wagons"):
            outputs = postprocess(plan.loaded.wagons, merged)
        is_whole = stopped_by is None and not missing
        notes = enter_rows(folder.out, is_whole=is_whole) if submission.wagon_keys else []
        maker = replace(
            _record_maker(submission, plan, collected, clock),
            not_reusable={name: one.unknown for name, one in submission.wagon_keys.items() if one.key is None},
            reuse_notes=[*submission.reuse_notes, *notes],
        )
        record = maker.record(merged, outputs, stopped_by)
        if not is_allowed:
            record.errors += _further(submission, missing)
        clock.switch("write")
        result = TrainResult(outputs, record, stopped_by, _close_clock=maker.close_clock)
        write(result, claim, submission.pictures)
    return result


def is_good(submission: Submission, result: TrainResult) -> bool:
    """Whether a train ended well: nothing failed, and no more is missing than may be."""
    record = result.record
    failed = record.errors or record.interrupted or any(one.error is not None for one in record.wagons)
    # What is skipped by --skip-bad-files is not in the submission's count of what may be missing.
    return not failed and (not record.skipped or submission.allow_missing > 0)


def _missing_part(submission: Submission, missing: dict[FoldNode, str]) -> float:
    count = sum(len(submission.tree.shares_of(unit)) for unit in missing)
    return count / max(1, submission.tree.shares_count)


def _skipped(submission: Submission, missing: dict[FoldNode, str]) -> list[SkippedFile]:
    """Each file of which sub-jobs are missing, once, with its entries where the dataset or the sub-job names them."""
    found = []
    for unit, cause in missing.items():
        shares = [submission.plan.shares[index] for index in submission.tree.shares_of(unit)]
        for path, group in groupby(((one, share) for share in shares for one in share.files), lambda x: x[0].path):
            files = list(group)
            parts = [share.part + 1 for _, share in files if share.parts > 1]
            entries = [f"{one.entry_start} to {one.entry_stop}" for one, _ in files if one.entry_stop is not None]
            what = f"parts {parts[0]} to {parts[-1]} of {files[0][1].parts}: " if parts else ""
            what += f"entries {', '.join(entries)}: " if entries else ""
            lost = sum(one.entry_stop - one.entry_start for one, _ in files if one.entry_stop is not None)
            is_counted = len(entries) == len(files) and not parts
            found.append(SkippedFile(path, lost if is_counted else None, f"{what}its sub-job is missing: {cause}"))
    return found


def _message(submission: Submission, unit: FoldNode, cause: str) -> str:
    shares = submission.tree.shares_of(unit)
    first, last = (submission.plan.shares[index].label for index in (shares.start, shares.stop - 1))
    where = first if len(shares) == 1 else f"{first} to {last}"
    return f"sub-jobs {shares.start} to {shares.stop - 1} are missing ({where}): {cause}"


def _error_of(folder: BatchFolder, submission: Submission, missing: dict[FoldNode, str]) -> JobError:
    unit, cause = next(iter(missing.items()))
    hint = f"send them again: branchline resume {folder.out}"
    return JobError.of(MissingSubJobsError(_message(submission, unit, cause), hint=hint, retry=True))


def _further(submission: Submission, missing: dict[FoldNode, str]) -> list[JobFault]:
    """The other units that are missing; the first is what the job is stopped by."""
    others = list(missing.items())[1:]
    return [JobFault(MissingSubJobsError.__name__, _message(submission, *one)) for one in others]


def _record_maker(submission: Submission, plan: TrainPlan, collected: Collected, clock: PhaseClock) -> RecordMaker:
    """The record begins with the submission: what a worker waited in the queue, and after its end, is idle."""
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
        start=JobStart(datetime.fromisoformat(submission.started), clock, cpu_s(), None),
        times=times,
        workers_count=count,
        timeline=[],
        step_entries=submission.learning.step or 0,
        interrupted=False,
        lost=lost,
        command=submission.command,
    )
