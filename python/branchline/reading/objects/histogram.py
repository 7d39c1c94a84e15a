"""Histogram: a TH1, TH2 or TH3 as a histogram of hist, with the additional data that ROOT stores.

uproot writes a histogram through uproot's own models, which this module creates with ``to_TH1x``, ``to_TProfile`` and
similar functions of ``uproot.writing.identify``. These functions are public, and their arguments have ROOT's names.
"""

from __future__ import annotations

import inspect
import re
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType, new_class
from typing import Any

import boost_histogram
import hist
import numpy as np

from branchline.errors import OptionError
from branchline.reading.objects.axes import FAMILY, RootAxis, is_axis_of
from branchline.reading.objects.object_record import KeyPlace

# Key for ROOT's data in a histogram's `__dict__`; names that start with @ are not written to other formats.
KEPT = "@root"
# Key for the checksum of the bins at the time of reading.
CHECKSUM = "@checksum"
AXES = ("fXaxis", "fYaxis", "fZaxis")
# TProfile's error options by number (EErrorType).
ERROR_MODES = ("", "s", "i", "g")

# Classes that uproot can write. CONTENT_TYPES: dtype of the contents by the last letter of the class name.
COUNTS = re.compile(r"TH([123])([CSILFD])")
CONTENT_TYPES = {"C": "i1", "S": "i2", "I": "i4", "L": "i8", "F": "f4", "D": "f8"}
PROFILES = {"TProfile": "to_TProfile", "TProfile2D": "to_TProfile2D", "TProfile3D": "to_TProfile3D"}
# Members that are not copied from the file to uproot's model: name and title are passed separately, uproot counts the
# cells, and the entries of the fill buffer are already in the bins.
LEFT_OUT = frozenset({"fName", "fTitle", "fBufferSize", "fNcells"})


@dataclass(frozen=True)
class RootFacts:
    """Data that a file stores for a histogram in addition to its bins. ``members`` are scalars and strings by ROOT's
    names, ``place`` is the location of its key.
    """

    classname: str = ""
    axes: tuple[RootAxis, ...] = ()
    members: Mapping[str, int | float | str] = field(default_factory=dict)
    error_mode: str = ""
    place: KeyPlace | None = None


