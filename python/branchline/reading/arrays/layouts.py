"""Awkward layouts: created from the engine's columns, simplified, and built by fast constructors.

A layout shares the arrays of its column (`branchline._core.Column`) without a copy. Formats such as Parquet declare
almost every column as nullable; ``whole`` removes the option type if no value is missing.

Awkward's constructors validate their arguments, which takes 23 microseconds for a list of numbers. For a file with 484
branches, validation takes as long as decompression. The engine has already validated all columns, so ``lists_of`` and
similar functions set the attributes directly. They fall back to awkward's constructors if the installed awkward version
uses different attributes.
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

# Pass the backend explicitly: determining it for every column is slow.
BACKEND = ak.contents.NumpyArray(np.empty(0)).backend
_NPLIKE = BACKEND.nplike

# Type of a layout's awkward parameters, for example the marker for strings.
Parameters = dict[str, str] | None
TEXT = {"__array__": "string"}
CHARACTERS = {"__array__": "char"}


@dataclass(frozen=True)
class LaidColumn:
    """A column that is already a layout, such as a column of a Parquet file."""

    layout: ak.contents.Content


def layout_of(column: Column | LaidColumn) -> ak.contents.Content:
    """Convert a column to an awkward layout."""
    # The most frequent kinds come first, without pattern matching: wide trees have tens of thousands of columns.
    if isinstance(column, Column.List):
        return lists_of(index_of(column.offsets), layout_of(column.content))
    if isinstance(column, Column.Flat):
        return ak.contents.EmptyArray(backend=BACKEND) if column.dtype == "unknown" else numbers_of(column.values)
    if isinstance(column, Column.Regular):
        return _regular(column)
    return _other_layout_of(column)


def _other_layout_of(column: Column | LaidColumn) -> ak.contents.Content:
    """Convert a column that is neither numbers nor lists."""
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
    raise TypeError(f"{type(column).__name__} is not a column")


def _option(valid: NDArray[np.uint8], content: ak.contents.Content) -> ak.contents.Content:
    index = valid.cumsum(dtype=np.int64)
    index *= valid
    index -= 1
    if content.is_option or content.is_indexed or content.is_union:
        return ak.contents.IndexedOptionArray.simplified(ak.index.Index64(index), content)
    return options_of(index_of(index), content)


def _union(given: NDArray[np.uint8], alternatives: list[ak.contents.Content]) -> ak.contents.Content:
    """Convert a union. Nested unions are flattened, because awkward does not allow a union directly inside a union."""
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
    """Convert fixed-size arrays: arrays of numbers to multidimensional NumPy arrays, other arrays to regular lists."""
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
    """Combine several columns into a record layout."""
    contents = [layout_of(column) for column in columns.values()]
    return record_of(contents, list(columns), entries_count)


def whole(layout: ak.contents.Content) -> ak.contents.Content:
    """Remove the option types of a layout where no value is missing."""
    if not misses(layout):
        return layout
    return ak.transform(_without_option, ak.to_packed(layout, highlevel=False), highlevel=False)


def _without_option(layout: ak.contents.Content, **_: object) -> ak.contents.Content | None:
    if layout.is_union:
        return layout
    if not layout.is_option:
        return None
    if is_list(layout.content) and holds_records(layout.content.content):
        return whole(filled_with_empty(layout))
    is_there = np.asarray(layout.mask_as_bool(valid_when=True))
    return whole(layout.project()) if is_there.all() else layout


def whole_form(form: ak.forms.Form) -> ak.forms.Form:
    """Remove the option types of a form, as `whole` does for a layout."""
    if form.is_option:
        return whole_form(form.content)
    if form.is_record:
        return form.copy(contents=[whole_form(one) for one in form.contents])
    return form.copy(content=whole_form(form.content)) if form.is_list else form


def misses(layout: ak.contents.Content) -> bool:
    """Whether the layout contains option types."""
    if layout.is_record or layout.is_union:
        return any(misses(one) for one in layout.contents)
    is_end = layout.is_numpy or layout.is_unknown
    return bool(layout.is_option or (not is_end and misses(layout.content)))


def misses_lists_of_records(layout: ak.contents.Content) -> bool:
    """Whether a layout contains missing lists of records. The lists are later written as empty lists."""
    if layout.is_record or layout.is_union:
        return any(misses_lists_of_records(one) for one in layout.contents)
    if layout.is_numpy or layout.is_unknown:
        return False
    if layout.is_option and is_list(layout.content) and holds_records(layout.content.content):
        return not bool(np.asarray(layout.mask_as_bool(valid_when=True)).all())
    return misses_lists_of_records(layout.content)


def is_list(layout: ak.contents.Content) -> bool:
    """Whether the values are variable-length lists other than strings."""
    return bool(layout.is_list and not layout.is_regular and layout.parameter("__array__") is None)


def holds_records(layout: ak.contents.Content) -> bool:
    """Whether the values are records, or nested lists of records."""
    return bool(layout.is_record or ((layout.is_option or layout.is_list) and holds_records(layout.content)))


def filled_with_empty(layout: ak.contents.Content) -> ak.contents.ListOffsetArray:
    """Replace missing lists of objects (null pointers to collections) with empty lists."""
    there = np.asarray(layout.mask_as_bool(valid_when=True))
    given = layout.project().to_ListOffsetArray64(True)
    counts = np.zeros(len(there), dtype="i8")
    counts[there] = np.diff(given.offsets.data)
    offsets = ak.index.Index64(np.concatenate([np.zeros(1, dtype="i8"), np.cumsum(counts)]))
    return ak.contents.ListOffsetArray(offsets, given.content[: given.offsets[-1]])


def with_missing_members(layout: ak.contents.Content) -> ak.contents.RecordArray:
    """Move the option type from records to their members. Each member keeps its values, including the missing ones."""
    records, index = layout.content, layout.to_IndexedOptionArray64().index
    members = [ak.contents.IndexedOptionArray.simplified(index, one[: len(records)]) for one in records.contents]
    return ak.contents.RecordArray(members, records.fields, len(layout))


def _index(offsets: np.ndarray) -> ak.index.Index64:
    made = ak.index.Index64.__new__(ak.index.Index64)
    made._nplike, made._metadata, made._data = _NPLIKE, None, offsets
    return made


def _checked_index(offsets: np.ndarray) -> ak.index.Index64:
    return ak.index.Index64(offsets, nplike=_NPLIKE)


def _numbers(values: np.ndarray, parameters: Parameters = None) -> ak.contents.NumpyArray:
    made = ak.contents.NumpyArray.__new__(ak.contents.NumpyArray)
    made._data, made._parameters, made._backend = values, parameters, BACKEND
    return made


def _checked_numbers(values: np.ndarray, parameters: Parameters = None) -> ak.contents.NumpyArray:
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
    # Set attributes directly. Awkward's constructor also looks up behaviors, which only records with parameters have.
    if record.parameters:
        return ak.Array(record)
    made = ak.Array.__new__(ak.Array)
    vars(made).update(_ATTRIBUTES, _layout=record)
    return made


def _names_of(layout: object) -> dict[str, object]:
    """Return comparable values of a layout's attributes. None and the backend are unchanged, other values become their
    type.
    """
    return {name: value if value is None or value is BACKEND else type(value) for name, value in vars(layout).items()}


def faster(fast: Callable[..., object], checked: Callable[..., object], *arguments: object) -> Callable[..., Any]:
    """Return the constructor ``fast`` if its result has the same attributes as with ``checked``, else ``checked``."""
    return fast if _names_of(fast(*arguments)) == _names_of(checked(*arguments)) else checked


# Arguments for comparing each fast constructor with its checked counterpart.
_OFFSETS, _VALUES = np.zeros(1, dtype="i8"), np.empty(0)
_INDEX, _NUMBERS = _checked_index(_OFFSETS), _checked_numbers(_VALUES)

# Function that creates an index from a 1-dimensional int64 array.
index_of = faster(_index, _checked_index, _OFFSETS)
# Function that creates a layout of numbers from an array of any shape.
numbers_of = faster(_numbers, _checked_numbers, _VALUES)
# Function that creates lists from an index of offsets (number of lists + 1) and a content.
lists_of = faster(_lists, _checked_lists, _INDEX, _NUMBERS)
# Function that creates nullable values from an index (-1: missing) and a content (no option type or union).
options_of = faster(_options, _checked_options, _INDEX, _NUMBERS)
# Function that creates records from a list of contents, a list of names, and the number of records.
record_of = faster(_record, _checked_record, [_NUMBERS], ["x"], 0)

_RECORD = record_of([_NUMBERS], ["x"], 0)
_ATTRIBUTES = vars(ak.Array(_RECORD)).copy()
# Function that creates an array from a record layout.
array_of_record = faster(_array, ak.Array, _RECORD)
