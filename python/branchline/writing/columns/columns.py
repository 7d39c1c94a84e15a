"""Converts Awkward layouts to engine columns: the inverse of `branchline.reading.arrays.layouts.layout_of`."""

from __future__ import annotations

import awkward as ak
import numpy as np

from branchline._core import Column
from branchline.errors import UnsupportedBranchError
from branchline.reading.arrays.layouts import filled_with_empty, holds_records, is_list, with_missing_members

NUMBERS = "biuf"


def column_of(layout: ak.contents.Content, name: str) -> Column:
    """Convert a layout to a column. Raises UnsupportedBranchError with the ``name`` of the branch."""
    if layout.is_indexed and not layout.is_option:
        return column_of(layout.project(), name)
    if layout.is_unknown:
        return Column.Flat("unknown", np.empty(0, dtype="u1"))
    if layout.is_option:
        return _option(layout, name)
    if layout.is_list and layout.parameter("__array__") in ("string", "bytestring"):
        whole = lists_of(layout)
        return Column.Text(_memory(whole.offsets.data), _memory(whole.content.data[: whole.offsets[-1]]))
    if layout.is_regular:
        return Column.Regular(layout.size, column_of(layout.content[: layout.size * len(layout)], name))
    if layout.is_list:
        whole = lists_of(layout)
        return Column.List(_memory(whole.offsets.data), column_of(whole.content[: whole.offsets[-1]], name))
    if layout.is_record:
        contents = [column_of(layout.content(index), name) for index in range(len(layout.contents))]
        if layout.is_tuple:
            return Column.Tuple(contents, len(layout))
        return Column.Record(list(layout.fields), contents, len(layout), layout.parameter("__record__"))
    if layout.is_union:
        return _union(layout, name)
    return _numbers(layout, name)


def _option(layout: ak.contents.Content, name: str) -> Column:
    """Convert optional values. Members of optional records become optional; missing lists of records become empty."""
    content = layout.content
    if content.is_record and not content.is_tuple:
        return column_of(with_missing_members(layout), name)
    are_there = layout.mask_as_bool(valid_when=True)
    if not content.is_list or not holds_records(content.content):
        return Column.Option(_memory(are_there), column_of(layout.project(), name))
    if is_list(content):
        return column_of(filled_with_empty(layout), name)
    if not np.asarray(are_there).all():
        raise UnsupportedBranchError(f"branch {name}: arrays of records are missing", hint=HINT)
    return column_of(layout.project(), name)


def lists_of(layout: ak.contents.Content) -> ak.contents.ListOffsetArray:
    """Return the lists with 64-bit offsets that start at 0.

    Lists that already have these offsets are not copied, unlike with awkward's own conversion.
    """
    if isinstance(layout, ak.contents.ListOffsetArray):
        offsets = layout.offsets.data
        if offsets.dtype == np.int64 and offsets[0] == 0:
            return layout
    return layout.to_ListOffsetArray64(True)


def has_nul(layout: ak.contents.Content) -> bool:
    """Whether strings contain a NUL character, at which ROOT truncates strings in a TTree."""
    if layout.parameter("__array__") != "string":
        return False
    texts = lists_of(layout)
    return not np.all(texts.content.data[: texts.offsets[-1]])


def missing_error(name: str, hint: str) -> UnsupportedBranchError:
    """Return the error for missing values in a branch, which a TTree cannot store."""
    return UnsupportedBranchError(f"{name}: values are missing, which a TTree cannot store", hint=hint)


def _union(layout: ak.contents.Content, name: str) -> Column:
    """Convert a union. Missing values have tag 0; the first content is an empty column for this tag."""
    given = layout.tags.data[: len(layout)]
    tags = np.zeros(len(layout), dtype="u1")
    contents: list[Column] = [Column.Flat("unknown", np.empty(0, dtype="u1"))]
    for number in range(len(layout.contents)):
        content = layout.project(number)
        places = np.flatnonzero(given == number)
        if content.is_option:
            places = places[np.asarray(content.mask_as_bool(valid_when=True))]
            content = content.project()
        if not content.is_unknown:
            tags[places] = len(contents)
            contents.append(column_of(content, name))
    return Column.Union(_memory(tags), contents)


HINT = "leave it out with --drop"


def _numbers(layout: ak.contents.Content, name: str) -> Column:
    if layout.data.ndim > 1:
        return column_of(layout.to_RegularArray(), name)
    values = np.asarray(layout.data)
    if values.dtype.kind not in NUMBERS or values.dtype.itemsize > 8:
        raise UnsupportedBranchError(f"branch {name}: numbers of type {values.dtype} cannot be converted", hint=HINT)
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    return Column.Flat(f"{values.dtype.kind}{values.dtype.itemsize}", _memory(values))


def _memory(values: np.ndarray) -> np.ndarray:
    """Return the values in contiguous, aligned memory that the engine can read without a copy."""
    return np.require(values, requirements=["C", "A"])
