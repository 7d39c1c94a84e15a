"""Does the work of a task: runs the sub-jobs of its units, and then of units of other tasks, in worker processes, and
writes the result of each unit.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import cloudpickle

from branchline.base.checks import instance_of
from branchline.base.limits import UNIT_FIRST_FAILURES_MAX
from branchline.base.texts import message_of
from branchline.base.trust import TrustedBytes, from_own_process, unpickle
from branchline.errors import BadFileError, BranchlineError, MissingFileError, StorageError
from branchline.jobs.batch.system import batch_system
from branchline.jobs.fold_tree import FoldNode
from branchline.jobs.interruption import Interruption
from branchline.jobs.local import LocalProcesses
from branchline.jobs.sites import Spot
from branchline.jobs.subjob import (
    NO_WORKERS,
    Context,
    Draw,
    Finished,
    FromPlace,
    Lost,
    Message,
    Repeated,
    SubJob,
    Wait,
    Work,
    Workers,
)
from branchline.reading.access import longest_wait_s
from branchline.trains.reuse.reuse import LedgerRows
from branchline.trains.reuse.stored_train import StoredSources
from branchline.trains.running.missing import MissingSubJobsError
from branchline.trains.running.recovery import Recovery
from branchline.trains.subjobs.folding import FoldedResult, MergeCosts, fold
from branchline.trains.subjobs.locality import MeasuresTold
from branchline.trains.subjobs.share_result import EmptyParts, JobError, OnReads, ShareResult, WorkerTimes
from branchline.trains.subjobs.shares import Share
from branchline.trains.submitted.ledger_rows import KeptForJobs, reuse_in_job, write_rows
from branchline.trains.submitted.submission import Submission
from branchline.trains.submitted.submission_folder import BatchFolder, log, log_traceback, write_again
from branchline.trains.submitted.tasks.leases import Leases
from branchline.trains.submitted.tasks.other_units import OtherUnits
from branchline.trains.submitted.tasks.unit_queue import UnitCalls, UnitQueue
from branchline.trains.submitted.unit_failures import LessMemory
from branchline.trains.submitted.units import UnitFailure, UnitResult, WorkerSpan, has_result, subjob_nodes
from branchline.trains.worker.train_worker import TrainWork


class UnitWorker:
    """Processes the units of a task. ``failed`` has the units that failed, with the reasons. ``reads`` is called with
    the read records of each result, and ``told`` has the measures of a control room. ``others`` finds units of other
    tasks; None if the task only processes its own.
    """

    def __init__(
        self,
        folder: BatchFolder,
        submission: Submission,
        leases: Leases,
        task: str,
        log: Path,
        reads: OnReads,
        told: MeasuresTold,
        others: OtherUnits | None = None,
    ) -> None:
        self._folder = folder
        self._submission = submission
        self._plan = submission.train_plan()
        self._tree = submission.tree
        self._leases = leases
        self._task = task
        self._attempt = leases.attempt
        self._reuse = reuse_in_job(submission, self._plan)
        self._kept = KeptForJobs(folder, self._reuse)
        self._log = log
        self._reads = reads
        self._told = told
        self._others = others
        self._longest_s = 0.0
        self._end_s: float | None = None
        # Whether a wagon failed or was stopped. Its sum depends on the order of the sub-jobs of this task.
        self._has_faults = False
        self._open: dict[FoldNode, _OpenUnit] = {}
        self._spans: dict[int, WorkerSpan] = {}
        self._begin_s = time.time()
        self._workers_before = 0
        self._interruption = Interruption()
        # Whether the last write failed although it was retried; the next one is not retried then.
        self._gave_up = False
        self.done = 0
        self.failed: dict[FoldNode, str] = {}

    def work(self, units: Iterable[FoldNode], interruption: Interruption) -> None:
        """Process units, and then units of other tasks, until each has a result or has failed, or until a signal asks
        to stop.
        """
        self._interruption = interruption
        left = deque(units)
        while left and not interruption.asked:
            queue = self._queue(left)
            try:
                self._run(queue, interruption)
            except Exception as error:  # noqa: BLE001 - the running units fail, the others continue
                # If the workers died before they asked for a unit, workers for the remaining units would die too, so
                # all units fail.
                failing = list(self._open) or list(left)
                for unit in failing:
                    self._fail(unit, JobError.of(error))
                if not failing:
                    log(f"no more units are taken from other tasks: {message_of(error)}")
                left = deque(unit for unit in left if unit not in self.failed)
            for unit, opened in list(self._open.items()):
                self._write_alone(unit, opened)
                self._drop(unit)

    def _queue(self, left: deque[FoldNode]) -> UnitQueue:
        def reused(index: int, result: ShareResult) -> None:
            self._finished(index, result, queue)

        calls = UnitCalls(
            begin=lambda unit: self._begin(unit, left),
            other=self._other,
            less=lambda unit: LessMemory.read(self._folder, unit),
            reused=reused,
        )
        queue = UnitQueue(self._submission, self._plan, list(left), calls, self._reuse, self._kept)
        return queue

    def _other(self) -> FoldNode | None:
        """Return a unit of another task; None if this task should end."""
        # A task that mostly fails would take all units from the others.
        if self._others is None or self._has_faults or len(self.failed) > self.done or not self._has_time():
            return None
        try:
            return self._others.next()
        except OSError as error:
            log(f"units of other tasks cannot be found: {error}")
            return None

    def _has_time(self) -> bool:
        """Return whether the batch system gives this task enough time for another unit."""
        if self._end_s is None:
            self._end_s = batch_system(self._submission.system).task_end_s(self._submission.site)
        return self._end_s - time.time() > 2 * self._longest_s

    def _begin(self, unit: FoldNode, left: deque[FoldNode]) -> list[int]:
        is_own = unit in left
        if is_own:
            left.remove(unit)
        if has_result(self._folder, unit, self._submission.id):
            log(f"{self._label(unit)}: already done")
            return []
        if not self._retried(lambda: self._leases.take(self._folder.lease(unit))):
            log(f"{self._label(unit)}: another task works on it")
            return []
        if not is_own and self._folder.failed(unit).exists():
            # The unit has failed since it was found.
            self._leases.give_back(self._folder.lease(unit))
            return []
        if not is_own or self._folder.taken(unit).exists():
            log(f"{self._label(unit)}: {'taken back' if is_own else 'taken from another task'}")
            with suppress(BranchlineError):  # it only helps to find the log of a failure
                write_again(self._folder.taken(unit), self._task.encode())
        opened = self._open[unit] = _OpenUnit(self._tree.shares_of(unit), time.monotonic())
        for node in subjob_nodes(self._tree, unit):
            if has_result(self._folder, node, self._submission.id):
                # A sub-job with an unreadable result runs again, also if another task has just finished the unit.
                with suppress(BadFileError, MissingFileError, StorageError):
                    opened.before[node.index] = UnitResult.read(self._folder, node)
        opened.results = {index: one.folded for index, one in opened.before.items()}
        opened.lost = [lost for one in opened.before.values() for lost in one.lost]
        if opened.is_over:
            self._write(unit, opened)
        return [index for index in opened.shares if index not in opened.results]

    def _run(self, queue: UnitQueue, interruption: Interruption) -> None:
        settings, site = self._plan.settings, self._submission.site
        recovery = Recovery(self._plan.loaded.wagons, queue)
        place = LocalProcesses(
            site.cpus, (), settings.worker_timeout_s, longest_wait_s(settings.reading), after_loss=recovery.worker_lost
        )
        work = TrainWork(
            wagons=self._plan.loaded.wagons,
            named_branches=self._plan.named_branches,
            step_size=settings.step_size,
            memory_limit_bytes=settings.memory_limit_bytes,
            threads=1,
            skip_bad_files=settings.skip_bad_files,
            access=settings.reading,
            tables=self._folder.tables,
            planned_code=self._submission.code,
            seed=settings.seed,
            packed=self._submission.wagons,
            compiled_key=self._submission.id,
        )
        self._begin_s = time.time()
        interruption.when_asked = place.stop
        if interruption.asked:
            return
        stored = StoredWork(self._submission.sources, from_own_process(cloudpickle.dumps(work)), work.packages)
        for message in place.run(stored, self._drawing(queue)):
            with interruption.held():
                self._take(message, queue, recovery)
            self._has_faults |= queue.stopped > set(self._plan.faults)
        self._workers_before += site.cpus

    def _drawing(self, queue: UnitQueue) -> Draw:
        """Return a function that draws from a queue, and adds the current measures to each sub-job."""

        def draw(spot: Spot | None = None, workers: Workers = NO_WORKERS, /) -> SubJob | Wait | None:
            drawn = queue.draw(spot, workers)
            if not isinstance(drawn, SubJob):
                return drawn
            return replace(drawn, payload=replace(instance_of(drawn.payload, Share), measures=self._told.now()))

        return draw

    def _take(self, message: FromPlace, queue: UnitQueue, recovery: Recovery) -> None:
        if isinstance(message, Repeated):
            log(f"{message.subjob} ran twice: {message.why}")
        elif isinstance(message, Lost):
            for opened in self._open.values():
                opened.lost.append(message)
            log(message)
            for index in recovery.take_set_aside():
                why = recovery.set_aside[index]
                what = f"{self._plan.shares[index].label} was set aside after {why.attempts} attempts: {why.cause}"
                at = f", at: {why.doing}" if why.doing else ""
                self._fail_subjob(index, JobError.of(MissingSubJobsError(f"{what}{at}")), queue)
        elif isinstance(message, Finished):
            result = instance_of(message.value, ShareResult)
            self._note_times(message.worker, result.times)
            if recovery.is_trial(message.index):
                recovery.trial_finished(message.index)
            else:
                recovery.finished(message.index)
                recovery.mark(result)
                self._finished(message.index, result, queue)
                ran = [one for one in result.wagons.values() if not one.reused_count]
                queue.missed(branch for share in ran for branch in share.misses)
        elif isinstance(message.value, EmptyParts):
            queue.empty |= dict.fromkeys(message.value.indices, message.value.inputs)
        elif isinstance(message.value, WorkerTimes):
            self._note_times(message.worker, message.value)

    def _note_times(self, worker: int, times: WorkerTimes | None) -> None:
        if times is not None:
            number = self._workers_before + worker
            until_s = time.time() - (time.monotonic() - times.until_s)
            self._spans[number] = WorkerSpan(self._attempt, number, self._begin_s, until_s, times)

    def _finished(self, index: int, result: ShareResult, queue: UnitQueue) -> None:
        unit = self._unit_of(index)
        opened = self._open.get(unit)
        share, kept = queue.at_work.pop(index, (self._plan.shares[index], None))
        if opened is None or index in opened.results:
            return
        if kept is not None and not result.is_reused:
            kept.complete(result)
        if not result.is_reused:
            self._reads(result)
        if result.error is not None:
            self._fail_subjob(index, result.error, queue)
        elif result.interrupted:
            self._write_alone(unit, opened)
            self._drop(unit)
        else:
            if self._reuse is not None:
                self._reuse.missed(result.wagons)
                opened.rows[index] = self._reuse.rows_of(index, share, result)
            opened.results[index] = FoldedResult.of(index, self._plan.shares[index], result, self._plan.faults)
            self._close_if_over(unit, opened)

    def _fail_subjob(self, index: int, error: JobError, queue: UnitQueue) -> None:
        """Record a failed sub-job. The other sub-jobs of its unit still run, unless the first few sub-jobs of the unit
        have all failed.
        """
        unit = self._unit_of(index)
        opened = self._open.get(unit)
        if opened is None or index in opened.results:
            return
        opened.failed[index] = error
        if not opened.results and len(opened.failed) >= UNIT_FIRST_FAILURES_MAX:
            queue.drop(unit)
            self._fail(unit, error)
        else:
            self._close_if_over(unit, opened)

    def _close_if_over(self, unit: FoldNode, opened: _OpenUnit) -> None:
        if opened.is_over and opened.failed:
            self._fail(unit, next(iter(opened.failed.values())))
        elif opened.is_over:
            self._write(unit, opened)

    def _unit_of(self, index: int) -> FoldNode:
        unit = FoldNode(0, index)
        while unit.stage < self._submission.unit_stage:
            unit = self._tree.parent_of(unit) or unit
        return unit

    def _write(self, unit: FoldNode, opened: _OpenUnit) -> None:
        parts = [opened.results[index] for index in sorted(opened.results)]
        costs = MergeCosts()
        with costs.folding(unit.stage, len(parts), nodes=1):
            folded = parts[0] if unit.stage == 0 else fold(parts)
        stages = tuple(one for one in costs.stages() if one.stage)
        workers = [span for one in opened.before.values() for span in one.workers]
        result = UnitResult(unit, folded, [*workers, *self._spans.values()], opened.lost, merge_stages=stages)
        try:
            is_first = self._write_files(unit, result, list(opened.rows.values()))
        except BranchlineError as error:
            self._fail(unit, JobError.of(error))
            return
        with suppress(OSError):  # results of sub-jobs are not used if their unit has a result
            self._folder.failed(unit).unlink(missing_ok=True)
            for index in opened.before:
                self._folder.result(FoldNode(0, index)).unlink(missing_ok=True)
        self._drop(unit)
        self.done += 1
        self._longest_s = max(self._longest_s, time.monotonic() - opened.begin_s)
        log(f"{self._label(unit)}: {folded.events} events{'' if is_first else ' (another task was faster)'}")

    def _write_alone(self, unit: FoldNode, opened: _OpenUnit) -> None:
        """Write the finished sub-jobs of an incomplete unit, each as a separate result."""
        lost = opened.lost
        for node in subjob_nodes(self._tree, unit):
            folded = opened.results.get(node.index)
            if folded is None or node.index in opened.before:
                continue
            try:
                rows = [opened.rows[node.index]] if node.index in opened.rows else []
                self._write_files(node, UnitResult(node, folded, list(self._spans.values()), lost), rows)
            except BranchlineError as error:
                log(f"the result of sub-job {node.index} could not be saved: {error}")
            lost = []

    def _write_files(self, node: FoldNode, result: UnitResult, rows: list[LedgerRows]) -> bool:
        """Write the result of a node and its ledger rows. Returns False if the node has a result. Raises
        BranchlineError.
        """

        def write() -> bool:
            write_rows(self._folder, node, rows)
            return result.write(self._folder, self._submission.id)

        return self._retried(write)

    def _retried(self, write: Callable[[], bool]) -> bool:
        """Return the result of a function that writes files. Raises BranchlineError."""
        try:
            found = self._folder.retried(write, lambda: self._gave_up or self._interruption.asked)
        except BranchlineError:
            self._gave_up = True
            raise
        self._gave_up = False
        return found

    def _fail(self, unit: FoldNode, error: JobError) -> None:
        """Record why a unit has no result. The results of its finished sub-jobs are kept."""
        opened = self._open.get(unit)
        if opened is not None and unit.stage:
            self._write_alone(unit, opened)
            for index, why in opened.failed.items():
                self._write_failure(FoldNode(0, index), UnitFailure.of(why, self._task, self._log))
        self._drop(unit)
        failure = UnitFailure.of(error, self._task, self._log)
        self.failed[unit] = failure.message
        log(f"{self._label(unit)} failed: {failure.message}")
        log_traceback(failure.traceback)
        self._write_failure(unit, failure)

    def _write_failure(self, node: FoldNode, failure: UnitFailure) -> None:
        try:
            failure.write(self._folder.failed(node))
        except BranchlineError as error:
            log(f"the cause of the failure could not be saved: {error}")

    def _drop(self, unit: FoldNode) -> None:
        if self._open.pop(unit, None) is not None:
            self._leases.give_back(self._folder.lease(unit))

    def _label(self, unit: FoldNode) -> str:
        shares = self._tree.shares_of(unit)
        return f"sub-jobs {shares.start} to {shares.stop - 1}"


@dataclass
class _OpenUnit:
    """The state of a unit in progress, by index of the sub-job. ``before`` has results of single sub-jobs that an
    earlier task has written.
    """

    shares: range
    begin_s: float
    before: dict[int, UnitResult] = field(default_factory=dict)
    results: dict[int, FoldedResult] = field(default_factory=dict)
    failed: dict[int, JobError] = field(default_factory=dict)
    lost: list[Lost] = field(default_factory=list)
    rows: dict[int, LedgerRows] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether all sub-jobs have finished or failed."""
        return len(self.results) + len(self.failed) == len(self.shares)


@dataclass(frozen=True)
class StoredWork:
    """The callable of a worker, in pickled form. It is unpickled only after the stored modules that it needs have been
    installed.
    """

    sources: StoredSources
    pickled: TrustedBytes
    #: Package versions with which the train was planned.
    packages: Mapping[str, str]

    def __call__(self, context: Context) -> Iterator[Message]:
        self.sources.install()
        work = unpickle(self.pickled, object)
        assert isinstance(work, Work)
        return work(context)
