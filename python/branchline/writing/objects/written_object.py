"""Objects as they go into a file: histograms, texts, and what was read from another file."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from branchline.errors import UnsupportedBranchError
from branchline.reading.objects.graph import Graph
from branchline.writing.objects.efficiencies import NewEfficiency
from branchline.writing.objects.sparse_histograms import NewSparse

HINT = (
    "a table, a histogram, a pair of values and edges, a graph (as_TGraph), an efficiency (as_TEfficiency), "
    "filled cells (as_THnSparse), a text, "
    "or an object that was read"
)


@dataclass(frozen=True)
class ObjectBytes:
    """An object in ROOT's bytes; ``below`` are directories in that it stands, under the name that it was given."""

    class_name: str
    title: str
    content: bytes
    below: tuple[str, ...] = ()


def object_bytes(value: Any, name: str, path: str) -> list[ObjectBytes]:
    """An object in ROOT's bytes: several where categories of a histogram become directories.

    Raises UnsupportedBranchError for what ROOT has no class for.
    """
    if isinstance(value, str):
        return [_text(value)]
    if isinstance(value, Graph):
        return [_from_graph(value, name, path)]
    if isinstance(value, NewEfficiency):
        return [ObjectBytes("TEfficiency", value.title, value.streamed(name))]
    if isinstance(value, NewSparse):
        return [ObjectBytes(value.class_name, value.title, value.streamed(name))]
    if isinstance(value, tuple):
        return [_from_numpy(value, name, path)]
    if hasattr(value, "axes") and hasattr(value, "storage_type"):
        return _from_hist(value, name, path)
    raise UnsupportedBranchError(
        f"{name}: an object of the type {type(value).__name__} cannot be written", path=path, hint=HINT
    )


def _text(text: str) -> ObjectBytes:
    """A TObjString."""
    written = text.encode("utf-8", errors="surrogateescape")
    length = bytes([len(written)]) if len(written) < 255 else struct.pack(">Bi", 255, len(written))
    content = struct.pack(">hhII", 1, 1, 0, 0x02000000) + length + written
    counted = struct.pack(">I", 0x40000000 | len(content)) + content
    return ObjectBytes("TObjString", "Collectable string class", counted)


def _from_numpy(value: tuple[Any, ...], name: str, path: str) -> ObjectBytes:
    from branchline.writing.objects.values import form_of_numpy

    form = form_of_numpy(value, name, path)
    return ObjectBytes(form.class_name, "", form.streamed(name))


def _from_graph(graph: Graph, name: str, path: str) -> ObjectBytes:
    """A graph that was made with `as_TGraph`; those of files are copied."""
    from branchline.writing.objects.graphs import streamed_graph

    if vars(graph)["record"] is not None or graph.classname not in ("TGraph", "TGraphErrors", "TGraphAsymmErrors"):
        hint = "make a new one with branchline.as_TGraph, or read it again"
        raise UnsupportedBranchError(f"{name}: this {graph.classname} cannot be written", path=path, hint=hint)
    return ObjectBytes(graph.classname, graph.title, streamed_graph(graph, name))


def _from_hist(value: Any, name: str, path: str) -> list[ObjectBytes]:
    from branchline.writing.objects.forms import GRID_AXES, NotInRootError, root_forms

    try:
        forms = list(root_forms(value, GRID_AXES))
    except NotInRootError as reason:
        raise UnsupportedBranchError(f"{name}: ROOT has no class for this histogram: {reason}", path=path) from reason
    return [
        ObjectBytes(form.class_name, form.title, form.streamed(below[-1] if below else name), tuple(below))
        for below, form in forms
    ]
