"""Objects that are copied into a file: those read from another file, and those of uproot and PyROOT.

Objects that were read are copied with all that ROOT stores of them. A histogram that was changed is copied with its
differences, in ROOT's numbers. uproot and PyROOT write their own objects to a temporary file, from which they are
copied together with the streamer infos of the class versions that were written.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from branchline.errors import UnsupportedBranchError
from branchline.reading.objects.histogram import Histogram
from branchline.reading.objects.object_record import KeyPlace
from branchline.reading.trees.file import Directory, File


@dataclass(frozen=True)
class ReadObject:
    """An object that was read, and the place of its key. ``is_needed`` if nothing but a copy of it can be written."""

    place: KeyPlace
    value: Any
    classname: str
    is_needed: bool

    @property
    def is_computed(self) -> bool:
        """Whether it is a histogram with other bins than it was read with, such as a sum or a part."""
        return not self.is_needed and not self.value.is_as_read()

    def differences(self, file: File) -> Differences:
        """How it differs from what its file has. Raises ValueError where no copy could have that."""
        if self.is_needed:
            if file.record(self.place.key).classname != self.classname:
                raise ValueError("its file has another object there now")
            return Differences()
        again = file[self.place.key]
        if getattr(again, "classname", None) != self.classname or not self.value.was_read_like(again):
            raise ValueError("its file has another histogram there now")
        return differences_of(self.value, again)


def source_of(value: Any) -> ReadObject | None:
    """Where a histogram or another object of a file came from; None for what is new."""
    if hasattr(value, "place_in_file"):
        place = value.place_in_file()
        return None if place is None else ReadObject(place, value, value.classname, is_needed=False)
    record = next((found for name in ("record", "_record") if (found := getattr(value, name, None)) is not None), value)
    origin = getattr(record, "origin", None) or getattr(value, "_origin", None)
    place = getattr(origin, "key_place", None)
    classname = getattr(record, "classname", "")
    return ReadObject(place, value, classname, is_needed=True) if isinstance(place, KeyPlace) else None


def opened_directory(source: Any) -> Directory:
    """Return the directory of a path, or of a file or directory of uproot."""
    file = File(os.fspath(getattr(source, "file_path", source)))
    inside = "/".join(getattr(source, "path", ()))
    directory: Directory = file[inside] if inside else file
    return directory


@dataclass(frozen=True)
class Differences:
    """What a copy of an object has in another way: its title, and numbers of a histogram by the names of ROOT's
    members; those of its bins are called ``cells``.
    """

    title: str | None = None
    numbers: list[tuple[str, list[float]]] = field(default_factory=list)


def differences_of(now: Histogram, before: Histogram) -> Differences:
    """How a histogram differs from the one in its file. Raises ValueError if it has other axes."""
    axes = [(axis, axis.label) for axis in now.axes]
    if axes != [(axis, axis.label) for axis in before.axes] or now.storage_type is not before.storage_type:
        raise ValueError("its axes are not those that it has in its file")
    title = None if now.label == before.label else now.label or ""
    return Differences(title, [] if now.is_as_read() else _numbers(now))


def _numbers(histogram: Histogram) -> list[tuple[str, list[float]]]:
    """The cells, their errors, and the sums that follow from them, for those of the entries are not known any more:
    as TH1::GetStats computes them where bins were set.
    """
    view: Any = histogram.view(flow=True)
    cells = histogram.in_cells
    if histogram.kind != "MEAN":
        has_squares = view.dtype.names is not None
        contents = weights = cells(view.value if has_squares else view)
        squares = weight_squares = cells(view.variance) if has_squares else None
        numbers = [("cells", contents), ("fSumw2", squares)]
        return _listed(numbers, histogram, weights, weights if weight_squares is None else weight_squares)
    is_weighted = "sum_of_weights" in view.dtype.names
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
    numbers: list[tuple[str, Any]], histogram: Histogram, weights: Any, squares: Any
) -> list[tuple[str, list[float]]]:
    """The numbers in ROOT's order of cells, with the statistics."""
    total, total_squares = float(weights.sum()), float(squares.sum())
    entries = total * total / total_squares if total_squares > 0 else 0.0
    all_numbers = [*numbers, ("fEntries", entries), *_sums(histogram, weights, squares)]
    return [
        (name, np.ravel(values, order="F").astype("f8").tolist()) for name, values in all_numbers if values is not None
    ]


def _sums(histogram: Histogram, weights: Any, squares: Any) -> list[tuple[str, float]]:
    """fTsumw, fTsumw2 and the sums over x, y and z, from the middles of the bins inside of the axes."""
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


def _middles(axis: Any) -> Any:
    edges = np.asarray(axis.edges, dtype="f8")
    if len(edges) != axis.bins_count + 1:
        edges = np.linspace(edges[0], edges[-1], axis.bins_count + 1)
    return (edges[1:] + edges[:-1]) / 2


# Writes an object under a name to a file.
Write = Callable[[Any, str, Path], None]


@contextmanager
def foreign_file(value: Any, name: str, path: str) -> Iterator[File | None]:
    """Yield a file with an object of uproot or PyROOT under its name; None for any other value.

    Raises UnsupportedBranchError if its package cannot write it.
    """
    write = _writer_of(value)
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


def _writer_of(value: Any) -> Write | None:
    if any(base.__module__ == "uproot.model" for base in type(value).__mro__):
        return _by_uproot
    return _by_root if hasattr(type(value), "__cpp_name__") and "ROOT" in sys.modules else None


def _by_uproot(value: Any, name: str, path: Path) -> None:
    from uproot.writing.writable import recreate

    with recreate(path, compression=None) as file:
        file[name] = value


def _by_root(value: Any, name: str, path: Path) -> None:
    root: Any = sys.modules["ROOT"]  # a value of it exists; ROOT is not a dependency
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
