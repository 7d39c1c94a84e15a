"""Speculative execution of slow sub-jobs on a second worker, and exclusion of failing machines.

The limits are the defaults of Spark's speculative execution: a sub-job is slow after 1.5 times the median duration,
once 75 % of the sub-jobs are done.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection
from dataclasses import dataclass, field

from branchline.base.limits import NODE_FAILURES_MAX, TAIL_DONE_PART, TAIL_FACTOR, TAIL_MIN_S, TAIL_PATIENCE


class JobTail:
    """Detects slow sub-jobs at the end of a job, which should also run on an idle worker."""

    def __init__(self) -> None:
        self._seconds: list[float] = []

    def finished(self, seconds: float) -> None:
        """Record the duration of a finished sub-job."""
        insort(self._seconds, seconds)

    def limit_s(self, unfinished_count: int, together: int = 1) -> float | None:
        """Return the duration above which ``together`` consecutive sub-jobs count as slow; None if no sub-job has
        finished yet.
        """
        done_count = len(self._seconds)
        if not done_count:
            return None
        is_known_well = done_count >= TAIL_DONE_PART * (done_count + unfinished_count)
        factor = TAIL_FACTOR * (1 if is_known_well else TAIL_PATIENCE)
        return max(TAIL_MIN_S, factor * together * self._median_s)

    def why(self, elapsed_s: float, together: int = 1) -> str:
        """Return the reason for speculative execution as a sentence."""
        usual_s = together * self._median_s
        return f"it took {elapsed_s:.0f} s, while the median is {usual_s:.1f} s"

    @property
    def _median_s(self) -> float:
        # The durations are kept sorted, because a job with thousands of groups in flight needs the median for each
        # group.
        middle = len(self._seconds) // 2
        return (self._seconds[middle] + self._seconds[~middle]) / 2


@dataclass
class NodeFailures:
    """Failures on each machine of a pool.

    Machines in ``excluded`` get no more sub-jobs, because several sub-jobs in a row failed on them while other machines
    succeeded.
    """

    excluded: set[str] = field(default_factory=set)
    # Distinct sub-jobs that failed on each machine since the machine's last success.
    _failed: dict[str, set[int]] = field(default_factory=dict)
    _finished: set[str] = field(default_factory=set)
    # Machines on which each sub-job failed.
    _failed_on: dict[int, set[str]] = field(default_factory=dict)

    def finished(self, node: str) -> None:
        """Record a success on a machine."""
        self._failed.pop(node, None)
        self._finished.add(node)

    def failed(self, node: str, index: int, known: Collection[str]) -> bool:
        """Record a failure on a machine; return whether the failure excludes the machine.

        ``known`` are all current machines. A machine is excluded only if a sub-job has finished on another current
        machine. The last machine is therefore never excluded.
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
        """Return the number of distinct sub-jobs that failed on a machine since its last success."""
        return len(self._failed.get(node, ()))

    def untried(self, index: int, known: Collection[str]) -> set[str]:
        """Return the machines that are not excluded and on which the sub-job has not failed yet."""
        return set(known) - self._failed_on.get(index, set()) - self.excluded

    def avoided(self, index: int) -> frozenset[str]:
        """Return the machines that a sub-job should avoid if there are other machines."""
        return frozenset(self.excluded | self._failed_on.get(index, set()))
