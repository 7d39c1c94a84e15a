"""Columns of the engine (`branchline._core.Column`) as layouts of awkward. Nothing is copied: a layout has
the arrays of the column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import awkward as ak
import numpy as np
from numpy.typing import NDArray

from branchline._core import Column
from branchline.reading.arrays import vectors
from branchline.reading.arrays.layouts import BACKEND, index_of, lists_of, numbers_of, options_of, record_of

TEXT = {"__array__": "string"}
CHARACTERS = {"__array__": "char"}


@dataclass(frozen=True)
class LaidColumn:
    """A column that is a layout already, as one of a Parquet file."""

    layout: ak.contents.Content


def layout_of(column: Column | LaidColumn) -> ak.contents.Content:
    """The awkward layout of a column."""
    # The most frequent kinds are first, and without patterns: wide trees have tens of thousands of columns.
    if isinstance(column, Column.List):
        return lists_of(index_of(column.offsets), layout_of(column.content))
    if isinstance(column, Column.Flat):
        return ak.contents.EmptyArray(backend=BACKEND) if column.dtype == "unknown" else numbers_of(column.values)
    if isinstance(column, Column.Regular):
        return _regular(column)
    return _other_layout_of(column)


def _other_layout_of(column: Column | LaidColumn) -> ak.contents.Content:
    """The layout of a column that is neither numbers nor lists."""
    match column:
        case Column.Text(offsets, letters):
            return lists_of(index_of(offsets), numbers_of(letters, CHARACTERS), TEXT)
        case Column.Option(valid, content):
            return _option(valid, layout_of(content))
        case Column.Record(names, contents, count, class_name):
            parameters = None
            if class_name:
                vectors.register_vectors(class_name)
                parameters = {"__record__": class_name}
            return record_of([layout_of(one) for one in contents], names, count, parameters)
        case Column.Union(tags, contents):
            return _union(tags, [layout_of(one) for one in contents])
        case LaidColumn(layout):
            return layout
        case Column.Tuple(contents, count):
            return ak.contents.RecordArray([layout_of(one) for one in contents], None, length=count)
    raise TypeError(f"{type(column).__name__} is no column")


def _option(valid: NDArray[np.uint8], content: ak.contents.Content) -> ak.contents.Content:
    index = valid.cumsum(dtype=np.int64)
    index *= valid
    index -= 1
    if content.is_option or content.is_indexed or content.is_union:
        return ak.contents.IndexedOptionArray.simplified(ak.index.Index64(index), content)
    return options_of(index_of(index), content)


def _union(given: NDArray[np.uint8], alternatives: list[ak.contents.Content]) -> ak.contents.Content:
    """A variant of variants has all their alternatives: awkward has no unions right within unions."""
    outer = given.view("i1")
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
    return numbers_of(column.values.reshape((-1, *shape)))


def record_of_columns(columns: Mapping[str, Column | LaidColumn], entries_count: int) -> ak.contents.RecordArray:
    """The layout of several columns together."""
    contents = [layout_of(column) for column in columns.values()]
    return record_of(contents, list(columns), entries_count)
