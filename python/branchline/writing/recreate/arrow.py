"""Tables and arrays of pyarrow, and those of other libraries that keep theirs as Arrow, as columns of a tree."""

from __future__ import annotations

from typing import Any

import awkward as ak

from branchline.errors import OptionError


def is_of_arrow(value: Any) -> bool:
    """Whether a value is of pyarrow, without importing it."""
    return type(value).__module__ == "pyarrow.lib"


def as_arrow(value: Any) -> Any:
    """A frame or series of polars, or a series of pandas with a type of Arrow, as pyarrow has it; else the value."""
    if isinstance(value, type | ak.Array):
        return value
    if hasattr(value, "to_arrow"):
        return value.to_arrow()
    return value.array.__arrow_array__() if hasattr(getattr(value, "dtype", None), "pyarrow_dtype") else value


def is_arrow_table(value: Any) -> bool:
    """Whether a value is a table of pyarrow, or one of its batches of records."""
    return is_of_arrow(value) and hasattr(value, "column_names")


def columns_of_table(table: Any) -> dict[str, ak.contents.Content]:
    """The columns of a table, in their order. Raises OptionError for names that are there twice."""
    names = table.column_names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise OptionError(f"the table has two columns {twice}", hint="rename one of them, with rename_columns")
    return {name: layout_of_array(table.column(name), name, table.schema.field(name)) for name in names}


def layout_of_array(values: Any, name: str, field: Any = None) -> ak.contents.Content:
    """The layout of an array; ``field`` says whether its values may be missing, as they may without it.

    Raises OptionError for types that awkward has no arrays of, UnsupportedBranchError for lists of records that are
    missing.
    """
    # Imported here: pyarrow comes with an extra, and is there if one of its arrays is.
    import pyarrow as pa

    from branchline.reading.parquet.layouts import layout_of_arrow
    from branchline.reading.parquet.parquet_columns import as_type, plain_type, why_unreadable

    reason = why_unreadable(values.type)
    if reason is not None:
        raise OptionError(f"{name}: {reason}", hint="convert the column, or leave it out")
    kind = plain_type(values.type, keeps_extensions=False)
    field = pa.field(name, kind) if field is None else field.with_type(kind)
    return ak.to_packed(layout_of_arrow(as_type(values, kind), field, is_whole=False), highlevel=False)
