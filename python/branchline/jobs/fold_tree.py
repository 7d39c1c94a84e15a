"""The fixed tree by which the results of sub-jobs become one: neighbours in the order of the job, in groups, in stages.

Sums of floating-point numbers depend on how they are grouped. The groups follow from the number of the sub-jobs alone,
so that the result is the same, bit for bit, wherever the sub-jobs ran, whatever their results' order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from branchline.base.limits import FOLD_FAN_IN


@dataclass(frozen=True, order=True)
class FoldNode:
    """A node of the tree. Those of stage 0 are the sub-jobs; one of stage ``n`` covers up to ``FOLD_FAN_IN ** n``."""

    stage: int
    index: int


class FoldTree:
    """The tree over ``shares_count`` sub-jobs.

    A node below the root is the same in a job that has more sub-jobs behind it, unless it was the last of its stage.

    >>> tree = FoldTree(50)
    >>> tree.stages, tree.parts_of(tree.root)
    (2, [FoldNode(stage=1, index=0), FoldNode(stage=1, index=1), FoldNode(stage=1, index=2)])
    >>> tree.shares_of(FoldNode(1, 2))
    range(40, 50)
    """

    def __init__(self, shares_count: int) -> None:
        self.shares_count = shares_count
        # One sub-job is folded, too: what is checked when results are folded holds for it.
        self.stages = 1
        while FOLD_FAN_IN**self.stages < shares_count:
            self.stages += 1

    @property
    def root(self) -> FoldNode:
        """The node that covers all sub-jobs."""
        return FoldNode(self.stages, 0)

    def shares_of(self, node: FoldNode) -> range:
        """The indices of the sub-jobs that a node covers."""
        width = FOLD_FAN_IN**node.stage
        return range(node.index * width, min((node.index + 1) * width, self.shares_count))

    def parent_of(self, node: FoldNode) -> FoldNode | None:
        """The node that a node is folded into; None for the root."""
        return None if node == self.root else FoldNode(node.stage + 1, node.index // FOLD_FAN_IN)

    def parts_of(self, node: FoldNode) -> list[FoldNode]:
        """The nodes that are folded into a node, in their order; none for a sub-job."""
        return [FoldNode(node.stage - 1, index) for index in self.indices_of_parts(node)]

    def indices_of_parts(self, node: FoldNode) -> range:
        """The indices of these nodes in their stage."""
        if node.stage == 0:
            return range(0)
        first = node.index * FOLD_FAN_IN
        return range(first, min(first + FOLD_FAN_IN, self._nodes_count(node.stage - 1)))

    def nodes(self, stage: int) -> Iterator[FoldNode]:
        """All nodes of a stage, in their order."""
        return (FoldNode(stage, index) for index in range(self._nodes_count(stage)))

    def node_of(self, shares: range) -> FoldNode:
        """The lowest node that covers exactly these sub-jobs. Raises ValueError if none does."""
        for stage in range(self.stages + 1):
            node = FoldNode(stage, shares.start // FOLD_FAN_IN**stage)
            if self.shares_of(node) == shares:
                return node
        raise ValueError(f"no node of the tree covers the sub-jobs {shares.start} to {shares.stop}")

    def _nodes_count(self, stage: int) -> int:
        width: int = FOLD_FAN_IN**stage
        return -(-self.shares_count // width)
