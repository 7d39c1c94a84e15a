"""Adds up what the sub-jobs bring back, by the fixed tree of neighbours, whatever the order in which they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from branchline.jobs import FoldNode, FoldTree
from branchline.sensors.record import FileRecord, WagonFault
from branchline.train.folding import FoldedResult, Folding, SharePlace
from branchline.train.records import RecordTable
from branchline.train.share_result import ShareResult, WagonShare
from branchline.train.shares import Share
from branchline.train.wagons import Wagon


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
        self.tree = FoldTree(len(shares))
        self._wagons = wagons
        self._shares = shares
        self._stopped = stopped
        self._looked_at = list(looked_at)
        self._open: dict[FoldNode, _OpenNode] = {}
        self._whole: FoldedResult | None = None

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

    def take_folded(self, node: FoldNode, result: FoldedResult) -> None:
        """Takes the result of a whole node, and folds what is whole by that."""
        parent = self.tree.parent_of(node)
        if parent is None:
            self._whole = result
            return
        parts = self.tree.parts_of(parent)
        opened = self._open.setdefault(parent, _OpenNode(parts[0].index))
        opened.waiting[node.index] = result
        while opened.next_index in opened.waiting:
            opened.folding.add(opened.waiting.pop(opened.next_index))
            opened.next_index += 1
        if opened.next_index > parts[-1].index:
            del self._open[parent]
            self.take_folded(parent, opened.folding.result())

    def finish(self) -> FoldedResult:
        """All that has come, as one; also what is behind a gap, as it is after an error or Ctrl-C."""
        for stage in range(1, self.tree.stages + 1):
            for node in sorted(one for one in self._open if one.stage == stage):
                opened = self._open.pop(node)
                for index in sorted(opened.waiting):
                    opened.folding.add(opened.waiting.pop(index))
                self.take_folded(node, opened.folding.result())
        if self._whole is None:
            nothing = {one.name: WagonShare(error=self._stopped.get(one.name)) for one in self._wagons}
            self._whole = FoldedResult(0, 0, nothing)
        files = RecordTable[FileRecord]("path")
        files.add(self._looked_at)
        files.add(self._whole.files)
        self._whole.files = files.as_list()
        return self._whole
