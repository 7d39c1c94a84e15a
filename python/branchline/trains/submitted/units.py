"""Results of units, causes of failed units, and the set of finished units. Units are the nodes of the tree for which
jobs write files.

All these data are read from files in the ``batch`` folder of the train.
"""

from __future__ import annotations

import json
import time
from collections.abc import Container, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from branchline.base.plain import check_types, from_plain, to_plain
from branchline.base.quantities import GIB
from branchline.base.whole_files import read_plain
from branchline.errors import BadFileError, MissingFileError, StorageError
from branchline.jobs.fold_tree import FoldNode, FoldTree
from branchline.jobs.subjob import Lost
from branchline.records.sensors.record import MergeStage
from branchline.records.sensors.status import ElementReads, ElementStatus
from branchline.trains.running.missing import SubJobFailure
from branchline.trains.subjobs.folding import FoldedResult
from branchline.trains.subjobs.share_result import JobError, WorkerTimes
from branchline.trains.submitted.submission import TrainOutline
from branchline.trains.submitted.submission_folder import (
    BatchFolder,
    framed,
    read_framed,
    read_summary,
    write_again,
    write_first,
)

KIND = "result"
_FAILURE_MAX_BYTES = GIB
#: Maximum number of storage elements in the first line of a result, which keeps that line short for every dataset.
ELEMENTS_MAX = 100


@dataclass(frozen=True)
class WorkerSpan:
    """The work of a task's worker process. ``begin_s`` and ``until_s`` are seconds since 1970. ``times`` uses the clock
    of the worker's machine.
    """

    attempt: str
    worker: int
    begin_s: float
    until_s: float
    times: WorkerTimes


@dataclass(frozen=True)
class MergeSpan:
    """When a job folded the results of a node, in seconds since 1970."""

    host: str
    stage: int
    begin_s: float
    end_s: float


@dataclass
class UnitResult:
    """The result of a node.

    - ``folded`` is the combined result of the node's sub-jobs.
    - ``workers`` are the worker processes that ran the sub-jobs.
    - ``lost`` are the worker processes that died or stopped responding.
    - ``merges`` are the times at which jobs folded parts of the node.
    - ``merge_stages`` is the cost of each merge stage.
    """

    node: FoldNode
    folded: FoldedResult
    workers: list[WorkerSpan] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    merges: list[MergeSpan] = field(default_factory=list)
    merge_stages: tuple[MergeStage, ...] = ()

    def write(self, folder: BatchFolder, submission_id: str) -> bool:
        """Write the result. Returns False if a result already exists. Raises StorageError."""
        reads = ElementReads()
        reads.add(self.folded.sites)
        summary = UnitSummary(
            submission_id,
            self.folded.events,
            self.folded.subjobs_done,
            reads.all()[:ELEMENTS_MAX],
            list(self.merge_stages),
        )
        return write_first(folder.result(self.node), framed(KIND, self, to_plain(summary)))

    @classmethod
    def read(cls, folder: BatchFolder, node: FoldNode) -> UnitResult:
        """Read the result of a node. Raises MissingFileError, StorageError, BadFileError."""
        path = folder.result(node)
        found = read_framed(path, KIND, cls)
        if found.node != node:
            raise BadFileError(f"this result belongs to another unit: {found.node}", path=str(path))
        return found


def subjob_nodes(tree: FoldTree, unit: FoldNode) -> list[FoldNode]:
    """Return the nodes of a unit's sub-jobs; empty if the unit is a single sub-job. While the unit has no result, these
    nodes may have results of their own.
    """
    return [FoldNode(0, index) for index in tree.shares_of(unit)] if unit.stage else []


def joined_workers(parts: list[UnitResult]) -> list[WorkerSpan]:
    """Return the last WorkerSpan of each worker, which covers all of its work."""
    last: dict[tuple[str, int], WorkerSpan] = {}
    for span in (one for part in parts for one in part.workers):
        known = last.get((span.attempt, span.worker))
        if known is None or known.until_s < span.until_s:
            last[span.attempt, span.worker] = span
    return list(last.values())


