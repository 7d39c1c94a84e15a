"""Axes of histograms: a TAxis as an axis of hist, and which of ROOT's cells belong to its bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import hist
import numpy as np

from branchline.objects.record import Record

# What hist takes for other arguments of `fill`.
NOT_NAMES = frozenset({"weight", "sample", "threads"})


@dataclass(frozen=True)
class RootAxis:
    """A TAxis: ``edges`` of equal bins are only the first and the last; ``labels`` are those of bins that have one, by
    their numbers, which begin with 1.
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
    """Labels by their bins, which the unique ids of the texts are (TAxis::SetBinLabel)."""
    texts = record.raw("fLabels") if "fLabels" in record else None
    labels: dict[int, str] = {}
    for text in texts.raw("objects") if texts is not None else ():
        if isinstance(text, Record) and text.unread is None:
            labels.setdefault(text.raw("fUniqueID"), text.raw("fString"))
    return {number: label for number, label in sorted(labels.items()) if label}


@dataclass(frozen=True)
class Binning:
    """An axis of hist, and the numbers of ROOT's cells that its bins and flow bins have, in their order."""

    axis: Any
    cells: Any
    has_numbers: bool


def binnings_of(axes: Sequence[RootAxis], is_empty: Any) -> list[Binning]:
    """The axes of hist. ``is_empty`` tells of each of ROOT's cells whether nothing is in it.

    An axis whose bins all have labels, each another one, has categories. So has one of which only the last bins have
    none and hold nothing: ROOT doubles an axis when it meets a new label. Raises ValueError for what is no axis.
    """
    names = [axis.name for axis in axes]
    are_names = len(set(names)) == len(names) and not NOT_NAMES.intersection(names)
    binnings = []
    for place, axis in enumerate(axes):
        name = axis.name if are_names else f"axis{place}"
        labelled = _labelled(axis, np.moveaxis(is_empty, place, 0)) if axis.labels else 0
        cells = np.arange(axis.cells_count)
        if labelled:
            cells = np.array([*range(1, labelled + 1), axis.bins_count + 1])
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
        return hist.axis.Variable(axis.edges, **options)
    return hist.axis.Regular(axis.bins_count, *axis.edges.tolist(), **options)


def category_axis(labels: list[str], options: dict[str, Any]) -> Any:
    """Categories of texts; of whole numbers, as uproot takes them, if the texts are nothing but these."""
    if all(label.lstrip("-").isdecimal() and str(int(label)) == label and abs(int(label)) < 2**31 for label in labels):
        return hist.axis.IntCategory([int(label) for label in labels], **options)
    return hist.axis.StrCategory(labels, **options)
