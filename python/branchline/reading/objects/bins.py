"""Converts TH1, TH2, TH3, TProfile, TProfile2D and TProfile3D to Histograms, with helpers for other classes.

Entries that were in ROOT's fill buffer when the histogram was written are first filled into the bins
(TH1::BufferEmpty).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import boost_histogram
import numpy as np

from branchline.errors import BranchlineWarning, warn
from branchline.reading.objects.axes import RootAxis, binnings_of
from branchline.reading.objects.histogram import AXES, ERROR_MODES, Histogram, RootFacts
from branchline.reading.objects.histogram_errors import refused
from branchline.reading.objects.object_record import Record

# Status bits of TH1 and TAxis.
IS_NOT_WEIGHTED, AUTO_BIN_POWER_TWO = 1 << 19, 1 << 20
CAN_EXTEND = 1 << 1
# ROOT prefers bin widths that are the product of one of these numbers and a power of ten.
ROUND_WIDTHS = (1, 2, 5)
# A limit counts as a multiple of the bin width if it is off by less than this fraction of the width.
NEAR = 1e-4


def histogram_of(record: Record, dimensions: int) -> Histogram:
    """The histogram of a TH1, TH2 or TH3. Raises UnsupportedBranchError if hist cannot represent it."""
    axes = root_axes(record, dimensions)
    contents, squares = np.asarray(record.raw("fArray")), record.raw("fSumw2")
    waiting = buffered(record, axes)
    if waiting is None:
        return counts_of(record, axes, contents, squares)
    filled = waiting.sums(waiting.weights).astype(contents.dtype)
    has_squares = len(squares) == len(contents) or not waiting.is_not_weighted
    new_squares = waiting.sums(waiting.weights**2) if has_squares else squares
    return counts_of(record, waiting.axes, filled, new_squares, waiting)


def counts_of(
    record: Record, axes: Sequence[RootAxis], contents: Any, squares: Any, waiting: Buffered | None = None
) -> Histogram:
    """The histogram of ``contents`` in ROOT's cell order. ``squares`` are used if there is one for each cell."""
    values = shaped(record, axes, contents)
    storage = storage_for(values, has_squares=len(squares) == len(contents))
    empty = EmptyHistogram(record, axes, values == 0, storage, waiting)
    view = empty.view
    if view.dtype.names is None:
        view[...] = empty.chosen(values)
    else:
        view["value"] = empty.chosen(values)
        view["variance"] = empty.chosen(shaped(record, axes, squares))
    return empty.filled(values != 0)


def profile_of(record: Record, dimensions: int) -> Histogram:
    """The profile as a histogram of means, weighted if ROOT stores sums of squared weights (fBinSumw2).

    For each cell ROOT stores the sums of w*y (fArray), w*y^2 (fSumw2) and w (fBinEntries); hist stores the mean and the
    sum of squared deviations. Raises UnsupportedBranchError.
    """
    axes = root_axes(record, dimensions)
    stored = [record.raw(name) if name in record else [] for name in ("fArray", "fSumw2", "fBinEntries", "fBinSumw2")]
    waiting = buffered(record, axes, values_count=1)
    if waiting is not None:
        axes = waiting.axes
        w, y = waiting.weights, waiting.points[:, -1]
        has_squares = len(stored[3]) > 0 or not waiting.is_not_weighted
        stored = [
            waiting.sums(w * y),
            waiting.sums(w * y * y),
            waiting.sums(w),
            waiting.sums(w * w) if has_squares else [],
        ]
    sums, squares, weights = (shaped(record, axes, one) for one in stored[:3])
    is_weighted = len(stored[3]) == sums.size
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(weights != 0, sums / weights, 0.0)
        deltas = np.where(weights != 0, weights * np.abs(squares / weights - means**2), 0.0)
    storage = boost_histogram.storage.WeightedMean() if is_weighted else boost_histogram.storage.Mean()
    mode = record.raw("fErrorMode")
    error_mode = ERROR_MODES[mode] if 0 <= mode < len(ERROR_MODES) else ""
    empty = EmptyHistogram(record, axes, weights == 0, storage, waiting, error_mode)
    view = empty.view
    view["value"] = empty.chosen(means)
    if is_weighted:
        view["sum_of_weights"] = empty.chosen(weights)
        view["sum_of_weights_squared"] = empty.chosen(shaped(record, axes, stored[3]))
        view["_sum_of_weighted_deltas_squared"] = empty.chosen(deltas)
    else:
        view["count"] = empty.chosen(weights)
        view["_sum_of_deltas_squared"] = empty.chosen(deltas)
    return empty.filled(weights != 0)


def root_axes(record: Record, dimensions: int) -> list[RootAxis]:
    """The axes of a histogram."""
    return [RootAxis.of(record.raw(name)) for name in AXES[:dimensions]]


