"""Entries that ROOT had not filled yet when it wrote a histogram: they are in its buffer (TH1::BufferEmpty)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from branchline.errors import UnsupportedBranchError
from branchline.reading.objects.axes import RootAxis
from branchline.reading.objects.object_record import Record

# Bits of TH1 and TAxis.
IS_NOT_WEIGHTED, AUTO_BIN_POWER_TWO = 1 << 19, 1 << 20
CAN_EXTEND = 1 << 1
# ROOT chooses widths of bins that are one of these times a power of ten.
ROUND_WIDTHS = (1, 2, 5)
# A limit counts as a multiple of the width if it differs by less than this part of the width.
NEAR = 1e-4


class Buffered:
    """The entries in the buffer of a histogram: their ``weights``, and their ``points`` with a column for each axis and
    of a profile the value after them. ``axes`` have limits that fit them, if they had none.
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
        # In ROOT's order of cells x runs fastest.
        self._places = np.ravel_multi_index(places[::-1], shape[::-1])
        self._count = math.prod(shape)

    def sums(self, of: Any) -> Any:
        """Sums of numbers of the entries in all cells, in ROOT's order."""
        return np.bincount(self._places, of, self._count)

    def statistics(self) -> dict[str, float]:
        """ROOT's sums over the entries that are neither in the underflow nor in the overflow (TH1::Fill), by ROOT's
        names: ``fTsumw``, ``fTsumwx``, ``fTsumwx2``, ``fTsumwxy``, ...
        """
        w, columns = self.weights[self._is_inside], self.points[self._is_inside].T
        # The value of a profile has the letter after those of the axes.
        values = dict(zip("xyzt", columns, strict=False))
        of_axes = [letter for letter, _ in zip("xyz", self.axes, strict=False)]
        sums = {"": w, "2": w * w}
        for letter, column in values.items():
            sums |= {letter: w * column, f"{letter}2": w * column * column}
        sums |= {f"{one}{other}": w * values[one] * values[other] for one, other in combinations(of_axes, 2)}
        return {"fEntries": float(len(self.weights))} | {
            f"fTsumw{name}": float(np.sum(numbers)) for name, numbers in sums.items()
        }


def buffered(record: Record, axes: Sequence[RootAxis], values_count: int = 0) -> Buffered | None:
    """The entries in the buffer of a histogram, which its bins do not have yet; None if there are none.

    Raises UnsupportedBranchError for axes that ROOT would extend.
    """
    stored = np.asarray(record.raw("fBuffer")) if "fBuffer" in record else np.zeros(0)
    size = 1 + len(axes) + values_count
    if len(stored) < 1 + size or not 1 <= stored[0] <= (len(stored) - 1) // size:
        return None
    if any(_is_endless(record.raw(name)) for name in ("fXaxis", "fYaxis", "fZaxis")[: len(axes)]):
        raise _refused(record, "its entries are in its buffer still, and its axes would be extended for them")
    return Buffered(record, axes, stored[1 : 1 + size * int(stored[0])].reshape(-1, size))


def _is_endless(axis: Record) -> bool:
    return axis.raw("fXmax") > axis.raw("fXmin") and bool(axis.raw("fBits2") & CAN_EXTEND if "fBits2" in axis else 0)


def _cells(axis: RootAxis, values: Any) -> Any:
    """The cells of values (TAxis::FindFixBin): what is not below the last edge is in the overflow, NaN too."""
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
    """The axis, with limits around the values if it has none (THLimitsFinder::FindGoodLimits)."""
    if axis.edges[-1] > axis.edges[0]:
        return axis
    finite = values[np.isfinite(values)]
    if record.raw("fBits") & AUTO_BIN_POWER_TWO or len(finite) == 0:
        raise _refused(record, "its entries are in its buffer still, and its axes have no limits")
    low, high = float(np.min(finite)), float(np.max(finite))
    if low >= high:
        low, high = low - 1, high + 1
    return replace(axis, edges=np.array(good_limits(low, high, axis.bins_count)))


def good_limits(low: float, high: float, bins_count: int) -> tuple[float, float]:
    """Round limits about a tenth of the range beyond values, at least a hundredth, and none beyond zero that is not
    between them (THLimitsFinder::OptimizeLimits).
    """
    wide, narrow = 0.1 * (high - low), 0.01 * (high - low)
    below = 0.0 if low >= 0 > low - wide else low - wide
    above = 0.0 if high <= 0 < high + wide else high + wide
    first, last = _round_limits(below, above, bins_count)
    return min(first, low - narrow), max(last, high + narrow)


def _round_limits(low: float, high: float, bins_count: int) -> tuple[float, float]:
    """Multiples of a round width within a range, of about this many bins (THLimitsFinder::Optimize)."""
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


def _refused(record: Record, why: str) -> UnsupportedBranchError:
    what = f"{record.origin.place} is a {record.classname} that hist has no histogram for: {why}"
    return UnsupportedBranchError(what, path=record.origin.file_path)
