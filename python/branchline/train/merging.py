"""Adds up what the sub-jobs bring back, in the order of the dataset, whatever the order in which they come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from branchline.sensors.record import BranchRecord, FileRecord, MissingCompanion, SkippedFile, WagonFault
from branchline.train.accumulators import CannotAddError, Total
from branchline.train.faults import because_of
from branchline.train.records import RecordTable
from branchline.train.share_result import JobError, ShareResult, WagonShare
from branchline.train.shares import Share
from branchline.train.wagons import Wagon


@dataclass
class Merged:
    """The job so far. A wagon that failed keeps its sum from before its first failing chunk in the dataset."""

    wagons: dict[str, WagonShare]
    files: RecordTable[FileRecord] = field(default_factory=lambda: RecordTable("path"))
    branches: RecordTable[BranchRecord] = field(default_factory=lambda: RecordTable("name"))
    skipped: list[SkippedFile] = field(default_factory=list)
    companions_missing: list[MissingCompanion] = field(default_factory=list)
    recovered: dict[str, int] = field(default_factory=dict)
    troubles: list[dict[str, Any]] = field(default_factory=list)
    links: list[dict[str, Any]] = field(default_factory=list)
    events: int = 0
    subjobs_done: int = 0
    error: JobError | None = None


class Merger:
    """Folds sub-jobs from the first to the last; one that comes early waits."""

    def __init__(self, wagons: tuple[Wagon, ...], shares: list[Share], stopped: Mapping[str, WagonFault]) -> None:
        """``stopped`` are the wagons that did not even begin."""
        self.merged = Merged({wagon.name: WagonShare(error=stopped.get(wagon.name)) for wagon in wagons})
        self._totals = {wagon.name: Total() for wagon in wagons}
        self._wagons = wagons
        self._shares = shares
        self._early: dict[int, ShareResult] = {}
        self._next = 0

    def take(self, index: int, result: ShareResult) -> None:
        """Takes the result of a sub-job and adds all whose turn it is."""
        self._early[index] = result
        while self._next in self._early:
            self._fold(self._next, self._early.pop(self._next))
            self._next += 1

    def finish(self) -> Merged:
        """Adds what is left behind a gap, as it is after an error or Ctrl-C, and puts the sums into the record."""
        for index in sorted(self._early):
            self._fold(index, self._early.pop(index))
        for name, share in self.merged.wagons.items():
            try:
                share.total = self._totals[name].value
            except CannotAddError as error:
                share.error = share.error or WagonFault(type(error).__name__, str(error))
        return self.merged

    def _fold(self, index: int, result: ShareResult) -> None:
        merged = self.merged
        for wagon in self._wagons:
            self._fold_wagon(wagon, result.wagons[wagon.name], self._shares[index])
        merged.files.add(result.files)
        merged.branches.add(result.branches)
        merged.skipped += result.skipped
        merged.companions_missing += result.companions_missing
        merged.recovered |= result.recovered
        merged.troubles += result.troubles
        merged.links += result.links
        merged.events += result.events
        merged.subjobs_done += result.is_whole
        merged.error = merged.error or result.error

    def _fold_wagon(self, wagon: Wagon, share: WagonShare, source: Share) -> None:
        total = self.merged.wagons[wagon.name]
        total.seconds += share.seconds
        total.cpu_s += share.cpu_s
        total.core_wait_s += share.core_wait_s
        total.touched |= share.touched
        for branch, count in share.misses.items():
            total.misses[branch] = total.misses.get(branch, 0) + count
        if total.error is not None:
            return
        for needed in wagon.requires:
            if self.merged.wagons[needed].error is not None and share.error is None:
                total.error = replace(because_of(needed), **_place_of(source))
                return
        try:
            self._totals[wagon.name].add(share.total)
        except CannotAddError as error:
            what = f"the result of a sub-job cannot be added to those before: {error}"
            total.error = WagonFault(type(error).__name__, what, **_place_of(source))
            return
        total.events += share.events
        total.chunks += share.chunks
        total.error = share.error


def _place_of(source: Share) -> dict[str, Any]:
    """The file with which a sub-job begins; its entries only where it reads some of them."""
    file = source.files[0]
    if file.entry_stop is None:
        return {"path": file.path}
    return {"path": file.path, "entry_start": file.entry_start, "entry_stop": file.entry_stop}
