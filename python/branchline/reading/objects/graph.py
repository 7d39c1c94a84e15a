"""Graphs: points with errors, as arrays of NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from branchline.errors import NoSuchKeyError, OptionError
from branchline.reading.objects.object_record import Record, Recorded, hist_is_needed, made

if TYPE_CHECKING:
    import hist

# Members with the errors below and above of each axis, of which a class has one pair or none.
ERRORS = {
    "x": (("fEXlow", "fEXhigh"), ("fEX", "fEX")),
    "y": (("fEYlow", "fEYhigh"), ("fEY", "fEY")),
    "z": (("fEZlow", "fEZhigh"), ("fEZ", "fEZ")),
}
# Bins touch if their edges differ by less than this part of their width.
TOUCHING = 1e-6


@dataclass(frozen=True)
class Graph(Recorded):
    """The points of a TGraph, TGraphErrors, TGraphAsymmErrors or of a class like them, or of a TGraph2D.

    ``x``, ``y`` (and ``z``) are arrays of as many numbers, ``x_low`` and ``x_high`` the errors below and above, None
    for a class without errors: ``plt.errorbar(graph.x, graph.y, yerr=(graph.y_low, graph.y_high))``. ``labels`` are the
    titles of the axes, ``record`` has all members.

        >>> graph = branchline.open("file.root")["graph"]
        >>> len(graph), graph.x.shape
        (12, (12,))
    """

    name: str
    title: str
    classname: str
    x: Any
    y: Any
    z: Any = None
    x_low: Any = None
    x_high: Any = None
    y_low: Any = None
    y_high: Any = None
    z_low: Any = None
    z_high: Any = None
    labels: tuple[str, ...] = ()
    record: Record = field(default=None, repr=False)  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        return f"<Graph {self.name!r} of {len(self)} points, {self.classname}>"

    def values(self, axis: int | str = "both") -> Any:
        """x, y or both as a pair, under uproot's name. Raises OptionError."""
        if axis == "both":
            return (self.x, self.y) if self.z is None else (self.x, self.y, self.z)
        return getattr(self, self._axis(axis))

    def errors(self, which: str, axis: int | str = "both") -> Any:
        """Errors ``"low"``, ``"high"``, their ``"mean"`` or their ``"diff"`` (high less low) of an axis, or of both as
        a pair, under uproot's name; zeros for a class without errors. Raises OptionError.
        """
        if which not in ("low", "high", "mean", "diff"):
            raise OptionError(f"there are no errors {which!r}", hint='they are "low", "high", "mean" or "diff"')
        if axis == "both":
            names = ("x", "y") if self.z is None else ("x", "y", "z")
            return tuple(self.errors(which, name) for name in names)
        name = self._axis(axis)
        low, high = getattr(self, f"{name}_low"), getattr(self, f"{name}_high")
        if low is None:
            return np.zeros(len(self))
        return {"low": low, "high": high, "mean": (low + high) / 2, "diff": high - low}[which]

    def _axis(self, axis: int | str) -> str:
        names = ["x", "y"] if self.z is None else ["x", "y", "z"]
        if axis in names:
            return str(axis)
        if isinstance(axis, int) and -len(names) <= axis < len(names):
            return names[axis]
        raise OptionError(f"a graph has no axis {axis!r}", hint=f"it has {', '.join(names)}")

    def to_hist(self) -> hist.Hist:
        """A histogram whose bins are the points with their errors in x, and whose variances are the squares of the mean
        errors in y. Raises OptionError if these bins do not lie side by side.
        """
        with hist_is_needed():
            import boost_histogram
            import hist
        if self.z is not None or self.x_low is None or len(self) == 0:
            raise OptionError(f"the points of {self.name} have no widths in x", hint="use x and y as they are")
        order = np.argsort(self.x)
        low, high = (self.x - self.x_low)[order], (self.x + self.x_high)[order]
        if not np.allclose(high[:-1], low[1:], rtol=0, atol=TOUCHING * np.max(high - low, initial=0)):
            raise OptionError(f"the points of {self.name} are no bins that touch each other", hint="use x and y")
        axis = hist.axis.Variable([*low, high[-1]], name="xaxis", label=self.labels[0] if self.labels else "")
        made = hist.Hist(axis, storage=boost_histogram.storage.Weight(), name=self.name, label=self.title)
        view: Any = made.view()
        view["value"], view["variance"] = self.y[order], self.errors("mean", "y")[order] ** 2
        return made


def graph_of(record: Record) -> Graph:
    """The graph of a record."""
    count = record.raw("fNpoints")
    points = {name: _array(record, member, count) for name, member in _points(record).items()}
    for name in points.copy():
        for low, high in ERRORS[name]:
            if low in record:
                points[f"{name}_low"], points[f"{name}_high"] = (_array(record, one, count) for one in (low, high))
                break
    return Graph(
        record.raw("fName"), record.raw("fTitle"), record.classname, labels=_labels(record), record=record, **points
    )


def _points(record: Record) -> dict[str, str]:
    return {name: member for name, member in (("x", "fX"), ("y", "fY"), ("z", "fZ")) if member in record}


def _array(record: Record, member: str, count: int) -> Any:
    return np.asarray(record.raw(member), dtype="f8")[:count]


def _labels(record: Record) -> tuple[str, ...]:
    """The titles of the axes, which the frame of a graph has once it was drawn, or was given titles."""
    frame = record.raw("fHistogram") if "fHistogram" in record else None
    if frame is None or frame.unread is not None:
        return ()
    return tuple(frame.raw(axis).raw("fTitle") for axis in ("fXaxis", "fYaxis"))


class MultiGraph(Recorded, Sequence[Graph]):
    """The graphs of a TMultiGraph in their order, ``graphs[0]``, and by their names, ``graphs["data"]``."""

    def __init__(self, record: Record) -> None:
        self.name: str = record.raw("fName")
        self.title: str = record.raw("fTitle")
        self.record: Record = record
        graphs = record.raw("fGraphs")
        self._graphs: list[Graph] = [] if graphs is None else list(made(graphs))

    @overload
    def __getitem__(self, where: int | str) -> Graph: ...
    @overload
    def __getitem__(self, where: slice) -> list[Graph]: ...
    def __getitem__(self, where: int | str | slice) -> Graph | list[Graph]:
        if not isinstance(where, str):
            return self._graphs[where]
        for graph in self._graphs:
            if graph.name == where:
                return graph
        hint = f"it has {', '.join(graph.name for graph in self._graphs) or 'none'}"
        raise NoSuchKeyError(f"{self.name} has no graph {where!r}", path=self.record.origin.file_path, hint=hint)

    def __len__(self) -> int:
        return len(self._graphs)

    def __iter__(self) -> Iterator[Graph]:
        return iter(self._graphs)

    def __repr__(self) -> str:
        return f"<MultiGraph {self.name!r} of {len(self)} graphs>"
