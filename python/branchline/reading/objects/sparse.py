"""Histograms of any dimension: THn as a histogram of hist, THnSparse as its filled cells."""

from __future__ import annotations

import math
from typing import Any

import boost_histogram
import numpy as np

from branchline.base.limits import DENSE_CELLS_MAX
from branchline.errors import OptionError
from branchline.reading.objects.axes import RootAxis
from branchline.reading.objects.bins import EmptyHistogram, shaped, storage_for
from branchline.reading.objects.histogram import Histogram
from branchline.reading.objects.histogram_errors import refused
from branchline.reading.objects.object_record import Record, Recorded


def dense_of(record: Record) -> Histogram:
    """The histogram of a THn, where the last axis varies fastest (TNDArray). Raises UnsupportedBranchError."""
    axes = _axes(record)
    contents, squares = _numbers(record.raw("fArray")), _numbers(record.raw("fSumw2"))
    shape = tuple(axis.cells_count for axis in axes)
    if math.prod(shape) > DENSE_CELLS_MAX:
        raise refused(record, f"it has {math.prod(shape)} cells")
    values = np.zeros(shape) if len(contents) == 0 else shaped(record, axes[::-1], contents).T
    has_squares = len(squares) == len(contents) > 0
    empty = EmptyHistogram(record, axes, values == 0, storage_for(values, has_squares=has_squares))
    view = empty.view
    if has_squares:
        view["value"] = empty.chosen(values)
        view["variance"] = empty.chosen(shaped(record, axes[::-1], squares).T)
    else:
        view[...] = empty.chosen(values)
    return empty.filled(values != 0)


def _numbers(array: object) -> Any:
    return np.asarray(array.raw("fData") if isinstance(array, Record) else array)


def _axes(record: Record) -> list[RootAxis]:
    return [RootAxis.of(axis) for axis in record.raw("fAxes").raw("objects")]


class SparseHistogram(Recorded):
    """The filled cells of a THnSparse.

    ``coordinates`` has one row per filled cell with its bin numbers on the ``axes``: 0 is the underflow, 1 the first
    bin. ``values`` and ``variances`` have one element per filled cell; without sums of squared weights the variances
    equal the values. ``to_hist`` projects onto some axes, or onto all if the result is not too large.

        >>> sparse = branchline.open("file.root")["sparse"]
        >>> sparse.to_hist("pt", "eta").values().shape
        (50, 20)
    """

    def __init__(
        self,
        record: Record,
        axes: list[RootAxis],
        coordinates: np.ndarray,
        values: np.ndarray,
        squares: np.ndarray | None,
    ) -> None:
        self.name: str = record.raw("fName")
        self.title: str = record.raw("fTitle")
        self.classname = record.classname
        self.axes = axes
        self.coordinates = coordinates
        self.values = values
        self.variances = values if squares is None else squares
        self.is_weighted = squares is not None
        self.record: Record = record

    def __repr__(self) -> str:
        bins = " x ".join(str(axis.bins_count) for axis in self.axes)
        return f"<SparseHistogram {self.name!r}: {len(self.values)} cells of {bins} bins filled>"

    def to_hist(self, *which: int | str) -> Histogram:
        """Project onto axes, given by number, name or title (default: all), as a histogram. Sums over the other axes
        include underflow and overflow. Raises OptionError.
        """
        numbers = [self._number(one) for one in which] or list(range(len(self.axes)))
        axes = [self.axes[number] for number in numbers]
        shape = tuple(axis.cells_count for axis in axes)
        if math.prod(shape) > DENSE_CELLS_MAX:
            what = f"{self.name} over {len(axes)} axes has {math.prod(shape)} cells"
            raise OptionError(what, hint='name fewer axes, such as to_hist(0, 2) or to_hist("pt")')
        places = np.ravel_multi_index(tuple(self.coordinates[:, number] for number in numbers), shape)
        values = np.bincount(places, self.values, math.prod(shape)).reshape(shape)
        squares = np.bincount(places, self.variances, math.prod(shape)).reshape(shape)
        storage = boost_histogram.storage.Weight() if self.is_weighted else boost_histogram.storage.Double()
        empty = EmptyHistogram(self.record, axes, values == 0, storage)
        view = empty.view
        if self.is_weighted:
            view["value"], view["variance"] = empty.chosen(values), empty.chosen(squares)
        else:
            view[...] = empty.chosen(values)
        return empty.filled(values != 0)

    def _number(self, which: int | str) -> int:
        names = [(number, axis.name, axis.title) for number, axis in enumerate(self.axes)]
        for number, *texts in names:
            if which == number or which in texts:
                return number
        hint = ", ".join(f"{number} {name} {title!r}" for number, name, title in names)
        raise OptionError(f"{self.name} has no axis {which!r}", hint=f"its axes are {hint}")


def sparse_of(record: Record) -> SparseHistogram:
    """The filled cells of a THnSparse, which ROOT stores in chunks. Raises UnsupportedBranchError."""
    axes = _axes(record)
    bits = [(axis.bins_count + 2).bit_length() for axis in axes]
    coordinates, values, squares = [], [], []
    for chunk in record.raw("fBinContent").raw("objects"):
        size = chunk.raw("fSingleCoordinateSize")
        stored = np.asarray(chunk.raw("fCoordinates")).view("u1")
        if size * 8 < sum(bits) or len(stored) % size:
            raise refused(record, f"the coordinates of a cell have {size} bytes, which do not hold {sum(bits)} bits")
        # The coordinates are packed with the minimum number of bits per axis, lowest first (THnSparseCoordCompression).
        cells = stored.reshape(-1, size)
        all_bits = np.unpackbits(cells, axis=1, bitorder="little")
        of_chunk = np.empty((len(cells), len(bits)), dtype="i8")
        start = 0
        for place, count in enumerate(bits):
            of_chunk[:, place] = all_bits[:, start : start + count] @ (1 << np.arange(count, dtype="i8"))
            start += count
        contents = np.asarray(chunk.raw("fContent"))[: len(of_chunk)]
        if len(contents) != len(of_chunk) or any(
            np.any(of_chunk[:, i] >= axes[i].cells_count) for i in range(len(axes))
        ):
            raise refused(record, f"{len(of_chunk)} cells do not match its axes or its {len(contents)} contents")
        coordinates.append(of_chunk)
        values.append(contents)
        of_weights = chunk.raw("fSumw2")
        squares.append(None if of_weights is None else np.asarray(of_weights)[: len(of_chunk)])
    if not values:
        return SparseHistogram(record, axes, np.zeros((0, len(axes)), "i8"), np.zeros(0), None)
    has_squares = all(one is not None and len(one) == len(of) for one, of in zip(squares, values, strict=True))
    all_squares = np.concatenate([one for one in squares if one is not None]) if has_squares else None
    return SparseHistogram(record, axes, np.concatenate(coordinates), np.concatenate(values), all_squares)
