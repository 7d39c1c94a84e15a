"""Histograms in the bytes of ROOT's own classes: TH1D, TH2D, TH3D and profiles, as ROOT 6.40 streams them.

The layout is that of the streamer infos of TH1 (version 8), TAxis (10), TH2 (5), TH3 (6), TProfile (7), TProfile2D and
TProfile3D (8), which ``results.root`` holds too. Values are big-endian; ``TBufferFile::WriteObject`` gives the byte
counts.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy

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

#: TH1's "no maximum is set", and EStatOverflows::kNeutral.
NO_LIMIT, NEUTRAL = -1111.0, 2
AXIS_NAMES = ("xaxis", "yaxis", "zaxis")


@dataclass(frozen=True)
class RootAxis:
    """An axis of a ROOT histogram: its title, the edges of its bins, whether all are equally wide, and labels of all
    bins or of none.
    """

    title: str
    edges: numpy.ndarray
    is_equal: bool = True
    labels: tuple[str, ...] = ()

    @property
    def bins_count(self) -> int:
        """The number of bins, without under- and overflow."""
        return len(self.edges) - 1

    @property
    def middles(self) -> numpy.ndarray:
        """The middle of each bin."""
        return self.middles_in(slice(0, self.bins_count))

    def middles_in(self, bins: slice) -> numpy.ndarray:
        """The middle of each of these bins."""
        middles: numpy.ndarray = (self.edges[:-1][bins] + self.edges[1:][bins]) / 2
        return middles


@dataclass(frozen=True)
class RootHistogram:
    """A histogram as ROOT keeps it. All arrays have one dimension for each axis, under- and overflow included.

    ``contents`` are sums of weights, ``squares`` sums of squared weights, or of no size where these are the contents.
    A profile has instead sums of w*y and w*y*y there, and in ``weights`` those of w; ``weights_squares`` are those of
    w*w, None where all weights are one.
    """

    title: str
    axes: tuple[RootAxis, ...]
    contents: numpy.ndarray
    squares: numpy.ndarray
    weights: numpy.ndarray | None = None
    weights_squares: numpy.ndarray | None = None

    @property
    def class_name(self) -> str:
        """ROOT's class for it."""
        if self.weights is not None:
            return "TProfile" if len(self.axes) == 1 else f"TProfile{len(self.axes)}D"
        if len(self.axes) > 3:
            return "THnT<double>"
        return f"TH{len(self.axes)}D"

    def streamed(self, name: str) -> bytes:
        """Its bytes after a key, without references to other objects."""
        if self.weights is not None:
            return self._profile(name)
        return self._grid(name) if len(self.axes) > 3 else self._counts(name)

    def _counts(self, name: str) -> bytes:
        """A TH1D, TH2D or TH3D."""
        own_sums = doubles(self._sums[4:])
        if len(self.axes) == 1:
            return counted(3, self._th1(name), doubles_array(self.contents))
        if len(self.axes) == 2:
            return counted(4, counted(5, self._th1(name), doubles([1.0]), own_sums), doubles_array(self.contents))
        return counted(4, counted(6, self._th1(name), counted(1), own_sums), doubles_array(self.contents))

    def _profile(self, name: str) -> bytes:
        inside = (slice(1, -1),) * len(self.axes)
        sums_y = [float(self.contents[inside].sum()), float(self.squares[inside].sum())]
        assert self.weights is not None
        squares = numpy.zeros(0) if self.weights_squares is None else self.weights_squares
        return counted(
            7 if len(self.axes) == 1 else 8,
            self._counts(name),
            doubles_array(self.weights),
            struct.pack(">i", 0),  # the error of the mean (EErrorType)
            doubles([0.0, 0.0, *sums_y]),  # no limits of y
            doubles_array(squares),
        )

    def _grid(self, name: str) -> bytes:
        """A THnD (version 1), whose last axis runs fastest. Where it keeps squares, it keeps sums too."""
        has_squares = self.squares.size > 0
        inside = (slice(1, -1),) * len(self.axes)
        contents = self.contents[inside] if has_squares else numpy.zeros(())
        sums = numpy.zeros((2, len(self.axes)))
        for index, axis in enumerate(self.axes if has_squares else ()):
            along = contents.sum(axis=tuple(other for other in range(len(self.axes)) if other != index))
            sums[:, index] = (along * axis.middles).sum(), (along * axis.middles**2).sum()
        total_squares = float(self.squares[inside].sum()) if has_squares else -1.0  # no errors are kept
        totals = (self.entries, float(contents.sum()), total_squares)
        base = grid_base(named(name, self.title), self.axes, totals, sums)
        shape = self.contents.shape
        squares = cells_array(shape, self.squares if has_squares else numpy.zeros(0))
        return counted(1, counted(1, base, squares), cells_array(shape, self.contents))

    def _th1(self, name: str) -> bytes:
        unused = RootAxis("", numpy.array([0.0, 1.0]))
        axes = [*self.axes, *[unused] * (3 - len(self.axes))]
        return counted(
            8,
            named(name, self.title, IN_DIRECTORY),
            counted(2, struct.pack(">hhh", 602, 1, 1)),  # line
            counted(2, struct.pack(">hh", 0, 1001)),  # fill
            counted(3, struct.pack(">hhf", 1, 1, 1.0)),  # marker
            struct.pack(">i", self.contents.size),
            *(_axis(axis, short_name) for axis, short_name in zip(axes, AXIS_NAMES, strict=True)),
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
    def _bins(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Sums of weights and of their squares in all cells."""
        if self.weights is None:
            return self.contents, self.squares if self.squares.size else self.contents
        return self.weights, self.weights if self.weights_squares is None else self.weights_squares

    @property
    def entries(self) -> float:
        """How many entries of weight one say as much as these: the square of the sum of weights over the sum of their
        squares (TH1::GetEffectiveEntries), which is their number where all weights are one.
        """
        weights, squares = self._bins
        total, total_squares = float(weights.sum()), float(squares.sum())
        return total * total / total_squares if total_squares > 0 else 0.0

    @cached_property
    def _sums(self) -> list[float]:
        """fTsumw, fTsumw2, then the sums over x, y and z in ROOT's order, from the middles of the bins inside of the
        axes (TH1::GetStats, TH2::GetStats, TH3::GetStats).
        """
        inside = (slice(1, -1),) * len(self.axes)
        weights, squares = (one[inside] for one in self._bins)
        others = [axis.middles for axis in self.axes[1:]]
        # The products of a block of bins are small compared with the histogram.
        step = max(1, NUMBERS_AT_ONCE * len(weights) // max(1, weights.size))
        sums = []
        for start in range(0, max(1, len(weights)), step):
            block = slice(start, start + step)
            sums.append(self._sums_of(weights[block], squares[block], [self.axes[0].middles_in(block), *others]))
        return [sum(column) for column in zip(*sums, strict=True)]

    @staticmethod
    def _sums_of(weights: numpy.ndarray, squares: numpy.ndarray, middles: list[numpy.ndarray]) -> list[float]:
        grid = numpy.meshgrid(*middles, indexing="ij", sparse=True)
        sums = [float(weights.sum()), float(squares.sum())]
        for index, middle in enumerate(grid):
            sums += [float((weights * middle).sum()), float((weights * middle**2).sum())]
            sums += [float((weights * middle * other).sum()) for other in grid[:index]]
        return sums


def _axis(axis: RootAxis, short_name: str) -> bytes:
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
    named_base: bytes, axes: Sequence[RootAxis], totals: tuple[float, float, float], sums: numpy.ndarray
) -> bytes:
    """A THnBase: entries, sum of weights and of their squares, and of each axis those of w*x and of w*x*x."""
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
    """A THashList of TObjStrings, whose unique ids are the numbers of the bins; a null pointer if there are none."""
    if not labels:
        return struct.pack(">I", 0)
    texts = [
        pointed("TObjString", counted(1, root_object(ON_HEAP, number), root_string(label)))
        for number, label in enumerate(labels, start=1)
    ]
    return pointed("THashList", root_list(texts))
