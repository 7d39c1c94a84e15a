"""What is done when a worker's process ends by itself, as by a segmentation fault in a wagon, or is silent.

The sub-job at hand is tried again: one that ran out of memory with less of it, else with one wagon at a time, each in a
process that may end, too. Where the process was silent, only the wagon that was running is tried. A wagon whose process
ends or is silent again is stopped, and the sub-job is run with all the others. A sub-job that goes on ending its
processes is set aside, and all others are run.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from branchline.base.limits import CHUNK_DIVISOR_MAX, CHUNK_SHRINK, SET_ASIDE_IN_A_ROW_MAX, WORKER_STARTS_FAILED_MAX
from branchline.jobs.subjob import Lost, SubJob
from branchline.records.sensors.record import WagonFault
from branchline.trains.running.missing import Failure, SetAside, stack_of
from branchline.trains.subjobs.share_result import ShareResult
from branchline.trains.subjobs.shares import Share
from branchline.trains.subjobs.subjob_queue import SubJobQueue
from branchline.trains.wagons.faults import UNPICKLING_STEP, WAGON_STEP_PLACE
from branchline.trains.wagons.wagons import Wagon, with_required

_MORE_TIME = "if it only takes long, give it more time with --worker-timeout"


@dataclass
class _Case:
    """A sub-job in which a process was lost: how it is run next, and the wagons still to be tried alone."""

    subjob: SubJob
    #: As it was handed out first: others run so again without a wagon that was stopped.
    original: SubJob
    left: deque[str]
    #: All wagons run again, though none of them alone ended its process.
    is_last: bool = False
    attempts: int = 0
    #: Silences while no wagon was running.
    silences: int = 0
    #: The wagons that were running when a process was silent.
    silent: set[str] = field(default_factory=set)
    #: From outside, for no reason that is known.
    kills: int = 0


@dataclass
class Recovery:
    """Finds the wagons that end their processes: ``culprits`` are these, with where each was met first.

    ``set_aside`` are the sub-jobs that are not tried again, by index. With ``sets_aside_first``, as where some may be
    missing, a sub-job that ends its processes is set aside, and no wagon is stopped for it.
    """

    wagons: Sequence[Wagon]
    queue: SubJobQueue
    sets_aside_first: bool = False
    culprits: dict[str, WagonFault] = field(default_factory=dict)
    set_aside: dict[int, SetAside] = field(default_factory=dict)
    _cases: dict[int, _Case] = field(default_factory=dict)
    #: The sub-job and the wagon of each trial.
    _trials: dict[int, tuple[int, str]] = field(default_factory=dict)
    _new: list[int] = field(default_factory=list)
    #: By culprit, the first sub-job in which it was met.
    _found_at: dict[str, int] = field(default_factory=dict)
    # Since a sub-job finished: those set aside, and workers that died or hung before they began one.
    _in_a_row: int = 0
    _starts_failed: int = 0

    def is_trial(self, index: int) -> bool:
        """Whether a sub-job only finds something out, so that its result counts for nothing."""
        return index in self._trials

    def worker_lost(self, lost: Lost, subjobs: Sequence[SubJob]) -> bool:
        """Plans what is tried again of a lost worker's sub-jobs, of which it was at the first; False if too much went
        wrong for the job to go on.
        """
        if not lost.subjobs or not subjobs:
            # It never began one: none of them is blamed.
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
        """A wagon alone ended its process, or was silent."""
        index, tried = self._trials.pop(trial.index)
        by_name = {one.name: one for one in self.wagons}
        named = self._named_in(lost.doing, {one.name for one in with_required(by_name[tried], by_name)})
        if named is None and not lost.is_dead:
            # It waited for bytes, for the second time.
            self._leave(self._cases[index], lost)
            return
        self._found(named or tried, index, lost, "did so again when the wagon ran alone")
        self._repeat(self._cases.pop(index).original)

    def finished(self, index: int) -> None:
        """A sub-job came to its end."""
        self._in_a_row = self._starts_failed = 0
        self._cases.pop(index, None)

    def trial_finished(self, index: int) -> None:
        """A wagon came through alone: the next one is tried, and after the last all of them together once more."""
        subjob, tried = self._trials.pop(index)
        case = self._cases[subjob]
        if tried in self.culprits:
            # It was stopped meanwhile, and did not run.
            self._repeat(self._cases.pop(subjob).original)
        elif case.left:
            self._try_alone(case)
        else:
            case.is_last = True
            self._repeat(case.subjob)

    def leave(self, index: int, why: SetAside) -> None:
        """Sets a sub-job aside."""
        self._cases.pop(index, None)
        self.set_aside[index] = why
        self._new.append(index)
        self._in_a_row += 1

    def take_set_aside(self) -> list[int]:
        """The sub-jobs that were set aside since the last call."""
        taken, self._new = self._new, []
        return taken

    def mark(self, result: ShareResult) -> None:
        """Notes in the result of a sub-job that a culprit did not run there."""
        for name, fault in self.culprits.items():
            share = result.wagons[name]
            if name in result.not_run and share.error is None:
                share.error = fault

    def _case_of(self, subjob: SubJob, lost: Lost) -> _Case:
        case = self._cases.get(subjob.index)
        if case is None:
            named = self._named_in(lost.doing, {one.name for one in self.wagons})
            running = [one.name for one in self.wagons if one.name not in subjob.payload.stopped]
            case = self._cases[subjob.index] = _Case(
                subjob, subjob, deque(sorted(running, key=lambda name: name != named))
            )
        case.attempts += 1
        return case

    def _try_again(self, case: _Case, lost: Lost) -> None:
        """Decides how a sub-job is run again, or sets it aside."""
        if not lost.is_dead:
            self._try_again_silent(case, lost)
            return
        if lost.is_memory:
            if self._repeat_with_less(case):
                return
        elif lost.is_from_pool or signal.SIGKILL.name in lost.how:
            # From outside, as by an administrator or a kernel short of memory: another time it may go well.
            case.kills += 1
            if case.kills == 1:
                self._repeat(case.subjob)
                return
            if case.kills == 2 and not case.subjob.payload.is_lean and self._repeat_with_less(case):
                return
        if case.is_last or not case.left or self.sets_aside_first:
            self._leave(case, lost)
        else:
            self._try_alone(case)

    def _try_again_silent(self, case: _Case, lost: Lost) -> None:
        """A worker was silent: the wagon that was running is tried alone, and stopped if that is known of it."""
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
                # It waited for bytes, as of a file on a mount that hangs.
                case.subjob, case.original = _elsewhere(case.subjob), _elsewhere(case.original)
            self._repeat(case.subjob)
        elif named in case.silent:
            self._found(named, case.subjob.index, lost, "was so before, though not when the wagon ran alone")
            self._repeat(self._cases.pop(case.subjob.index).original)
        else:
            case.silent.add(named)
            case.left = deque([named])
            self._try_alone(case)

    def _leave(self, case: _Case, lost: Lost) -> None:
        cause = f"its process {lost.how}"
        if not lost.is_dead:
            cause = f"its worker was silent for {lost.seconds:.0f} s, as one before ({lost.how}); {_MORE_TIME}"
        elif case.subjob.payload.chunk_divisor > 1:
            cause += f", also with chunks of 1/{case.subjob.payload.chunk_divisor} of the entries"
        self.leave(
            case.subjob.index, SetAside(Failure(cause, traceback=_traceback_in(lost.log)), lost.doing, case.attempts)
        )

    def _repeat_with_less(self, case: _Case) -> bool:
        """Has a sub-job run again with less memory: first for reading alone, then in smaller chunks; False if it had
        the smallest.
        """
        share: Share = case.subjob.payload
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
        share: Share = case.subjob.payload
        others = frozenset(by_name) - needed
        index = self.queue.new_index()
        self._trials[index] = (case.subjob.index, name)
        label = f"{case.subjob.label} (wagon {name} alone)"
        trial = replace(share, stopped=share.stopped | others, is_trial=True)
        self.queue.put_first(SubJob(index, label, trial, may_run_twice=False))

    def _repeat(self, subjob: SubJob) -> None:
        """Has a sub-job run again without the wagons that are known to end their processes there or before: the sum of
        a wagon ends with its first failure in the dataset, whichever was met first.
        """
        share: Share = subjob.payload
        culprits = {name for name, index in self._found_at.items() if index <= subjob.index}
        self.queue.put_first(replace(subjob, payload=replace(share, stopped=share.stopped | culprits)))

    def _found(self, name: str, index: int, lost: Lost, again: str) -> None:
        """Stops a wagon in all sub-jobs to come; trials of it that have not begun are not needed."""
        place = WAGON_STEP_PLACE.search(lost.doing)
        # While it is unpickled there is no file yet.
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
        """The wagon of those that was running."""
        return next((name for name in names if doing.startswith(f"wagon {name} in ")), None)


def _elsewhere(subjob: SubJob) -> SubJob:
    """The same, read from the next replicas."""
    share: Share = subjob.payload
    return replace(subjob, payload=replace(share, replicas_skipped=share.replicas_skipped + 1))


def _traceback_in(log: str) -> str:
    """The end of a log if it has the traceback of a crash, without which it is not the reason for it."""
    return log if stack_of(log) else ""
