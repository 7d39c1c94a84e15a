"""Axes of histograms: converts a TAxis to an axis of hist, and maps its bins to ROOT's bin numbers.

The axes of a Histogram are hist axes with the methods of uproot's axes added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import hist
import numpy as np

from branchline.reading.objects.object_record import Record

#: boost-histogram finds the axis classes of a histogram by its family, so Histogram and the axes here share this one.
FAMILY = object()
# Reserved axis names: hist's `fill` has keyword arguments with these names.
NOT_NAMES = frozenset({"weight", "sample", "threads"})


@dataclass(frozen=True)
class RootAxis:
    """A TAxis. ``edges`` are all bin edges, or only the first and last if all bins have the same width. ``labels`` maps
    bin numbers, counted from 1, to labels; bins without a label are omitted.
    """

    name: str
    title: str
    bins_count: int
    edges: np.ndarray
    labels: dict[int, str]

    @classmethod
    def of(cls, record: Record) -> RootAxis:
        """Convert a TAxis record."""
        bins_count: int = record.raw("fNbins")
        edges = np.asarray(record.raw("fXbins"), dtype="f8")
        if len(edges) != bins_count + 1:
            edges = np.array([record.raw("fXmin"), record.raw("fXmax")])
        # ROOT stores the bin number of a label as the unique ID of its string (TAxis::SetBinLabel).
        texts = record.raw("fLabels") if "fLabels" in record else None
        labels: dict[int, str] = {}
        for text in texts.raw("objects") if texts is not None else ():
            if isinstance(text, Record) and text.unread is None:
                labels.setdefault(text.raw("fUniqueID"), text.raw("fString"))
        labels = {number: label for number, label in sorted(labels.items()) if label}
        return cls(record.raw("fName"), record.raw("fTitle"), bins_count, edges, labels)

    @property
    def cells_count(self) -> int:
        """Number of bins including underflow and overflow."""
        return self.bins_count + 2


@dataclass(frozen=True)
class Binning:
    """An axis of hist. ``cells`` are the numbers that ROOT gives the bins, including flow bins; None if they equal the
    bins' indices.
    """

    axis: Any
    cells: np.ndarray | None
    has_numbers: bool


def binnings_of(axes: Sequence[RootAxis], is_empty: Any) -> list[Binning]:
    """Convert axes to axes of hist. ``is_empty`` is a mask of ROOT's cells: True for a cell without content.

    An axis becomes categorical if every bin has a label and all labels differ. Empty bins without labels at the end of
    an axis are ignored: ROOT adds them when it doubles the number of bins for a new label. Raises ValueError for
    invalid axes.
    """
    names = [axis.name for axis in axes]
    are_names = len(set(names)) == len(names) and not NOT_NAMES.intersection(names)
    binnings = []
    for place, axis in enumerate(axes):
        name = axis.name if are_names else f"axis{place}"
        labelled = _categories_count(axis, np.moveaxis(is_empty, place, 0)) if axis.labels else 0
        cells = np.array([*range(1, labelled + 1), axis.bins_count + 1]) if labelled else None
        binnings.append(Binning(_axis(axis, name, labelled), cells, not labelled))
    return binnings


def _categories_count(axis: RootAxis, is_empty: Any) -> int:
    """Number of bins that become categories; 0 if the axis stays numeric."""
    count = len(axis.labels)
    is_whole = list(axis.labels) == list(range(1, count + 1)) and len(set(axis.labels.values())) == count
    return count if is_whole and bool(np.all(is_empty[count + 1 : axis.bins_count + 1])) else 0


def _axis(axis: RootAxis, name: str, labelled: int) -> object:
    options: dict[str, Any] = {"name": name, "label": axis.title}
    if labelled:
        return category_axis(list(axis.labels.values()), options)
    if len(axis.edges) > 2:
        return Variable(axis.edges, **options)
    return Regular(axis.bins_count, *axis.edges.tolist(), **options)


def category_axis(labels: list[str], options: dict[str, Any]) -> StrCategory | IntCategory:
    """A category axis of strings, or of integers, as in uproot, if all labels are integers."""
    if all(label.lstrip("-").isdecimal() and str(int(label)) == label and abs(int(label)) < 2**31 for label in labels):
        return IntCategory([int(label) for label in labels], **options)
    return StrCategory(labels, **options)


def is_axis_of(axis: Any, stored: RootAxis) -> bool:
    """Return whether an axis of hist has the bins of an axis in a file."""
    if not axis.traits.underflow:
        return [str(label) for label in axis] == list(stored.labels.values())
    edges = np.asarray(axis.edges)
    limits = edges if len(stored.edges) > 2 else edges[[0, -1]]
    return len(axis) == stored.bins_count and np.array_equal(limits, stored.edges)


class CallableArray(np.ndarray):
    """Edges, centers or widths of bins. They can be used as an array, as in hist (``axis.edges``), and as a method, as
    in uproot (``axis.edges()``).

    Slices and results of computations are ordinary arrays.
    """

    def __call__(self, flow: bool = False) -> np.ndarray:
        """Return an ordinary array; with ``flow`` including the values for underflow and overflow."""
        plain = np.array(self, dtype="f8")
        if not flow:
            return plain
        below, above = self._flow
        return np.concatenate([[below], plain, [above]])

    def __getitem__(self, where: Any) -> Any:
        return np.asarray(self)[where]

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else np.asarray(array)

    def __reduce__(self) -> tuple[object, ...]:
        return _callable, (np.asarray(self), *self._flow)

    @property
    def _flow(self) -> tuple[float, float]:
        """The values for underflow and overflow."""
        return getattr(self, "flow", (-np.inf, np.inf))


def _callable(numbers: object, below: float, above: float) -> CallableArray:
    array = np.asarray(numbers).view(CallableArray)
    array.flow = (below, above)  # type: ignore[attr-defined]
    return array


class _UprootCalls:
    """The methods of uproot's TAxis, for an axis of hist."""

    __slots__ = ()

    @property
    def edges(self) -> CallableArray:
        """Bin edges, shape (bins + 1,); ``edges(flow=True)`` adds -inf and inf at the ends."""
        return _callable(super().edges, -np.inf, np.inf)  # type: ignore[misc]

    @property
    def centers(self) -> CallableArray:
        """Bin centers; ``centers(flow=True)`` adds -inf and inf at the ends."""
        return _callable(super().centers, -np.inf, np.inf)  # type: ignore[misc]

    @property
    def widths(self) -> CallableArray:
        """Bin widths; ``widths(flow=True)`` adds inf at both ends."""
        return _callable(super().widths, np.inf, np.inf)  # type: ignore[misc]

    def intervals(self, flow: bool = False) -> np.ndarray:
        """Lower and upper edge of each bin, shape (bins, 2)."""
        edges = self.edges(flow=flow)
        return np.stack([edges[:-1], edges[1:]], axis=1)

    def labels(self, flow: bool = False) -> list[str] | None:  # noqa: ARG002 - used by subclasses
        """The bin labels if all bins have one, else None; with ``flow`` also "underflow" and "overflow"."""
        return None

    @property
    def low(self) -> float:
        """The lower edge of the first bin."""
        return float(self.edges[0])

    @property
    def high(self) -> float:
        """The upper edge of the last bin."""
        return float(self.edges[-1])

    @property
    def width(self) -> float:
        """The mean bin width."""
        return (self.high - self.low) / (len(self.edges) - 1)


