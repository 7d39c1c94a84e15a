"""Adds up what the sub-jobs bring back, by the fixed tree of neighbours, whatever the order in which they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from branchline.base.limits import FOLD_FAN_IN
from branchline.jobs.fold_tree import FoldNode, FoldTree
from branchline.records.sensors.record import FileRecord, WagonFault
from branchline.trains.subjobs.folding import FoldedResult, Folding, SharePlace
from branchline.trains.subjobs.merge_costs import MergeCosts
from branchline.trains.subjobs.record_sums import RecordTable
from branchline.trains.subjobs.share_result import ShareResult, WagonShare
from branchline.trains.subjobs.shares import Share
from branchline.trains.wagons.wagons import Wagon


@dataclass
class _OpenNode:
    """A node of which parts are missing. Parts behind a missing one wait."""

    next_index: int
    folding: Folding = field(default_factory=Folding)
    waiting: dict[int, FoldedResult] = field(default_factory=dict)


class Merger:
    """Folds results as soon as their neighbours before them are there, so that few wait in memory.

    Results may come as those of sub-jobs or of whole nodes of the tree that were folded elsewhere.
    """

    def __init__(
        self,
        wagons: tuple[Wagon, ...],
        shares: list[Share],
        stopped: Mapping[str, WagonFault],
        looked_at: Iterable[FileRecord] = (),
    ) -> None:
        """``stopped`` are the wagons that did not even begin, ``looked_at`` what was read before the first sub-job."""
        self.shares_are(shares)
        self.costs = MergeCosts()
        self._wagons = wagons
        self._stopped = stopped
        self._looked_at = list(looked_at)
        self._open: dict[FoldNode, _OpenNode] = {}
        # What earlier runs kept of wagons that do not run in the sub-jobs of a node.
        self._kept: dict[FoldNode, Mapping[str, WagonShare]] = {}
        self._whole: FoldedResult | None = None

    def shares_are(self, shares: list[Share]) -> None:
        """Sets the sub-jobs whose results come, before the first of them."""
        self.tree = FoldTree(len(shares))
        self._shares = shares

    @property
    def waiting_count(self) -> int:
        """How many results wait for one before them."""
        return sum(len(one.waiting) for one in self._open.values())

    def take(self, index: int, result: ShareResult) -> None:
        """Takes the result of a sub-job."""
        self.take_folded(FoldNode(0, index), FoldedResult.of(index, self._shares[index], result, self._stopped))

    def leave_out(self, index: int) -> None:
        """A sub-job has no result: those behind it are folded without it."""
        nothing = {one.name: WagonShare(requires=one.requires) for one in self._wagons}
        place = SharePlace.of(self._shares[index])
        self.take_folded(FoldNode(0, index), FoldedResult(index, index + 1, nothing, place))

    def take_neighbours(self, result: FoldedResult) -> None:
        """Takes the results of the first sub-jobs of a node, or of all of them, as one; none of them was taken yet."""
        node = FoldNode(1, result.first // FOLD_FAN_IN)
        indices = self.tree.shares_of(node)
        if result.last == indices.stop:
            self.take_folded(node, result)
            return
        # One behind the other they add up as if each came alone.
        opened = self._open.setdefault(node, _OpenNode(indices.start))
        with self.costs.folding(1):
            opened.folding.add(result)
        opened.next_index = result.last
        self._fold_waiting(node, opened)

    def complete(self, node: FoldNode, wagons: Mapping[str, WagonShare]) -> None:
        """The sums of these wagons over a node are known; its sub-jobs come without them."""
        self._kept[node] = wagons

    def take_folded(self, node: FoldNode, result: FoldedResult) -> None:
        """Takes the result of a whole node, and folds what is whole by that."""
        result.wagons |= self._kept.pop(node, {})
        parent = self.tree.parent_of(node)
        if parent is None:
            self._whole = result
            return
        opened = self._open.get(parent)
        if opened is None:
            opened = self._open[parent] = _OpenNode(self.tree.indices_of_parts(parent).start)
        opened.waiting[node.index] = result
        self._fold_waiting(parent, opened)

    def _fold_waiting(self, node: FoldNode, opened: _OpenNode) -> None:
        while opened.next_index in opened.waiting:
            self._fold_next(node, opened, opened.next_index)
            opened.next_index += 1
        if opened.next_index >= self.tree.indices_of_parts(node).stop:
            self._close(node)

    def _fold_next(self, node: FoldNode, opened: _OpenNode, index: int) -> None:
        with self.costs.folding(node.stage, results=1):
            opened.folding.add(opened.waiting.pop(index))

    def _close(self, node: FoldNode) -> None:
        """Nothing more comes to this node."""
        with self.costs.folding(node.stage, nodes=1):
            result = self._open.pop(node).folding.result()
        self.take_folded(node, result)

    def finish(self) -> FoldedResult:
        """All that has come, as one; also what is behind a gap, as it is after an error or Ctrl-C."""
        for stage in range(1, self.tree.stages + 1):
            for node in sorted(one for one in self._open if one.stage == stage):
                opened = self._open[node]
                for index in sorted(opened.waiting):
                    self._fold_next(node, opened, index)
                self._close(node)
        if self._whole is None:
            nothing = {one.name: WagonShare(error=self._stopped.get(one.name)) for one in self._wagons}
            self._whole = FoldedResult(0, 0, nothing)
        files = RecordTable[FileRecord]("path")
        files.add(self._looked_at)
        files.add(self._whole.files)
        self._whole.files = files.as_list()
        return self._whole
