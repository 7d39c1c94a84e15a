"""Columns of the engine as layouts of awkward.

A column is a nested tuple of buffers: ``("flat", dtype, values)``, ``("regular", size, content)``,
``("list", offsets, content)``, ``("text", offsets, bytes)``, ``("record", names, contents, count, class name)``,
``("tuple", contents, count)``, ``("option", valid, content)`` or ``("union", tags, contents)``. Numbers are native,
offsets are 64-bit, ``valid`` is a byte for each value, 1 where it is there, and ``content`` has only those; ``tags`` is
a byte for each value, and each of ``contents`` has the values with its tag. Nothing is copied: an array keeps the
buffers alive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import awkward as ak
import numpy as np

from branchline.tree import behaviours

# Awkward's layouts are given their backend: finding it out for every column takes time.
BACKEND = ak.contents.NumpyArray(np.empty(0)).backend
TEXT = {"__array__": "string"}
CHARACTERS = {"__array__": "char"}


def layout_of(column: Any) -> ak.contents.Content:
    """The awkward layout of a column."""
    kind = column[0]
    if kind == "flat":
        return _flat(column)
    if kind == "list":
        return ak.contents.ListOffsetArray(_offsets(column[1]), layout_of(column[2]))
    if kind == "regular":
        return _regular(column)
    if kind == "text":
        letters = np.frombuffer(column[2], dtype="u1")
        characters = ak.contents.NumpyArray(letters, parameters=CHARACTERS, backend=BACKEND)
        return ak.contents.ListOffsetArray(_offsets(column[1]), characters, parameters=TEXT)
    if kind == "option":
        return _option(column)
    if kind == "union":
        return _union(column)
    if kind == "tuple":
        return ak.contents.RecordArray([layout_of(item) for item in column[1]], None, length=column[2])
    _, names, contents, count, class_name = column
    parameters = None
    if class_name:
        behaviours.register_vectors(class_name)
        parameters = {"__record__": class_name}
    members = [layout_of(content) for content in contents]
    return ak.contents.RecordArray(members, list(names), length=count, parameters=parameters, backend=BACKEND)


def _flat(column: Any) -> ak.contents.Content:
    if column[1] == "unknown":
        return ak.contents.EmptyArray(backend=BACKEND)
    return ak.contents.NumpyArray(np.frombuffer(column[2], dtype=column[1]), backend=BACKEND)


def _option(column: Any) -> ak.contents.Content:
    is_there = np.frombuffer(column[1], dtype="u1")
    index = np.where(is_there, np.cumsum(is_there, dtype="i8") - 1, -1)
    return ak.contents.IndexedOptionArray.simplified(ak.index.Index64(index), layout_of(column[2]))


def _union(column: Any) -> ak.contents.Content:
    """A variant of variants has all their alternatives: awkward has no unions right within unions."""
    outer = np.frombuffer(column[1], dtype="i1")
    tags, index = np.empty(len(outer), dtype="i1"), np.empty(len(outer), dtype="i8")
    contents: list[ak.contents.Content] = []
    for tag, inner in enumerate(map(layout_of, column[2])):
        of_tag = outer == tag
        if inner.is_union:
            tags[of_tag] = len(contents) + inner.tags.data
            index[of_tag] = inner.index.data
            contents += inner.contents
        else:
            tags[of_tag] = len(contents)
            index[of_tag] = np.arange(np.count_nonzero(of_tag))
            contents.append(inner)
    if len(contents) == 1:
        return contents[0]
    return ak.contents.UnionArray(ak.index.Index8(tags), ak.index.Index64(index), contents)


def _offsets(buffer: Any) -> ak.index.Index64:
    return ak.index.Index64(np.frombuffer(buffer, dtype="i8"), nplike=BACKEND.nplike)


def _regular(column: Any) -> ak.contents.Content:
    """Fixed arrays of numbers stay one block of NumPy; others are regular lists."""
    shape: list[int] = []
    while column[0] == "regular":
        shape.append(column[1])
        column = column[2]
    if column[0] != "flat":
        content = layout_of(column)
        for size in reversed(shape):
            content = ak.contents.RegularArray(content, size)
        return content
    values = np.frombuffer(column[2], dtype=column[1])
    return ak.contents.NumpyArray(values.reshape((-1, *shape)), backend=BACKEND)


def record_of(columns: Mapping[str, Any], entries_count: int) -> ak.contents.RecordArray:
    """The layout of several columns together."""
    contents = [layout_of(column) for column in columns.values()]
    return ak.contents.RecordArray(contents, list(columns), length=entries_count, backend=BACKEND)
