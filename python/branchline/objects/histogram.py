"""Histogram: a TH1, TH2 or TH3 of a file as a histogram of hist, with what ROOT keeps besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import boost_histogram
import hist
import numpy as np

from branchline.errors import BranchlineWarning, OptionError, UnsupportedBranchError, warn
from branchline.objects.axes import RootAxis, binnings_of
from branchline.objects.buffer import buffered
from branchline.objects.record import Record

# Where a histogram keeps what hist has no place for; what begins with @ is not written to other formats.
KEPT = "@root"
AXES = ("fXaxis", "fYaxis", "fZaxis")
# TProfile's options of errors by their numbers (EErrorType).
ERROR_MODES = ("", "s", "i", "g")


class Histogram(hist.Hist, family=hist):
    """A histogram as hist has it, with ROOT's errors, labels and sums.

    Storage is Weight where ROOT keeps sums of squared weights, Int64 for whole numbers, else Double; Mean or
    WeightedMean for a profile. ``name`` and ``label`` are ROOT's name and title, each axis has those of its own, and
    all cells are there, under- and overflow too. What is computed from it is a histogram of the same kind.
    """

    __slots__ = ()

    @property
    def title(self) -> str | None:
        """ROOT's title."""
        title: str | None = self.label
        return title

    @property
    def classname(self) -> str:
        """The class that it had in its file."""
        return str(self.members["class"])

    @property
    def members(self) -> Mapping[str, Any]:
        """Numbers and texts that ROOT keeps with it, as they are in the file: ``fEntries``, ``fTsumw``, ..."""
        return MappingProxyType(self.__dict__.get(KEPT, {"class": ""}))

    def member(self, name: str) -> Any:
        """One of the members, under uproot's name."""
        return self.members[name]

    def bin_labels(self, axis: int = 0) -> dict[int, str]:
        """The labels that ROOT shows at the bins of an axis, by the numbers of the bins, which begin with 0 here.

        An axis of which all bins have labels, each another one, has them as its categories too; another axis has only
        its numbers, which a warning tells.
        """
        kept: dict[int, str] = self.members.get("labels", {}).get(axis, {})
        return {number - 1: label for number, label in kept.items()}

    def errors(self, flow: bool = False, error_mode: str | None = None) -> Any:
        """What TH1::GetBinError gives: the root of the sum of squared weights, or of the content where there is none.

        For a profile those of the ``error_mode`` (TProfile's options): ``""`` the error of the mean, ``"s"`` the
        spread, ``"i"`` and ``"g"`` those for whole numbers and for weights 1/sigma^2; None is its own. Raises
        OptionError.
        """
        if self.kind == "MEAN":
            return self._profile_errors(
                flow=flow, mode=self.members.get("mode", "") if error_mode is None else error_mode
            )
        if error_mode:
            raise OptionError("error_mode is for profiles", hint="leave it out")
        view: Any = self.view(flow=flow)
        return np.sqrt(view.variance if view.dtype.names else np.abs(view))

    def _profile_errors(self, *, flow: bool, mode: str) -> Any:
        """TProfileHelper::GetBinError from what the storages keep."""
        if mode not in ERROR_MODES:
            raise OptionError(
                f"there is no error_mode {mode!r}", hint=f"it is one of {', '.join(map(repr, ERROR_MODES))}"
            )
        view: Any = self.view(flow=flow)
        is_weighted = "sum_of_weights" in view.dtype.names
        weights = view["sum_of_weights"] if is_weighted else view["count"]
        deltas = view["_sum_of_weighted_deltas_squared" if is_weighted else "_sum_of_deltas_squared"]
        with np.errstate(divide="ignore", invalid="ignore"):
            effective = weights**2 / view["sum_of_weights_squared"] if is_weighted else weights
            spread = np.sqrt(np.abs(deltas / weights))
            if mode == "g":
                errors = 1 / np.sqrt(weights)
            elif mode == "s":
                errors = spread
            elif mode == "i":
                errors = np.where(spread > 0, spread, 1 / np.sqrt(12)) / np.sqrt(effective)
            else:
                errors = spread / np.sqrt(effective)
        return np.where(weights == 0, 0.0, errors)

    def axis(self, which: int | str = 0) -> Any:
        """An axis by its number or as ``"x"``, ``"y"`` or ``"z"``, under uproot's name."""
        return self.axes["xyz".index(which) if isinstance(which, str) and which in ("x", "y", "z") else which]

    def to_hist(self) -> hist.Hist:
        """The same without what ROOT keeps, under uproot's name."""
        return hist.Hist(self)

    def to_boost(self) -> boost_histogram.Histogram:
        """The same of boost-histogram, under uproot's name."""
        return boost_histogram.Histogram(self)


