"""Hands out the sub-jobs of a task's units to its worker processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from branchline.jobs.fold_tree import FoldNode
from branchline.jobs.sites import Spot
from branchline.jobs.subjob import NO_WORKERS, SubJob, Wait, Workers
from branchline.trains.plan import TrainPlan
from branchline.trains.reuse.kept_results import KeptResult
from branchline.trains.reuse.reuse import Reuse
from branchline.trains.subjobs.share_result import ShareResult
from branchline.trains.subjobs.shares import Share
from branchline.trains.subjobs.subjob_queue import SubJobQueue
from branchline.trains.submitted.ledger_rows import KeptForJobs
from branchline.trains.submitted.submission import Submission
from branchline.trains.submitted.unit_failures import LessMemory


class UnitQueue(SubJobQueue):
    """Hands out the sub-jobs of units, one unit at a time."""

    def __init__(
        self,
        submission: Submission,
        plan: TrainPlan,
        units: Iterable[FoldNode],
        calls: UnitCalls,
        reuse: Reuse | None,
        kept: KeptForJobs,
    ) -> None:
        learning = submission.learning
        # The units determine the order, so the queue itself has nothing to hand out.
        super().__init__(
            (),
            learning.branches,
            learning.step,
            wagons_count=len(plan.loaded.wagons),
            workers_count=submission.site.cpus,
            stopped=plan.faults,
        )
        self.shares, self._indices_count = plan.shares, len(plan.shares)
        self._plan = plan
        self._learned_at_start = learning
        self._tree = submission.tree
        self._units = deque(units)
        self._indices: deque[int] = deque()
        self._less: LessMemory | None = None
        self._calls = calls
        self._reuse = reuse
        self._kept = kept
        #: Sub-jobs without entries, by index, with the identities of their files. They need no worker.
        self.empty: dict[int, dict[str, str]] = {}
        #: Sub-jobs that were handed out, by index, with the cached part of their results.
        self.at_work: dict[int, tuple[Share, KeptResult | None]] = {}

    def draw(self, _spot: Spot | None = None, _workers: Workers = NO_WORKERS, /) -> SubJob | Wait | None:
        """Return the next sub-job; None if none are left.

        Locations are ignored, since all workers of a task are on the same machine.
        """
        if self._first:
            return self._first.popleft()
        while True:
            while not self._indices:
                unit = self._units.popleft() if self._units else self._calls.other()
                if unit is None:
                    return None
                self._indices.extend(self._calls.begin(unit))
                self._less = self._calls.less(unit)
            drawn = self._drawn(self._indices.popleft())
            if drawn is not None:
                return drawn

    def drop(self, unit: FoldNode) -> None:
        """Stop handing out sub-jobs of a unit."""
        shares = self._tree.shares_of(unit)
        self._indices = deque(index for index in self._indices if index not in shares)

    def _drawn(self, index: int) -> SubJob | None:
        """Return a sub-job without the wagons whose results are cached. Returns None if all results are cached, or if
        the sub-job has no entries.
        """
        learns = index < self._learned_at_start.shares_count
        branches = self._plan.named_branches if learns else self.branches
        share = self._learned_at_start.share(index, self.shares[index], branches, self.stopped)
        share = replace(share, together=1 if learns else self._together(index, len(self._indices) + 1))
        # Compute the key before the files are read, so that changes during reading are noticed.
        key = None if self._reuse is None else self._reuse.key_of(index, share)
        kept = self._kept.of(index, key)
        self.at_work[index] = (share, kept)
        if index in self.empty and (kept is None or kept.missing - self.stopped):
            known = set() if kept is None else set(kept.wagons)
            inputs = self.empty[index]
            nothing = ShareResult.without_entries(self._plan.loaded.wagons, share.stopped | known, inputs)
            self._calls.reused(index, nothing)
            return None
        if kept is not None and self._reuse is not None:
            # Wagons without a cached result may have been stopped in the meantime.
            missing = kept.missing - self.stopped
            if not missing:
                self._calls.reused(index, kept.as_result(one.name for one in self._plan.loaded.wagons))
                return None
            wanted = self._reuse.branches_of(missing, share)
            share = replace(share, branches=wanted, stopped=share.stopped | set(kept.wagons))
        if self._less is not None:
            share = replace(share, is_lean=True, chunk_divisor=self._less.chunk_divisor, together=1)
        return SubJob(index, share.label, share)


@dataclass(frozen=True)
class UnitCalls:
    """Callbacks of a queue.

    - ``begin`` starts a unit, and returns the indices of the sub-jobs to run.
    - ``other`` returns a unit of another task; None if there is none.
    - ``less`` returns how a unit must save memory; None if it need not.
    - ``reused`` processes the result of a sub-job that need not run.
    """

    begin: Callable[[FoldNode], Sequence[int]]
    other: Callable[[], FoldNode | None]
    less: Callable[[FoldNode], LessMemory | None]
    reused: Callable[[int, ShareResult], None]
