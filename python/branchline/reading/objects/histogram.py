"""Histogram: a TH1, TH2 or TH3 of a file as a histogram of hist, with what ROOT keeps besides.

uproot writes it as one of its own models. ``to_TH1x``, ``to_TProfile`` and the like of ``uproot.writing.identify`` make
these: uproot documents them for this purpose, and their arguments have ROOT's names.
"""

from __future__ import annotations

import inspect
import re
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType, new_class
from typing import Any

import boost_histogram
import hist
import numpy as np

from branchline.errors import OptionError
from branchline.reading.objects.axes import FAMILY, RootAxis
from branchline.reading.objects.object_record import KeyPlace

# Where a histogram keeps what hist has no place for; what begins with @ is not written to other formats.
KEPT = "@root"
# The checksum of the bins as they were read.
CHECKSUM = "@checksum"
AXES = ("fXaxis", "fYaxis", "fZaxis")
# TProfile's options of errors by their numbers (EErrorType).
ERROR_MODES = ("", "s", "i", "g")

# Classes that uproot has models of, and types of their contents by the last letter.
COUNTS = re.compile(r"TH([123])([CSILFD])")
CONTENT_TYPES = {"C": "i1", "S": "i2", "I": "i4", "L": "i8", "F": "f4", "D": "f8"}
PROFILES = {"TProfile": "to_TProfile", "TProfile2D": "to_TProfile2D", "TProfile3D": "to_TProfile3D"}
# Members that a model does not take from the file: uproot gives the name, and there is no buffer any more.
LEFT_OUT = frozenset({"fName", "fTitle", "fBufferSize", "fNcells"})


@dataclass(frozen=True)
class RootFacts:
    """What a file keeps of a histogram in addition to its bins. ``members`` are single numbers and texts by ROOT's
    names, ``place`` is where its key is.
    """

    classname: str = ""
    axes: tuple[RootAxis, ...] = ()
    members: Mapping[str, int | float | str] = field(default_factory=dict)
    error_mode: str = ""
    place: KeyPlace | None = None