def storage_for(values: Any, *, has_squares: bool) -> Any:
    """Return the storage that represents the values exactly, and with ``has_squares`` their variances."""
    if has_squares:
        return boost_histogram.storage.Weight()
    return boost_histogram.storage.Int64() if values.dtype.kind in "iu" else boost_histogram.storage.Double()


def shaped(record: Record, axes: Sequence[RootAxis], cells: Any) -> Any:
    """Reshape cells to an array with one dimension per axis; in ROOT's order, x varies fastest (TH1::GetBin)."""
    shape = tuple(axis.cells_count for axis in axes)
    wanted = 1
    for extent in shape:
        wanted *= max(extent, 0)
    if wanted != len(cells):
        raise refused(record, f"it has {len(cells)} cells, but its axes define {wanted}")
    return np.asarray(cells).reshape(shape[::-1]).T


class EmptyHistogram:
    """A histogram with the axes, names and titles of a record, and empty bins.

    ``is_empty`` is True for each of ROOT's cells without content, ``waiting`` are the entries in ROOT's fill buffer.
    Raises UnsupportedBranchError.
    """

    def __init__(
        self,
        record: Record,
        axes: Sequence[RootAxis],
        is_empty: Any,
        storage: Any,
        waiting: Buffered | None = None,
        error_mode: str = "",
    ) -> None:
        self._record = record
        try:
            binnings = binnings_of(axes, is_empty)
            self.histogram = Histogram(*[one.axis for one in binnings], storage=storage, name=record.raw("fName"))
        except (ValueError, TypeError, KeyError) as error:
            raise refused(record, str(error)) from error
        #: The bins, including flow bins.
        self.view: Any = self.histogram.view(flow=True)
        # hist would replace an empty label by a default.
        self.histogram.label = record.raw("fTitle")
        for place, axis in enumerate(axes):
            if axis.labels and binnings[place].has_numbers:
                # Not all bins have labels, or some labels are equal: the axis cannot be categorical.
                text = (
                    f"{record.origin.file_path}: {len(axis.labels)} of {axis.bins_count} bins of {axis.name} of "
                    f"{record.origin.place} have labels, {len(set(axis.labels.values()))} different ones: the axis "
                    f"stays numeric; bin_labels({place}) returns the labels"
                )
                warn(text, BranchlineWarning)
        sums = {} if waiting is None else waiting.statistics()
        members = record.singles() | sums
        self._facts = RootFacts(record.classname, tuple(axes), members, error_mode, record.origin.key_place)
        # An index array of all cells would take as much memory as the histogram.
        if all(one.cells is None for one in binnings):
            self._where: Any = ...
        else:
            cells = zip(binnings, is_empty.shape, strict=True)
            self._where = np.ix_(*[np.arange(count) if one.cells is None else one.cells for one, count in cells])

    def chosen(self, cells: Any) -> Any:
        """Select the cells that the histogram's bins represent."""
        return cells[self._where]

    def filled(self, has_content: Any) -> Histogram:
        """Return the histogram after its bins were filled. Warns if content in the underflow of a category axis is
        lost.
        """
        is_whole = self._where is ...
        lost = 0 if is_whole else np.count_nonzero(has_content) - np.count_nonzero(self.chosen(has_content))
        if lost:
            place, path = self._record.origin.place, self._record.origin.file_path
            text = f"{path}: {lost} cells of {place} in the underflow are left out, as category axes have no underflow"
            warn(text, BranchlineWarning)
        self.histogram.remember(self._facts, self.view)
        return self.histogram


def buffered(record: Record, axes: Sequence[RootAxis], values_count: int = 0) -> Buffered | None:
    """The entries in a histogram's fill buffer, which are not in its bins yet; None if the buffer is empty.

    Raises UnsupportedBranchError for axes that ROOT would extend when it fills them.
    """
    stored = np.asarray(record.raw("fBuffer")) if "fBuffer" in record else np.zeros(0)
    size = 1 + len(axes) + values_count
    if len(stored) < 1 + size or not 1 <= stored[0] <= (len(stored) - 1) // size:
        return None
    if any(_is_endless(record.raw(name)) for name in AXES[: len(axes)]):
        raise refused(record, "its entries are still in its fill buffer, and filling them would extend its axes")
    return Buffered(record, axes, stored[1 : 1 + size * int(stored[0])].reshape(-1, size))


