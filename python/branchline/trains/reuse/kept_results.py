"""Cached results of sub-jobs, as they are found in the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from branchline.reading.datasets.data_file import storage_element
from branchline.records.sensors.record import FileRecord
from branchline.trains.plan import TrainPlan
from branchline.trains.subjobs.folding import FoldedResult, KeptShare, fold
from branchline.trains.subjobs.share_result import ShareResult, WagonShare


@dataclass
class KeptResult:
    """The cached results of a sub-job: the results of wagons, by name, and the names of wagons that still have to
    run.
    """

    share: KeptShare
    wagons: dict[str, WagonShare]
    missing: frozenset[str] = frozenset()
    #: The key of the sub-job. If its files change, the key no longer matches.
    share_key: str = ""

    def as_result(self, names: Iterable[str]) -> ShareResult:
        """Return the result of a sub-job that need not run. Wagons without a cached result had stopped earlier; they
        count as not run.
        """
        wagons = {name: self.wagons.get(name, WagonShare()) for name in names}
        not_run = frozenset(name for name in wagons if name not in self.wagons)
        result = ShareResult(wagons, not_run, files=self._files(), is_reused=True)
        result.events = self.share.events
        result.companions_missing, result.joins = list(self.share.companions_missing), list(self.share.joins)
        result.recovered = dict(self.share.recovered)
        return result

    def complete(self, result: ShareResult) -> None:
        """Add the cached results to ``result``, the result of running the remaining wagons."""
        result.wagons |= self.wagons
        result.not_run -= frozenset(self.wagons)
        if result.is_whole or result.interrupted or result.error is not None:
            return
        # All wagons that ran have stopped, so the remaining entries were not read. The cached results include these
        # entries.
        read = {one.path for one in result.files}
        kept = {path: (entries, events) for path, entries, events, _ in self.share.files}
        for one in result.files:
            # The record of a file lacks the number of entries of its tree if no chunk was read.
            one.entries, one.events = kept.get(one.path, (one.entries, one.events))
        result.files += [one for one in self._files() if one.path not in read]
        result.events, result.is_whole = self.share.events, True

    def _files(self) -> list[FileRecord]:
        return [
            FileRecord(path, storage_element(path), entries=entries, folders=folders, events=events, subjobs_reused=1)
            for path, entries, events, folders in self.share.files
        ]


@dataclass(frozen=True)
class KeptNeighbours:
    """The cached results of neighbouring sub-jobs that a worker has combined. ``wagons`` has the sums of wagons over
    all these sub-jobs, ``shares`` the other parts of each sub-job's result, and ``missing`` the names of wagons that
    still have to run.
    """

    indices: range
    shares: tuple[KeptShare, ...]
    wagons: dict[str, WagonShare]
    missing: frozenset[str] = frozenset()

    def of(self, index: int) -> KeptResult:
        """Return the cached results of one sub-job, without the sums over all neighbours."""
        return KeptResult(self.shares[index - self.indices.start], {}, self.missing)

    def as_result(self, plan: TrainPlan) -> FoldedResult:
        """Return the combined result if no wagon needs to run."""
        names = [one.name for one in plan.loaded.wagons]
        alone = [(index, plan.shares[index], self.of(index).as_result(names)) for index in self.indices]
        folded = fold([FoldedResult.of(index, share, result, plan.faults) for index, share, result in alone])
        folded.wagons |= self.wagons
        return folded