def histogram_of(record: Record, dimensions: int) -> Histogram:
    """The histogram of a TH1, TH2 or TH3. Raises UnsupportedBranchError for one that hist cannot hold."""
    axes = root_axes(record, dimensions)
    contents, squares = np.asarray(record.raw("fArray")), record.raw("fSumw2")
    waiting = buffered(record, axes)
    if waiting is None:
        return counts_of(record, axes, contents, squares)
    filled = waiting.sums(waiting.weights).astype(contents.dtype)
    has_squares = len(squares) == len(contents) or not waiting.is_not_weighted
    new_squares = waiting.sums(waiting.weights**2) if has_squares else squares
    return counts_of(record, waiting.axes, filled, new_squares, entries=len(waiting.weights))


def root_axes(record: Record, dimensions: int) -> list[RootAxis]:
    """The axes of a histogram."""
    return [RootAxis.of(record.raw(name)) for name in AXES[:dimensions]]


def counts_of(
    record: Record, axes: Sequence[RootAxis], contents: Any, squares: Any, entries: int | None = None
) -> Histogram:
    """A histogram of cells in ROOT's order, with sums of squared weights if there are as many."""
    values = shaped(record, axes, contents)
    storage = _storage(values, has_squares=len(squares) == len(contents))
    made = empty_histogram(record, axes, values == 0, storage, entries=entries)
    view: Any = made.histogram.view(flow=True)
    if view.dtype.names is None:
        view[...] = made.chosen(values)
    else:
        view["value"] = made.chosen(values)
        view["variance"] = made.chosen(shaped(record, axes, squares))
    made.tell_lost(values != 0)
    return made.histogram


def _storage(values: Any, *, has_squares: bool) -> Any:
    if has_squares:
        return boost_histogram.storage.Weight()
    return boost_histogram.storage.Int64() if values.dtype.kind in "iu" else boost_histogram.storage.Double()


def shaped(record: Record, axes: Sequence[RootAxis], cells: Any) -> Any:
    """Numbers of all cells with an axis of NumPy for each axis: in ROOT x runs fastest (TH1::GetBin)."""
    shape = tuple(axis.cells_count for axis in axes)
    wanted = 1
    for extent in shape:
        wanted *= max(extent, 0)
    if wanted != len(cells):
        raise refused(record, f"it has {len(cells)} cells, and axes for {wanted}")
    return np.asarray(cells).reshape(shape[::-1]).T


class Made:
    """An empty histogram, and which cells of ROOT go to its bins."""

    def __init__(self, record: Record, histogram: Histogram, cells: list[Any]) -> None:
        self.histogram = histogram
        self._record = record
        self._where = np.ix_(*cells)

    def chosen(self, values: Any) -> Any:
        """Those of all cells that have a place."""
        return values[self._where]

    def tell_lost(self, is_filled: Any) -> None:
        """Warns of what has no place: the underflow of an axis with categories."""
        lost = np.count_nonzero(is_filled) - np.count_nonzero(is_filled[self._where])
        if lost:
            place, path = self._record.origin.place, self._record.origin.file_path
            told = f"{path}: {lost} cells of {place} below its labels are left out, for categories have no underflow"
            warn(told, BranchlineWarning)


def empty_histogram(
    record: Record, axes: Sequence[RootAxis], is_empty: Any, storage: Any, *, entries: int | None = None, **kept: Any
) -> Made:
    """A histogram with the axes, names and titles of a record, and its sums, unless its ``entries`` were filled here.

    Raises UnsupportedBranchError.
    """
    try:
        binnings = binnings_of(axes, is_empty)
        histogram = Histogram(*[one.axis for one in binnings], storage=storage, name=record.raw("fName"))
    except (ValueError, TypeError, KeyError) as error:
        raise refused(record, str(error)) from error
    # hist puts something of its own in place of an empty label.
    histogram.label = record.raw("fTitle")
    labels = {place: axis.labels for place, axis in enumerate(axes) if axis.labels}
    for place in labels:
        if binnings[place].has_numbers:
            _tell_of_labels(record, axes[place], place)
    sums = _sums(record)
    if entries is not None:
        sums = {name: value for name, value in sums.items() if not name.startswith("fTsum")} | {
            "fEntries": float(entries)
        }
    histogram.__dict__[KEPT] = {"class": record.classname} | sums | ({"labels": labels} if labels else {}) | kept
    return Made(record, histogram, [one.cells for one in binnings])


def _tell_of_labels(record: Record, axis: RootAxis, place: int) -> None:
    """Warns of labels that are no categories: of some bins only, or the same of several."""
    told = (
        f"{record.origin.file_path}: {len(axis.labels)} of {axis.bins_count} bins of {axis.name} of "
        f"{record.origin.place} have labels, {len(set(axis.labels.values()))} different ones: the axis keeps its "
        f"numbers, and bin_labels({place}) has the labels"
    )
    warn(told, BranchlineWarning)


def _sums(record: Record) -> dict[str, Any]:
    """Single numbers and texts of a record."""
    values = {name: record.raw(name) for name in record}
    return {name: value for name, value in values.items() if isinstance(value, int | float | str)}


def refused(record: Record, why: str) -> UnsupportedBranchError:
    """The error for an object that hist cannot hold."""
    what = f"{record.origin.place} is a {record.classname} that hist has no histogram for: {why}"
    return UnsupportedBranchError(what, path=record.origin.file_path)
