"""Recovery from worker processes that die, for example by a segmentation fault in a wagon, or that stop responding.

The sub-job that the process was running is retried with less memory if the process ran out of memory. Otherwise it is
retried with one wagon at a time, each in a separate process. If the process stopped responding, only the wagon that was
running is tried alone. A wagon whose process dies or stops responding again is stopped, and the sub-job runs with the
remaining wagons. A sub-job whose processes keep dying is set aside, and the train continues without it.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from branchline.base.checks import instance_of
from branchline.base.limits import CHUNK_DIVISOR_MAX, CHUNK_SHRINK, SET_ASIDE_IN_A_ROW_MAX, WORKER_STARTS_FAILED_MAX
from branchline.jobs.subjob import Lost, SubJob
from branchline.records.sensors.record import WagonFault
from branchline.trains.running.missing import SetAside, SubJobFailure, stack_of
from branchline.trains.subjobs.share_result import ShareResult
from branchline.trains.subjobs.shares import Share
from branchline.trains.subjobs.subjob_queue import SubJobQueue
from branchline.trains.wagons.faults import UNPICKLING_STEP, WAGON_STEP_PLACE
from branchline.trains.wagons.wagons import Wagon, with_required

_MORE_TIME = "if it is only slow, increase --worker-timeout"


@dataclass
class _Case:
    """A sub-job whose worker was lost. ``subjob`` is the form in which it runs next. ``left`` are the wagons that have
    not been tried alone yet.
    """

    subjob: SubJob
    #: The sub-job as it was first sent to a worker. Once a wagon has been stopped, the sub-job runs again in this form.
    original: SubJob
    left: deque[str]
    #: True while all wagons run together again, after each of them succeeded alone.
    is_last: bool = False
    attempts: int = 0
    #: Number of times that a worker stopped responding while no wagon was running.
    silences: int = 0
    #: Wagons that were running when a process stopped responding.
    silent: set[str] = field(default_factory=set)
    #: Number of times that the process was killed from outside, for an unknown reason.
    kills: int = 0


@dataclass
class Recovery:
    """Finds the wagons that kill or block their processes.

    ``culprits`` are these wagons, with the first failure of each. ``set_aside`` are the sub-jobs that are no longer
    retried, by index. ``sets_aside_first`` is true if some sub-jobs may be missing. In this case, a sub-job that kills
    its process is set aside instead of stopping a wagon.
    """

    wagons: Sequence[Wagon]
    queue: SubJobQueue
    sets_aside_first: bool = False
    culprits: dict[str, WagonFault] = field(default_factory=dict)
    set_aside: dict[int, SetAside] = field(default_factory=dict)
    _cases: dict[int, _Case] = field(default_factory=dict)
    #: The sub-job and the wagon of each trial, by the trial's index.
    _trials: dict[int, tuple[int, str]] = field(default_factory=dict)
    _new: list[int] = field(default_factory=list)
    #: For each culprit: the index of the first sub-job in which the wagon failed.
    _found_at: dict[str, int] = field(default_factory=dict)
    # Counts since the last finished sub-job: sub-jobs set aside, and workers lost before they began a sub-job.
    _in_a_row: int = 0
    _starts_failed: int = 0

    def is_trial(self, index: int) -> bool:
        """Return whether a sub-job is only a trial, whose result is discarded."""
        return index in self._trials

    def worker_lost(self, lost: Lost, subjobs: Sequence[SubJob]) -> bool:
        """Plan the retries after the loss of a worker, which was running the first of ``subjobs``. Returns False if the
        job must stop, because too many failures occurred in a row.
        """
        if not lost.subjobs or not subjobs:
            # The worker had not started any sub-job, so none of them can be the cause.
            for one in subjobs:
                self._repeat(one)
            self._starts_failed += 1
            return self._starts_failed < WORKER_STARTS_FAILED_MAX
        first, *others = subjobs
        for one in others:
            self._repeat(one)
        if first.index in self._trials:
            self._trial_lost(first, lost)
        elif (known := self._named_in(lost.doing, set(self.culprits))) is not None:
            self._found_at[known] = min(first.index, self._found_at[known])
            self._repeat(first)
        else:
            self._try_again(self._case_of(first, lost), lost)
        return self._in_a_row < SET_ASIDE_IN_A_ROW_MAX

    def _trial_lost(self, trial: SubJob, lost: Lost) -> None:
        """Process the loss of a worker that was trying one wagon alone."""
        index, tried = self._trials.pop(trial.index)
        by_name = {one.name: one for one in self.wagons}
        named = self._named_in(lost.doing, {one.name for one in with_required(by_name[tried], by_name)})
        if named is None and not lost.is_dead:
            # The worker was waiting for data, for the second time.
            self._leave(self._cases[index], lost)
            return
        self._found(named or tried, index, lost, "again when the wagon ran alone")
        self._repeat(self._cases.pop(index).original)

    def finished(self, index: int) -> None:
        """Record that a sub-job finished."""
        self._in_a_row = self._starts_failed = 0
        self._cases.pop(index, None)

    def trial_finished(self, index: int) -> None:
        """Continue after a wagon succeeded alone: try the next wagon or, after the last one, all wagons together."""
        subjob, tried = self._trials.pop(index)
        case = self._cases[subjob]
        if tried in self.culprits:
            # The wagon was stopped in the meantime, so it did not run in the trial.
            self._repeat(self._cases.pop(subjob).original)
        elif case.left:
            self._try_alone(case)
        else:
            case.is_last = True
            self._repeat(case.subjob)

    def leave(self, index: int, why: SetAside) -> None:
        """Stop retrying a sub-job, for the given reason."""
        self._cases.pop(index, None)
        self.set_aside[index] = why
        self._new.append(index)
        self._in_a_row += 1

    def take_set_aside(self) -> list[int]:
        """Return the sub-jobs that were set aside since the last call."""
        taken, self._new = self._new, []
        return taken

    def mark(self, result: ShareResult) -> None:
        """Record in the result of a sub-job which wagons did not run because they are culprits."""
        for name, fault in self.culprits.items():
            share = result.wagons[name]
            if name in result.not_run and share.error is None:
                share.error = fault

    def _case_of(self, subjob: SubJob, lost: Lost) -> _Case:
        case = self._cases.get(subjob.index)
        if case is None:
            named = self._named_in(lost.doing, {one.name for one in self.wagons})
            running = [one.name for one in self.wagons if one.name not in instance_of(subjob.payload, Share).stopped]
            case = self._cases[subjob.index] = _Case(
                subjob, subjob, deque(sorted(running, key=lambda name: name != named))
            )
        case.attempts += 1
        return case

    def _try_again(self, case: _Case, lost: Lost) -> None:
        """Decide how to retry a sub-job whose process died, or set the sub-job aside."""
        if not lost.is_dead:
            self._try_again_silent(case, lost)
            return
        if lost.is_memory:
            if self._repeat_with_less(case):
                return
        elif lost.is_from_pool or signal.SIGKILL.name in lost.how:
            # Killed from outside, for example by an administrator or the kernel's OOM killer: a retry may succeed.
            case.kills += 1
            if case.kills == 1:
                self._repeat(case.subjob)
                return
            if case.kills == 2 and not instance_of(case.subjob.payload, Share).is_lean and self._repeat_with_less(case):
                return
        if case.is_last or not case.left or self.sets_aside_first:
            self._leave(case, lost)
        else:
            self._try_alone(case)

    def _try_again_silent(self, case: _Case, lost: Lost) -> None:
        """Decide how to retry a sub-job whose worker stopped responding: try the running wagon alone, or stop the wagon
        if it has blocked this sub-job before.
        """
        named = self._named_in(lost.doing, {one.name for one in self.wagons})
        if lost.doing == UNPICKLING_STEP and case.left and not self.sets_aside_first:
            self._try_alone(case)
            return
        if named is None or self.sets_aside_first:
            case.silences += 1
            if case.silences > 1:
                self._leave(case, lost)
                return
            if named is None:
                # The worker was waiting for data, for example from a mount that hangs, so try other replicas.
                case.subjob, case.original = _elsewhere(case.subjob), _elsewhere(case.original)
            self._repeat(case.subjob)
        elif named in case.silent:
            self._found(named, case.subjob.index, lost, "also earlier, but not when the wagon ran alone")
            self._repeat(self._cases.pop(case.subjob.index).original)
        else:
            case.silent.add(named)
            case.left = deque([named])
            self._try_alone(case)

    def _leave(self, case: _Case, lost: Lost) -> None:
        cause = f"its process {lost.how}"
        if not lost.is_dead:
            cause = f"its worker was silent for {lost.seconds:.0f} s, for the second time ({lost.how}); {_MORE_TIME}"
        elif instance_of(case.subjob.payload, Share).chunk_divisor > 1:
            cause += f", also with chunks of 1/{instance_of(case.subjob.payload, Share).chunk_divisor} of the entries"
        self.leave(
            case.subjob.index,
            SetAside(SubJobFailure(cause, traceback=_traceback_in(lost.log)), lost.doing, case.attempts),
        )

    def _repeat_with_less(self, case: _Case) -> bool:
        """Retry a sub-job with less memory: first with a lower limit for reading, then also with smaller chunks.
        Returns False if the sub-job already had the smallest chunks.
        """
        share = instance_of(case.subjob.payload, Share)
        divisor = share.chunk_divisor * CHUNK_SHRINK if share.is_lean else 1
        if divisor > CHUNK_DIVISOR_MAX:
            return False
        case.subjob = replace(case.subjob, payload=replace(share, is_lean=True, chunk_divisor=divisor, together=1))
        self._repeat(case.subjob)
        return True

    def _try_alone(self, case: _Case) -> None:
        name = case.left.popleft()
        by_name = {one.name: one for one in self.wagons}
        needed = {one.name for one in with_required(by_name[name], by_name)}
        share = instance_of(case.subjob.payload, Share)
        others = frozenset(by_name) - needed
        index = self.queue.new_index()
        self._trials[index] = (case.subjob.index, name)
        label = f"{case.subjob.label} (wagon {name} alone)"
        trial = replace(share, stopped=share.stopped | others, is_trial=True)
        self.queue.put_first(SubJob(index, label, trial, may_run_twice=False))

    def _repeat(self, subjob: SubJob) -> None:
        """Retry a sub-job without the culprits that failed in this or an earlier sub-job of the dataset.

        Culprits found later in the dataset run again: a wagon's sum ends at its first failure in dataset order,
        regardless of the order in which failures are found.
        """
        share = instance_of(subjob.payload, Share)
        culprits = {name for name, index in self._found_at.items() if index <= subjob.index}
        self.queue.put_first(replace(subjob, payload=replace(share, stopped=share.stopped | culprits)))

    def _found(self, name: str, index: int, lost: Lost, again: str) -> None:
        """Stop a wagon in all further sub-jobs, and withdraw its trials that have not started."""
        place = WAGON_STEP_PLACE.search(lost.doing)
        # The path is empty if the wagon was being unpickled.
        is_known = place is not None and bool(place["path"])
        where = (place["path"], int(place["start"]), int(place["stop"])) if place and is_known else (None, None, None)
        if lost.is_dead:
            kind, message = "WorkerDiedError", f"its process {lost.how}, and {again}"
        else:
            kind = "TimeoutError"
            message = f"its process was silent for {lost.seconds:.0f} s ({lost.how}), and {again}; {_MORE_TIME}"
        fault = replace(WagonFault(kind, message, *where), traceback=_traceback_in(lost.log))
        if index <= self._found_at.get(name, index):
            self.culprits[name] = fault
            self._found_at[name] = index
        self.queue.stopped.add(name)
        for trial, (index, tried) in list(self._trials.items()):
            if tried == name and self.queue.withdraw(trial):
                del self._trials[trial]
                self._repeat(self._cases.pop(index).original)

    def _named_in(self, doing: str, names: set[str]) -> str | None:
        """Return the wagon in ``names`` that was running; None if none was."""
        return next((name for name in names if doing.startswith(f"wagon {name} in ")), None)


def _elsewhere(subjob: SubJob) -> SubJob:
    """Return a copy of the sub-job that reads the next replica of each file."""
    share = instance_of(subjob.payload, Share)
    return replace(subjob, payload=replace(share, replicas_skipped=share.replicas_skipped + 1))


def _traceback_in(log: str) -> str:
    """Return the log if it contains the traceback of a crash. Otherwise return an empty string, since the log does not
    explain the loss.
    """
    return log if stack_of(log) else ""
