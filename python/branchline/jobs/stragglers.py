"""Speculative execution of slow sub-jobs on a second worker, and exclusion of failing machines.

The limits are the defaults of Spark's speculative execution: a sub-job is slow after 1.5 times the median duration,
once 75 % of the sub-jobs are done.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection
from dataclasses import dataclass, field

from branchline.base.limits import (
    NODE_FAILURES_MAX,
    TAIL_DONE_PART,
    TAIL_FACTOR,
    TAIL_MIN_S,
    TAIL_PATIENCE,
)

#: Minimum number of finished sub-jobs of a kind at a site for their median to be used.
KIND_DONE_MIN = 3


class Durations:
    """The durations of successful sub-jobs by kind and by the worker's site. Detects slow sub-jobs at the end of a job,
    which should also run on an idle worker.
    """

    def __init__(self) -> None:
        self._all = _SortedSeconds()
        self._by_kind: dict[tuple[str, str], _SortedSeconds] = {}
        # Durations on each host, as multiples of the usual ones.
        self._slowness: dict[str, _SortedSeconds] = {}

    def finished(self, seconds: float, kind: str = "", site: str = "", node: str = "") -> None:
        """Record the duration of a sub-job."""
        known_s = self.known_s(kind, site)
        if node and known_s:
            self._slowness.setdefault(node, _SortedSeconds()).add(seconds / known_s)
        self._all.add(seconds)
        self._by_kind.setdefault((kind, site), _SortedSeconds()).add(seconds)

    def known_s(self, kind: str, site: str) -> float | None:
        """Return the median duration of a kind at a site; None if fewer than ``KIND_DONE_MIN`` have finished."""
        found = self._by_kind.get((kind, site))
        return None if found is None or len(found.seconds) < KIND_DONE_MIN else found.median_s

    def usual_s(self, kind: str = "", site: str = "") -> float:
        """Return the median duration of a kind at a site or, if that is unknown, of all sub-jobs; 0 if none has
        finished.
        """
        known_s = self.known_s(kind, site)
        return self._all.median_s if known_s is None else known_s

    def slow_nodes(self) -> set[str]:
        """Return the hosts on which sub-jobs usually take more than ``TAIL_FACTOR`` times as long as elsewhere."""
        known = {node: one for node, one in self._slowness.items() if len(one.seconds) >= KIND_DONE_MIN}
        return {node for node, one in known.items() if one.median_s > TAIL_FACTOR}

    def limit_s(self, unfinished_count: int, usual_s: float) -> float | None:
        """Return the duration above which sub-jobs that usually take ``usual_s`` count as slow; None if no sub-job has
        finished yet.
        """
        done_count = len(self._all.seconds)
        if not done_count:
            return None
        is_known_well = done_count >= TAIL_DONE_PART * (done_count + unfinished_count)
        factor = TAIL_FACTOR * (1 if is_known_well else TAIL_PATIENCE)
        return max(TAIL_MIN_S, factor * usual_s)


def why_twice(elapsed_s: float, usual_s: float) -> str:
    """Return the reason for speculative execution as a sentence."""
    return f"it took {elapsed_s:.0f} s, while the median is {usual_s:.1f} s"


class _SortedSeconds:
    """Durations, or ratios of durations, in order, because a job with thousands of groups in flight needs the median
    for each group.
    """

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def add(self, seconds: float) -> None:
        insort(self.seconds, seconds)

    @property
    def median_s(self) -> float:
        """The median; 0 if there are no durations."""
        if not self.seconds:
            return 0.0
        middle = len(self.seconds) // 2
        return (self.seconds[middle] + self.seconds[~middle]) / 2


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