class _CategoryCalls(_UprootCalls):
    """The methods of uproot's TAxis for a category axis, with bins at 0, 1, 2, ..."""

    __slots__ = ()

    def labels(self, flow: bool = False) -> list[str] | None:
        """The categories as strings; with ``flow`` also "underflow" and "overflow"."""
        texts = [str(one) for one in self]  # type: ignore[attr-defined]
        return ["underflow", *texts, "overflow"] if flow else texts


class Regular(_UprootCalls, hist.axis.Regular, family=FAMILY):
    """Bins of equal width."""

    __slots__ = ()


class Variable(_UprootCalls, hist.axis.Variable, family=FAMILY):
    """Bins of variable width."""

    __slots__ = ()


class Integer(_UprootCalls, hist.axis.Integer, family=FAMILY):
    """One bin per integer."""

    __slots__ = ()


class Boolean(_UprootCalls, hist.axis.Boolean, family=FAMILY):
    """One bin for False and one for True."""

    __slots__ = ()


class IntCategory(_CategoryCalls, hist.axis.IntCategory, family=FAMILY):
    """One bin per label; all labels are integers."""

    __slots__ = ()


class StrCategory(_CategoryCalls, hist.axis.StrCategory, family=FAMILY):
    """One bin per label."""

    __slots__ = ()
