"""Which machines of a pool get work: one on which everything fails, while others go on, gets no more."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from branchline.base.limits import NODE_FAILURES_MAX


@dataclass
class Nodes:
    """What happened on each machine. ``excluded`` are those that get no more work."""

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
