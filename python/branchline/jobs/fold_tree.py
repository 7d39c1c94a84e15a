"""The fixed tree in which the results of sub-jobs are merged. Each stage merges groups of neighbouring results, in job
order.

Floating-point sums depend on how terms are grouped. The groups depend only on the number of sub-jobs, so the result is
bitwise identical regardless of where the sub-jobs ran and in which order they finished.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from branchline.base.limits import FOLD_FAN_IN


@dataclass(frozen=True, order=True)
class FoldNode:
    """A node of the tree. Nodes of stage 0 are the sub-jobs; a node of stage ``n`` covers at most ``FOLD_FAN_IN ** n``
    sub-jobs.
    """

    stage: int
    index: int


class FoldTree:
    """The tree over ``shares_count`` sub-jobs.

    If sub-jobs are appended to a job, all nodes below the root stay the same except for the last node of each stage.

    >>> tree = FoldTree(50)
    >>> tree.stages, tree.parts_of(tree.root)
    (2, [FoldNode(stage=1, index=0), FoldNode(stage=1, index=1), FoldNode(stage=1, index=2)])
    >>> tree.shares_of(FoldNode(1, 2))
    range(40, 50)
    """

    def __init__(self, shares_count: int) -> None:
        self.shares_count = shares_count
        # Even a single sub-job is folded, so that its result passes the same checks.
        self.stages = 1
        while FOLD_FAN_IN**self.stages < shares_count:
            self.stages += 1

    @property
    def root(self) -> FoldNode:
        """The node that covers all sub-jobs."""
        return FoldNode(self.stages, 0)

    def shares_of(self, node: FoldNode) -> range:
        """Return the indices of the sub-jobs that a node covers."""
        width = FOLD_FAN_IN**node.stage
        return range(node.index * width, min((node.index + 1) * width, self.shares_count))

    def parent_of(self, node: FoldNode) -> FoldNode | None:
        """Return the node that ``node`` is folded into; None for the root."""
        return None if node.stage == self.stages else FoldNode(node.stage + 1, node.index // FOLD_FAN_IN)

    def parts_of(self, node: FoldNode) -> list[FoldNode]:
        """Return the nodes that are folded into ``node``, in order; empty for a sub-job."""
        return [FoldNode(node.stage - 1, index) for index in self.indices_of_parts(node)]

    def indices_of_parts(self, node: FoldNode) -> range:
        """Return the indices, within their stage, of the nodes that ``parts_of`` returns."""
        if node.stage == 0:
            return range(0)
        first = node.index * FOLD_FAN_IN
        return range(first, min(first + FOLD_FAN_IN, self._nodes_count(node.stage - 1)))

    def nodes(self, stage: int) -> Iterator[FoldNode]:
        """Return all nodes of a stage, in order."""
        return (FoldNode(stage, index) for index in range(self._nodes_count(stage)))

    def node_of(self, shares: range) -> FoldNode:
        """Return the lowest node that covers exactly these sub-jobs. Raises ValueError if no node does."""
        for stage in range(self.stages + 1):
            node = FoldNode(stage, shares.start // FOLD_FAN_IN**stage)
            if self.shares_of(node) == shares:
                return node
        raise ValueError(f"no node of the tree covers the sub-jobs {shares.start} to {shares.stop}")

    def _nodes_count(self, stage: int) -> int:
        width: int = FOLD_FAN_IN**stage
        return -(-self.shares_count // width)