@dataclass(frozen=True)
class UnitSummary:
    """The first line of a result file, which can be read without the rest: the ID of the train, the numbers of events
    and sub-jobs of the node, its reads by storage element, and the cost of its merge stages.
    """

    train: str
    events: int = 0
    subjobs: int = 0
    elements: list[ElementStatus] = field(default_factory=list)
    merge_stages: list[MergeStage] = field(default_factory=list)

    @classmethod
    def read(cls, folder: BatchFolder, node: FoldNode, submission_id: str) -> UnitSummary | None:
        """Read the summary of a node; None if this train has no result for the node."""
        try:
            summary: UnitSummary = from_plain(cls, read_summary(folder.result(node), KIND))
            check_types(summary)
        except (MissingFileError, StorageError, BadFileError, ValueError):
            return None
        return summary if summary.train == submission_id else None


def has_result(folder: BatchFolder, node: FoldNode, submission_id: str) -> bool:
    """Return whether a node has a result, according to the first line of the result file."""
    return UnitSummary.read(folder, node, submission_id) is not None


@dataclass(frozen=True)
class UnitFailure:
    """Why a unit failed: the error, and the path of the log."""

    kind: str
    message: str
    traceback: str
    path: str | None
    task: str
    log: str
    at_s: float

    @classmethod
    def of(cls, error: JobError, task: str, log: Path) -> UnitFailure:
        """Create the failure for an error that has just occurred."""
        fault = error.fault()
        return cls(fault.type, fault.message, fault.traceback or "", fault.path, task, str(log), time.time())

    def of_subjob(self) -> SubJobFailure:
        """Return the failure as that of a sub-job of the unit."""
        return SubJobFailure(self.message, self.kind, self.traceback, self.log)

    def write(self, path: Path) -> None:
        """Write the failure, replacing an earlier one. Raises StorageError."""
        write_again(path, json.dumps(asdict(self)).encode())

    @classmethod
    def read(cls, path: Path) -> UnitFailure | None:
        """Read the failure of a unit; None if the unit did not fail, or if the file cannot be read."""
        try:
            failure: UnitFailure = from_plain(cls, json.loads(read_plain(path, _FAILURE_MAX_BYTES)))
            check_types(failure)
        except (OSError, ValueError, RecursionError):
            return None
        return failure


def folded_nodes(folder: BatchFolder, outline: TrainOutline) -> dict[FoldNode, UnitSummary]:
    """Return the highest nodes with a result, and the summaries of these results."""
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
    """Return whether a node has a result of its own, or is part of a higher node with a result."""
    above: FoldNode | None = node
    while above is not None:
        if above in folded:
            return True
        above = tree.parent_of(above)
    return False


@dataclass(frozen=True)
class DoneUnits:
    """The finished parts of a train.

    - ``units`` have a result, alone or folded with other units.
    - ``subjobs`` have a result, including sub-jobs in unfinished units.
    - ``summaries`` are the summaries of these results.
    """

    units: set[FoldNode]
    subjobs: set[int]
    summaries: list[UnitSummary]

    @classmethod
    def of(cls, folder: BatchFolder, outline: TrainOutline) -> DoneUnits:
        """Find the finished units and sub-jobs of a train."""
        tree = outline.tree
        found = folded_nodes(folder, outline)
        units = {unit for node in found for unit in below(tree, node, outline.unit_stage)}
        alone = _lone_summaries(folder, outline, units)
        subjobs = {index for unit in units for index in tree.shares_of(unit)} | {one.index for one in alone}
        return cls(units, subjobs, [*found.values(), *alone.values()])


def _lone_summaries(
    folder: BatchFolder, outline: TrainOutline, done: Container[FoldNode]
) -> dict[FoldNode, UnitSummary]:
    """Return the summaries of sub-jobs that have a separate result, in units without a result. The directory is listed
    once, so that no file is opened for sub-jobs without a result.
    """
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


def below(tree: FoldTree, node: FoldNode, stage: int) -> Iterator[FoldNode]:
    """Yield the nodes of the given stage that a node consists of, or the node itself if it is not above this stage."""
    if node.stage <= stage:
        yield node
        return
    for part in tree.parts_of(node):
        yield from below(tree, part, stage)
