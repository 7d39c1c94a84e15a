"""The results of units, the nodes of the tree for which jobs write files, how units failed, and which are done.

All of this is read from the files in the folder of the train.
"""

from __future__ import annotations

import json
import time
from collections.abc import Container, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from branchline.base.plain import check_types, from_plain, to_plain
from branchline.base.whole_files import read_plain
from branchline.errors import BadFileError, MissingFileError, StorageError
from branchline.jobs.fold_tree import FoldNode, FoldTree
from branchline.jobs.subjob import Lost
from branchline.records.sensors.record import MergeStage
from branchline.records.sensors.status import ElementStatus
from branchline.trains.running.progress import ElementReads
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
_FAILURE_MAX_BYTES = 2**30
#: A first line stays short, whatever a dataset lies on.
ELEMENTS_MAX = 100


@dataclass(frozen=True)
class WorkerSpan:
    """What a worker process of a task did. ``begin_s`` and ``until_s`` are seconds since 1970, and ``times`` its clock,
    whose own times are of its machine.
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
    """The result of a node, who made it, the worker processes that were lost on the way, when jobs folded parts of it,
    and what each stage of that cost.
    """

    node: FoldNode
    folded: FoldedResult
    workers: list[WorkerSpan] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    merges: list[MergeSpan] = field(default_factory=list)
    merge_stages: tuple[MergeStage, ...] = ()

    def write(self, folder: BatchFolder, submission_id: str) -> bool:
        """Writes it; False if another one was there first. Raises StorageError."""
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
        """That of a node. Raises MissingFileError, StorageError, BadFileError."""
        path = folder.result(node)
        found = read_framed(path, KIND, cls)
        if found.node != node:
            raise BadFileError("this result is that of something else", path=str(path))
        return found


def subjob_nodes(tree: FoldTree, unit: FoldNode) -> list[FoldNode]:
    """The nodes of the sub-jobs of a unit that has several: each has a result of its own where the unit has none."""
    return [FoldNode(0, index) for index in tree.shares_of(unit)] if unit.stage else []


def joined_workers(parts: list[UnitResult]) -> list[WorkerSpan]:
    """The last that is known of each worker."""
    last: dict[tuple[str, int], WorkerSpan] = {}
    for span in (one for part in parts for one in part.workers):
        known = last.get((span.attempt, span.worker))
        if known is None or known.until_s < span.until_s:
            last[span.attempt, span.worker] = span
    return list(last.values())


@dataclass(frozen=True)
class UnitSummary:
    """The first line of a result, which is read without the rest: the train, the events and sub-jobs of a node,
    what was read for it, and what its stages of the merge cost.
    """

    train: str
    events: int = 0
    subjobs: int = 0
    elements: list[ElementStatus] = field(default_factory=list)
    merge_stages: list[MergeStage] = field(default_factory=list)

    @classmethod
    def read(cls, folder: BatchFolder, node: FoldNode, submission_id: str) -> UnitSummary | None:
        """That of a node; None if there is no result of this train."""
        try:
            summary: UnitSummary = from_plain(cls, read_summary(folder.result(node), KIND))
            check_types(summary)
        except (MissingFileError, StorageError, BadFileError, ValueError):
            return None
        return summary if summary.train == submission_id else None


def has_result(folder: BatchFolder, node: FoldNode, submission_id: str) -> bool:
    """Whether a node has a result, by the first line of its file."""
    return UnitSummary.read(folder, node, submission_id) is not None


@dataclass(frozen=True)
class UnitFailure:
    """Why a unit failed: the error, and the log that has more."""

    kind: str
    message: str
    traceback: str
    path: str | None
    task: str
    log: str
    at_s: float

    @classmethod
    def of(cls, error: JobError, task: str, log: Path) -> UnitFailure:
        """For an error of now."""
        fault = error.fault()
        return cls(fault.type, fault.message, fault.traceback or "", fault.path, task, str(log), time.time())

    def write(self, path: Path) -> None:
        """Writes it, also over an earlier one. Raises StorageError."""
        write_again(path, json.dumps(asdict(self)).encode())

    @classmethod
    def read(cls, path: Path) -> UnitFailure | None:
        """That of a unit; None if there is none that can be read."""
        try:
            failure: UnitFailure = from_plain(cls, json.loads(read_plain(path, _FAILURE_MAX_BYTES)))
            check_types(failure)
        except (OSError, ValueError, RecursionError):
            return None
        return failure


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
        alone = _lone_summaries(folder, outline, units)
        subjobs = {index for unit in units for index in tree.shares_of(unit)} | {one.index for one in alone}
        return cls(units, subjobs, [*found.values(), *alone.values()])


def _lone_summaries(
    folder: BatchFolder, outline: TrainOutline, done: Container[FoldNode]
) -> dict[FoldNode, UnitSummary]:
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


def below(tree: FoldTree, node: FoldNode, stage: int) -> Iterator[FoldNode]:
    """The nodes of a lower stage that a node covers."""
    if node.stage <= stage:
        yield node
        return
    for part in tree.parts_of(node):
        yield from below(tree, part, stage)
