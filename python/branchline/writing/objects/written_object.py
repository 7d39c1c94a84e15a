"""Encodes the objects that users write to a file: histograms, efficiencies, graphs and strings."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from branchline.errors import UnsupportedBranchError
from branchline.reading.objects.graph import Graph
from branchline.writing.objects.efficiencies import NewEfficiency
from branchline.writing.objects.sparse_histograms import NewSparse
from branchline.writing.objects.values import is_histogram

if TYPE_CHECKING:
    import boost_histogram

HINT = (
    "a table, a histogram, a pair of values and edges, a graph (as_TGraph), an efficiency (as_TEfficiency), "
    "a sparse histogram (as_THnSparse), a string, "
    "or an object read from a file"
)


@dataclass(frozen=True)
class ObjectBytes:
    """An object in ROOT's binary format. ``below`` are the object's directories below the name given by the user."""

    class_name: str
    title: str
    content: bytes
    below: tuple[str, ...] = ()


def object_bytes(value: object, name: str, path: str) -> list[ObjectBytes]:
    """Encode an object. A histogram with category axes may result in several objects, one for each category.

    Raises UnsupportedBranchError for objects for which ROOT has no class.
    """
    if isinstance(value, str):
        return [_text(value)]
    if isinstance(value, Graph):
        # The value is a graph created with `as_TGraph`; graphs from files are copied instead.
        from branchline.writing.objects.graphs import streamed_graph

        if vars(value)["record"] is not None or value.classname not in ("TGraph", "TGraphErrors", "TGraphAsymmErrors"):
            hint = "create a new one with branchline.as_TGraph, or read it again"
            raise UnsupportedBranchError(f"{name}: this {value.classname} cannot be written", path=path, hint=hint)
        return [ObjectBytes(value.classname, value.title, streamed_graph(value, name))]
    if isinstance(value, NewEfficiency):
        return [ObjectBytes("TEfficiency", value.title, value.streamed(name))]
    if isinstance(value, NewSparse):
        return [ObjectBytes(value.class_name, value.title, value.streamed(name))]
    if isinstance(value, tuple):
        from branchline.writing.objects.values import form_of_numpy

        form = form_of_numpy(value, name, path)
        return [ObjectBytes(form.class_name, "", form.streamed(name))]
    if is_histogram(value):
        return _from_hist(value, name, path)
    raise UnsupportedBranchError(
        f"{name}: an object of the type {type(value).__name__} cannot be written", path=path, hint=HINT
    )


def _text(text: str) -> ObjectBytes:
    """Encode a string as a TObjString."""
    written = text.encode("utf-8", errors="surrogateescape")
    length = bytes([len(written)]) if len(written) < 255 else struct.pack(">Bi", 255, len(written))
    content = struct.pack(">hhII", 1, 1, 0, 0x02000000) + length + written
    counted = struct.pack(">I", 0x40000000 | len(content)) + content
    return ObjectBytes("TObjString", "Collectable string class", counted)


def _from_hist(value: boost_histogram.Histogram, name: str, path: str) -> list[ObjectBytes]:
    from branchline.writing.objects.forms import GRID_AXES, NotInRootError, root_forms

    try:
        forms = list(root_forms(value, GRID_AXES))
    except NotInRootError as reason:
        raise UnsupportedBranchError(f"{name}: ROOT has no class for this histogram: {reason}", path=path) from reason
    return [
        ObjectBytes(form.class_name, form.title, form.streamed(below[-1] if below else name), tuple(below))
        for below, form in forms
    ]
