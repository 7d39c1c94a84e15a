"""The locations of baskets in a file: the seeks between them, the gaps, and the disk pages that they touch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from branchline._core import Buffer

Numbers = npt.NDArray[np.int64]


def as_numbers(column: Buffer) -> Numbers:
    """View a column of the engine as int64 numbers, without a copy."""
    return np.frombuffer(memoryview(column), "i8")


@dataclass(frozen=True)
class Spread:
    """The distribution of some numbers: minimum, quartiles, maximum."""

    least: float
    low: float
    median: float
    high: float
    most: float

    @classmethod
    def of(cls, numbers: npt.ArrayLike) -> Spread:
        """The distribution of some numbers; zeros if there are none."""
        values = np.asarray(numbers)
        if values.size == 0:
            return cls(0, 0, 0, 0, 0)
        return cls(*(float(one) for one in np.percentile(values, (0, 25, 50, 75, 100))))


@dataclass(frozen=True)
class Travel:
    """The seeks of a reader that reads each basket when it reaches the basket's first entry.

    ``wanted_bytes`` is the total size of the baskets, ``span_bytes`` the distance from the start of the first to the
    end of the last. ``distance_bytes`` is the sum of all seeks from the end of a basket to the start of the next, in
    both directions; ``jumps_back`` counts the backward seeks.
    """

    baskets: int
    wanted_bytes: int
    span_bytes: int
    distance_bytes: int
    jumps: int
    jumps_back: int


@dataclass(frozen=True)
class Gaps:
    """The gaps between the wanted baskets, in file order."""

    count: int
    total_bytes: int
    largest_bytes: int


@dataclass(frozen=True)
class Clusters:
    """Entry ranges that start and end where every branch has a basket boundary. ``span`` is the distance from the first
    to the last byte of a cluster, divided by the size of its baskets: 1 if nothing else is stored in between.
    """

    count: int
    entries: Spread
    stored_bytes: Spread
    span: Spread


@dataclass(frozen=True)
class DiskPages:
    """Pages of the disk or page cache that contain wanted baskets. ``with_others`` is the number of these pages that
    also contain other branches, ``unwanted_bytes`` the number of bytes in the pages that are not in wanted baskets.
    """

    page_bytes: int
    count: int
    with_others: int
    unwanted_bytes: int


@dataclass(frozen=True)
class Extents:
    """The locations of the baskets or pages of some branches: one row each, in columns of equal length.

    ``branch`` is the index of the branch, ``offset`` and ``size`` are in bytes, entries are numbered within the tree.
    """

    branch: Numbers
    offset: Numbers
    size: Numbers
    entry_start: Numbers
    entry_stop: Numbers

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def end(self) -> Numbers:
        """End offsets of the extents."""
        return self.offset + self.size

    @property
    def stored_bytes(self) -> int:
        """Total size of the extents."""
        return int(self.size.sum())

    def shown_before(self) -> Extents:
        """The extents whose offset already occurred: pages that an RNTuple stores once for several fields."""
        is_repeated = np.ones(len(self), dtype=bool)
        is_repeated[np.unique(self.offset, return_index=True)[1]] = False
        return self.rows(is_repeated)

    def of(self, branches: list[int]) -> Extents:
        """The extents of some of the branches."""
        return self.rows(np.isin(self.branch, branches))

    def rows(self, rows: npt.NDArray[np.bool_] | Numbers) -> Extents:
        """The extents selected by ``rows``, which is a mask or an array of indices."""
        columns = (self.branch, self.offset, self.size, self.entry_start, self.entry_stop)
        return Extents(*(column[rows] for column in columns))

    def by_offset(self) -> Extents:
        """The extents in file order."""
        return self.rows(np.argsort(self.offset, kind="stable"))

    def by_entry(self) -> Extents:
        """The extents in the order in which a sequential reader needs them."""
        return self.rows(np.lexsort((self.branch, self.entry_start)))

    def travel(self) -> Travel:
        """The seeks of a sequential reader."""
        wanted = self.by_entry()
        jumps = wanted.offset[1:] - wanted.end[:-1]
        span = int(self.end.max() - self.offset.min()) if len(self) else 0
        return Travel(
            baskets=len(self),
            wanted_bytes=self.stored_bytes,
            span_bytes=span,
            distance_bytes=int(np.abs(jumps).sum()),
            jumps=int(np.count_nonzero(jumps)),
            jumps_back=int(np.count_nonzero(jumps < 0)),
        )

    def gaps(self) -> Gaps:
        """The gaps between the extents."""
        laid = self.by_offset()
        jumps = laid.offset[1:] - np.maximum.accumulate(laid.end)[:-1] if len(laid) else laid.offset
        gaps = jumps[jumps > 0]
        return Gaps(len(gaps), int(gaps.sum()), int(gaps.max(initial=0)))

    def clusters(self) -> Clusters:
        """The ranges of entries that start and end at an extent boundary of every branch."""
        common: Numbers | None = None
        for branch in np.unique(self.branch):
            is_own = self.branch == branch
            borders = np.unique(np.append(self.entry_start[is_own], self.entry_stop[is_own].max()))
            common = borders if common is None else np.intersect1d(common, borders, assume_unique=True)
        borders = np.empty(0, "i8") if common is None else common
        inside = self.rows(self.entry_stop <= borders[-1]) if len(borders) > 1 else self.rows(self.size < 0)
        if not len(inside):
            nothing = Spread.of([])
            return Clusters(0, nothing, nothing, nothing)
        number = np.searchsorted(borders, inside.entry_start, side="right") - 1
        count = len(borders) - 1
        stored = np.bincount(number, inside.size, count)
        first, behind = np.full(count, np.iinfo("i8").max), np.zeros(count, "i8")
        np.minimum.at(first, number, inside.offset)
        np.maximum.at(behind, number, inside.end)
        is_held = stored > 0
        span = (behind[is_held] - first[is_held]) / stored[is_held]
        return Clusters(count, Spread.of(np.diff(borders)), Spread.of(stored), Spread.of(span))

    def disk_pages(self, every: Extents, page_bytes: int) -> DiskPages:
        """The pages that contain these extents; ``every`` are the extents of all branches."""
        own = self._pages(page_bytes)
        others = every.rows(~np.isin(every.branch, np.unique(self.branch)))
        shared = np.intersect1d(own, others._pages(page_bytes), assume_unique=True)
        return DiskPages(page_bytes, len(own), len(shared), len(own) * page_bytes - self.stored_bytes)

    def _pages(self, page_bytes: int) -> Numbers:
        """The indices of the pages that the extents touch."""
        first, last = self.offset // page_bytes, (self.end - 1) // page_bytes
        counts = np.where(self.size > 0, last - first + 1, 0)
        before = np.repeat(np.cumsum(counts) - counts, counts)
        return np.unique(np.repeat(first, counts) + np.arange(counts.sum()) - before)
