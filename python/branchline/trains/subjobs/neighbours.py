"""Results of neighbouring sub-jobs, folded by the worker that has them all: one of them travels instead of twenty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from branchline.jobs.subjob import Finished, Folded, Held, Message, SubJob
from branchline.records.sensors.record import MergeStage, MissingCompanion, WagonFault
from branchline.trains.subjobs.folding import FoldedResult, Folding
from branchline.trains.subjobs.merge_costs import MergeCosts
from branchline.trains.subjobs.share_result import ShareResult, WorkerTimes
from branchline.trains.subjobs.shares import Share


@dataclass(frozen=True)
class KeptShare:
    """What a sub-job brings back besides the sums of its wagons; ``files`` are (path, entries, events)."""

    events: int
    files: tuple[tuple[str, int | None, int], ...]
    companions_missing: tuple[MissingCompanion, ...]
    recovered: dict[str, int]

    @classmethod
    def of(cls, result: ShareResult, share: Share) -> KeptShare:
        """That of a sub-job that is whole."""
        own = {one.path for one in share.files}
        files = tuple((one.path, one.entries, one.events) for one in result.files if one.path in own)
        return cls(result.events, files, tuple(result.companions_missing), dict(result.recovered))


@dataclass(frozen=True)
class FoldedNeighbours:
    """The result of neighbours as one, what each of them brought back besides, the wagons that ran in none of them,
    the clock of their worker, and what the folding cost it.
    """

    result: FoldedResult
    shares: tuple[KeptShare, ...]
    not_run: frozenset[str] = frozenset()
    times: WorkerTimes | None = None
    merge_stages: tuple[MergeStage, ...] = ()
    #: The identities of the local files that each of them read.
    inputs: tuple[dict[str, str], ...] = ()


class NeighbourFolding:
    """Folds the results of a worker's sub-jobs with those of their neighbours, from the first one on in their order.

    A result that is not usual is handed over alone, behind the neighbours before it: an error, a file that was skipped,
    a wagon that stopped. ``faults`` are the wagons that did not even begin.
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
        """Takes the result of the next sub-job, and yields what is to be handed over now."""
        if not self._is_next(subjob) or not self._is_usual(result) or result.not_run != self._not_run:
            yield from self.end()
        if not self._is_next(subjob) or not self._is_usual(result):
            yield Finished(subjob.index, result, self._worker)
            return
        self._neighbours = subjob.neighbours or range(0)
        self._times, self._not_run = result.times, result.not_run
        share: Share = subjob.payload
        self._shares.append(KeptShare.of(result, share))
        self._inputs.append(result.inputs)
        with self._costs.folding(1, results=1):
            self._folding.add(FoldedResult.of(subjob.index, share, result, self._faults))
        if len(self._shares) == len(self._neighbours):
            yield from self.end()
        else:
            yield Held(subjob.index)

    def end(self) -> Iterator[Message]:
        """Hands over what is folded so far."""
        if self._shares:
            first, is_whole = self._neighbours.start, len(self._shares) == len(self._neighbours)
            with self._costs.folding(1, nodes=int(is_whole)):
                result = self._folding.result()
            stages = tuple(self._costs.stages())
            folded = FoldedNeighbours(
                result, tuple(self._shares), self._not_run, self._times, stages, tuple(self._inputs)
            )
            yield Folded(range(first, first + len(self._shares)), folded, self._worker)
        self._neighbours, self._folding, self._shares, self._costs = range(0), Folding(), [], MergeCosts()
        self._inputs = []

    def _is_next(self, subjob: SubJob) -> bool:
        """Whether a sub-job follows on those that are folded, or is the first of its neighbours."""
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
