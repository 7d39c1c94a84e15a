"""What of a submitted train is done, by the files in its folder."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

from branchline.jobs.fold_tree import FoldNode, FoldTree
from branchline.trains.submitted.submission import TrainOutline
from branchline.trains.submitted.submission_folder import BatchFolder
from branchline.trains.submitted.units import UnitSummary, below, subjob_nodes


def folded_nodes(folder: BatchFolder, outline: TrainOutline) -> dict[FoldNode, UnitSummary]:
    """The highest nodes that have a result."""
    tree = outline.tree

    def look(node: FoldNode) -> Iterator[tuple[FoldNode, UnitSummary]]:
        summary = UnitSummary.read(folder, node, outline.id)
        if summary is not None:
            yield node, summary
        elif node.stage > outline.unit_stage:
            for part in tree.parts_of(node):
                yield from look(part)

    return dict(look(tree.root))


def is_done(tree: FoldTree, node: FoldNode, folded: Container[FoldNode]) -> bool:
    """Whether a node has a result, itself or as a part of another one."""
    above: FoldNode | None = node
    while above is not None:
        if above in folded:
            return True
        above = tree.parent_of(above)
    return False


@dataclass(frozen=True)
class DoneUnits:
    """The units that have a result, themselves or folded with others, all sub-jobs that have one, also in other units,
    and the summaries of these results.
    """

    units: set[FoldNode]
    subjobs: set[int]
    summaries: list[UnitSummary]

    @classmethod
    def of(cls, folder: BatchFolder, outline: TrainOutline) -> DoneUnits:
        """Those of a train."""
        tree = outline.tree
        found = folded_nodes(folder, outline)
        units = {unit for node in found for unit in below(tree, node, outline.unit_stage)}
        alone = _done_alone(folder, outline, units)
        subjobs = {index for unit in units for index in tree.shares_of(unit)} | {one.index for one in alone}
        return cls(units, subjobs, [*found.values(), *alone.values()])


def _done_alone(folder: BatchFolder, outline: TrainOutline, done: Container[FoldNode]) -> dict[FoldNode, UnitSummary]:
    """Sub-jobs with a result in units without one. One look at the directory spares an opening for each sub-job."""
    if outline.unit_stage == 0:
        return {}
    names = {path.name for path in folder.units.iterdir()}
    found = {}
    for unit in outline.tree.nodes(outline.unit_stage):
        for node in () if unit in done else subjob_nodes(outline.tree, unit):
            if folder.result(node).name in names:
                summary = UnitSummary.read(folder, node, outline.id)
                if summary is not None:
                    found[node] = summary
    return found
