"""Creates graphs from Python values; encodes them as TGraph (version 5), TGraphErrors or TGraphAsymmErrors (3)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Protocol

import numpy as np

from branchline.base.array_types import Floats
from branchline.errors import OptionError
from branchline.reading.objects.graph import Graph
from branchline.writing.objects.buffer import counted, doubles, named, root_string

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

SYMMETRIC = ("x_errors", "y_errors")
ASYMMETRIC = ("x_errors_low", "x_errors_high", "y_errors_low", "y_errors_high")
NO_LIMIT = -1111.0


class _Table(Protocol):
    """Columns by name: a mapping, a DataFrame or a structured array."""

    def __iter__(self) -> Iterator[object]: ...
    def __getitem__(self, name: str, /) -> ArrayLike: ...


def as_TGraph(df: _Table, title: str = "") -> Graph:  # noqa: N802 - uproot's name
    """Create a writable graph from the columns ``x`` and ``y`` of a mapping, a DataFrame or a structured array.

    With the columns ``x_errors`` and ``y_errors``, the graph becomes a TGraphErrors. With ``x_errors_low``,
    ``x_errors_high``, ``y_errors_low`` and ``y_errors_high``, the graph becomes a TGraphAsymmErrors. Raises OptionError
    for other columns, and for columns of different lengths.

        >>> with branchline.recreate("out.root") as file:
        ...     file["g"] = branchline.as_TGraph({"x": [1, 2], "y": [3, 4], "x_errors": [0, 0], "y_errors": [1, 1]})
        >>> branchline.open("out.root")["g"].classname
        'TGraphErrors'
    """
    names = list(getattr(getattr(df, "dtype", None), "names", None) or df)
    known = {"x", "y"}
    for group in (SYMMETRIC, ASYMMETRIC):
        if set(group) & set(names):
            known |= set(group)
    if set(names) != known or set(SYMMETRIC + ASYMMETRIC) <= known:
        hint = f"give x and y, optionally with {' and '.join(SYMMETRIC)}, or with {', '.join(ASYMMETRIC)}"
        raise OptionError(f"invalid columns for a graph: {', '.join(map(str, names))}", hint=hint)
    columns = {name: np.asarray(df[name], dtype="f8") for name in names}
    if len({column.shape for column in columns.values()}) > 1 or columns["x"].ndim != 1:
        shapes = ", ".join(f"{name} {column.shape}" for name, column in columns.items())
        raise OptionError(f"the columns of a graph have different shapes: {shapes}", hint="one number for each point")
    if "x_errors" in columns:
        columns |= {f"{axis}_errors_{end}": columns[f"{axis}_errors"] for axis in "xy" for end in ("low", "high")}
    x_low, x_high, y_low, y_high = (columns.get(name) for name in ASYMMETRIC)
    classname = "TGraphErrors" if "x_errors" in columns else "TGraph" if x_low is None else "TGraphAsymmErrors"
    return Graph(
        "", title, classname, columns["x"], columns["y"], x_low=x_low, x_high=x_high, y_low=y_low, y_high=y_high
    )


def streamed_graph(graph: Graph, name: str) -> bytes:
    """Return the bytes of a graph, without the key."""
    points = counted(
        5,
        named(name, graph.title),
        counted(2, struct.pack(">hhh", 602, 1, 1)),  # line
        counted(2, struct.pack(">hh", 0, 1000)),  # fill
        counted(3, struct.pack(">hhf", 1, 1, 1.0)),  # marker
        struct.pack(">i", len(graph)),
        _pointed_doubles(graph.x),
        _pointed_doubles(graph.y),
        struct.pack(">II", 0, 0),  # no functions, no histogram of the axes
        doubles([NO_LIMIT, NO_LIMIT]),
        root_string(""),
    )
    if graph.classname == "TGraphErrors":
        return counted(3, points, _pointed_doubles(graph.x_low), _pointed_doubles(graph.y_low))
    if graph.classname == "TGraphAsymmErrors":
        errors = (graph.x_low, graph.x_high, graph.y_low, graph.y_high)
        return counted(3, points, *map(_pointed_doubles, errors))
    return points


def _pointed_doubles(values: Floats) -> bytes:
    """Encode the array that a pointer member references; the length is stored in another member."""
    return (b"\1" if len(values) else b"\0") + np.asarray(values).astype(">f8").tobytes()
