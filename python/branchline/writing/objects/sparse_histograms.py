"""Filled cells of Python's values, in the bytes of THnSparseD, F and I (THnSparse version 3)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
from branchline.writing.objects.histograms import RootAxis, grid_base

#: ROOT's arrays of the numbers that cells are kept as.
ARRAYS = {"f8": "TArrayD", "f4": "TArrayF", "i4": "TArrayI"}
NULL = struct.pack(">I", 0)


@dataclass(frozen=True)
class NewSparse:
    """A THnSparse to be written. `as_THnSparse` makes it; ``values`` have the type of its cells."""

    axes: tuple[RootAxis, ...]
    coordinates: np.ndarray
    values: np.ndarray
    variances: np.ndarray | None
    title: str

    @property
    def class_name(self) -> str:
        """ROOT's class for it."""
        return f"THnSparseT<{self._array}>"

    @property
    def _array(self) -> str:
        return ARRAYS[self.values.dtype.str[1:]]

    def __repr__(self) -> str:
        return f"<NewSparse of {len(self.axes)} axes, {len(self.values)} cells>"

    def streamed(self, name: str) -> bytes:
        """Its bytes after a key: all cells are one chunk, which is full."""
        count = len(self.values)
        base = grid_base(named(name, self.title), self.axes, *self._sums())
        places = self._places()
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
        # An empty one takes cells in chunks as ROOT makes them.
        return counted(1, counted(3, base, struct.pack(">iq", count or 16384, count), content))

    def _sums(self) -> tuple[tuple[float, float, float], np.ndarray]:
        """Entries, and sums over the cells inside; without squares ROOT keeps no sums."""
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

    def _places(self) -> np.ndarray:
        """The coordinates in as many bits as the cells of each axis need, the first axis in the lowest."""
        needed = [(axis.bins_count + 2).bit_length() for axis in self.axes]
        columns = [(self.coordinates[:, number, None] >> np.arange(bits)) & 1 for number, bits in enumerate(needed)]
        return np.packbits(np.concatenate(columns, axis=1).astype(np.uint8), axis=1, bitorder="little")


def as_THnSparse(  # noqa: N802 - ROOT's name, as as_TGraph
    coordinates: Any,
    values: Any,
    edges: Sequence[Any],
    title: str = "",
    *,
    variances: Any = None,
    axis_titles: Sequence[str] = (),
    dtype: Any = "float64",
) -> NewSparse:
    """A THnSparseD to be written, of the cells that are filled; with ``dtype="float32"`` it is a THnSparseF, with
    ``"int32"`` a THnSparseI.

    ``coordinates`` has a row for each cell with the numbers of its bins, 0 the underflow and 1 the first bin, as
    `SparseHistogram.coordinates`; ``values`` and ``variances`` are theirs, without variances the values are both.
    ``edges`` has of each axis one edge more than there are bins. Raises OptionError for what does not belong together,
    for another ``dtype``, and for values that its cells cannot hold.

        >>> edges = [np.linspace(0, 1, 11)] * 5
        >>> with branchline.recreate("out.root") as file:
        ...     file["cells"] = branchline.as_THnSparse([[1, 2, 3, 4, 5]], [2.0], edges)
        >>> branchline.open("out.root")["cells"].values.tolist()
        [2.0]
    """
    all_edges = [np.asarray(one, "f8") for one in edges]
    for number, one in enumerate(all_edges):
        if one.ndim != 1 or len(one) < 2 or not np.all(np.diff(one) > 0) or not np.all(np.isfinite(one)):
            raise OptionError(f"the edges of axis {number} do not rise", hint="give one more than there are bins")
    titles = [*axis_titles, *[""] * (len(all_edges) - len(axis_titles))]
    if not all_edges or len(titles) != len(all_edges):
        raise OptionError(
            f"{len(titles)} titles for {len(all_edges)} axes", hint="give edges and a title for each axis"
        )
    axes = tuple(
        RootAxis(text, one, bool(np.allclose(np.diff(one), (one[-1] - one[0]) / (len(one) - 1), rtol=1e-12)))
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
        raise OptionError(f"{what} on {len(axes)} axes", hint="give a whole number for each cell and axis")
    places = places.astype("i8")
    if np.any(places < 0) or np.any(places > [axis.bins_count + 1 for axis in axes]):
        raise OptionError("coordinates are outside the axes", hint="0 is the underflow, 1 the first bin")
    if len(np.unique(places, axis=0)) != len(places):
        raise OptionError("two values are of the same cell", hint="add them up first")
    return NewSparse(axes, places, contents, squares, title)


def _contents(values: Any, dtype: Any) -> np.ndarray:
    """The values as the numbers of a class of ROOT. Raises OptionError where they would become others, but for the last
    digits of floats.
    """
    try:
        kind = np.dtype(dtype).str[1:]
    except TypeError:
        kind = ""
    if kind not in ARRAYS:
        raise OptionError(f"cells of {dtype!r} are not written", hint='give "float64", "float32" or "int32"')
    given = np.asarray(values, "f8")
    with np.errstate(over="ignore", invalid="ignore"):
        contents = given.astype(kind)
    is_kept = np.array_equal(contents, given) if kind == "i4" else np.array_equal(np.isinf(contents), np.isinf(given))
    if not is_kept:
        raise OptionError(f"cells of {np.dtype(kind)} cannot hold these values", hint='leave dtype out: "float64" can')
    return contents
