"""Axes of histograms: a TAxis as an axis of hist, and which of ROOT's cells belong to its bins.

The axes of a Histogram are those of hist, which also answer the calls that uproot's axes have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import hist
import numpy as np

from branchline.reading.objects.object_record import Record

#: boost-histogram finds the classes of a histogram's axes by this: axes and histogram have the same family.
FAMILY = object()
# Names that axes cannot have: hist's `fill` has arguments of these names.
NOT_NAMES = frozenset({"weight", "sample", "threads"})


@dataclass(frozen=True)
class RootAxis:
    """A TAxis. ``edges`` are all edges of bins, or the first and the last if the bins have one width. ``labels`` are
    by the numbers of the bins, which begin with 1; bins without a label are left out.
    """

    name: str
    title: str
    bins_count: int
    edges: Any
    labels: dict[int, str]

    @classmethod
    def of(cls, record: Record) -> RootAxis:
        """The axis of a record."""
        bins_count: int = record.raw("fNbins")
        edges = np.asarray(record.raw("fXbins"), dtype="f8")
        if len(edges) != bins_count + 1:
            edges = np.array([record.raw("fXmin"), record.raw("fXmax")])
        return cls(record.raw("fName"), record.raw("fTitle"), bins_count, edges, _labels(record))

    @property
    def cells_count(self) -> int:
        """Bins, underflow and overflow."""
        return self.bins_count + 2


def _labels(record: Record) -> dict[int, str]:
    """Labels by the numbers of their bins, which ROOT stores as the unique ids of the texts (TAxis::SetBinLabel)."""
    texts = record.raw("fLabels") if "fLabels" in record else None
    labels: dict[int, str] = {}
    for text in texts.raw("objects") if texts is not None else ():
        if isinstance(text, Record) and text.unread is None:
            labels.setdefault(text.raw("fUniqueID"), text.raw("fString"))
    return {number: label for number, label in sorted(labels.items()) if label}


@dataclass(frozen=True)
class Binning:
    """An axis of hist, and for each of its bins, flow bins included, the number of the cell in ROOT; None for an axis
    that has all cells of ROOT.
    """

    axis: Any
    cells: Any
    has_numbers: bool


def binnings_of(axes: Sequence[RootAxis], is_empty: Any) -> list[Binning]:
    """The axes of hist. ``is_empty`` has True for each of ROOT's cells that holds nothing.

    An axis becomes one of categories if every bin has a label and no two labels are equal. Empty bins without a label
    at its end do not count: ROOT doubles the number of bins when it meets a new label. Raises ValueError for
    impossible axes.
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
    """How many bins are categories; 0 if the axis has numbers."""
    count = len(axis.labels)
    is_whole = list(axis.labels) == list(range(1, count + 1)) and len(set(axis.labels.values())) == count
    return count if is_whole and bool(np.all(is_empty[count + 1 : axis.bins_count + 1])) else 0


def _axis(axis: RootAxis, name: str, labelled: int) -> Any:
    options: dict[str, Any] = {"name": name, "label": axis.title}
    if labelled:
        return category_axis(list(axis.labels.values()), options)
    if len(axis.edges) > 2:
        return Variable(axis.edges, **options)
    return Regular(axis.bins_count, *axis.edges.tolist(), **options)


def category_axis(labels: list[str], options: dict[str, Any]) -> StrCategory | IntCategory:
    """Categories of texts; of whole numbers, as uproot takes them, if the texts are nothing but these."""
    if all(label.lstrip("-").isdecimal() and str(int(label)) == label and abs(int(label)) < 2**31 for label in labels):
        return IntCategory([int(label) for label in labels], **options)
    return StrCategory(labels, **options)


