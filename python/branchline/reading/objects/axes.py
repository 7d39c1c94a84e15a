"""Axes of histograms: a TAxis as an axis of hist, and which of ROOT's cells belong to its bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from branchline.reading.objects.hist_axes import Regular, Variable, category_axis
from branchline.reading.objects.object_record import Record

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
        labelled = _labelled(axis, np.moveaxis(is_empty, place, 0)) if axis.labels else 0
        cells = np.array([*range(1, labelled + 1), axis.bins_count + 1]) if labelled else None
        binnings.append(Binning(_axis(axis, name, labelled), cells, not labelled))
    return binnings


def _labelled(axis: RootAxis, is_empty: Any) -> int:
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
