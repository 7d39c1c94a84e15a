"""Copies objects into a file: objects read from another file, and objects of uproot and PyROOT.

Objects from files are copied with all of their stored data. For a modified histogram, the modifications are applied to
the copy. Objects of uproot and PyROOT are written to a temporary file by their own package, then copied from this file
together with the streamer infos of their class versions.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeGuard

import numpy as np

from branchline.errors import UnsupportedBranchError
from branchline.reading.objects.object_record import KeyPlace
from branchline.reading.trees.file import Directory, File

if TYPE_CHECKING:
    from branchline.reading.objects.axes import RootAxis
    from branchline.reading.objects.histogram import Histogram


@dataclass(frozen=True)
class ReadObject:
    """An object read from a file, and the position of its key.

    ``histogram`` is set if the object can also be written as a new histogram.
    """

    place: KeyPlace
    classname: str
    histogram: Histogram | None = None

    @property
    def is_needed(self) -> bool:
        """Whether the object can be written only as a copy."""
        return self.histogram is None

    @property
    def is_computed(self) -> bool:
        """Whether the object is a histogram whose bins changed after reading, for example a sum or a slice."""
        return self.histogram is not None and not self.histogram.is_as_read()

    def differences(self, file: File) -> Differences:
        """Return the changes to the object since it was read, which have to be applied to a copy of the object in the
        file. Raises ValueError if the file now has a different object, or if a copy cannot have these changes.
        """
        if self.histogram is None:
            if file.record(self.place.key).classname != self.classname:
                raise ValueError("its source file now has a different object under the same key")
            return Differences()
        again = file[self.place.key]
        if getattr(again, "classname", None) != self.classname or not self.histogram.was_read_like(again):
            raise ValueError("its source file now has a different histogram under the same key")
        return differences_of(self.histogram, again)


def source_of(value: object) -> ReadObject | None:
    """Return the file and key that a value was read from; None for a new object."""
    if _is_histogram(value):
        place = value.place_in_file()
        return None if place is None else ReadObject(place, value.classname, value)
    record = next((found for name in ("record", "_record") if (found := getattr(value, name, None)) is not None), value)
    origin = getattr(record, "origin", None) or getattr(value, "_origin", None)
    place = getattr(origin, "key_place", None)
    classname = getattr(record, "classname", "")
    return ReadObject(place, classname) if isinstance(place, KeyPlace) else None


def _is_histogram(value: object) -> TypeGuard[Histogram]:
    return hasattr(value, "place_in_file")


class OpenedElsewhere(Protocol):
    """An open file or directory of Branchline or uproot."""

    @property
    def file_path(self) -> str: ...


#: Types from which objects can be copied: a path, or an open file or directory.
Input: TypeAlias = str | os.PathLike[str] | OpenedElsewhere


def opened_directory(source: Input) -> Directory:
    """Return Branchline's directory for a path, or for an open file or directory."""
    file = File(os.fspath(source if isinstance(source, str | os.PathLike) else source.file_path))
    inside = "/".join(getattr(source, "path", ()))
    directory: Directory = file[inside] if inside else file
    return directory


@dataclass(frozen=True)
class Differences:
    """Changes to apply to the copy of an object.

    ``title`` is the new title; None keeps the title. ``numbers`` are pairs of a histogram's data member (name)
    and its new values; the name ``cells`` stands for the bin contents.
    """

    title: str | None = None
    numbers: list[tuple[str, list[float]]] = field(default_factory=list)


def differences_of(now: Histogram, before: Histogram) -> Differences:
    """Return the differences between a histogram and its version in the file. Raises ValueError if the axes or storage
    types differ.
    """
    axes = [(axis, axis.label) for axis in now.axes]
    if axes != [(axis, axis.label) for axis in before.axes] or now.storage_type is not before.storage_type:
        raise ValueError("its axes or storage type changed after it was read")
    title = None if now.label == before.label else now.label or ""
    return Differences(title, [] if now.is_as_read() else _numbers(now))


