"""Folds the results of neighbouring sub-jobs into one, which folds with its own neighbours in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from branchline.records.sensors.job_measures import added_measures
from branchline.records.sensors.record import BranchRecord, FileRecord, MemoryRetry, WagonFault
from branchline.records.sensors.storage_counts import distinct_links
from branchline.records.sensors.troubles import added_troubles
from branchline.trains.subjobs.record_sums import RecordTable, added_sites, companions_missing
from branchline.trains.subjobs.share_result import ReadRecords, ShareResult, WagonShare
from branchline.trains.subjobs.shares import Share
from branchline.trains.sums.accumulators import CannotAddError, Total
from branchline.trains.wagons.faults import because_of


@dataclass(frozen=True)
class SharePlace:
    """The file with which a sub-job begins; its entries only where it reads some of them."""

    path: str | None = None
    entry_start: int | None = None
    entry_stop: int | None = None

    @classmethod
    def of(cls, share: Share) -> SharePlace:
        """The place of a share."""
        file = share.files[0]
        return cls(file.path) if file.entry_stop is None else cls(file.path, file.entry_start, file.entry_stop)


@dataclass
class FoldedResult(ReadRecords):
    """What the sub-jobs from ``first`` to before ``last`` brought back, as one.

    A wagon that failed has the sum from before its first failing chunk in the dataset. ``subjobs_done`` are those that
    came to their end: fewer than the range has where some are missing; ``subjobs_reused`` are those of them that come
    from an earlier run as a whole. ``place`` is where the first of them begins.
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
        """The result of one sub-job. ``stopped`` are the wagons that did not even begin."""
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
        folded.take(result)
        return folded


def fold(parts: Sequence[FoldedResult]) -> FoldedResult:
    """The results of neighbours, in their order, as one; the parts stay as they are. Raises ValueError without parts.

    Sums depend on how parts are grouped: `branchline.jobs.fold_tree.FoldTree` says which parts go together.
    """
    folding = Folding()
    for part in parts:
        folding.add(part)
    return folding.result()


class Folding:
    """``fold``, one part after the other; results of parts that were added are not held any longer."""

    def __init__(self) -> None:
        self._folded: FoldedResult | None = None
        self._totals: dict[str, Total] = {}
        self._files: RecordTable[FileRecord] = RecordTable("path")
        self._branches: RecordTable[BranchRecord] = RecordTable("name")

    def add(self, part: FoldedResult) -> None:
        """Adds a part behind all that were added before."""
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
        # Most parts have none of these, and parts without entries nothing at all.
        if part.companions_missing:
            folded.companions_missing = companions_missing([*folded.companions_missing, *part.companions_missing])
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

    def result(self) -> FoldedResult:
        """All parts as one. Raises ValueError if there was none."""
        if self._folded is None:
            raise ValueError("there are no results to fold")
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
            what = f"the result of a sub-job cannot be added to those before: {error}"
            total.error = WagonFault(type(error).__name__, what, **vars(place))
            return
        total.events += share.events
        total.chunks += share.chunks
        total.error = share.error
        if total.error is not None and total.error.path is None:
            # A sum that did not arrive.
            total.error = replace(total.error, **vars(place))
