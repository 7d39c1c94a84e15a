"""Creates sparse histograms from Python values; encodes them as THnSparseD, F or I (THnSparse version 3)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from branchline.errors import OptionError
from branchline.writing.objects.buffer import (
    ON_HEAP,
    NumbersArray,
    counted,
    doubles_array,
    named,
    pointed,
    root_object,
    root_string,
)
from branchline.writing.objects.histograms import HistogramAxis, grid_base

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

#: ROOT's array class for each number type of cells.
ARRAYS = {"f8": "TArrayD", "f4": "TArrayF", "i4": "TArrayI"}
NULL = struct.pack(">I", 0)


@dataclass(frozen=True)
class NewSparse:
    """A THnSparse to write, created by `as_THnSparse`. The dtype of ``values`` is the number type of the cells."""

    axes: tuple[HistogramAxis, ...]
    coordinates: np.ndarray
    values: np.ndarray
    variances: np.ndarray | None
    title: str

    @property
    def class_name(self) -> str:
        """Name of the histogram's ROOT class."""
        return f"THnSparseT<{self._array}>"

    @property
    def _array(self) -> str:
        return ARRAYS[self.values.dtype.str[1:]]

    def __repr__(self) -> str:
        return f"<NewSparse of {len(self.axes)} axes, {len(self.values)} cells>"

    def streamed(self, name: str) -> bytes:
        """Return the bytes of the histogram, without the key. All cells are in one full chunk."""
        count = len(self.values)
        base = grid_base(named(name, self.title), self.axes, *self._sums())
        # Each coordinate takes as many bits as its axis needs; the first axis has the lowest bits.
        needed = [(axis.bins_count + 2).bit_length() for axis in self.axes]
        columns = [(self.coordinates[:, number, None] >> np.arange(bits)) & 1 for number, bits in enumerate(needed)]
        places = np.packbits(np.concatenate(columns, axis=1).astype(np.uint8), axis=1, bitorder="little")
        errors = NULL if self.variances is None else pointed("TArrayD", doubles_array(self.variances))
        chunk = counted(
            1,
            root_object(ON_HEAP),
            struct.pack(">iib", places.shape[1], places.size, 1),
            places.tobytes(),
            pointed(self._array, NumbersArray(self.values)),
            errors,
        )
        chunks = [pointed("THnSparseArrayChunk", chunk)] if count else []
        content = counted(3, root_object(ON_HEAP), root_string(""), struct.pack(">ii", len(chunks), 0), *chunks)
        # The chunk size of an empty histogram is ROOT's default, for cells that are added later.
        return counted(1, counted(3, base, struct.pack(">iq", count or 16384, count), content))

    def _sums(self) -> tuple[tuple[float, float, float], np.ndarray]:
        """Return the totals of `grid_base`, and the sums for each axis, over the cells that are not under- or overflow.

        The sums are 0 without variances, because ROOT stores sums only together with squared weights.
        """
        entries, sums = float(self.values.sum()), np.zeros((2, len(self.axes)))
        if self.variances is None:
            return (entries, 0.0, -1.0), sums
        bins = np.array([axis.bins_count for axis in self.axes])
        inside = np.all((self.coordinates > 0) & (self.coordinates <= bins), axis=1)
        weights = self.values[inside].astype("f8")
        for number, axis in enumerate(self.axes):
            middles = axis.middles[self.coordinates[inside, number] - 1]
            sums[:, number] = (weights * middles).sum(), (weights * middles**2).sum()
        return (float(len(self.values)), float(weights.sum()), float(self.variances[inside].sum())), sums


def as_THnSparse(  # noqa: N802 - ROOT's name, as as_TGraph
    coordinates: ArrayLike,
    values: ArrayLike,
    edges: Sequence[ArrayLike],
    title: str = "",
    *,
    variances: ArrayLike | None = None,
    axis_titles: Sequence[str] = (),
    dtype: DTypeLike = "float64",
) -> NewSparse:
    """Create a writable sparse histogram from its filled cells.

    - ``dtype`` selects the class: THnSparseD by default, THnSparseF for ``"float32"``, THnSparseI for ``"int32"``.
    - ``coordinates`` has one row per cell with the cell's bin index on each axis. As in `SparseHistogram.coordinates`,
      0 is the underflow and 1 the first bin.
    - ``values`` and ``variances`` contain one number per cell. By default, the variances equal the values.
    - ``edges`` contains the bin edges of each axis, one more than bins.

    Raises OptionError for arguments that do not match, for any other ``dtype``, and for values that do not fit into the
    ``dtype``.

        >>> edges = [np.linspace(0, 1, 11)] * 5
        >>> with branchline.recreate("out.root") as file:
        ...     file["cells"] = branchline.as_THnSparse([[1, 2, 3, 4, 5]], [2.0], edges)
        >>> branchline.open("out.root")["cells"].values.tolist()
        [2.0]
    """
    all_edges = [np.asarray(one, "f8") for one in edges]
    for number, one in enumerate(all_edges):
        if one.ndim != 1 or len(one) < 2 or not np.all(np.diff(one) > 0) or not np.all(np.isfinite(one)):
            raise OptionError(f"the edges of axis {number} do not increase", hint="give one more than there are bins")
    titles = [*axis_titles, *[""] * (len(all_edges) - len(axis_titles))]
    if not all_edges or len(titles) != len(all_edges):
        raise OptionError(
            f"{len(titles)} titles for {len(all_edges)} axes", hint="give edges and a title for each axis"
        )
    axes = tuple(
        HistogramAxis(text, one, bool(np.allclose(np.diff(one), (one[-1] - one[0]) / (len(one) - 1), rtol=1e-12)))
        for text, one in zip(titles, all_edges, strict=True)
    )
    contents = _contents(values, dtype)
    squares = None if variances is None else np.asarray(variances, "f8")
    places = np.asarray(coordinates)
    if places.size == 0:
        places = places.reshape(-1, len(axes)).astype("i8")
    is_table = places.shape == (len(contents), len(axes)) and places.dtype.kind in "iu" and contents.ndim == 1
    if not is_table or (squares is not None and squares.shape != contents.shape):
        what = f"coordinates of shape {places.shape} and type {places.dtype} for {contents.shape} values"
        raise OptionError(f"{what} on {len(axes)} axes", hint="give an integer for each cell and axis")
    places = places.astype("i8")
    if np.any(places < 0) or np.any(places > [axis.bins_count + 1 for axis in axes]):
        raise OptionError("coordinates are outside the axes", hint="0 is the underflow, 1 the first bin")
    if len(np.unique(places, axis=0)) != len(places):
        raise OptionError("a cell has several values", hint="add them up first")
    return NewSparse(axes, places, contents, squares, title)


def _contents(values: ArrayLike, dtype: DTypeLike) -> np.ndarray:
    """Convert the values to ``dtype``. Raises OptionError if that changes values by more than rounding."""
    try:
        kind = np.dtype(dtype).str[1:]
    except TypeError:
        kind = ""
    if kind not in ARRAYS:
        raise OptionError(f"unsupported dtype {dtype!r}", hint='choose one of "float64", "float32", "int32"')
    given = np.asarray(values, "f8")
    with np.errstate(over="ignore", invalid="ignore"):
        contents = given.astype(kind)
    is_kept = np.array_equal(contents, given) if kind == "i4" else np.array_equal(np.isinf(contents), np.isinf(given))
    if not is_kept:
        raise OptionError(f"cells of type {np.dtype(kind)} cannot hold these values", hint='use dtype "float64"')
    return contents
