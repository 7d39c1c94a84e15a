"""Combines ("folds") the results of neighbouring sub-jobs, along a fixed tree that ends with a single result.

`Merger` folds results in the job's process, in whatever order they arrive. `NeighbourFolding` folds the results of
neighbouring sub-jobs in the worker that ran them, so that one result is transferred instead of twenty. `MergeCosts`
records the cost of each merge stage.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace

from branchline.base.checks import instance_of
from branchline.base.limits import FOLD_FAN_IN
from branchline.jobs.fold_tree import FoldNode, FoldTree
from branchline.jobs.subjob import Finished, Folded, Held, Message, SubJob
from branchline.records.sensors.job_measures import added_measures
from branchline.records.sensors.record import BranchRecord, FileRecord, MemoryRetry, MergeStage, WagonFault
from branchline.records.sensors.record_parts import JoinRecord, MissingCompanion
from branchline.records.sensors.storage_counts import added_troubles, distinct_links
from branchline.trains.subjobs.share_records import RecordTable, added_joins, added_sites, companions_missing
from branchline.trains.subjobs.share_result import ReadRecords, ShareResult, WagonShare, WorkerTimes
from branchline.trains.subjobs.shares import Share
from branchline.trains.sums.accumulators import CannotAddError, Total
from branchline.trains.wagons.faults import because_of
from branchline.trains.wagons.wagons import Wagon


@dataclass(frozen=True)
class SharePlace:
    """The first file of a sub-job, and the entries that the sub-job reads if it does not read the whole file."""

    path: str | None = None
    entry_start: int | None = None
    entry_stop: int | None = None

    @classmethod
    def of(cls, share: Share) -> SharePlace:
        """Return the first file and entries of a share."""
        file = share.files[0]
        return cls(file.path) if file.entry_stop is None else cls(file.path, file.entry_start, file.entry_stop)


@dataclass
class FoldedResult(ReadRecords):
    """The combined result of the sub-jobs ``first`` to ``last`` (exclusive).

    - The sum of a failed wagon ends before the first failing chunk in dataset order.
    - ``subjobs_done`` is the number of completed sub-jobs, which may be smaller than the number of sub-jobs in the
      range.
    - ``subjobs_reused`` is the number of sub-jobs taken entirely from an earlier run.
    - ``place`` is where sub-job ``first`` starts: its first file and entries.
    """

    first: int
    last: int
    wagons: dict[str, WagonShare]
    place: SharePlace = field(default_factory=SharePlace)
    memory_retries: list[MemoryRetry] = field(default_factory=list)
    subjobs_done: int = 0
    subjobs_reused: int = 0

    @classmethod
    def of(cls, index: int, share: Share, result: ShareResult, stopped: Mapping[str, WagonFault]) -> FoldedResult:
        """Return the result of one sub-job. ``stopped`` are the wagons that failed before the start."""
        wagons = {
            name: replace(one, total=None, error=stopped[name]) if name in stopped else one
            for name, one in result.wagons.items()
        }
        folded = cls(
            first=index,
            last=index + 1,
            wagons=wagons,
            place=SharePlace.of(share),
            memory_retries=[] if result.memory_retry is None else [result.memory_retry],
            subjobs_done=int(result.is_whole),
            subjobs_reused=int(result.is_reused),
        )
        for one in fields(ReadRecords):
            setattr(folded, one.name, getattr(result, one.name))
        return folded


def fold(parts: Sequence[FoldedResult]) -> FoldedResult:
    """Fold the results of neighbouring sub-jobs, in order, without changing the parts. Raises ValueError if there are
    no parts.

    Sums depend on how the parts are grouped; `branchline.jobs.fold_tree.FoldTree` determines the groups.
    """
    folding = Folding()
    for part in parts:
        folding.add(part)
    return folding.result()


class Folding:
    """Folds one result at a time, with the same outcome as ``fold``. Parts that were added can be freed."""

    def __init__(self) -> None:
        self._folded: FoldedResult | None = None
        self._totals: dict[str, Total] = {}
        self._files: RecordTable[FileRecord] = RecordTable("path")
        self._branches: RecordTable[BranchRecord] = RecordTable("name")

    def add(self, part: FoldedResult) -> None:
        """Add the next part."""
        if self._folded is None:
            empty = {name: WagonShare(requires=share.requires) for name, share in part.wagons.items()}
            self._folded = FoldedResult(part.first, part.last, empty, part.place)
            self._totals = {name: Total() for name in part.wagons}
        folded = self._folded
        folded.last = part.last
        for name, share in part.wagons.items():
            self._add_wagon(folded.wagons, name, share, part.place)
        self._files.add(part.files)
        self._branches.add(part.branches)
        folded.skipped += part.skipped
        folded.recovered |= part.recovered
        # Most parts have no records of the following kinds, and parts without entries have no records at all.
        if part.companions_missing:
            folded.companions_missing = companions_missing([*folded.companions_missing, *part.companions_missing])
        if part.joins:
            folded.joins = added_joins([*folded.joins, *part.joins])
        if part.troubles:
            folded.troubles = added_troubles([*folded.troubles, *part.troubles])
        if part.links:
            folded.links = distinct_links([*folded.links, *part.links])
        if part.sites:
            folded.sites = added_sites([*folded.sites, *part.sites])
        if part.measures:
            folded.measures = added_measures([*folded.measures, *part.measures])
        folded.memory_retries += part.memory_retries
        folded.events += part.events
        folded.subjobs_done += part.subjobs_done
        folded.subjobs_reused += part.subjobs_reused
        folded.error = folded.error or part.error

    def sums(self) -> dict[str, object]:
        """Return the current sums of the wagons, by wagon."""
        return {name: one.value for name, one in self._totals.items()}

    def result(self) -> FoldedResult:
        """Return the combined result. Raises ValueError if no part was added."""
        if self._folded is None:
            raise ValueError("no results to fold")
        for name, share in self._folded.wagons.items():
            try:
                share.total = self._totals[name].value
            except CannotAddError as error:
                share.error = share.error or WagonFault(type(error).__name__, str(error))
        self._folded.files = self._files.as_list()
        self._folded.branches = self._branches.as_list()
        return self._folded

    def _add_wagon(self, wagons: dict[str, WagonShare], name: str, share: WagonShare, place: SharePlace) -> None:
        total = wagons[name]
        total.seconds += share.seconds
        total.cpu_s += share.cpu_s
        total.core_wait_s += share.core_wait_s
        total.python_lines += share.python_lines
        total.python_events += share.python_events
        total.reused_count += share.reused_count
        total.touched |= share.touched
        for branch, count in share.misses.items():
            total.misses[branch] = total.misses.get(branch, 0) + count
        if total.error is not None:
            return
        for needed in share.requires:
            if wagons[needed].error is not None and share.error is None:
                total.error = replace(because_of(needed), **vars(place))
                return
        try:
            self._totals[name].add(share.total)
        except CannotAddError as error:
            what = f"the result of a sub-job cannot be added to the sum: {error}"
            total.error = WagonFault(type(error).__name__, what, **vars(place))
            return
        total.events += share.events
        total.chunks += share.chunks
        for dataset, sections in share.sections.items():
            total.add_sections(dataset, sections)
        total.error = share.error
        if total.error is not None and total.error.path is None:
            # If the error has no path, the sum was lost in transfer. The whole sub-job is then the place of the error.
            total.error = replace(total.error, **vars(place))


class Merger:
    """Folds each result as soon as all results before it have arrived, so that few results are kept in memory.

    Accepts results of single sub-jobs, and results of whole nodes of the tree that were folded elsewhere.
    """

    def __init__(
        self,
        wagons: tuple[Wagon, ...],
        shares: Sequence[Share],
        stopped: Mapping[str, WagonFault],
        looked_at: Iterable[FileRecord] = (),
    ) -> None:
        """Create a merger. ``stopped`` are the wagons that failed before the start. ``looked_at`` are records of reads
        before the first sub-job.
        """
        self.shares_are(shares)
        self.costs = MergeCosts()
        self._wagons = wagons
        self._stopped = stopped
        self._looked_at = list(looked_at)
        self._open: dict[FoldNode, _OpenNode] = {}
        # Cached results of wagons that do not run in a node's sub-jobs, by node.
        self._kept: dict[FoldNode, Mapping[str, WagonShare]] = {}
        self._whole: FoldedResult | None = None

    def shares_are(self, shares: Sequence[Share]) -> None:
        """Set the sub-jobs. Must be called before the first result arrives."""
        self.tree = FoldTree(len(shares))
        self._shares = shares

    @property
    def waiting_count(self) -> int:
        """Number of results that wait for an earlier result."""
        return sum(len(one.waiting) for one in self._open.values())

    def take(self, index: int, result: ShareResult) -> None:
        """Add the result of a sub-job."""
        self.take_folded(FoldNode(0, index), FoldedResult.of(index, self._shares[index], result, self._stopped))

    def leave_out(self, index: int) -> None:
        """Continue without the result of a sub-job."""
        nothing = {one.name: WagonShare(requires=one.requires) for one in self._wagons}
        place = SharePlace.of(self._shares[index])
        self.take_folded(FoldNode(0, index), FoldedResult(index, index + 1, nothing, place))

    def take_neighbours(self, result: FoldedResult) -> None:
        """Add the combined result of the first few sub-jobs of a node, or of all its sub-jobs. No result of these
        sub-jobs may have been added before.
        """
        node = FoldNode(1, result.first // FOLD_FAN_IN)
        indices = self.tree.shares_of(node)
        if result.last == indices.stop:
            self.take_folded(node, result)
            return
        # Continue the sum with this result. The total is the same as if the results had been added one at a time.
        opened = self._open.setdefault(node, _OpenNode(indices.start))
        with self.costs.folding(1):
            opened.folding.add(result)
        opened.next_index = result.last
        self._fold_waiting(node, opened)

    def complete(self, node: FoldNode, wagons: Mapping[str, WagonShare]) -> None:
        """Set the cached sums of some wagons over a node. The results of the node's sub-jobs do not contain these
        wagons.
        """
        self._kept[node] = wagons

    def take_folded(self, node: FoldNode, result: FoldedResult) -> None:
        """Add the result of a whole node, and fold all nodes that are then complete."""
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
        """Finish a node, and add its result to the parent node."""
        with self.costs.folding(node.stage, nodes=1):
            result = self._open.pop(node).folding.result()
        self.take_folded(node, result)

    def partial_sums(self) -> Iterator[Mapping[str, object]]:
        """Yield the sums of wagons over all parts that have arrived, by wagon. The sums must not be changed."""
        for opened in self._open.values():
            yield opened.folding.sums()
            for one in opened.waiting.values():
                yield {name: share.total for name, share in one.wagons.items()}

    def finish(self) -> FoldedResult:
        """Return the combined result of everything added. If results are missing, for example after an error or Ctrl-C,
        the results after the gap are included.
        """
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


@dataclass
class _OpenNode:
    """A node with missing parts. Parts after the first missing part wait in ``waiting``."""

    next_index: int
    folding: Folding = field(default_factory=Folding)
    waiting: dict[int, FoldedResult] = field(default_factory=dict)


class NeighbourFolding:
    """Folds the results of neighbouring sub-jobs in the worker that runs them, in order, starting with the first
    neighbour.

    Results with errors, skipped files, failed wagons or other peculiarities are not folded but sent individually, after
    the sum of the neighbours before them. ``faults`` are the wagons that failed before the start.
    """

    def __init__(self, faults: Mapping[str, WagonFault], worker: int) -> None:
        self._faults = faults
        self._worker = worker
        self._neighbours = range(0)
        self._folding = Folding()
        self._shares: list[KeptShare] = []
        self._inputs: list[dict[str, str]] = []
        self._not_run = frozenset[str]()
        self._times: WorkerTimes | None = None
        self._costs = MergeCosts()

    def take(self, subjob: SubJob, result: ShareResult) -> Iterator[Message]:
        """Add the result of the next sub-job, and yield the messages to send now."""
        if not self._is_next(subjob) or not self._is_usual(result) or result.not_run != self._not_run:
            yield from self.end()
        if not self._is_next(subjob) or not self._is_usual(result):
            yield Finished(subjob.index, result, self._worker)
            return
        self._neighbours = subjob.neighbours or range(0)
        self._times, self._not_run = result.times, result.not_run
        share = instance_of(subjob.payload, Share)
        self._shares.append(KeptShare.of(result, share))
        self._inputs.append(result.inputs)
        with self._costs.folding(1, results=1):
            self._folding.add(FoldedResult.of(subjob.index, share, result, self._faults))
        if len(self._shares) == len(self._neighbours):
            yield from self.end()
        else:
            yield Held(subjob.index)

    def end(self) -> Iterator[Message]:
        """Yield the folded result, if there is one. The next result starts a new sum."""
        if not self._shares:
            return
        first, is_whole = self._neighbours.start, len(self._shares) == len(self._neighbours)
        with self._costs.folding(1, nodes=int(is_whole)):
            result = self._folding.result()
        stages = tuple(self._costs.stages())
        folded = FoldedNeighbours(result, tuple(self._shares), self._not_run, self._times, stages, tuple(self._inputs))
        yield Folded(range(first, first + len(self._shares)), folded, self._worker)
        self._neighbours, self._folding, self._shares, self._costs = range(0), Folding(), [], MergeCosts()
        self._inputs = []

    def _is_next(self, subjob: SubJob) -> bool:
        """Return whether a sub-job follows the folded sub-jobs or, before the first result, is the first of its group
        of neighbours.
        """
        if not self._shares:
            return subjob.neighbours is not None and subjob.index == subjob.neighbours.start
        return subjob.neighbours == self._neighbours and subjob.index == self._neighbours.start + len(self._shares)

    @staticmethod
    def _is_usual(result: ShareResult) -> bool:
        return (
            result.is_whole
            and not result.interrupted
            and result.error is None
            and not result.skipped
            and result.memory_retry is None
            and result.code.is_as_planned
            and all(one.error is None for one in result.wagons.values())
        )


@dataclass(frozen=True)
class KeptShare:
    """The cacheable parts of a sub-job's result, except for the sums of wagons. ``files`` are tuples of path, entries,
    events and folders.
    """

    events: int
    files: tuple[tuple[str, int | None, int, int], ...]
    companions_missing: tuple[MissingCompanion, ...]
    joins: tuple[JoinRecord, ...]
    recovered: dict[str, int]

    @classmethod
    def of(cls, result: ShareResult, share: Share) -> KeptShare:
        """Return the cacheable parts of a complete sub-job's result."""
        own = {one.path for one in share.files}
        files = tuple((one.path, one.entries, one.events, one.folders) for one in result.files if one.path in own)
        missing, joins = tuple(result.companions_missing), tuple(result.joins)
        return cls(result.events, files, missing, joins, dict(result.recovered))


