"""What a script gives for a tree: types, or data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import awkward as ak
import numpy as np

from branchline.errors import OptionError
from branchline.reading.arrays.missing import whole
from branchline.writing.recreate.arrow import is_arrow_table
from branchline.writing.recreate.values import check_names, empty_layout, is_frame, layout_of, named_columns

Columns = dict[str, ak.contents.Content]


def types_or_data(given: Any) -> tuple[Columns, Columns]:
    """Return the columns that define the types of a tree, and its first data: the same columns, or none for types."""
    if isinstance(given, np.dtype) and given.names is not None:
        given = {name: given[name] for name in given.names}
    if isinstance(given, ak.forms.Form):
        given = given.type
    if isinstance(given, ak.types.ArrayType):
        given = given.content
    if isinstance(given, ak.types.RecordType) and not given.is_tuple:
        given = dict(zip(given.fields, given.contents, strict=True))
    if not isinstance(given, Mapping):
        data = named_columns(given)
        return data, data
    check_names(given)
    data = {name: layout_of(kind, name) for name, kind in given.items() if _is_array(kind)}
    types = {name: empty_layout(kind, name) for name, kind in given.items() if name not in data}
    if types and any(len(layout) for layout in data.values()):
        what = f"branch {next(iter(types))} is given a type, and branch {next(iter(data))} values"
        raise OptionError(what, hint="give types for all branches, or values for all")
    columns = {name: data[name] if name in data else types[name] for name in given}
    return columns, {} if types else data


def description_of(given: Any) -> str:
    """Return awkward's parameter ``__doc__`` of an array of records, its form or type; empty if there is none."""
    if isinstance(given, ak.Array):
        given = given.layout
    if isinstance(given, ak.types.ArrayType):
        given = given.content
    is_of_awkward = isinstance(given, ak.contents.Content | ak.forms.Form | ak.types.Type)
    return str(given.parameters.get("__doc__", "")) if is_of_awkward else ""


def whole_columns(columns: Columns) -> Columns:
    """Return columns without option types where no value is missing."""
    return {name: whole(layout) for name, layout in columns.items()}


def _is_array(kind: Any) -> bool:
    if isinstance(kind, Mapping):
        return bool(kind) and all(_is_array(member) for member in kind.values())
    # A class of NumPy has these methods as well, and is a type.
    has_values = hasattr(kind, "__getitem__") and hasattr(kind, "__array__") and not isinstance(kind, type)
    return isinstance(kind, list) or has_values


def table_of(value: Any) -> tuple[Columns, Columns] | None:
    """Return the columns that define the types of a table, or of its form, and its data; None for anything else."""
    if isinstance(value, ak.forms.RecordForm):
        return types_or_data(value)
    is_named = bool(getattr(value, "fields", None)) and hasattr(value, "layout")
    is_structured = getattr(getattr(value, "dtype", None), "names", None) is not None
    if not (type(value) is dict or is_named or is_structured or is_frame(value) or is_arrow_table(value)):
        return None
    data = named_columns(value)
    return whole_columns(data), data
