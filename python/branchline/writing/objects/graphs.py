"""Graphs of Python's values, in the bytes of TGraph (version 5), TGraphErrors and TGraphAsymmErrors (3)."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from branchline.errors import OptionError
from branchline.reading.objects.graph import Graph
from branchline.writing.objects.buffer import counted, doubles, named, root_string

SYMMETRIC = ("x_errors", "y_errors")
ASYMMETRIC = ("x_errors_low", "x_errors_high", "y_errors_low", "y_errors_high")
NO_LIMIT = -1111.0


def as_TGraph(df: Any, title: str = "") -> Graph:  # noqa: N802 - uproot's name
    """A graph to be written, of columns ``x`` and ``y``: a mapping, a DataFrame or a structured array.

    With ``x_errors`` and ``y_errors`` it becomes a TGraphErrors, with ``x_errors_low``, ``x_errors_high``,
    ``y_errors_low`` and ``y_errors_high`` a TGraphAsymmErrors. Raises OptionError for other columns, and for columns
    of different lengths.

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
        hint = f"x and y, with {' and '.join(SYMMETRIC)}, or with {', '.join(ASYMMETRIC)}"
        raise OptionError(f"{', '.join(map(str, names))} are no columns of a graph", hint=hint)
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
    """The bytes of a graph after a key."""
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


def _pointed_doubles(values: Any) -> bytes:
    """An array that a pointer refers to; another member says how many there are."""
    return (b"\1" if len(values) else b"\0") + np.asarray(values).astype(">f8").tobytes()
