"""Arrays of Arrow as layouts of awkward, of the same form for all entries of a file, whatever values they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import awkward as ak
import numpy as np
import pyarrow as pa

from branchline.errors import BadFileError, UnsupportedBranchError


def layout_of_arrow(array: Any, field: pa.Field, *, is_whole: bool) -> ak.contents.Content:
    """The layout of a column. ``is_whole``: the file says that nothing in it is missing.

    Raises UnsupportedBranchError where a list of structures is missing, BadFileError where a value is missing and the
    file says that none is.
    """
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    # pyarrow cannot join empty parts of arrays that came from another library.
    chunks = [chunk for chunk in chunks if len(chunk)]
    # Joined even if there is one: awkward takes no notice of where in its buffers a slice begins.
    array = pa.concat_arrays(chunks) if chunks else pa.array([], array.type)
    layout = ak.from_arrow(array, generate_bitmasks=False, highlevel=False)
    return _settled(layout, field, is_whole=is_whole)


def _settled(layout: Any, field: pa.Field, *, is_whole: bool) -> Any:
    """The same with options exactly where values may be missing, and with offsets of 64 bits."""
    kind = field.type
    is_structures = _is_list(kind) and pa.types.is_struct(kind.value_type)
    while layout.is_indexed and not layout.is_option:
        layout = layout.project()
    if layout.is_option:
        valid = layout.mask_as_bool(valid_when=True)
        content = layout.project()
        if not field.nullable or is_whole or is_structures:
            if not valid.all() and not is_structures:
                raise BadFileError(f"values of {field.name} are missing, and its metadata say that none are")
            if not valid.all():
                what = f"{field.name} has lists of records that are missing, not only empty ones"
                raise UnsupportedBranchError(what, hint="write it again with empty lists in their place")
            return _settled(content, field, is_whole=is_whole)
    else:
        content, valid = layout, np.ones(len(layout), dtype=bool)
    inner = _inner(content, field, is_whole=is_whole)
    if not field.nullable or is_whole or is_structures:
        return inner
    index = np.where(valid, np.cumsum(valid, dtype="i8") - 1, -1)
    return ak.contents.IndexedOptionArray.simplified(ak.index.Index64(index), inner)


def _inner(layout: Any, field: pa.Field, *, is_whole: bool) -> Any:
    kind = field.type
    while layout.is_indexed and not layout.is_option:
        layout = layout.project()
    if _is_list(kind):
        lists = layout.to_ListOffsetArray64(True)
        content = lists.content[: lists.offsets[-1]]
        return ak.contents.ListOffsetArray(lists.offsets, _settled(content, kind.value_field, is_whole=is_whole))
    if pa.types.is_fixed_size_list(kind):
        content = layout.content[: len(layout) * layout.size]
        settled = _settled(content, kind.value_field, is_whole=is_whole)
        return ak.contents.RegularArray(settled, kind.list_size, zeros_length=len(layout))
    if pa.types.is_struct(kind):
        members = [_settled(layout[one.name], one, is_whole=is_whole) for one in kind]
        names = [one.name for one in kind]
        return ak.contents.RecordArray(members, names, length=len(layout), parameters=layout.parameters)
    if layout.is_list:  # texts and bytes
        return layout.to_ListOffsetArray64(True)
    return layout


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def member_of(layout: ak.contents.Content, members: Sequence[str]) -> ak.contents.Content:
    """A member of the records of a column, of those in lists as lists."""
    for name in members:
        layout = layout[name]
    return layout


def trimmed(field: pa.Field, members: Sequence[str]) -> pa.Field:
    """The field of a column of which only one member is read."""
    if not members:
        return field
    kind = field.type
    if _is_list(kind):
        inner = trimmed(kind.value_field, members)
        made = pa.large_list if pa.types.is_large_list(kind) else pa.list_
        return field.with_type(made(inner))
    return field.with_type(pa.struct([trimmed(kind.field(members[0]), members[1:])]))
