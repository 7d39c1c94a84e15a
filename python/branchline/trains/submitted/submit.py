"""Submits a train to a batch system: plans the train, learns its branches, writes the files for its jobs, and submits
the jobs.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from branchline.base.checks import instance_of
from branchline.base.limits import BATCH_FINAL_PARTS_MAX, BATCH_TASK_BYTES, BATCH_TASKS_WANTED_MAX, FOLD_FAN_IN
from branchline.base.processes import own_python
from branchline.base.trust import VARIABLE, numbers_to_trust, trust_users
from branchline.errors import BatchError, BranchlineError, OptionError, StorageError
from branchline.jobs.batch.site_settings import Site, load_site
from branchline.jobs.batch.system import Submitted, TaskStep, TooManyJobsError, batch_system
from branchline.jobs.fold_tree import FoldNode, FoldTree
from branchline.jobs.interruption import Interruption
from branchline.jobs.ledger import LEDGER_NAME
from branchline.jobs.local import LocalProcesses
from branchline.jobs.subjob import Finished, Note
from branchline.reading.access import longest_wait_s
from branchline.records.result_files.job_files import read_status
from branchline.records.sensors.record import FINISHED
from branchline.trains.out_folder.claim import claimed
from branchline.trains.out_folder.live_report import ReportsTo
from branchline.trains.plan import LoadedWagons, TrainPlan, TrainRequest
from branchline.trains.reuse.provenance import Provenance
from branchline.trains.reuse.result_keys import WagonKeys, planned_code
from branchline.trains.reuse.reuse import LearnedBefore, Reuse
from branchline.trains.reuse.stored_train import Learning, StoredSources, identities_of_modules
from branchline.trains.run_options import BatchSettings
from branchline.trains.running.recovery import Recovery
from branchline.trains.subjobs.share_result import Learned, PackedWagons, ShareResult
from branchline.trains.subjobs.shares import ChunkSizes
from branchline.trains.subjobs.subjob_queue import SubJobQueue
from branchline.trains.submitted.ledger_rows import OpenedLedger, enter_rows, take_kept, undone_if_new
from branchline.trains.submitted.reports import SubmittedReports, check_token_travels, keep_reports
from branchline.trains.submitted.submission import JobsRecord, StepRecord, Submission
from branchline.trains.submitted.submission_folder import BatchFolder
from branchline.trains.submitted.units import folded_nodes, is_done
from branchline.trains.worker.train_worker import TrainWork

TASK_MODULE = "branchline.trains.submitted.tasks.task"
AFTERWARDS_MODULE = "branchline.trains.submitted.resume"


def submit(
    request: TrainRequest,
    out: Path,
    *,
    batch: BatchSettings,
    reports: ReportsTo | None = None,
) -> None:
    """Submit a train, and return without waiting for its jobs. For the arguments and errors, see ``branchline.run``.
    Also raises BatchError if the batch system is missing or rejects the jobs.
    """
    options, system = request.options, str(request.options.on)
    if options.workers is not None:
        raise OptionError("the batch system determines the number of workers", hint="set --tasks, or cpus of the site")
    check_token_travels(reports, system)
    site = load_site(system).with_options(batch.options)
    # Tasks may run as these users.
    trust_users(site.trusted_users)
    began_s, started = time.time(), datetime.now(UTC).isoformat()
    folder = BatchFolder(out.absolute())
    interruption = Interruption()
    with interruption.installed(), claimed(folder.out, force=options.force) as claim:
        is_new = not (folder.out / LEDGER_NAME).exists()
        batch_system(system).check(folder.out)
        refuse_live(folder)
        with interruption.allowed():
            loaded = request.load()
            plan = request.plan(loaded)
            notes = [*request.reuse_notes(folder.out / LEDGER_NAME), *enter_rows(folder.out, is_whole=False)]
            opened = OpenedLedger.of(folder.out, plan, options.command, takes=request.takes_kept)
            ledger = opened.reuse
            with undone_if_new(folder.out, is_new=is_new):
                plan, learning = _learned(plan, ledger)
        sources = StoredSources.of(loaded.wagons, loaded.modules)
        if ledger is not None:
            ledger.forget_changed(identities_of_modules(loaded.wagons, loaded.modules))
        keys = dict(WagonKeys(loaded.wagons).by_name if ledger is None else ledger.keys)
        tasks_max = batch.tasks or _tasks_wanted(plan)
        unit_stage = 1 if len(plan.shares) >= FOLD_FAN_IN * tasks_max else 0
        number = uuid.uuid4().hex
        submission = Submission(
            id=number,
            system=system,
            site=site,
            started=started,
            submitted_s=began_s,
            directory=os.getcwd(),
            command=options.command,
            pictures=options.pictures,
            plan=replace(plan, loaded=LoadedWagons((), ())),
            subjobs_count=len(plan.shares),
            wagons=PackedWagons.of(loaded.wagons),
            sources=sources,
            provenance=replace(Provenance.of(loaded), stored=None),
            learning=learning,
            unit_stage=unit_stage,
            merge_stages=_merge_stages(FoldTree(len(plan.shares)), unit_stage),
            tasks_max=tasks_max,
            code=planned_code(keys.values(), ships_modules=True),
            wagon_keys={} if ledger is None else keys,
            reuse_notes=tuple(notes + ([opened.trouble] if opened.trouble else [])),
            retries=batch.retries,
            reports=SubmittedReports.of(reports, plan, options.command, folder.out, system=system, job=number),
        )
        keep_reports(folder.out)
        claim.begin(options.command)
        folder.make()
        if ledger is not None:
            with interruption.allowed():
                take_kept(folder, submission, plan, ledger)
            ledger.close(is_whole=False)
            notes += ledger.notes
            submission = replace(submission, reuse_notes=tuple(notes), rerun_causes=ledger.rerun_causes)
        submission.write(folder)
        send(folder, submission)
        if submission.reports is not None and reports is not None:
            submission.reports.report_submission(folder, reports, plan)


def refuse_live(folder: BatchFolder) -> None:
    """Raise BranchlineError if jobs of an earlier train in this directory are waiting or running, BatchError if their
    state is unknown.
    """
    for jobs in JobsRecord.read_all(folder):
        try:
            alive = batch_system(jobs.submitted.system).states(jobs.submitted)
        except BatchError:
            if read_status(folder.out) == FINISHED:
                continue  # The train is finished; its results may be on a machine without the batch system.
            raise
        if alive:
            what = "jobs of an earlier train are waiting or running in this directory"
            hint = f"cancel them with branchline cancel {folder.out}, or choose another directory with -o"
            raise BranchlineError(what, path=str(folder.out), hint=hint)


def _tasks_wanted(plan: TrainPlan) -> int:
    by_bytes = -(-plan.dataset.size_bytes // BATCH_TASK_BYTES)
    return max(1, min(by_bytes or len(plan.shares), len(plan.shares), BATCH_TASKS_WANTED_MAX))


def _merge_stages(tree: FoldTree, unit_stage: int) -> tuple[int, ...]:
    """Return the stages that separate jobs fold before the last job. There are as many stages as necessary for the last
    job to have at most ``BATCH_FINAL_PARTS_MAX`` parts.
    """
    stages = []
    for stage in range(unit_stage + 1, tree.stages):
        if sum(1 for _ in tree.nodes(stage - 1)) <= BATCH_FINAL_PARTS_MAX:
            break
        stages.append(stage)
    return tuple(stages)


def _learned(plan: TrainPlan, ledger: Reuse | None) -> tuple[TrainPlan, Learning]:
    """Return the plan with its final sub-jobs, and the branches and chunk sizes that were learned. They are taken from
    the ledger, if an earlier run has stored them. Otherwise they are learned now and added to the ledger.
    """
    before = LearnedBefore() if ledger is None or plan.step is not None else ledger.learned_before()
    learning = learn(plan, before)
    if ledger is not None and learning.step is not None:
        ledger.begin(learning)
        if plan.step is None and before.sizes is None:
            ledger.keep_learned(learning)
    return learning.plan(plan), learning


def learn(plan: TrainPlan, before: LearnedBefore) -> Learning:
    """Learn branches and chunk sizes from the first events of the dataset, in a worker process as in a local run.
    ``before`` has the branches and sizes that an earlier run learned.

    Raises errors from reading these events.
    """
    if plan.step is not None:
        return Learning(plan.named_branches, ChunkSizes(plan.step), 0)
    if (known := before.learning(plan)) is not None:
        return known
    settings, wagons = plan.settings, plan.loaded.wagons
    queue = SubJobQueue(plan.shares, plan.named_branches, None, wagons_count=len(wagons), stopped=plan.faults)
    if before.touched:
        queue.learn_apart(before.touched, before.unknown_of(wagons))
    recovery = Recovery(wagons, queue)
    place = LocalProcesses(
        1,
        plan.loaded.modules,
        settings.worker_timeout_s,
        longest_wait_s(settings.reading),
        after_loss=recovery.worker_lost,
    )
    work = TrainWork(
        wagons=wagons,
        named_branches=plan.named_branches,
        step_size=settings.step_size,
        memory_limit_bytes=settings.memory_limit_bytes,
        threads=1,
        skip_bad_files=settings.skip_bad_files,
        access=settings.reading,
    )
    count = 0
    messages = place.run(work, queue.draw)
    with closing(messages):  # type: ignore[type-var]  # closing this generator ends the process
        for message in messages:
            for index in recovery.take_set_aside():
                queue.finished(index)
                count = index + 1
            if not isinstance(message, Finished | Note):
                continue
            if isinstance(message.value, Learned):
                touched = {**before.touched, **message.value.touched}
                return Learning(message.value.branches, message.value.sizes, count + 1, touched)
            if not isinstance(message, Finished):
                continue
            if queue.learns_apart(message.index):
                queue.finished(message.index)
                continue
            if recovery.is_trial(message.index):
                recovery.trial_finished(message.index)
                continue
            result = instance_of(message.value, ShareResult)
            if result.error is not None:
                raise result.error.error
            recovery.mark(result)
            queue.stopped |= {name for name, share in result.wagons.items() if share.error is not None}
            queue.finished(message.index)
            count = message.index + 1
    return Learning(plan.named_branches, None, len(plan.shares))


def send(
    folder: BatchFolder,
    submission: Submission,
    excluded: tuple[str, ...] = (),
    retry: int = 0,
    causes: Mapping[str, int] | None = None,
    memory: str | None = None,
) -> JobsRecord:
    """Submit tasks for the units without a result, the merge stages, and the last job.

    If the batch system does not accept this many tasks, fewer tasks are submitted, which each do more work. Machines in
    ``excluded`` are not used. ``memory`` is the memory request of each task, by default the site's setting. ``retry``
    and ``causes`` are stored in the record. Raises BatchError and StorageError.
    """
    number = max((one.number for one in JobsRecord.read_all(folder)), default=-1) + 1
    tree, done = submission.tree, folded_nodes(folder, submission)
    stages = (submission.unit_stage, *submission.merge_stages)
    # Units without a result come first, then the nodes of each stage that jobs fold.
    nodes = [[one for one in tree.nodes(stage) if not is_done(tree, one, done)] for stage in stages]
    site = submission.site if memory is None else replace(submission.site, memory=memory)
    system = batch_system(submission.system)
    room = system.room()
    tasks_max = submission.tasks_max
    while True:
        work = [_spread(one, tasks_max) for one in nodes if one]
        work.append([()])
        records = tuple(
            StepRecord(f"{number}.{position}", tuple(tuple(one) for one in tasks))
            for position, tasks in enumerate(work)
        )
        widest = max(len(one.tasks) for one in records)
        tasks = sum(len(one.tasks) for one in records)
        try:
            if room is not None and tasks > room:
                what = f"{system.name} accepts only {room} more tasks now, but this train has {tasks}"
                raise TooManyJobsError(what, hint="wait until other jobs have ended", retry=True)
            submitted = _submit(folder, submission, site, records, excluded)
        except TooManyJobsError:
            if widest == 1:
                raise
            tasks_max = -(-widest // 2)
            # Remove the leases of tasks that had started before their submission was cancelled.
            for unit in nodes[0]:
                folder.lease(unit).unlink(missing_ok=True)
            continue
        jobs = JobsRecord(number, submitted, time.time(), records, excluded, retry, dict(causes or {}), memory)
        jobs.write(folder)
        return jobs


def _submit(
    folder: BatchFolder, submission: Submission, site: Site, records: Sequence[StepRecord], excluded: Sequence[str]
) -> Submitted:
    system = batch_system(submission.system)
    # Tasks may run as other users, who must trust the submission of this user.
    trusted = numbers_to_trust(site.trusted_users)
    site = replace(site, prologue=(*site.prologue, f"export {VARIABLE}={trusted}"))
    steps = []
    for record in records:
        # Write the record before submitting, since a task may start before the submission returns.
        record.write(folder)
        words = (*own_python(site.python), "-m", TASK_MODULE, str(folder.out), record.label)
        steps.append(TaskStep(record.label, len(record.tasks), words, folder.logs, folder.accounts))
    if submission.retries and not system.can_submit_from_nodes:
        afterwards = (*own_python(), "-m", AFTERWARDS_MODULE, str(folder.out), steps[-1].label)
        steps[-1] = replace(steps[-1], afterwards=afterwards)
    name = f"branchline-{folder.out.name}"
    try:
        return system.submit(name, steps, folder.jobs, site, excluded)
    except OSError as error:
        what = f"cannot write the scripts of the jobs: {error.strerror}"
        raise StorageError(what, path=error.filename or str(folder.jobs)) from None


def _spread(nodes: Sequence[FoldNode], tasks_max: int) -> list[Sequence[FoldNode]]:
    """Split nodes into at most ``tasks_max`` groups of neighbours, of about equal size."""
    count = min(tasks_max, len(nodes))
    borders = [len(nodes) * one // count for one in range(count + 1)]
    return [nodes[first:last] for first, last in pairwise(borders)]