class Histogram(hist.Hist, family=FAMILY):
    """A histogram as hist has it, with ROOT's errors, labels and sums.

    Storage is Weight where ROOT keeps sums of squared weights, Int64 for whole numbers, else Double; Mean or
    WeightedMean for a profile. ``name`` and ``label`` are ROOT's name and title, each axis has its own. Underflow and
    overflow are kept, except the underflow of an axis of categories. What is computed from it is a histogram of the
    same kind.

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
        """The class that it had in its file."""
        return self._facts.classname

    @property
    def _facts(self) -> RootFacts:
        facts: RootFacts = self.__dict__.get(KEPT, RootFacts())
        return facts

    def remember(self, facts: RootFacts, view: Any) -> None:
        """Stores ROOT's statistics and titles with it, once its bins are filled; ``view`` has these with flow bins."""
        self.__dict__[KEPT] = facts
        self.__dict__[CHECKSUM] = _checksum(view)

    @property
    def root_axes(self) -> tuple[RootAxis, ...]:
        """Its axes as its file has them."""
        return self._facts.axes

    def place_in_file(self) -> KeyPlace | None:
        """Where it was read from."""
        return self._facts.place

    def is_as_read(self) -> bool:
        """Whether its bins were not changed since it was read."""
        return self._checksum_as_read == _checksum(self.view(flow=True))

    def was_read_like(self, other: Histogram) -> bool:
        """Whether both had the same bins, of the same class, when they were read."""
        return self.classname == other.classname and self._checksum_as_read == other._checksum_as_read

    @property
    def _checksum_as_read(self) -> int | None:
        checksum: int | None = self.__dict__.get(CHECKSUM)
        return checksum

    @property
    def members(self) -> Mapping[str, int | float | str]:
        """Single numbers and texts that ROOT keeps with it, as they are in the file: ``fEntries``, ``fTsumw``, ..."""
        return MappingProxyType(dict(self._facts.members))

    @property
    def all_members(self) -> Mapping[str, int | float | str]:
        """The same, under uproot's name."""
        return self.members

    def member(self, name: str) -> Any:
        """One of the members, under uproot's name; ``fSumw2`` and the axes too. Raises KeyError."""
        if name == "fSumw2" and self.kind != "MEAN":
            return self._squares()
        if name in AXES[: self.ndim]:
            return self.axis(AXES.index(name))
        return self._facts.members[name]

    def _squares(self) -> np.ndarray[Any, Any]:
        """The sums of squared weights of all of ROOT's cells, those of the first axis next to each other; none where
        no weights are kept.
        """
        view: Any = self.view(flow=True)
        return self.in_cells(view.variance).ravel(order="F") if view.dtype.names else np.zeros(0)

    def in_cells(self, values: Any) -> np.ndarray[Any, Any]:
        """Values of all bins, flow bins included, in the cells that ROOT has for each axis, with zeros in those that
        hist has not. Raises ValueError if an axis has got more bins than it had in its file.
        """
        cells = np.asarray(values)
        for place, axis in enumerate(self._facts.axes):
            if cells.shape[place] == axis.cells_count:
                continue
            # Categories have no underflow, and only the bins that have a label.
            zeros = np.zeros([*cells.shape[:place], 1, *cells.shape[place + 1 :]])
            missing = axis.cells_count - cells.shape[place] - 1
            if missing < 0:
                raise ValueError(f"axis {place} has more bins than in its file")
            bins, overflow = np.split(cells, [-1], axis=place)
            cells = np.concatenate([zeros, bins, *[zeros] * missing, overflow], axis=place)
        return cells

    def has_member(self, name: str) -> bool:
        """Whether it has a member, under uproot's name."""
        return name in self._facts.members or name in AXES[: self.ndim] or (name == "fSumw2" and self.kind != "MEAN")

    @property
    def weighted(self) -> bool:
        """Whether the file has squares of weights of its bins (TH1::Sumw2), under uproot's name."""
        return self.kind == "MEAN" or bool(len(self._squares()))

    def bin_labels(self, axis: int = 0) -> dict[int, str]:
        """The labels of the bins of an axis by the numbers of the bins, which begin with 0 here.

        An axis of which all bins have labels, each another one, has them as its categories too. An axis with other
        labels keeps its numbers, and a warning says so.
        """
        axes = self._facts.axes
        return {number - 1: label for number, label in axes[axis].labels.items()} if axis < len(axes) else {}

    def errors(self, flow: bool = False, error_mode: str | None = None) -> Any:
        """The errors of the bins as TH1::GetBinError gives them, in the shape of ``values(flow)``: the root of the sum
        of squared weights, or of the content where no weights are kept.

        A profile has those of its ``error_mode`` (TProfile's options), or of the one given: ``""`` the error of the
        mean, ``"s"`` the spread, ``"i"`` and ``"g"`` those for whole numbers and for weights 1/sigma^2. Raises
        OptionError for another one, or for one of a histogram that is no profile.
        """
        if self.kind == "MEAN":
            return self._profile_errors(flow=flow, mode=self._facts.error_mode if error_mode is None else error_mode)
        if error_mode:
            raise OptionError("error_mode is for profiles", hint="leave it out")
        view: Any = self.view(flow=flow)
        return np.sqrt(view.variance if view.dtype.names else np.abs(view))

    def _profile_errors(self, *, flow: bool, mode: str) -> Any:
        """As TProfileHelper::GetBinError computes them, from what the storages keep."""
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

    def variances(self, flow: bool = False) -> Any:
        """The squares of the errors, in the shape of ``values(flow)``; None where hist knows none. Without sums of
        squared weights, they are the absolute contents, as in ROOT.

        Those of a profile are ROOT's (TProfile::GetBinError), which divide by the number of entries; those of hist
        divide by one less.
        """
        if self.kind == "MEAN":
            return self.errors(flow=flow) ** 2
        variances = super().variances(flow=flow)
        return variances if variances is None or self.view().dtype.names else np.abs(variances)

    def axis(self, axis: int | str = 0) -> Any:
        """An axis by its number, by its name, or as ``"x"``, ``"y"`` or ``"z"``, under uproot's name.

        It is an axis of hist, and answers uproot's calls too: ``edges()``, ``centers()``, ``widths()``,
        ``intervals()``, each with ``flow=True`` if wanted, and ``labels()``. ``edges``, ``centers`` and ``widths``
        without a call are arrays, as in hist.
        """
        return self.axes["xyz".index(axis) if isinstance(axis, str) and axis in ("x", "y", "z") else axis]

    def to_hist(self) -> hist.Hist:
        """The same as an ordinary histogram of hist, without what ROOT keeps, under uproot's name."""
        return hist.Hist(self)

    def to_boost(self) -> boost_histogram.Histogram:
        """The same as a histogram of boost-histogram, under uproot's name."""
        return boost_histogram.Histogram(self)

    # uproot writes entries, sums and class only of its own models. It asks isinstance for those, which asks for
    # `__class__` where the type itself is none.

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Histogram; once uproot is imported, a class that inherits from Histogram and from a model of uproot."""
        if "uproot.model" not in sys.modules:
            return type(self)
        return class_for_uproot(Histogram)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unfilled, (), self.__getstate__()

    def to_writable(self) -> Any:
        """The same as an object that uproot writes, under uproot's name: of the class that it had in its file, with all
        its entries and sums. If its bins were changed since, uproot computes these from the bins.

        Raises what uproot raises for histograms that it does not write, such as those of more than three dimensions.
        """
        return uproot_model(self, self._facts if self.is_as_read() else None)


def _checksum(view: Any) -> int:
    return zlib.crc32(np.ascontiguousarray(view).data)


def _unfilled() -> Histogram:
    """What unpickling fills."""
    return Histogram.__new__(Histogram)


@lru_cache(maxsize=1)
def class_for_uproot(histogram: type[hist.Hist]) -> type:
    """A class that inherits from ``histogram`` and from uproot's models."""
    from uproot.model import Model

    namespace = {"__module__": histogram.__module__, "__doc__": histogram.__doc__}
    made: type = new_class("Histogram", (histogram, Model), {"family": FAMILY}, lambda body: body.update(namespace))
    return made