def _numbers(histogram: Histogram) -> list[tuple[str, list[float]]]:
    """Return the bin contents, the squared errors, and the sums of a modified histogram by member name.

    The sums over entries are no longer known, so they are computed from the bins, as by TH1::GetStats.
    """
    view: np.ndarray = histogram.view(flow=True)
    cells = histogram.in_cells
    if histogram.kind != "MEAN":
        has_squares = view.dtype.names is not None
        contents = weights = cells(view["value"] if has_squares else view)
        squares = weight_squares = cells(view["variance"]) if has_squares else None
        numbers = [("cells", contents), ("fSumw2", squares)]
        return _listed(numbers, histogram, weights, weights if weight_squares is None else weight_squares)
    is_weighted = "sum_of_weights" in (view.dtype.names or ())
    weights = cells(view["sum_of_weights"] if is_weighted else view["count"])
    deltas = cells(view["_sum_of_weighted_deltas_squared" if is_weighted else "_sum_of_deltas_squared"])
    means = np.where(weights != 0, cells(view["value"]), 0.0)
    sums, squares = weights * means, np.where(weights != 0, deltas, 0.0) + weights * means**2
    weight_squares = cells(view["sum_of_weights_squared"]) if is_weighted else None
    inside = (slice(1, -1),) * histogram.ndim
    last = ("fTsumwy", "fTsumwz", "fTsumwt")[histogram.ndim - 1]
    numbers = [
        ("cells", sums),
        ("fSumw2", squares),
        ("fBinEntries", weights),
        ("fBinSumw2", weight_squares),
        (last, sums[inside].sum()),
        (f"{last}2", squares[inside].sum()),
    ]
    return _listed(numbers, histogram, weights, weights if weight_squares is None else weight_squares)


def _listed(
    numbers: list[tuple[str, np.ndarray | None]], histogram: Histogram, weights: np.ndarray, squares: np.ndarray
) -> list[tuple[str, list[float]]]:
    """Return the numbers with the entries and sums appended, and with all arrays in ROOT's bin order."""
    total, total_squares = float(weights.sum()), float(squares.sum())
    entries = total * total / total_squares if total_squares > 0 else 0.0
    all_numbers = [*numbers, ("fEntries", entries), *_sums(histogram, weights, squares)]
    return [
        (name, np.ravel(values, order="F").astype("f8").tolist()) for name, values in all_numbers if values is not None
    ]


def _sums(histogram: Histogram, weights: np.ndarray, squares: np.ndarray) -> list[tuple[str, float]]:
    """Return ROOT's sums fTsumw, fTsumw2 and the sums over x, y and z.

    The sums are computed from the bin centres, without under- and overflow.
    """
    inside = (slice(1, -1),) * histogram.ndim
    weights, squares = weights[inside], squares[inside]
    middles = np.meshgrid(*(_middles(axis) for axis in histogram.root_axes), indexing="ij", sparse=True)
    sums = [("fTsumw", weights.sum()), ("fTsumw2", squares.sum())]
    for letter, middle in zip("xyz", middles, strict=False):
        sums += [(f"fTsumw{letter}", (weights * middle).sum()), (f"fTsumw{letter}2", (weights * middle**2).sum())]
        for before, other in zip("xyz", middles, strict=False):
            if before < letter:
                sums.append((f"fTsumw{before}{letter}", (weights * middle * other).sum()))
    return sums


def _middles(axis: RootAxis) -> np.ndarray:
    edges: np.ndarray = np.asarray(axis.edges, dtype="f8")
    if len(edges) != axis.bins_count + 1:
        edges = np.linspace(edges[0], edges[-1], axis.bins_count + 1)
    middles: np.ndarray = (edges[1:] + edges[:-1]) / 2
    return middles


# Function that writes an object with a name to the file at a path.
Write = Callable[[object, str, Path], None]


@contextmanager
def foreign_file(value: object, name: str, path: str) -> Iterator[File | None]:
    """Yield a temporary file that contains an object of uproot or PyROOT as ``name``; None for any other value.

    Raises UnsupportedBranchError if uproot or PyROOT cannot write the object.
    """
    write: Write | None = None
    if any(base.__module__ == "uproot.model" for base in type(value).__mro__):
        write = _by_uproot
    elif hasattr(type(value), "__cpp_name__") and "ROOT" in sys.modules:
        write = _by_root
    if write is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="branchline-") as folder:
        written = Path(folder) / "object.root"
        try:
            write(value, name, written)
        except (TypeError, ValueError, NotImplementedError, AttributeError) as error:
            package = "uproot" if write is _by_uproot else "ROOT"
            raise UnsupportedBranchError(
                f"{name}: {package} cannot write this {type(value).__name__}: {error}",
                path=path,
                hint="read it with branchline, which copies objects of every class",
            ) from error
        with File(str(written)) as file:
            yield file


def _by_uproot(value: object, name: str, path: Path) -> None:
    from uproot.writing.writable import recreate

    with recreate(path, compression=None) as file:
        file[name] = value


def _by_root(value: object, name: str, path: Path) -> None:
    root = sys.modules["ROOT"]  # the user imported it to create the value; ROOT is not a dependency
    if isinstance(value, root.TTree):
        raise ValueError("the baskets of a tree are in its own file")
    context = root.TDirectory.TContext()  # restores the current directory
    file = root.TFile(str(path), "RECREATE", "", 0)
    try:
        if not hasattr(value, "IsA") or file.WriteObject(value, name) <= 0:
            raise ValueError("it has no dictionary")
    finally:
        file.Close()
        del context
