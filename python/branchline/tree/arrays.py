"""Columns of the engine (`branchline._core.Column`) as layouts of awkward. Nothing is copied: an array keeps the
buffers alive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import awkward as ak
import numpy as np

from branchline._core import Column
from branchline.tree import behaviours
from branchline.tree.layouts import BACKEND, index_of, lists_of, numbers_of, record_of

TEXT = {"__array__": "string"}
CHARACTERS = {"__array__": "char"}
# NumPy takes three times as long for the name of a type.
_TYPES = {name: np.dtype(name) for name in ("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")}
_OFFSETS, _BYTES = _TYPES["i8"], _TYPES["u1"]


@dataclass(frozen=True)
class LaidColumn:
    """A column that is a layout already, as one of a Parquet file."""

    layout: ak.contents.Content


def layout_of(column: Column | LaidColumn) -> ak.contents.Content:
    """The awkward layout of a column."""
    # The most frequent kinds are first, and without patterns: wide trees have tens of thousands of columns.
    if isinstance(column, Column.List):
        return lists_of(_offsets(column.offsets), layout_of(column.content))
    if isinstance(column, Column.Flat):
        return _flat(column.dtype, column.values)
    return _other_layout_of(column)


def _other_layout_of(column: Column | LaidColumn) -> ak.contents.Content:
    """The layout of a column that is neither numbers nor lists."""
    match column:
        case Column.Record(names, contents, count, class_name):
            parameters = None
            if class_name:
                behaviours.register_vectors(class_name)
                parameters = {"__record__": class_name}
            members = [layout_of(one) for one in contents]
            return ak.contents.RecordArray(members, names, length=count, parameters=parameters, backend=BACKEND)
        case Column.Regular():
            return _regular(column)
        case Column.Text(offsets, letters):
            values = np.frombuffer(letters, _BYTES)
            characters = ak.contents.NumpyArray(values, parameters=CHARACTERS, backend=BACKEND)
            return ak.contents.ListOffsetArray(_offsets(offsets), characters, parameters=TEXT)
        case Column.Option(valid, content):
            return _option(valid, layout_of(content))
        case Column.Union(tags, contents):
            return _union(tags, [layout_of(one) for one in contents])
        case LaidColumn(layout):
            return layout
        case Column.Tuple(contents, count):
            return ak.contents.RecordArray([layout_of(one) for one in contents], None, length=count)
    raise TypeError(f"{type(column).__name__} is no column")


def _flat(dtype: str, values: memoryview) -> ak.contents.Content:
    if dtype == "unknown":
        return ak.contents.EmptyArray(backend=BACKEND)
    return numbers_of(np.frombuffer(values, _TYPES[dtype]))


def _option(valid: memoryview, content: ak.contents.Content) -> ak.contents.Content:
    is_there = np.frombuffer(valid, _BYTES)
    index = np.where(is_there, np.cumsum(is_there, dtype="i8") - 1, -1)
    return ak.contents.IndexedOptionArray.simplified(ak.index.Index64(index), content)


def _union(given: memoryview, alternatives: list[ak.contents.Content]) -> ak.contents.Content:
    """A variant of variants has all their alternatives: awkward has no unions right within unions."""
    outer = np.frombuffer(given, dtype="i1")
    tags, index = np.empty(len(outer), dtype="i1"), np.empty(len(outer), dtype="i8")
    contents: list[ak.contents.Content] = []
    for tag, inner in enumerate(alternatives):
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


def _offsets(buffer: memoryview) -> ak.index.Index64:
    return index_of(np.frombuffer(buffer, _OFFSETS))


def _regular(column: Column) -> ak.contents.Content:
    """Fixed arrays of numbers stay one block of NumPy; others are regular lists."""
    shape: list[int] = []
    while isinstance(column, Column.Regular):
        shape.append(column.size)
        column = column.content
    if not isinstance(column, Column.Flat):
        content = layout_of(column)
        for size in reversed(shape):
            content = ak.contents.RegularArray(content, size)
        return content
    values = np.frombuffer(column.values, _TYPES[column.dtype])
    return numbers_of(values.reshape((-1, *shape)))


def record_of_columns(columns: Mapping[str, Column | LaidColumn], entries_count: int) -> ak.contents.RecordArray:
    """The layout of several columns together."""
    contents = [layout_of(column) for column in columns.values()]
    return record_of(contents, list(columns), entries_count)
