"""A single run of a train: runs wagons over a dataset, and records where the time was spent."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from branchline.base.checks import instance_of
from branchline.base.limits import FOLD_FAN_IN
from branchline.base.quantities import counted
from branchline.errors import InternalError
from branchline.jobs.fold_tree import FoldNode
from branchline.jobs.interruption import Interruption
from branchline.jobs.ledger import Ledger, LedgerError
from branchline.jobs.local import InThisProcess, LocalProcesses
from branchline.jobs.sites import Spot
from branchline.jobs.subjob import AfterLoss, Finished, Folded, FromPlace, Lost, Place, Repeated, SubJob, Wait, Workers
from branchline.jobs.where import Terms, clock_of, place_on
from branchline.reading.access import longest_wait_s
from branchline.records.sensors.storage_counts import take_troubles
from branchline.trains.plan import TrainPlan, TrainRequest
from branchline.trains.preload import load_ahead
from branchline.trains.reuse.kept_results import KeptNeighbours, KeptResult
from branchline.trains.reuse.provenance import Inquiry
from branchline.trains.reuse.result_keys import WagonKeys, planned_code
from branchline.trains.reuse.reuse import Reuse
from branchline.trains.reuse.stored_train import Learning, identities_of_modules, load_names, sources_of
from branchline.trains.running.job_record import JobStart, RecordMaker, postprocess
from branchline.trains.running.missing import Missing, SetAside, SubJobFailure
from branchline.trains.running.notebook_view import PartialSums
from branchline.trains.running.progress import OnProgress, OnQueried, ProgressLog
from branchline.trains.running.recovery import Recovery
from branchline.trains.running.result import TrainResult
from branchline.trains.running.table_files import NO_DIRECTORY, merge_tables
from branchline.trains.subjobs.folding import FoldedNeighbours, FoldedResult, Merger
from branchline.trains.subjobs.locality import MeasuresTold
from branchline.trains.subjobs.share_result import (
    EmptyParts,
    JobError,
    Learned,
    OnReads,
    Progress,
    ShareResult,
    WorkerTimes,
)
from branchline.trains.subjobs.shares import ChunkSizes, Share
from branchline.trains.subjobs.subjob_queue import SubJobQueue
from branchline.trains.subjobs.used_inputs import PlannedCode
from branchline.trains.tables.table_folder import TableFolder
from branchline.trains.worker.train_worker import TrainWork
from branchline.trains.worker.warm_up import CompiledCode


def run_train(
    request: TrainRequest,
    interruption: Interruption,
    *,
    progress: OnProgress | None = None,
    reads: OnReads | None = None,
    ledger: Path | None = None,
    tables: TableFolder = NO_DIRECTORY,
    begin: Callable[[TrainPlan, PartialSums], None] | None = None,
    stopping: Callable[[], None] | None = None,
    told: MeasuresTold | None = None,
    planning: OnQueried | None = None,
) -> TrainResult:
    """Run wagons over a dataset. For the errors raised, see ``branchline.run``.

    - ``interruption`` must already be installed.
    - ``reads`` is called with the read records of each result.
    - ``ledger`` is the file that caches the results of sub-jobs.
    - ``tables`` is the directory for the pieces of tables. It is removed at the end.
    - ``begin`` is called after all checks, before the first sub-job, with a function for the sums at any later time.
    - ``stopping`` is called in the signal handler when the run is interrupted.
    - ``told`` has the measures that a control room sends to the workers. They may change at any time.
    - ``planning`` is called while the sizes of files are queried.
    """
    start = JobStart.now()
    if request.options.starts_processes:
        load_ahead()
    with interruption.allowed():
        with start.clock.during("start"):
            loaded = request.load()
        with start.clock.during("plan"):
            take_troubles()  # Discard earlier storage failures in this process, which do not belong to this job.
            plan = request.plan(loaded, planning)
            inquiry = Inquiry(loaded)
        run = _Run(plan, start, request.options.command, interruption, progress, tables, reads, told, inquiry)
        try:
            with start.clock.during("start"):
                run.place.prepare()
            with start.clock.during("write"):
                if begin is not None:
                    begin(plan, run.merger.partial_sums)
                tables.make()
        except BaseException:
            run.place.close()
            raise
    if ledger is not None:
        run.use_ledger(ledger, takes=request.takes_kept, notes=request.reuse_notes(ledger))
    try:
        return run.go(stopping)
    finally:
        tables.remove()


class _Run:
    """A run in progress: hands out sub-jobs, collects their results, and creates the job record."""

    def __init__(
        self,
        plan: TrainPlan,
        start: JobStart,
        command: str,
        interruption: Interruption,
        progress: OnProgress | None,
        tables: TableFolder,
        reads: OnReads | None,
        told: MeasuresTold | None,
        inquiry: Inquiry,
    ) -> None:
        wagons = plan.loaded.wagons
        self._tables = tables
        self._reads = reads
        self._told = told
        self._inquiry = inquiry
        self._plan = plan
        self._start = start
        self._command = command
        self._interruption = interruption
        self._times: dict[int, WorkerTimes] = {}
        self._workers_count = plan.workers
        self._lost: list[Lost] = []
        self._repeated: list[Repeated] = []
        self._stopped_by: JobError | None = None
        self._queue = SubJobQueue(
            plan.shares,
            plan.named_branches,
            plan.step,
            wagons_count=len(wagons),
            workers_count=plan.workers,
            stopped=plan.faults,
            now_s=time.monotonic if plan.settings.place is None else clock_of(plan.settings.place),
        )
        self._recovery = Recovery(wagons, self._queue, sets_aside_first=plan.settings.allow_missing > 0)
        self.merger = Merger(wagons, plan.shares, plan.faults, plan.looked_at)
        # Identities of the modules that are sent to workers, taken before the modules are read.
        self._shipped = {} if plan.settings.place is None else identities_of_modules(wagons, plan.loaded.modules)
        self.place = self._place()
        self._log = ProgressLog(
            start.clock.begin_s,
            plan.dataset.size_bytes,
            len(plan.shares),
            progress,
            self.merger.costs,
            start.machine if plan.settings.on is None else None,
        )
        self._reuse: Reuse | None = None
        self._reuse_notes: list[str] = []
        # Running sub-jobs by index, with the cached part of their results.
        self._at_work: dict[int, tuple[Share, KeptResult | None]] = {}
        self._done: set[int] = set()
        # Input identities of sub-jobs without entries, by index. Such a sub-job does not need a worker, unless it
        # already has one.
        self._empty: dict[int, dict[str, str]] = {}
        self._kept_nodes: dict[FoldNode, KeptNeighbours] = {}
        self._compiled_key = "" if plan.is_in_this_process else uuid.uuid4().hex
        # Results that arrived before the branches were learned. They are not merged until the final number of sub-jobs
        # is known.
        self._before_learned: dict[int, ShareResult | None] = {}

    def use_ledger(self, path: Path, *, takes: bool, notes: Sequence[str] = ()) -> None:
        """Cache results in a ledger. With ``takes``, also reuse the results in the ledger. If the ledger cannot be
        used, the run continues without it. ``notes`` say why results were not reused.
        """
        self._reuse_notes += notes
        with self._start.clock.during("plan"):
            try:
                self._reuse = Reuse(Ledger(path, self._command), self._plan, takes=takes, tables=self._tables)
            except LedgerError as error:
                self._reuse_notes.append(f"results are not cached: {error}")
                return
            self._reuse.forget_changed(self._shipped)
            self._reuse.keep_train(self._inquiry.stored)
            if self._plan.step is not None:
                self._reuse.begin(Learning(self._plan.named_branches, ChunkSizes(self._plan.step), 0))
                return
            before = self._reuse.learned_before()
            if (learning := before.learning(self._plan)) is not None:
                self._use_learning(learning)
            elif before.touched:
                self._queue.learn_apart(before.touched, before.unknown_of(self._plan.loaded.wagons))

    def go(self, stopping: Callable[[], None] | None = None) -> TrainResult:
        """Run the sub-jobs, merge their results, and create the job record."""
        clock, interruption, wagons = self._start.clock, self._interruption, self._plan.loaded.wagons
        clock.switch("run")
        try:
            # Do not start workers if all results are cached.
            first = self._draw()
            if first is None:
                self.place.close()
            else:
                assert isinstance(first, SubJob)
                self._queue.put_first(first)
                self._listen(self.place, stopping)
        except KeyboardInterrupt:
            interruption.asked = True
        except Exception as error:  # noqa: BLE001 - finished results are kept whatever the error
            self._stopped_by = JobError.of(error)
        finally:
            if self._compiled_key:
                CompiledCode.remove(self._compiled_key)
        was_cut_off = interruption.asked
        clock.switch("merge")
        self._log.phase("merge")
        self._take_before_learned()  # If the files have no entries, no branches were learned.
        # Merge all finished results. From here on, an interruption stops only code of the wagons.
        merged = self.merger.finish()
        hint = "finished results are kept: run again, or allow missing sub-jobs with --allow-missing"
        missing = Missing(self._plan.shares, self._recovery.set_aside, self._plan.settings.allow_missing, hint)
        merged.skipped += missing.skipped()
        tables = merge_tables(merged, self._tables, self._plan.settings.memory_limit_bytes, self._merging_place)
        with clock.during("wagons"):
            outputs = postprocess(wagons, merged)
        was_cut_off |= any(one.error is not None and one.error.is_interruption for one in merged.wagons.values())
        self._stopped_by = merged.error or self._stopped_by or missing.error()
        if self._stopped_by is None and not was_cut_off:
            self._stopped_by = self._unaccounted()
        interrupted = was_cut_off and not self._stopped_by
        if self._reuse is not None:
            self._reuse.close(is_whole=not interrupted and self._stopped_by is None)
        maker = RecordMaker(
            plan=self._plan,
            start=self._start,
            times=self._times,
            workers_count=self._workers_count,
            timeline=self._log.timeline(),
            step_entries=self._queue.step or 0,
            interrupted=interrupted,
            lost=self._lost,
            missing=missing,
            repeated=self._repeated,
            told=self._told,
            provenance=self._inquiry.answer(),
            command=self._command,
            not_reusable={} if self._reuse is None else self._reuse.unknown,
            rerun_causes={} if self._reuse is None else self._reuse.rerun_causes,
            reuse_notes=[*self._reuse_notes, *([] if self._reuse is None else self._reuse.notes)],
        )
        record = maker.record(merged, outputs, self._stopped_by)
        record.tables = tables
        record.merge_stages = self.merger.costs.stages()
        clock.switch("write")
        self._log.phase("write")
        return TrainResult(outputs, record, self._stopped_by, _close_clock=maker.close_clock)

    def _unaccounted(self) -> JobError | None:
        """Return an error if sub-jobs are neither done nor set aside although nothing stopped the run, so that a lost
        sub-job is always reported.
        """
        left = [(index, one) for index, one in enumerate(self._plan.shares) if index not in self._done]
        wagons = {one.name for one in self._plan.loaded.wagons}
        lost = [one.label for index, one in left if not self._queue.stopped_at(index) >= wagons]
        if not lost:
            return None
        what = f"{counted(len(lost), 'sub-job')} did not finish, starting with {lost[0]}"
        return JobError.of(InternalError(what, hint="please report this with job.json; finished results are kept"))

    def _place(self) -> Place:
        settings, loaded = self._plan.settings, self._plan.loaded
        if self._plan.is_in_this_process:
            return InThisProcess(self._interruption)
        if settings.place is not None:
            terms = Terms(
                load=load_names(loaded.modules),
                sources=sources_of(loaded.wagons, loaded.modules),
                timeout_s=settings.worker_timeout_s,
                reading_timeout_s=longest_wait_s(settings.reading),
                after_loss=self._recovery.worker_lost,
                failed=_has_failed,
            )
            return place_on(settings.place, terms)
        return LocalProcesses(
            self._plan.workers,
            loaded.modules,
            settings.worker_timeout_s,
            longest_wait_s(settings.reading),
            after_loss=self._recovery.worker_lost,
        )

    def _merging_place(self, after_loss: AfterLoss, tasks_count: int, interruption: Interruption) -> Place:
        """Return a place for merging tables, of the same kind as for the run but without the wagons' modules."""
        settings = self._plan.settings
        if self._plan.is_in_this_process:
            return InThisProcess(interruption)
        if settings.place is not None:
            timeouts_s = (settings.worker_timeout_s, longest_wait_s(settings.reading))
            return place_on(settings.place, Terms((), (), *timeouts_s, after_loss, lambda _: False))
        workers = min(self._plan.workers, tasks_count)
        return LocalProcesses(
            workers, (), settings.worker_timeout_s, longest_wait_s(settings.reading), after_loss=after_loss
        )

    def _listen(self, place: Place, stopping: Callable[[], None] | None) -> None:
        def stop() -> None:
            place.stop()
            if stopping is not None:
                stopping()

        self._interruption.when_asked = stop
        if self._interruption.asked:
            place.stop()
        settings = self._plan.settings
        planned: PlannedCode | None = None
        # Keys are not needed for local processes without a ledger, which import the same packages. They take time to
        # compute, because they cover all data in the wagons.
        if self._reuse is not None or settings.on is not None:
            keys = WagonKeys(self._plan.loaded.wagons).by_name if self._reuse is None else self._reuse.keys
            planned = planned_code(keys.values(), ships_modules=settings.on is not None)
        work = TrainWork(
            wagons=self._plan.loaded.wagons,
            named_branches=self._plan.named_branches,
            step_size=settings.step_size,
            memory_limit_bytes=settings.memory_limit_bytes,
            threads=self._plan.threads,
            skip_bad_files=settings.skip_bad_files,
            access=settings.reading,
            tables=self._tables,
            faults=self._plan.faults,
            planned_code=planned,
            seed=settings.seed,
            compiled_key=self._compiled_key,
        )
        # If the train runs in this process, a second signal often arrives while files are still being closed after the
        # first one.
        with self._interruption.waiting(enough=3 if self._plan.is_in_this_process else 2):
            for message in place.run(work, self._draw):
                with self._interruption.held():
                    self._take(message, place)
                    self._workers_count = max(self._workers_count, place.workers_seen)
                    self._queue.workers_count = place.workers
                    self._log.workers(place.workers)

    def _draw(self, spot: Spot | None = None, workers: Workers | None = None) -> SubJob | Wait | None:
        drawn = self._next(spot, workers or Workers())
        if not isinstance(drawn, SubJob):
            return drawn
        self._log.handed_out(drawn.index, drawn.label)
        share = instance_of(drawn.payload, Share)
        if self._told is not None:
            share = replace(share, measures=self._told.now())
        is_local = self._plan.settings.on is None
        return replace(drawn, payload=share, neighbours=None if is_local else self._neighbours_of(drawn))

    def _neighbours_of(self, drawn: SubJob) -> range | None:
        """Return the neighbours whose results a remote worker may combine with the result of this sub-job.

        Returns None near the end of the job: individual sub-jobs then let all workers finish at about the same time.
        """
        share = instance_of(drawn.payload, Share)
        if share.is_provisional:
            return None
        indices, left_to = self._node_of(drawn.index)[1], FOLD_FAN_IN * self._queue.workers_count
        # Do not combine the result if the job has to add something to it later: cached results of some wagons, or the
        # faults of culprits.
        is_usual = share.stopped <= self._queue.stopped_at(drawn.index) - set(self._recovery.culprits)
        is_usual &= not (share.is_trial or share.is_lean)
        is_early = indices.stop <= len(self._plan.shares) - left_to
        return indices if is_usual and is_early else None

    def _node_of(self, index: int) -> tuple[FoldNode, range]:
        """Return the lowest node in which a sub-job's result is combined with others, and the indices of the node's
        sub-jobs.
        """
        node = FoldNode(1, index // FOLD_FAN_IN)
        return node, self.merger.tree.shares_of(node)

    def _next(self, spot: Spot | None, workers: Workers) -> SubJob | Wait | None:
        """Return the next sub-job, without the wagons whose results are cached. If all results of a sub-job are cached,
        it is finished immediately, and the next sub-job is tried.
        """
        wagons = self._plan.loaded.wagons
        while True:
            drawn = self._queue.draw(spot, workers)
            if not isinstance(drawn, SubJob) or self._interruption.asked:
                return drawn
            if self._reuse is None:
                if drawn.index not in self._empty:
                    return drawn
                self._finished_here(
                    drawn.index, ShareResult.without_entries(wagons, instance_of(drawn.payload, Share).stopped, {})
                )
                continue
            share = instance_of(drawn.payload, Share)
            # Trials have no cached results. For a retried sub-job, the cached results have already been looked up.
            if drawn.index >= len(self._plan.shares) or drawn.index in self._at_work:
                return drawn
            together = self._kept_together(drawn.index, share, self._reuse)
            if drawn.index in self._done:
                continue
            wagons_kept = frozenset[str]() if together is None else frozenset(together.wagons)
            share = replace(share, stopped=share.stopped | wagons_kept)
            found = self._reuse.find(drawn.index, share)
            if found is None and together is not None:
                found = together.of(drawn.index)
            self._at_work[drawn.index] = (share, found)
            if drawn.index in self._empty and (found is None or found.missing):
                known = set() if found is None else set(found.wagons)
                nothing = ShareResult.without_entries(wagons, share.stopped | known, self._empty[drawn.index])
                self._finished_here(drawn.index, nothing)
                continue
            if found is None:
                return drawn
            if found.missing:
                branches = self._reuse.branches_of(found.missing, share)
                stopped = share.stopped | set(found.wagons)
                return replace(drawn, payload=replace(share, branches=branches, stopped=stopped))
            self._log.reused(share.size_bytes)
            self._finished_here(drawn.index, found.as_result(one.name for one in self._plan.loaded.wagons))

    def _finished_here(self, index: int, result: ShareResult) -> None:
        """Process the result of a sub-job that needs no worker."""
        with self._interruption.held():
            self._finished(index, result)

    def _kept_together(self, index: int, share: Share, reuse: Reuse) -> KeptNeighbours | None:
        """Look up the cached combined result of a sub-job and its neighbours. If the result has all wagons, these
        sub-jobs are finished immediately.
        """
        node, indices = self._node_of(index)
        if index == indices.start and self._done.isdisjoint(indices) and not self._at_work.keys() & set(indices):
            found = reuse.find_neighbours(indices, share)
            if found is not None and found.missing:
                self._kept_nodes[node] = found
                self.merger.complete(node, found.wagons)
            elif found is not None:
                self._log.reused(sum(self._plan.shares[one].size_bytes for one in found.indices))
                self._done_together(found.indices, found.as_result(self._plan))
        return self._kept_nodes.get(node)

    def _take(self, message: FromPlace, place: Place) -> None:
        if isinstance(message, Repeated):
            self._repeated.append(message)
            self._log.repeated()
            return
        if isinstance(message, Lost):
            self._lost.append(message)
            self._log.worker_lost()
            self._times.pop(message.worker, None)
            self._leave_out()
            return
        if isinstance(message, Folded):
            folded = instance_of(message.value, FoldedNeighbours)
            self._note_times(message.worker, folded.times)
            for cost in folded.merge_stages:
                self.merger.costs.add(cost)
            self._done_together(message.indices, folded.result)
            if self._reads is not None:
                self._reads(folded.result)
            if self._reuse is not None:
                self._reuse.keep_neighbours(self._node_of(message.indices.start)[1], folded)
        elif isinstance(message, Finished):
            result = instance_of(message.value, ShareResult)
            self._note_times(message.worker, result.times)
            self._take_result(message.index, result, place)
        elif isinstance(value := message.value, Learned):
            self._learned(value)
        elif isinstance(value, EmptyParts):
            # Ignore empty parts that remote workers report. The report arrives only with the result of a whole group,
            # and a remote worker can combine results only if it runs all neighbours.
            self._empty |= dict.fromkeys(value.indices if self._plan.settings.on is None else (), value.inputs)
        elif isinstance(value, WorkerTimes):
            self._note_times(message.worker, value)
        elif isinstance(value, Progress):
            self._log.take(message.worker, value)

    def _take_result(self, index: int, result: ShareResult, place: Place) -> None:
        missing_max = self._plan.settings.allow_missing * len(self._plan.shares)
        if self._queue.learns_apart(index):
            self._queue.finished(index)
        elif self._recovery.is_trial(index):
            self._recovery.trial_finished(index)
        elif result.error is not None and len(self._recovery.set_aside) + 1 <= missing_max:
            self._recovery.leave(index, SetAside(SubJobFailure.of(result.error)))
            self._leave_out()
        else:
            self._finished(index, result)
            if result.error is not None or result.interrupted:
                place.stop()

    def _leave_out(self) -> None:
        """Exclude the sub-jobs that were set aside from merging, so that merging does not wait for them."""
        for index in self._recovery.take_set_aside():
            self._at_work.pop(index, None)
            self._queue.finished(index)
            if index >= len(self._plan.shares):
                # This was an additional sub-job for learning branches. The first normal sub-job learns them instead.
                del self._recovery.set_aside[index]
                continue
            self._done.add(index)
            self._log.left_out(index, self._recovery.set_aside[index].cause)
            if self._queue.is_provisional:
                self._before_learned[index] = None
            else:
                self.merger.leave_out(index)

    def _note_times(self, worker: int, times: WorkerTimes | None) -> None:
        if times is None:
            return
        # The clocks of different machines are not comparable, so use the time at which the message arrived.
        is_far = self._plan.settings.on is not None
        self._times[worker] = replace(times, until_s=time.monotonic()) if is_far else times

    def _learned(self, learned: Learned) -> None:
        if not self._queue.is_learned_by(learned.index):
            return
        count = 1 if self._queue.learns_apart(learned.index) else learned.index + 1
        learning = Learning(learned.branches, learned.sizes, count, learned.touched)
        self._use_learning(learning)
        if self._reuse is not None:
            self._reuse.keep_learned(learning)

    def _use_learning(self, learning: Learning) -> None:
        """Use learned branches and chunk sizes from now on, also for the sub-job in which they were learned."""
        assert learning.step is not None
        self._plan = learning.plan(self._plan)
        self.merger.shares_are(self._plan.shares)
        self._log.subjobs_are(len(self._plan.shares))
        self._queue.learned(learning.branches, learning.step, self._plan.shares)
        self._at_work = {
            index: (self._queue.with_learned(index, share), kept) for index, (share, kept) in self._at_work.items()
        }
        if self._reuse is not None:
            self._reuse.begin(learning)
        self._take_before_learned()

    def _take_before_learned(self) -> None:
        for index, result in self._before_learned.items():
            if result is None:
                self.merger.leave_out(index)
            else:
                self.merger.take(index, result)
        self._before_learned = {}

    def _finished(self, index: int, result: ShareResult) -> None:
        if index in self._done:
            return  # Only the first result of a sub-job counts.
        self._done.add(index)
        self._log.finished(index, result)
        self._recovery.finished(index)
        self._recovery.mark(result)
        share, kept = self._at_work.pop(index, (self._plan.shares[index], None))
        if kept is not None and not result.is_reused:
            kept.complete(result)
        if self._reads is not None and not result.is_reused:
            self._reads(result)
        if self._reuse is not None:
            self._reuse.keep(index, share, result)
        self._queue.finished(index)
        self._learn_from(index, result)
        if self._queue.is_provisional:
            self._before_learned[index] = result
        else:
            self.merger.take(index, result)
        if result.interrupted and not self._interruption.asked:
            # A signal has interrupted the worker but not yet the job, for example because a batch system signals every
            # process.
            self._interruption.asked = result.error is None and self._stopped_by is None

    def _done_together(self, indices: range, result: FoldedResult) -> None:
        """Process the combined result of neighbouring sub-jobs that have no results yet."""
        self._done.update(indices)
        self._log.folded(indices, result)
        for index in indices:
            self._recovery.finished(index)
            self._queue.finished(index)
            self._at_work.pop(index, None)
        self._learn_from(indices.start, result)
        self.merger.take_neighbours(result)

    def _learn_from(self, index: int, result: ShareResult | FoldedResult) -> None:
        """Apply round-trip times, unplanned branches and failed wagons from a result to later sub-jobs."""
        if self._reuse is not None:
            self._reuse.missed(result.wagons)
        self._queue.learn(result.links, result.troubles)
        self._queue.missed(one for wagon in result.wagons.values() if not wagon.reused_count for one in wagon.misses)
        for name, share in result.wagons.items():
            if share.error is not None:
                self._queue.wagon_failed(name, index)


def _has_failed(value: object) -> bool:
    """Return whether a sub-job could not read all of its files, perhaps because of the machine on which it ran."""
    result = instance_of(value, ShareResult)
    return result.error is not None or (bool(result.skipped) and not result.interrupted)
