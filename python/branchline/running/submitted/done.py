"""What of a submitted train is done, by the files in its folder."""

from __future__ import annotations

from collections.abc import Iterator

from branchline.jobs import FoldNode
from branchline.running.submitted.folder import BatchFolder
from branchline.running.submitted.submission import Submission
from branchline.running.submitted.units import below, events_of


def done_units(folder: BatchFolder, submission: Submission) -> tuple[set[FoldNode], int]:
    """The units that have a result, themselves or folded with others, and the events of all."""
    tree, unit_stage = submission.tree, submission.unit_stage

    def look(node: FoldNode) -> Iterator[tuple[FoldNode, int]]:
        events = events_of(folder, node, submission.id)
        if events is not None:
            yield node, events
        elif node.stage > unit_stage:
            for part in tree.parts_of(node):
                yield from look(part)

    found = list(look(tree.root))
    units = {unit for node, _ in found for unit in below(tree, node, unit_stage)}
    return units, sum(events for _, events in found)