class Buffered:
    """The entries in a histogram's fill buffer: their ``weights`` and ``points``. The points have one column per axis,
    and in a profile one more column with the value. ``axes`` are the axes of the histogram; axes without limits get
    limits that fit the entries.
    """

    def __init__(self, record: Record, axes: Sequence[RootAxis], entries: Any) -> None:
        self.weights = entries[:, 0]
        self.points = entries[:, 1:]
        self.axes = [_with_limits(record, axis, self.points[:, place]) for place, axis in enumerate(axes)]
        self.is_not_weighted = bool(record.raw("fBits") & IS_NOT_WEIGHTED) or bool(np.all(self.weights == 1))
        shape = tuple(axis.cells_count for axis in self.axes)
        places = [_cells(axis, self.points[:, place]) for place, axis in enumerate(self.axes)]
        pairs = zip(places, self.axes, strict=True)
        self._is_inside = np.all([(place > 0) & (place <= axis.bins_count) for place, axis in pairs], axis=0)
        # In ROOT's cell order, x varies fastest.
        self._places = np.ravel_multi_index(places[::-1], shape[::-1])
        self._count = math.prod(shape)

    def sums(self, of: Any) -> Any:
        """Return the sum of the entries' values ``of`` in each cell, in ROOT's order."""
        return np.bincount(self._places, of, self._count)

    def statistics(self) -> dict[str, float]:
        """ROOT's sums over the entries outside of underflow and overflow (TH1::Fill), by ROOT's names: ``fTsumw``,
        ``fTsumwx``, ``fTsumwx2``, ``fTsumwxy``, ...
        """
        w, columns = self.weights[self._is_inside], self.points[self._is_inside].T
        # The name of a profile's value is the letter after its last axis, such as y for a TProfile.
        values = dict(zip("xyzt", columns, strict=False))
        of_axes = [letter for letter, _ in zip("xyz", self.axes, strict=False)]
        sums = {"": w, "2": w * w}
        for letter, column in values.items():
            sums |= {letter: w * column, f"{letter}2": w * column * column}
        sums |= {f"{one}{other}": w * values[one] * values[other] for one, other in combinations(of_axes, 2)}
        return {"fEntries": float(len(self.weights))} | {
            f"fTsumw{name}": float(np.sum(numbers)) for name, numbers in sums.items()
        }


def _is_endless(axis: Record) -> bool:
    return axis.raw("fXmax") > axis.raw("fXmin") and bool(axis.raw("fBits2") & CAN_EXTEND if "fBits2" in axis else 0)


def _cells(axis: RootAxis, values: Any) -> Any:
    """Return the cell numbers of values (TAxis::FindFixBin). NaN and values from the last edge on are overflow."""
    first, last = axis.edges[0], axis.edges[-1]
    if len(axis.edges) > 2:
        inside = np.searchsorted(axis.edges, values, side="right")
    else:
        with np.errstate(invalid="ignore"):
            inside = 1 + np.nan_to_num(axis.bins_count * (values - first) / (last - first), posinf=0, neginf=0).astype(
                "i8"
            )
    return np.where(values < first, 0, np.where(values < last, inside, axis.bins_count + 1))


def _with_limits(record: Record, axis: RootAxis, values: Any) -> RootAxis:
    """Return the axis, with limits computed from the values if it has none (THLimitsFinder::FindGoodLimits)."""
    if axis.edges[-1] > axis.edges[0]:
        return axis
    finite = values[np.isfinite(values)]
    if record.raw("fBits") & AUTO_BIN_POWER_TWO or len(finite) == 0:
        raise refused(record, "its entries are still in its fill buffer, and its axes have no limits")
    low, high = float(np.min(finite)), float(np.max(finite))
    if low >= high:
        low, high = low - 1, high + 1
    return replace(axis, edges=np.array(good_limits(low, high, axis.bins_count)))


def good_limits(low: float, high: float, bins_count: int) -> tuple[float, float]:
    """Return round axis limits with a margin of about 10% of the range (THLimitsFinder::OptimizeLimits). A margin does
    not extend beyond zero if all values are on one side of zero, but is at least 1% of the range.
    """
    wide, narrow = 0.1 * (high - low), 0.01 * (high - low)
    below = 0.0 if low >= 0 > low - wide else low - wide
    above = 0.0 if high <= 0 < high + wide else high + wide
    first, last = _round_limits(below, above, bins_count)
    return min(first, low - narrow), max(last, high + narrow)


def _round_limits(low: float, high: float, bins_count: int) -> tuple[float, float]:
    """Return multiples of a round bin width within a range, for about ``bins_count`` bins (THLimitsFinder)."""
    wanted = max(bins_count, 2)
    while True:
        width = (high - low) / wanted
        exponent = int(math.log10(width)) - (1 if width <= 1 else 0)
        part = width * 10.0**-exponent - 1e-10
        rounded = next((one for one in ROUND_WIDTHS if part <= one), 10)
        width = rounded * 10.0**exponent if rounded < 10 else 1 * 10.0 ** (exponent + 1)
        if abs(low / width) > 1e9:
            return low, high
        first, last = math.floor(low / width), math.floor(high / width + 1.00001)
        if bins_count <= 5 or 2 * (last - first) != bins_count:
            break
        wanted += 1
    inner_first = first + (1 if low - width * first >= NEAR * width else 0)
    inner_last = last - (1 if width * last - high >= NEAR * width else 0)
    if bins_count > 1 and inner_last > inner_first:
        first, last = inner_first, inner_last
    return width * first, width * last