def uproot_model(histogram: hist.Hist, facts: RootFacts | None) -> Any:
    """The model of uproot for a histogram, with what its file says of it; with None for this, what uproot itself makes
    of its bins.
    """
    from uproot.writing import identify

    count = COUNTS.fullmatch(facts.classname) if facts is not None else None
    if facts is None or (count is None and facts.classname not in PROFILES):
        return identify.to_writable(hist.Hist(histogram))
    make = getattr(identify, f"to_TH{count[1]}x" if count else PROFILES[facts.classname])
    cells = (
        _count_cells(histogram, facts.axes, CONTENT_TYPES[count[2]]) if count else _profile_cells(histogram, facts.axes)
    )
    axes = {f"f{letter}axis": _uproot_axis(axis, identify) for letter, axis in zip("XYZ", facts.axes, strict=False)}
    kept = _known_members(make, facts.members)
    return make(**{**kept, **cells, **axes, "fName": None, "fTitle": histogram.label or ""})


def _known_members(make: Callable[..., Any], members: Any) -> dict[str, Any]:
    """Those of a file's members that uproot takes; sums that are not there are 0, which ROOT computes from the bins."""
    parameters = inspect.signature(make).parameters
    sums = {name: 0.0 for name in parameters if name.startswith("fTsum")}
    return sums | {name: value for name, value in members.items() if name in parameters and name not in LEFT_OUT}


def _count_cells(histogram: hist.Hist, axes: tuple[RootAxis, ...], content_type: str) -> dict[str, Any]:
    view: Any = histogram.view(flow=True)
    is_weighted = view.dtype.names is not None
    squares = _in_order_of_root(histogram, axes, view["variance"]) if is_weighted else None
    data = _in_order_of_root(histogram, axes, view["value"] if is_weighted else view)
    return {"data": data.astype(content_type), "fSumw2": squares}


def _profile_cells(histogram: hist.Hist, axes: tuple[RootAxis, ...]) -> dict[str, Any]:
    """The sums of w*y, w*y^2, w and w^2 that ROOT keeps of a profile, from mean and squared distances."""
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
    """All cells in the order of TH1::GetBin, where x runs fastest. Cells that no bin stands for hold 0."""
    cells = np.zeros([axis.cells_count for axis in axes])
    places = [
        np.arange(axis.cells_count)
        if ours.traits.underflow
        else np.array([*range(1, len(ours) + 1), axis.cells_count - 1])
        for ours, axis in zip(histogram.axes, axes, strict=True)
    ]
    cells[np.ix_(*places)] = values
    return np.ascontiguousarray(cells.T).reshape(-1)


def _uproot_axis(axis: RootAxis, identify: Any) -> Any:
    labels = None
    if axis.labels:
        texts = {number: identify.to_TObjString(label) for number, label in axis.labels.items()}
        for number, text in texts.items():  # as TAxis::SetBinLabel does
            text._bases[0]._members["@fUniqueID"] = number
        labels = identify.to_THashList(list(texts.values()))
    return identify.to_TAxis(
        fName=axis.name,
        fTitle=axis.title,
        fNbins=axis.bins_count,
        fXmin=axis.edges[0],
        fXmax=axis.edges[-1],
        fXbins=axis.edges if len(axis.edges) > 2 else None,
        fLabels=labels,
    )
