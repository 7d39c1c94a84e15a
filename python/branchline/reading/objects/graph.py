"""Graphs: points with errors, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from branchline.errors import NoSuchKeyError, OptionError
from branchline.reading.objects.histogram_errors import hist_is_needed
from branchline.reading.objects.object_record import Record, Recorded, made

if TYPE_CHECKING:
    import hist

# Members with the lower and upper errors of each axis. A class has at most one of the pairs.
ERRORS = {
    "x": (("fEXlow", "fEXhigh"), ("fEX", "fEX")),
    "y": (("fEYlow", "fEYhigh"), ("fEY", "fEY")),
    "z": (("fEZlow", "fEZhigh"), ("fEZ", "fEZ")),
}
# Adjacent bins must share an edge within this fraction of their width.
TOUCHING = 1e-6


@dataclass(frozen=True)
class Graph(Recorded):
    """The points of a TGraph, TGraphErrors, TGraphAsymmErrors, a similar class, or a TGraph2D.

    ``x``, ``y`` (and ``z``) are arrays of equal length. ``x_low`` and ``x_high`` are the lower and upper errors, None
    for a class without errors: ``plt.errorbar(graph.x, graph.y, yerr=(graph.y_low, graph.y_high))``. ``labels`` are the
    axis titles, ``record`` has all members.

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
        """The coordinates of an axis, or of all axes as a tuple, for compatibility with uproot. Raises OptionError."""
        if axis == "both":
            return (self.x, self.y) if self.z is None else (self.x, self.y, self.z)
        return getattr(self, self._axis(axis))

    def errors(self, which: str, axis: int | str = "both") -> Any:
        """Errors of an axis, or of all axes as a tuple, for compatibility with uproot. ``which`` is ``"low"``,
        ``"high"``, their ``"mean"``, or their ``"diff"`` (high - low). Zeros for a class without errors. Raises
        OptionError.
        """
        if which not in ("low", "high", "mean", "diff"):
            raise OptionError(f"unknown kind of errors {which!r}", hint='choose "low", "high", "mean" or "diff"')
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
        raise OptionError(f"a graph has no axis {axis!r}", hint=f"its axes are {', '.join(names)}")

    def to_hist(self) -> hist.Hist:
        """Convert to a histogram with one bin per point. A bin spans the errors of its point in x; its variance is the
        square of the mean error in y. Raises OptionError if these bins are not adjacent.
        """
        with hist_is_needed():
            import boost_histogram
            import hist
        if self.z is not None or self.x_low is None or len(self) == 0:
            raise OptionError(f"the points of {self.name} have no widths in x", hint="use x and y directly")
        order = np.argsort(self.x)
        low, high = (self.x - self.x_low)[order], (self.x + self.x_high)[order]
        if not np.allclose(high[:-1], low[1:], rtol=0, atol=TOUCHING * np.max(high - low, initial=0)):
            raise OptionError(f"the points of {self.name} are not adjacent bins", hint="use x and y")
        axis = hist.axis.Variable([*low, high[-1]], name="xaxis", label=self.labels[0] if self.labels else "")
        made = hist.Hist(axis, storage=boost_histogram.storage.Weight(), name=self.name, label=self.title)
        view = made.view()
        view["value"], view["variance"] = self.y[order], self.errors("mean", "y")[order] ** 2
        return made


def graph_of(record: Record) -> Graph:
    """Convert a record to a graph."""
    count = record.raw("fNpoints")
    points = {
        name: _array(record, member, count)
        for name, member in (("x", "fX"), ("y", "fY"), ("z", "fZ"))
        if member in record
    }
    for name in points.copy():
        for low, high in ERRORS[name]:
            if low in record:
                points[f"{name}_low"], points[f"{name}_high"] = (_array(record, one, count) for one in (low, high))
                break
    # The axis titles are in the frame, which exists only if the graph was drawn or its titles were set.
    frame = record.raw("fHistogram") if "fHistogram" in record else None
    labels: tuple[str, ...] = ()
    if frame is not None and frame.unread is None:
        labels = tuple(frame.raw(axis).raw("fTitle") for axis in ("fXaxis", "fYaxis"))
    return Graph(record.raw("fName"), record.raw("fTitle"), record.classname, labels=labels, record=record, **points)


def _array(record: Record, member: str, count: int) -> object:
    return np.asarray(record.raw(member), dtype="f8")[:count]


class MultiGraph(Recorded, Sequence[Graph]):
    """The graphs of a TMultiGraph, by position, ``graphs[0]``, or by name, ``graphs["data"]``."""

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
        hint = f"its graphs are {', '.join(graph.name for graph in self._graphs) or 'none'}"
        raise NoSuchKeyError(f"{self.name} has no graph {where!r}", path=self.record.origin.file_path, hint=hint)

    def __len__(self) -> int:
        return len(self._graphs)

    def __iter__(self) -> Iterator[Graph]:
        return iter(self._graphs)

    def __repr__(self) -> str:
        return f"<MultiGraph {self.name!r} of {len(self)} graphs>"
