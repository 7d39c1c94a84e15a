"""Slow sub-jobs that are run a second time, and failing machines that get no more work.

The limits are the classic defaults of Spark's speculative execution: 1.5 times the median once 75 % are done.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection
from dataclasses import dataclass, field

from branchline.base.limits import NODE_FAILURES_MAX, TAIL_DONE_PART, TAIL_FACTOR, TAIL_MIN_S, TAIL_PATIENCE


class Tail:
    """The end of a job: how long sub-jobs took, and which are slow enough to be run a second time on workers that have
    nothing else to do.
    """

    def __init__(self) -> None:
        self._seconds: list[float] = []

    def finished(self, seconds: float) -> None:
        """A sub-job came to its end after this long."""
        insort(self._seconds, seconds)

    def limit_s(self, unfinished_count: int, together: int = 1) -> float | None:
        """The time after which ``together`` sub-jobs in a row count as slow; None while nothing is known."""
        done_count = len(self._seconds)
        if not done_count:
            return None
        is_known_well = done_count >= TAIL_DONE_PART * (done_count + unfinished_count)
        factor = TAIL_FACTOR * (1 if is_known_well else TAIL_PATIENCE)
        return max(TAIL_MIN_S, factor * together * self._median_s)

    def why(self, elapsed_s: float, together: int = 1) -> str:
        """Why they run a second time, in words."""
        usual_s = together * self._median_s
        return f"it took {elapsed_s:.0f} s, where half of all took {usual_s:.1f} s or less"

    @property
    def _median_s(self) -> float:
        # They are in order already: a job with thousands of groups at work asks for each of them.
        middle = len(self._seconds) // 2
        return (self._seconds[middle] + self._seconds[~middle]) / 2


@dataclass
class Nodes:
    """Failures on each machine of a pool. Machines in ``excluded`` get no more work: everything fails there, while
    others go on.
    """

    excluded: set[str] = field(default_factory=set)
    # Different sub-jobs that failed there since one finished.
    _failed: dict[str, set[int]] = field(default_factory=dict)
    _finished: set[str] = field(default_factory=set)
    # Where each sub-job failed.
    _failed_on: dict[int, set[str]] = field(default_factory=dict)

    def finished(self, node: str) -> None:
        """A sub-job came to its end there."""
        self._failed.pop(node, None)
        self._finished.add(node)

    def failed(self, node: str, index: int, known: Collection[str]) -> bool:
        """A sub-job failed there; True if the node gets no more work from now on. ``known`` are all that there are: the
        last one is never excluded, and none before another one has finished something.
        """
        self._failed_on.setdefault(index, set()).add(node)
        failed = self._failed.setdefault(node, set())
        failed.add(index)
        others = self._finished - self.excluded - {node}
        if len(failed) < NODE_FAILURES_MAX or node in self.excluded or not others.intersection(known):
            return False
        self.excluded.add(node)
        return True

    def failures_count(self, node: str) -> int:
        """How many different sub-jobs failed there since one finished."""
        return len(self._failed.get(node, ()))

    def untried(self, index: int, known: Collection[str]) -> set[str]:
        """The nodes on which a sub-job has not failed yet."""
        return set(known) - self._failed_on.get(index, set()) - self.excluded

    def avoided(self, index: int) -> frozenset[str]:
        """The nodes that a sub-job is not sent to, if there are others."""
        return frozenset(self.excluded | self._failed_on.get(index, set()))