class Histogram(hist.Hist, family=FAMILY):
    """A histogram of hist with ROOT's errors, labels and sums.

    The storage is Weight if ROOT stores sums of squared weights, else Int64 for integer contents and Double for others;
    Mean or WeightedMean for a profile. ``name`` and ``label`` are ROOT's name and title; each axis has its own.
    Underflow and overflow are kept, except the underflow of category axes. Results of operations are histograms of the
    same class.

        >>> h = branchline.open("file.root")["h"]
        >>> h.values(), h.errors(), h.axis().edges()
        >>> h.plot()
        >>> with uproot.recreate("other.root") as file:
        ...     file["h"] = h
    """

    __slots__ = ()

    @property
    def title(self) -> str | None:
        """ROOT's title."""
        title: str | None = self.label
        return title

    @property
    def classname(self) -> str:
        """Name of the ROOT class that the file stores."""
        return self._facts.classname

    @property
    def _facts(self) -> RootFacts:
        facts: RootFacts = self.__dict__.get(KEPT, RootFacts())
        return facts

    def remember(self, facts: RootFacts, view: object) -> None:
        """Attach ROOT's statistics and titles after filling; ``view`` are the bins including flow bins."""
        self.__dict__[KEPT] = facts
        self.__dict__[CHECKSUM] = _checksum(view)

    @property
    def root_axes(self) -> tuple[RootAxis, ...]:
        """The axes as stored in the file."""
        return self._facts.axes

    def place_in_file(self) -> KeyPlace | None:
        """The location in the file that the histogram was read from."""
        return self._facts.place

    def is_as_read(self) -> bool:
        """Whether the bins are unchanged since the histogram was read."""
        return self._checksum_as_read == _checksum(self.view(flow=True))

    def was_read_like(self, other: Histogram) -> bool:
        """Whether both histograms had the same class and the same bins when they were read."""
        return self.classname == other.classname and self._checksum_as_read == other._checksum_as_read

    @property
    def _checksum_as_read(self) -> int | None:
        checksum: int | None = self.__dict__.get(CHECKSUM)
        return checksum

    @property
    def members(self) -> Mapping[str, int | float | str]:
        """Scalars and strings that ROOT stores with the histogram: ``fEntries``, ``fTsumw``, ..."""
        return MappingProxyType(dict(self._facts.members))

    @property
    def all_members(self) -> Mapping[str, int | float | str]:
        """Alias of ``members``, for compatibility with uproot."""
        return self.members

    def member(self, name: str) -> Any:
        """Return a member by name, for compatibility with uproot; also ``fSumw2`` and the axes. Raises KeyError."""
        if name == "fSumw2" and self.kind != "MEAN":
            return self._squares()
        if name in AXES[: self.ndim]:
            return self.axis(AXES.index(name))
        return self._facts.members[name]

    def _squares(self) -> np.ndarray:
        """Sums of squared weights in ROOT's cell order, where the first axis varies fastest; empty if no weights are
        stored.
        """
        view: Any = self.view(flow=True)
        return self.in_cells(view.variance).ravel(order="F") if view.dtype.names else np.zeros(0)

    def in_cells(self, values: object) -> np.ndarray:
        """Expand values of all bins, including flow bins, to ROOT's cells, with zeros for cells without a bin. These
        are the cells in the file unless an operation has changed the axes.
        """
        cells = np.asarray(values)
        has_axes_as_read = self._has_axes_as_read()
        for place, axis in enumerate(self.axes):
            if axis.traits.underflow:
                continue
            # Category axes have no underflow, and only the labelled bins.
            bins_count = self._facts.axes[place].bins_count if has_axes_as_read else len(axis)
            zeros = np.zeros([*cells.shape[:place], 1, *cells.shape[place + 1 :]])
            bins, overflow = np.split(cells, [-1], axis=place)
            cells = np.concatenate([zeros, bins, *[zeros] * (bins_count - len(axis)), overflow], axis=place)
        return cells

    def _has_axes_as_read(self) -> bool:
        """Whether the axes are those in the file; operations such as slicing change them."""
        axes = self._facts.axes
        return len(axes) == self.ndim and all(map(is_axis_of, self.axes, axes))

    def has_member(self, name: str) -> bool:
        """Whether this member exists, for compatibility with uproot."""
        return name in self._facts.members or name in AXES[: self.ndim] or (name == "fSumw2" and self.kind != "MEAN")

    @property
    def weighted(self) -> bool:
        """Whether the file stores sums of squared weights (TH1::Sumw2), for compatibility with uproot."""
        return self.kind == "MEAN" or bool(len(self._squares()))

    def bin_labels(self, axis: int = 0) -> dict[int, str]:
        """Labels of an axis by bin number, counted from 0.

        An axis whose bins all have different labels is also categorical. An axis with other labels stays numeric, with
        a warning.
        """
        if axis >= self.ndim:
            return {}
        if not self._has_axes_as_read():
            own = self.axes[axis]
            return {} if own.traits.underflow else {number: str(label) for number, label in enumerate(own)}
        return {number - 1: label for number, label in self._facts.axes[axis].labels.items()}

    def errors(self, flow: bool = False, error_mode: str | None = None) -> Any:
        """Errors of the bins as returned by TH1::GetBinError, in the shape of ``values(flow)``: the square root of the
        sum of squared weights, or of the content if no weights are stored.

        For a profile, ``error_mode`` is one of TProfile's options; the default is the stored one. ``""`` is the error
        of the mean, ``"s"`` the spread, ``"i"`` is for integers, ``"g"`` for weights of 1/sigma^2. Raises OptionError
        for another mode, or for a histogram that is not a profile.
        """
        if self.kind == "MEAN":
            return self._profile_errors(flow=flow, mode=self._facts.error_mode if error_mode is None else error_mode)
        if error_mode:
            raise OptionError(f"error_mode {error_mode!r} only applies to profiles", hint="leave it out")
        view: Any = self.view(flow=flow)
        return np.sqrt(view.variance if view.dtype.names else np.abs(view))

    def _profile_errors(self, *, flow: bool, mode: str) -> Any:
        """Compute the errors as TProfileHelper::GetBinError does."""
        if mode not in ERROR_MODES:
            raise OptionError(f"unknown error_mode {mode!r}", hint=f"choose from {', '.join(map(repr, ERROR_MODES))}")
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

    def variances(self, flow: bool = False) -> Any:
        """Squared errors, in the shape of ``values(flow)``; None if hist has no variances. Without sums of squared
        weights they are the absolute contents, as in ROOT.

        For a profile they are ROOT's (TProfile::GetBinError), which divides by the number of entries; hist divides by
        one less.
        """
        if self.kind == "MEAN":
            return self.errors(flow=flow) ** 2
        variances = super().variances(flow=flow)
        return variances if variances is None or self.view().dtype.names else np.abs(variances)

    def axis(self, axis: int | str = 0) -> Any:
        """An axis by number, by name, or as ``"x"``, ``"y"`` or ``"z"``, for compatibility with uproot.

        It is an axis of hist with uproot's methods added: ``edges()``, ``centers()``, ``widths()``, ``intervals()``,
        each with an optional ``flow=True``, and ``labels()``. Without a call, ``edges``, ``centers`` and ``widths`` are
        arrays, as in hist.
        """
        return self.axes["xyz".index(axis) if isinstance(axis, str) and axis in ("x", "y", "z") else axis]

    def to_hist(self) -> hist.Hist:
        """A copy as a plain histogram of hist, without ROOT's data, for compatibility with uproot."""
        return hist.Hist(self)

    def to_boost(self) -> boost_histogram.Histogram:
        """A copy as a histogram of boost-histogram, for compatibility with uproot."""
        return boost_histogram.Histogram(self)

    # uproot writes entries, sums and class name only for instances of its own Model. Its check uses isinstance, which
    # falls back to `__class__`.

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Histogram; once uproot is imported, a class that inherits from both Histogram and uproot's Model."""
        if "uproot.model" not in sys.modules:
            return type(self)
        return class_for_uproot(Histogram)

    def __reduce__(self) -> tuple[object, ...]:
        return _unfilled, (), self.__getstate__()

    def to_writable(self) -> Any:
        """Convert to an object that uproot can write, with the class, entries and sums that the file stores. uproot
        calls this method. If the bins have changed since reading, uproot computes entries and sums from the bins.

        Raises uproot's errors for histograms that uproot cannot write, for example with more than three dimensions.
        """
        return uproot_model(self, self._facts if self.is_as_read() else None)