class CallableArray(np.ndarray[Any, Any]):
    """Edges, centers or widths of bins: an array as in hist, ``axis.edges``, and a call as in uproot, ``axis.edges()``.

    What is computed from it, or cut out of it, is an ordinary array.
    """

    def __call__(self, flow: bool = False) -> np.ndarray[Any, Any]:
        """The numbers as an ordinary array. With ``flow`` those of underflow and overflow too."""
        plain = np.array(self, dtype="f8")
        if not flow:
            return plain
        below, above = self._flow
        return np.concatenate([[below], plain, [above]])

    def __getitem__(self, where: Any) -> Any:
        return np.asarray(self)[where]

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else np.asarray(array)

    def __reduce__(self) -> tuple[Any, ...]:
        return _callable, (np.asarray(self), *self._flow)

    @property
    def _flow(self) -> tuple[float, float]:
        """What stands for underflow and overflow."""
        return getattr(self, "flow", (-np.inf, np.inf))


def _callable(numbers: Any, below: float, above: float) -> CallableArray:
    array = np.asarray(numbers).view(CallableArray)
    array.flow = (below, above)  # type: ignore[attr-defined]
    return array


class _UprootCalls:
    """The calls of uproot's TAxis, for an axis of hist."""

    __slots__ = ()

    @property
    def edges(self) -> CallableArray:
        """Borders of the bins, one more than there are bins; ``edges(flow=True)`` has -inf and inf around them."""
        return _callable(super().edges, -np.inf, np.inf)  # type: ignore[misc]

    @property
    def centers(self) -> CallableArray:
        """Centers of the bins; ``centers(flow=True)`` has -inf and inf around them."""
        return _callable(super().centers, -np.inf, np.inf)  # type: ignore[misc]

    @property
    def widths(self) -> CallableArray:
        """Widths of the bins; ``widths(flow=True)`` has inf around them."""
        return _callable(super().widths, np.inf, np.inf)  # type: ignore[misc]

    def intervals(self, flow: bool = False) -> np.ndarray[Any, Any]:
        """Lower and upper border of each bin, an array of shape (bins, 2)."""
        edges = self.edges(flow=flow)
        return np.stack([edges[:-1], edges[1:]], axis=1)

    def labels(self, flow: bool = False) -> list[str] | None:  # noqa: ARG002 - of other axes
        """The labels of the bins if all of them have one, else None; with ``flow`` also "underflow" and "overflow"."""
        return None

    @property
    def low(self) -> float:
        """The lower border of the first bin."""
        return float(self.edges[0])

    @property
    def high(self) -> float:
        """The upper border of the last bin."""
        return float(self.edges[-1])

    @property
    def width(self) -> float:
        """The mean width of the bins."""
        return (self.high - self.low) / (len(self.edges) - 1)


class _CategoryCalls(_UprootCalls):
    """The calls of uproot's TAxis for an axis of categories, whose bins lie at 0, 1, 2, ..."""

    __slots__ = ()

    def labels(self, flow: bool = False) -> list[str] | None:
        """The categories as texts; with ``flow`` also "underflow" and "overflow"."""
        texts = [str(one) for one in self]  # type: ignore[attr-defined]
        return ["underflow", *texts, "overflow"] if flow else texts


class Regular(_UprootCalls, hist.axis.Regular, family=FAMILY):
    """Bins of one width."""

    __slots__ = ()


class Variable(_UprootCalls, hist.axis.Variable, family=FAMILY):
    """Bins of any widths."""

    __slots__ = ()


class Integer(_UprootCalls, hist.axis.Integer, family=FAMILY):
    """A bin for each whole number."""

    __slots__ = ()


class Boolean(_UprootCalls, hist.axis.Boolean, family=FAMILY):
    """A bin for False and one for True."""

    __slots__ = ()


class IntCategory(_CategoryCalls, hist.axis.IntCategory, family=FAMILY):
    """A bin for each label, where all labels are whole numbers."""

    __slots__ = ()


class StrCategory(_CategoryCalls, hist.axis.StrCategory, family=FAMILY):
    """A bin for each label."""

    __slots__ = ()
