"""The queue of a task: the sub-jobs of its units, without what the ledger has of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from branchline.jobs.fold_tree import FoldNode
from branchline.jobs.sites.spot import Spot
from branchline.jobs.subjob import SubJob, Wait
from branchline.trains.plan import TrainPlan
from branchline.trains.reuse.reuse import KeptResult, Reuse
from branchline.trains.subjobs.share_result import ShareResult
from branchline.trains.subjobs.shares import Share
from branchline.trains.subjobs.subjob_queue import SubJobQueue
from branchline.trains.submitted.ledger_rows import KeptForJobs
from branchline.trains.submitted.retrying import LessMemory
from branchline.trains.submitted.submission import Submission


@dataclass(frozen=True)
class UnitCalls:
    """What a queue calls: ``begin`` begins a unit and says which of its sub-jobs are to run, ``reused`` takes the
    result of a sub-job that need not run, ``less`` says how a unit saves memory.
    """

    begin: Callable[[FoldNode], Sequence[int]]
    less: Callable[[FoldNode], LessMemory | None]
    reused: Callable[[int, ShareResult], None]


class UnitQueue(SubJobQueue):
    """Hands out the sub-jobs of units, one unit after the other."""

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
        super().__init__(
            plan.shares,
            learning.branches,
            learning.step,
            wagons_count=len(plan.loaded.wagons),
            workers_count=submission.site.cpus,
            stopped=plan.faults,
        )
        self._plan = plan
        self._learned_at_start = learning
        self._tree = submission.tree
        self._units = deque(units)
        self._indices: deque[int] = deque()
        self._less: LessMemory | None = None
        self._calls = calls
        self._reuse = reuse
        self._kept = kept
        #: Parts of files without entries, which need no worker, with the identities of these files.
        self.empty: dict[int, dict[str, str]] = {}
        #: The sub-jobs that were handed out, with what is kept of them.
        self.at_work: dict[int, tuple[Share, KeptResult | None]] = {}

    def draw(self, _spot: Spot | None = None, _spots: Collection[Spot] = (), /) -> SubJob | Wait | None:
        """The next sub-job, None at the end. All workers of a task are at one spot."""
        if self._first:
            return self._first.popleft()
        while True:
            while not self._indices:
                if not self._units:
                    return None
                unit = self._units.popleft()
                self._indices.extend(self._calls.begin(unit))
                self._less = self._calls.less(unit)
            drawn = self._drawn(self._indices.popleft())
            if drawn is not None:
                return drawn

    def drop(self, unit: FoldNode) -> None:
        """Hands out nothing more of a unit."""
        shares = self._tree.shares_of(unit)
        self._indices = deque(index for index in self._indices if index not in shares)

    def _drawn(self, index: int) -> SubJob | None:
        """A sub-job without the wagons whose results are kept; None if they all are, or if there is nothing to read."""
        learns = index < self._learned_at_start.shares_count
        branches = self._plan.named_branches if learns else self.branches
        share = self._learned_at_start.share(index, self.shares[index], branches, self.stopped)
        share = replace(share, together=1 if learns else self._together(index, len(self._indices) + 1))
        # The key is that of the files before they are read.
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
            # A wagon may have stopped since.
            missing = kept.missing - self.stopped
            if not missing:
                self._calls.reused(index, kept.as_result(one.name for one in self._plan.loaded.wagons))
                return None
            wanted = self._reuse.branches_of(missing, share)
            share = replace(share, branches=wanted, stopped=share.stopped | set(kept.wagons))
        if self._less is not None:
            share = replace(share, is_lean=True, chunk_divisor=self._less.chunk_divisor, together=1)
        return SubJob(index, share.label, share)