def _checksum(view: object) -> int:
    return zlib.crc32(np.ascontiguousarray(view).data)


def _unfilled() -> Histogram:
    """An empty instance for unpickling."""
    return Histogram.__new__(Histogram)


@lru_cache(maxsize=1)
def class_for_uproot(histogram: type[hist.Hist]) -> type:
    """A class that inherits from both ``histogram`` and uproot's Model."""
    from uproot.model import Model

    namespace = {"__module__": histogram.__module__, "__doc__": histogram.__doc__}
    made: type = new_class("Histogram", (histogram, Model), {"family": FAMILY}, lambda body: body.update(namespace))
    return made


def uproot_model(histogram: hist.Hist, facts: RootFacts | None) -> Any:
    """Convert a histogram to a model of uproot, with the statistics in ``facts``. If ``facts`` is None, uproot computes
    the statistics from the bins.
    """
    from uproot.writing import identify

    count = COUNTS.fullmatch(facts.classname) if facts is not None else None
    if facts is None or (count is None and facts.classname not in PROFILES):
        return identify.to_writable(hist.Hist(histogram))
    make = getattr(identify, f"to_TH{count[1]}x" if count else PROFILES[facts.classname])
    cells = (
        _count_cells(histogram, facts.axes, CONTENT_TYPES[count[2]]) if count else _profile_cells(histogram, facts.axes)
    )
    titled = zip("XYZ", facts.axes, histogram.axes, strict=False)
    axes = {f"f{letter}axis": _uproot_axis(axis, own, identify) for letter, axis, own in titled}
    # Set missing sums to 0, so that ROOT computes them from the bins.
    members = facts.members
    parameters = inspect.signature(make).parameters
    sums = {name: 0.0 for name in parameters if name.startswith("fTsum")}
    kept = sums | {name: value for name, value in members.items() if name in parameters and name not in LEFT_OUT}
    return make(**{**kept, **cells, **axes, "fName": None, "fTitle": histogram.label or ""})


