"""What is done when a worker's process ends by itself, as by a segmentation fault in a wagon.

The sub-job at hand is tried again with one wagon at a time, each in a process that may end, too. A wagon whose process
ends again is stopped, and the sub-job is run with all the others.
"""

from __future__ import annotations

import re
import signal
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from branchline.jobs import Lost, SubJob
from branchline.sensors.record import WagonFault
from branchline.train.share_result import ShareResult
from branchline.train.shares import Share
from branchline.train.subjobs import SubJobQueue
from branchline.train.wagons import Wagon, with_required

_PLACE = re.compile(r" in (?P<path>.*), entries (?P<start>\d+) to (?P<stop>\d+)$", re.DOTALL)


def wagon_step(wagon: str, path: str, entry_start: int, entry_stop: int) -> str:
    """What a worker's heartbeat says while a wagon runs on a chunk; ``Recovery`` reads it after the worker's death."""
    return f"wagon {wagon} in {path}, entries {entry_start} to {entry_stop}"


@dataclass
class _Case:
    """A sub-job in which a process ended: the wagons still to be tried alone, and what was tried already."""

    subjob: SubJob
    left: deque[str]
    #: All wagons run again, though none of them alone ended its process.
    is_last: bool = False


@dataclass
class Recovery:
    """Finds the wagons that end their processes. ``culprits`` are these, with where each was met first."""

    wagons: Sequence[Wagon]
    queue: SubJobQueue
    culprits: dict[str, WagonFault] = field(default_factory=dict)
    _cases: dict[int, _Case] = field(default_factory=dict)
    #: The sub-job and the wagon of each trial.
    _trials: dict[int, tuple[int, str]] = field(default_factory=dict)

    def is_trial(self, index: int) -> bool:
        """Whether a sub-job only finds something out, so that its result counts for nothing."""
        return index in self._trials

    def worker_died(self, lost: Lost, subjobs: Sequence[SubJob]) -> bool:
        """Plans what is tried again of a dead worker's sub-jobs, of which it was at the first; False if nothing more
        can be tried.
        """
        if not subjobs:
            return False
        first, *others = subjobs
        for one in others:
            self._repeat(one)
        if first.index in self._trials:
            index, tried = self._trials.pop(first.index)
            self._found(self._named_in(lost.doing, {tried}) or tried, lost)
            self._repeat(self._cases.pop(index).subjob)
            return True
        named = self._named_in(lost.doing, set(self.culprits))
        if named is not None:
            self._repeat(first)
            return True
        return self._investigate(first, lost)

    def trial_finished(self, index: int) -> None:
        """A wagon came through alone: the next one is tried, and after the last all of them together once more."""
        case = self._cases[self._trials.pop(index)[0]]
        if case.left:
            self._try_alone(case)
        else:
            case.is_last = True
            self._repeat(case.subjob)

    def mark(self, result: ShareResult) -> None:
        """Notes in the result of a sub-job that a culprit did not run there."""
        for name, fault in self.culprits.items():
            share = result.wagons[name]
            if name in result.not_run and share.error is None:
                share.error = fault

    def _investigate(self, subjob: SubJob, lost: Lost) -> bool:
        case = self._cases.get(subjob.index)
        if case is None:
            named = self._named_in(lost.doing, {one.name for one in self.wagons})
            running = [one.name for one in self.wagons if one.name not in subjob.payload.stopped]
            case = _Case(subjob, deque(sorted(running, key=lambda name: name != named)))
            self._cases[subjob.index] = case
            if signal.SIGKILL.name in lost.how:
                # From outside, as by an administrator or a kernel short of memory: another time it may go well.
                self._repeat(subjob)
                return True
        if case.is_last or not case.left:
            return False
        self._try_alone(case)
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
        self.queue.put_first(SubJob(index, label, replace(share, stopped=share.stopped | others, is_trial=True)))

    def _repeat(self, subjob: SubJob) -> None:
        """Has a sub-job run again without the wagons that are known to end their processes."""
        share: Share = subjob.payload
        self.queue.put_first(replace(subjob, payload=replace(share, stopped=share.stopped | set(self.culprits))))

    def _found(self, name: str, lost: Lost) -> None:
        place = _PLACE.search(lost.doing)
        where = (None, None, None) if place is None else (place["path"], int(place["start"]), int(place["stop"]))
        message = f"its process {lost.how}, and did so again when the wagon ran alone"
        self.culprits.setdefault(name, WagonFault("WorkerDiedError", message, *where))
        self.queue.stopped.add(name)

    def _named_in(self, doing: str, names: set[str]) -> str | None:
        """The wagon of those that was running."""
        return next((name for name in names if doing.startswith(f"wagon {name} in ")), None)
