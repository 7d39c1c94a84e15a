"""Awkward layouts: made of the engine's columns, freed of needless options, and built by fast constructors.

A layout shares the arrays of its column (`branchline._core.Column`); nothing is copied. Formats such as Parquet declare
almost every column nullable: ``whole`` removes the options without missing values.

Awkward's constructors check their arguments, which takes 23 microseconds for a list of numbers: for a file of 484
branches as long as decompressing it. The engine has checked them already, so ``lists_of`` and the like set the same
attributes directly. Where a version of awkward has other attributes, they call its constructors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import awkward as ak
import numpy as np
from numpy.typing import NDArray

from branchline._core import Column
from branchline.reading.arrays import vectors

# Layouts are given their backend: finding it out for every column takes time.
BACKEND = ak.contents.NumpyArray(np.empty(0)).backend
_NPLIKE = BACKEND.nplike

# What awkward shall know of a layout, such as that it is text.
Parameters = dict[str, str] | None
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


def whole(layout: ak.contents.Content) -> ak.contents.Content:
    """The same without options of which nothing is missing."""
    if not misses(layout):
        return layout
    return ak.transform(_without_option, ak.to_packed(layout, highlevel=False), highlevel=False)


def _without_option(layout: ak.contents.Content, **_: Any) -> ak.contents.Content | None:
    if layout.is_union:
        return layout
    if not layout.is_option:
        return None
    if is_list(layout.content) and holds_records(layout.content.content):
        return whole(filled_with_empty(layout))
    is_there = np.asarray(layout.mask_as_bool(valid_when=True))
    return whole(layout.project()) if is_there.all() else layout


def whole_form(form: ak.forms.Form) -> ak.forms.Form:
    """The form of `whole` values."""
    if form.is_option:
        return whole_form(form.content)
    if form.is_record:
        return form.copy(contents=[whole_form(one) for one in form.contents])
    return form.copy(content=whole_form(form.content)) if form.is_list else form


def misses(layout: ak.contents.Content) -> bool:
    """Whether values of a layout may be missing."""
    if layout.is_record or layout.is_union:
        return any(misses(one) for one in layout.contents)
    is_end = layout.is_numpy or layout.is_unknown
    return bool(layout.is_option or (not is_end and misses(layout.content)))


def misses_lists_of_records(layout: ak.contents.Content) -> bool:
    """Whether lists of records are missing, which become empty ones where they are written."""
    if layout.is_record or layout.is_union:
        return any(misses_lists_of_records(one) for one in layout.contents)
    if layout.is_numpy or layout.is_unknown:
        return False
    if layout.is_option and is_list(layout.content) and holds_records(layout.content.content):
        return not bool(np.asarray(layout.mask_as_bool(valid_when=True)).all())
    return misses_lists_of_records(layout.content)


def is_list(layout: ak.contents.Content) -> bool:
    """Whether values are lists of any lengths, and no texts."""
    return bool(layout.is_list and not layout.is_regular and layout.parameter("__array__") is None)


def holds_records(layout: ak.contents.Content) -> bool:
    """Whether values are records, or lists of them."""
    return bool(layout.is_record or ((layout.is_option or layout.is_list) and holds_records(layout.content)))


def filled_with_empty(layout: ak.contents.Content) -> ak.contents.ListOffsetArray:
    """Lists of objects, with an empty list for each missing one: a null pointer to a collection."""
    there = np.asarray(layout.mask_as_bool(valid_when=True))
    given = layout.project().to_ListOffsetArray64(True)
    counts = np.zeros(len(there), dtype="i8")
    counts[there] = np.diff(given.offsets.data)
    offsets = ak.index.Index64(np.concatenate([np.zeros(1, dtype="i8"), np.cumsum(counts)]))
    return ak.contents.ListOffsetArray(offsets, given.content[: given.offsets[-1]])


def with_missing_members(layout: ak.contents.Content) -> ak.contents.RecordArray:
    """Records of which no one is missing, but all members of those that are: what reads a member gets the same."""
    records, index = layout.content, layout.to_IndexedOptionArray64().index
    members = [ak.contents.IndexedOptionArray.simplified(index, one[: len(records)]) for one in records.contents]
    return ak.contents.RecordArray(members, records.fields, len(layout))


def _index(offsets: np.ndarray[Any, Any]) -> ak.index.Index64:
    made = ak.index.Index64.__new__(ak.index.Index64)
    made._nplike, made._metadata, made._data = _NPLIKE, None, offsets
    return made


def _checked_index(offsets: np.ndarray[Any, Any]) -> ak.index.Index64:
    return ak.index.Index64(offsets, nplike=_NPLIKE)


def _numbers(values: np.ndarray[Any, Any], parameters: Parameters = None) -> ak.contents.NumpyArray:
    made = ak.contents.NumpyArray.__new__(ak.contents.NumpyArray)
    made._data, made._parameters, made._backend = values, parameters, BACKEND
    return made


def _checked_numbers(values: np.ndarray[Any, Any], parameters: Parameters = None) -> ak.contents.NumpyArray:
    return ak.contents.NumpyArray(values, parameters=parameters, backend=BACKEND)


def _lists(
    offsets: ak.index.Index64, content: ak.contents.Content, parameters: Parameters = None
) -> ak.contents.ListOffsetArray:
    made = ak.contents.ListOffsetArray.__new__(ak.contents.ListOffsetArray)
    made._offsets, made._content, made._parameters, made._backend = offsets, content, parameters, BACKEND
    return made


def _checked_lists(
    offsets: ak.index.Index64, content: ak.contents.Content, parameters: Parameters = None
) -> ak.contents.ListOffsetArray:
    return ak.contents.ListOffsetArray(offsets, content, parameters=parameters)


def _options(index: ak.index.Index64, content: ak.contents.Content) -> ak.contents.IndexedOptionArray:
    made = ak.contents.IndexedOptionArray.__new__(ak.contents.IndexedOptionArray)
    made._index, made._content, made._parameters, made._backend = index, content, None, BACKEND
    return made


def _checked_options(index: ak.index.Index64, content: ak.contents.Content) -> ak.contents.IndexedOptionArray:
    return ak.contents.IndexedOptionArray(index, content)


def _record(
    contents: list[ak.contents.Content], names: list[str], length: int, parameters: Parameters = None
) -> ak.contents.RecordArray:
    made = ak.contents.RecordArray.__new__(ak.contents.RecordArray)
    made._contents, made._fields, made._length, made._length_generator = contents, names, length, None
    made._parameters, made._backend = parameters, BACKEND
    return made


def _checked_record(
    contents: list[ak.contents.Content], names: list[str], length: int, parameters: Parameters = None
) -> ak.contents.RecordArray:
    return ak.contents.RecordArray(contents, names, length=length, parameters=parameters, backend=BACKEND)


def _array(record: ak.contents.RecordArray) -> ak.Array:
    # Awkward sets each attribute by a method, and looks for behaviors, which records without parameters do not have.
    if record.parameters:
        return ak.Array(record)
    made = ak.Array.__new__(ak.Array)
    vars(made).update(_ATTRIBUTES, _layout=record)
    return made


def _names_of(layout: Any) -> dict[str, object]:
    """The attributes of a layout; of values that cannot be compared only that they are there."""
    return {name: value if value is None or value is BACKEND else type(value) for name, value in vars(layout).items()}


def faster(fast: Callable[..., Any], checked: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """The fast function if what it makes of the arguments has the attributes of what the constructor gives, else
    the one that calls the constructor.
    """
    return fast if _names_of(fast(*arguments)) == _names_of(checked(*arguments)) else checked


# Arguments with which the fast functions are compared to the constructors.
_OFFSETS, _VALUES = np.zeros(1, dtype="i8"), np.empty(0)
_INDEX, _NUMBERS = _checked_index(_OFFSETS), _checked_numbers(_VALUES)

# Offsets of 64 bits, in an array of one dimension.
index_of = faster(_index, _checked_index, _OFFSETS)
# Numbers, in an array of any shape.
numbers_of = faster(_numbers, _checked_numbers, _VALUES)
# Lists, of an index with one number more than there are lists, and the content.
lists_of = faster(_lists, _checked_lists, _INDEX, _NUMBERS)
# Values of which some are missing, of their places in a content that is neither of options nor a union; -1 for missing.
options_of = faster(_options, _checked_options, _INDEX, _NUMBERS)
# A record, of a list of contents that are at least as long, a list of their names, and the length.
record_of = faster(_record, _checked_record, [_NUMBERS], ["x"], 0)

_RECORD = record_of([_NUMBERS], ["x"], 0)
_ATTRIBUTES = vars(ak.Array(_RECORD)).copy()
# An array of a record.
array_of_record = faster(_array, ak.Array, _RECORD)
