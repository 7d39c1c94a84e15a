"""Encodes histograms as ROOT's own classes: TH1D, TH2D, TH3D and profiles, as streamed by ROOT 6.40.

The layout follows the streamer infos of TH1 (version 8), TAxis (10), TH2 (5), TH3 (6), TProfile (7), TProfile2D (8) and
TProfile3D (8); ``results.root`` contains the same streamer infos. Values are big-endian; byte counts follow
``TBufferFile::WriteObject``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy

from branchline.base.array_types import Floats
from branchline.writing.objects.buffer import (
    IN_DIRECTORY,
    NUMBERS_AT_ONCE,
    ON_HEAP,
    cells_array,
    counted,
    doubles,
    doubles_array,
    named,
    pointed,
    root_list,
    root_object,
    root_string,
)

#: NO_LIMIT: TH1's value for a minimum or maximum that is not set. NEUTRAL: EStatOverflows::kNeutral.
NO_LIMIT, NEUTRAL = -1111.0, 2
AXIS_NAMES = ("xaxis", "yaxis", "zaxis")


@dataclass(frozen=True)
class HistogramAxis:
    """An axis of a ROOT histogram. ``is_equal`` means that all bins have the same width. Either all bins have labels,
    or none.
    """

    title: str
    edges: Floats
    is_equal: bool = True
    labels: tuple[str, ...] = ()

    @property
    def bins_count(self) -> int:
        """Number of bins, without under- and overflow."""
        return len(self.edges) - 1

    @property
    def middles(self) -> Floats:
        """The centre of each bin."""
        return self.middles_in(slice(0, self.bins_count))

    def middles_in(self, bins: slice) -> Floats:
        """Return the centre of each of these bins."""
        middles: Floats = (self.edges[:-1][bins] + self.edges[1:][bins]) / 2
        return middles


@dataclass(frozen=True)
class RootHistogram:
    """A histogram in ROOT's representation. All arrays have one dimension per axis, including under- and overflow.

    In a histogram, ``contents`` are sums of weights, and ``squares`` are sums of squared weights, or empty if they
    equal the contents. In a profile with weights w and values y, ``contents`` are the sums of w*y, ``squares`` the sums
    of w*y*y, ``weights`` the sums of w, and ``weights_squares`` the sums of w*w, or None if all weights are one.
    """

    title: str
    axes: tuple[HistogramAxis, ...]
    contents: Floats
    squares: Floats
    weights: Floats | None = None
    weights_squares: Floats | None = None

    @property
    def class_name(self) -> str:
        """Name of the histogram's ROOT class."""
        if self.weights is not None:
            return "TProfile" if len(self.axes) == 1 else f"TProfile{len(self.axes)}D"
        if len(self.axes) > 3:
            return "THnT<double>"
        return f"TH{len(self.axes)}D"

    def streamed(self, name: str) -> bytes:
        """Return the bytes of the histogram without the key. They contain no references to other objects."""
        if self.weights is not None:
            inside = (slice(1, -1),) * len(self.axes)
            sums_y = [float(self.contents[inside].sum()), float(self.squares[inside].sum())]
            squares = numpy.zeros(0) if self.weights_squares is None else self.weights_squares
            return counted(
                7 if len(self.axes) == 1 else 8,
                self._counts(name),
                doubles_array(self.weights),
                struct.pack(">i", 0),  # the error of the mean (EErrorType)
                doubles([0.0, 0.0, *sums_y]),  # no limits of y
                doubles_array(squares),
            )
        return self._grid(name) if len(self.axes) > 3 else self._counts(name)

    def _counts(self, name: str) -> bytes:
        """Encode a TH1D, TH2D or TH3D."""
        if len(self.axes) == 1:
            return counted(3, self._th1(name), doubles_array(self.contents))
        own_sums = doubles(self._sums[4:])
        if len(self.axes) == 2:
            return counted(4, counted(5, self._th1(name), doubles([1.0]), own_sums), doubles_array(self.contents))
        return counted(4, counted(6, self._th1(name), counted(1), own_sums), doubles_array(self.contents))

    def _grid(self, name: str) -> bytes:
        """Encode a THnD (version 1), with the last axis varying fastest.

        Without squared weights, the sums over the bins are 0: ROOT computes them only with squared weights.
        """
        has_squares = self.squares.size > 0
        inside = (slice(1, -1),) * len(self.axes)
        contents = self.contents[inside] if has_squares else numpy.zeros(())
        sums = numpy.zeros((2, len(self.axes)))
        for index, axis in enumerate(self.axes if has_squares else ()):
            along = contents.sum(axis=tuple(other for other in range(len(self.axes)) if other != index))
            sums[:, index] = (along * axis.middles).sum(), (along * axis.middles**2).sum()
        total_squares = float(self.squares[inside].sum()) if has_squares else -1.0  # errors are not kept
        totals = (self.entries, float(contents.sum()), total_squares)
        base = grid_base(named(name, self.title), self.axes, totals, sums)
        shape = self.contents.shape
        squares = cells_array(shape, self.squares if has_squares else numpy.zeros(0))
        return counted(1, counted(1, base, squares), cells_array(shape, self.contents))

    def _th1(self, name: str) -> bytes:
        unused = HistogramAxis("", numpy.array([0.0, 1.0]))
        axes = [*self.axes, *[unused] * (3 - len(self.axes))]
        return counted(
            8,
            named(name, self.title, IN_DIRECTORY),
            counted(2, struct.pack(">hhh", 602, 1, 1)),  # line
            counted(2, struct.pack(">hh", 0, 1001)),  # fill
            counted(3, struct.pack(">hhf", 1, 1, 1.0)),  # marker
            struct.pack(">i", self.contents.size),
            *map(_axis, axes, AXIS_NAMES),
            struct.pack(">hh", 0, 1000),  # offset and width of bars
            doubles([self.entries, *self._sums[:4]]),
            doubles([NO_LIMIT, NO_LIMIT, 0.0]),
            doubles_array(numpy.zeros(0)),  # contours
            doubles_array(self.squares),
            root_string(""),
            root_list(()),  # functions
            struct.pack(">ib", 0, 0),  # no buffer
            struct.pack(">ii", 0, NEUTRAL),
        )

    @property
    def _bins(self) -> tuple[Floats, Floats]:
        """Sums of weights and of squared weights in all cells."""
        if self.weights is None:
            return self.contents, self.squares if self.squares.size else self.contents
        return self.weights, self.weights if self.weights_squares is None else self.weights_squares

    @property
    def entries(self) -> float:
        """Effective number of entries: the square of the sum of weights, divided by the sum of squared weights.

        Equals the number of entries if all weights are one. Same as TH1::GetEffectiveEntries.
        """
        weights, squares = self._bins
        total, total_squares = float(weights.sum()), float(squares.sum())
        return total * total / total_squares if total_squares > 0 else 0.0

    @cached_property
    def _sums(self) -> list[float]:
        """ROOT's sums fTsumw and fTsumw2, then the sums over x, y and z in ROOT's order.

        They are computed from the bin centres without under- and overflow, as in the GetStats method of TH1, TH2 and
        TH3.
        """
        inside = (slice(1, -1),) * len(self.axes)
        weights, squares = self._bins
        weights, squares = weights[inside], squares[inside]
        others = [axis.middles for axis in self.axes[1:]]
        # Process the histogram in blocks, so that temporary arrays stay small.
        step = max(1, NUMBERS_AT_ONCE * len(weights) // max(1, weights.size))
        sums = []
        for start in range(0, max(1, len(weights)), step):
            block = slice(start, start + step)
            sums.append(self._sums_of(weights[block], squares[block], [self.axes[0].middles_in(block), *others]))
        return list(map(sum, zip(*sums, strict=True)))

    @staticmethod
    def _sums_of(weights: Floats, squares: Floats, middles: list[Floats]) -> list[float]:
        grid = numpy.meshgrid(*middles, indexing="ij", sparse=True)
        sums = [float(weights.sum()), float(squares.sum())]
        for index, middle in enumerate(grid):
            sums += [float((weights * middle).sum()), float((weights * middle**2).sum())]
            sums += [float((weights * middle * other).sum()) for other in grid[:index]]
        return sums


def _axis(axis: HistogramAxis, short_name: str) -> bytes:
    title_offset = 0.0 if short_name == "yaxis" else 1.0
    edges = numpy.zeros(0) if axis.is_equal else axis.edges
    return counted(
        10,
        named(short_name, axis.title),
        counted(
            4,
            struct.pack(
                ">ihhhfffffhh", 510, 1, 1, 42, 0.005, 0.035, 0.03, title_offset, 0.035, 1, 42
            ),  # ROOT's modern style
        ),
        struct.pack(">idd", axis.bins_count, axis.edges[0], axis.edges[-1]),
        doubles_array(edges),
        struct.pack(">iiHb", 0, 0, 0, 0),  # all bins are shown; no bits, no time
        root_string(""),
        _labels(axis.labels),
        struct.pack(">I", 0),  # no changed labels
    )


def grid_base(
    named_base: bytes, axes: Sequence[HistogramAxis], totals: tuple[float, float, float], sums: Floats
) -> bytes:
    """Encode a THnBase. ``totals`` are the number of entries and the sums of weights and squared weights; ``sums`` are
    the sums of w*x and w*x*x for each axis.
    """
    streamed = [pointed("TAxis", _axis(axis, f"axis{number}")) for number, axis in enumerate(axes)]
    return counted(
        1,
        named_base,
        struct.pack(">i", len(axes)),
        counted(3, root_object(ON_HEAP), root_string(""), struct.pack(">ii", len(streamed), 0), *streamed),
        doubles(totals),
        doubles_array(sums[0]),
        doubles_array(sums[1]),
    )


def _labels(labels: Sequence[str]) -> bytes:
    """Encode labels as a THashList of TObjStrings, whose unique IDs are bin indices; a null pointer without labels."""
    if not labels:
        return struct.pack(">I", 0)
    texts = [
        pointed("TObjString", counted(1, root_object(ON_HEAP, number), root_string(label)))
        for number, label in enumerate(labels, start=1)
    ]
    return pointed("THashList", root_list(texts))
