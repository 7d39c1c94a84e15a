"""Layouts of awkward, made as awkward's constructors make them, in a fraction of the time.

The constructors check their arguments, which takes 23 microseconds for a list of numbers: for a file of 484 branches as
long as decompressing it. What is given here was checked by the engine. Where a version of awkward keeps other
attributes than those that are set here, its constructors are called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import awkward as ak
import numpy as np

# Layouts are given their backend: finding it out for every column takes time.
BACKEND = ak.contents.NumpyArray(np.empty(0)).backend
_NPLIKE = BACKEND.nplike

# What awkward shall know of a layout, such as that it is text.
Parameters = dict[str, str] | None


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


_OFFSETS, _VALUES = np.zeros(1, dtype="i8"), np.empty(0)


def _names_of(layout: Any) -> dict[str, object]:
    """The attributes of a layout; of values that cannot be compared only that they are there."""
    return {name: value if value is None or value is BACKEND else type(value) for name, value in vars(layout).items()}


def faster(fast: Callable[..., Any], checked: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """The fast function if what it makes of the arguments has the attributes of what the constructor gives, else
    the one that calls the constructor.
    """
    return fast if _names_of(fast(*arguments)) == _names_of(checked(*arguments)) else checked


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