@dataclass(frozen=True)
class FoldedNeighbours:
    """The combined result of neighbouring sub-jobs.

    - ``shares`` are the cacheable parts of each sub-job's result, without the sums.
    - ``not_run`` are the wagons that did not run in these sub-jobs.
    - ``times`` are the times of the worker.
    - ``merge_stages`` is the cost of folding.
    """

    result: FoldedResult
    shares: tuple[KeptShare, ...]
    not_run: frozenset[str] = frozenset()
    times: WorkerTimes | None = None
    merge_stages: tuple[MergeStage, ...] = ()
    #: Identities of the local files that each sub-job read, by path.
    inputs: tuple[dict[str, str], ...] = ()


class MergeCosts:
    """Adds up the number of folded results, and the time of each merge stage."""

    def __init__(self, stages: Iterable[MergeStage] = ()) -> None:
        self._stages: dict[int, MergeStage] = {}
        for one in stages:
            self.add(one)

    def add(self, cost: MergeStage) -> None:
        """Add the cost of a stage, which may have been spent in another process."""
        known = self._stages.get(cost.stage, MergeStage(cost.stage))
        self._stages[cost.stage] = replace(
            known,
            results=known.results + cost.results,
            nodes=known.nodes + cost.nodes,
            seconds=known.seconds + cost.seconds,
        )

    @contextmanager
    def folding(self, stage: int, results: int = 0, nodes: int = 0) -> Iterator[None]:
        """Add the time of the block, in which ``results`` results are folded and ``nodes`` nodes are completed."""
        begin_s = time.perf_counter()
        try:
            yield
        finally:
            self.add(MergeStage(stage, results, nodes, time.perf_counter() - begin_s))

    def stages(self) -> list[MergeStage]:
        """Return the costs of the stages in order. Stages without folding are left out."""
        return [self._stages[stage] for stage in sorted(self._stages)]