def _count_cells(histogram: hist.Hist, axes: tuple[RootAxis, ...], content_type: str) -> dict[str, Any]:
    view: Any = histogram.view(flow=True)
    is_weighted = view.dtype.names is not None
    squares = _in_order_of_root(histogram, axes, view["variance"]) if is_weighted else None
    data = _in_order_of_root(histogram, axes, view["value"] if is_weighted else view)
    return {"data": data.astype(content_type), "fSumw2": squares}


def _profile_cells(histogram: hist.Hist, axes: tuple[RootAxis, ...]) -> dict[str, Any]:
    """ROOT's sums of w*y, w*y^2, w and w^2 of a profile, from means and squared deviations."""
    view: Any = histogram.view(flow=True)
    is_weighted = histogram.storage_type is boost_histogram.storage.WeightedMean
    weights = view["sum_of_weights" if is_weighted else "count"]
    deltas = view["_sum_of_weighted_deltas_squared" if is_weighted else "_sum_of_deltas_squared"]
    squares = _in_order_of_root(histogram, axes, view["sum_of_weights_squared"]) if is_weighted else np.zeros(0)
    return {
        "data": _in_order_of_root(histogram, axes, view["value"] * weights),
        "fSumw2": _in_order_of_root(histogram, axes, deltas + view["value"] ** 2 * weights),
        "fBinEntries": _in_order_of_root(histogram, axes, weights),
        "fBinSumw2": squares,
    }


def _in_order_of_root(histogram: hist.Hist, axes: tuple[RootAxis, ...], values: Any) -> Any:
    """All cells in the order of TH1::GetBin, where x varies fastest. Cells without a bin are 0."""
    cells = np.zeros([axis.cells_count for axis in axes])
    places = [
        np.arange(axis.cells_count)
        if ours.traits.underflow
        else np.array([*range(1, len(ours) + 1), axis.cells_count - 1])
        for ours, axis in zip(histogram.axes, axes, strict=True)
    ]
    cells[np.ix_(*places)] = values
    return np.ascontiguousarray(cells.T).reshape(-1)


def _uproot_axis(axis: RootAxis, own: Any, identify: Any) -> object:
    # hist returns the name of an axis without a label.
    title = axis.title if own.label == (axis.title or own.name) else own.label
    labels = None
    if axis.labels:
        texts = {number: identify.to_TObjString(label) for number, label in axis.labels.items()}
        for number, text in texts.items():  # as TAxis::SetBinLabel does
            text._bases[0]._members["@fUniqueID"] = number
        labels = identify.to_THashList(list(texts.values()))
    return identify.to_TAxis(
        fName=axis.name,
        fTitle=title,
        fNbins=axis.bins_count,
        fXmin=axis.edges[0],
        fXmax=axis.edges[-1],
        fXbins=axis.edges if len(axis.edges) > 2 else None,
        fLabels=labels,
    )
