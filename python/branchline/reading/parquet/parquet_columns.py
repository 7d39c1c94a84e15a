"""The columns of a Parquet file as branches; structs and lists of structs have their members as sub-branches.

Arrow arrays become awkward layouts that have the same form for all entries of a file, independent of their values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from branchline.base.codecs import CODECS, NO_CODEC
from branchline.errors import BadFileError, UnsupportedBranchError

#: Size of a value in bytes, by physical type; other types have a variable size.
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}
#: Plain types that replace view types. The keys are names, because older pyarrow versions lack the view types.
VIEWS = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
#: Encodings that store every string completely, so that decoded strings are as large as the metadata state.
AS_THEY_ARE = {"PLAIN", "RLE", "BIT_PACKED", "DELTA_LENGTH_BYTE_ARRAY"}
_BY_PARQUET = {name: one for one in (*CODECS, NO_CODEC) for name in one.parquet}


@dataclass(frozen=True)
class Column:
    """A branch: the indices of the Parquet leaf columns with its values, and its location within a top-level column.

    ``kind`` is ``data`` or ``unreadable``, with the reason in ``reason``.
    """

    path: str
    name: str
    field: pa.Field
    parent: int | None
    leaves: range
    kind: Literal["data", "unreadable"]
    reason: str | None
    #: Index of the top-level column, and the names of the members that lead from it to the branch.
    top: int
    members: tuple[str, ...] = ()


def columns_of(schema: pa.Schema) -> list[Column]:
    """The branches of a file, parents before their children. Leaf columns are in the order of the schema."""
    found: list[Column] = []
    leaf = 0
    for top, field in enumerate(schema):
        twice = len(schema.get_all_field_indices(field.name)) > 1
        leaf += _add(found, field, None, leaf, top, (), "another column has the same name" if twice else None)
    # A column name may be equal to the path of another column's member: ``a.b``.
    counts = Counter(one.path for one in found)
    return [replace(one, path=f"{one.path}#{one.top}") if counts[one.path] > 1 else one for one in found]


def _add(
    found: list[Column],
    field: pa.Field,
    parent: int | None,
    leaf: int,
    top: int,
    members: tuple[str, ...],
    reason: str | None,
) -> int:
    """Add a field and its members; return the number of its leaf columns."""
    count = leaves_in(field.type)
    path = field.name if parent is None else f"{found[parent].path}.{field.name}"
    if reason is not None and parent is None:
        path = f"{path}#{top}"
    reason = reason or why_unreadable(field.type)
    index = len(found)
    kind: Literal["data", "unreadable"] = "data" if reason is None else "unreadable"
    found.append(Column(path, field.name, field, parent, range(leaf, leaf + count), kind, reason, top, members))
    inside = field.type.value_type if _is_list(field.type) else field.type
    if pa.types.is_struct(inside) and kind == "data":
        at = leaf
        for member in inside:
            at += _add(found, member, index, at, top, (*members, member.name), None)
    return count


def _is_list(of: pa.DataType) -> bool:
    return bool(pa.types.is_list(of) or pa.types.is_large_list(of))


def _is_list_view(of: pa.DataType) -> bool:
    return str(of).startswith(("list_view<", "large_list_view<"))


def _inner(of: pa.DataType) -> Iterator[pa.DataType]:
    if pa.types.is_map(of):
        yield from (of.key_type, of.item_type)
    elif _is_list(of) or pa.types.is_fixed_size_list(of) or _is_list_view(of):
        yield of.value_type
    elif pa.types.is_struct(of):
        yield from (one.type for one in of)


def leaves_in(of: pa.DataType) -> int:
    """Number of Parquet leaf columns that hold the values of a type."""
    inner = list(_inner(of))
    return sum(map(leaves_in, inner)) if inner else 1


def why_unreadable(of: pa.DataType) -> str | None:
    """The reason why values of a type cannot be read; None if they can."""
    if isinstance(of, pa.BaseExtensionType):
        return f"the extension type {of.extension_name} is not supported"
    if pa.types.is_decimal(of):
        return f"{of} is not supported; store it as double"
    if pa.types.is_map(of):
        return f"{of} is not supported; store it as a list of structs"
    if _is_list_view(of):
        return f"{of} is not supported; store it as a list"
    if pa.types.is_struct(of) and len({one.name for one in of}) < of.num_fields:
        return "two of its members have the same name"
    return next((reason for one in _inner(of) if (reason := why_unreadable(one)) is not None), None)


def plain_type(of: pa.DataType, *, keeps_extensions: bool = True) -> pa.DataType:
    """Replace dictionary and view types, which awkward does not fully support, by plain types."""
    if isinstance(of, pa.BaseExtensionType):
        return of if keeps_extensions else plain_type(of.storage_type, keeps_extensions=False)
    if pa.types.is_dictionary(of):
        return plain_type(of.value_type, keeps_extensions=keeps_extensions)
    if str(of) in VIEWS:
        return VIEWS[str(of)]

    def plain(field: pa.Field) -> pa.Field:
        return field.with_type(plain_type(field.type, keeps_extensions=keeps_extensions))

    if pa.types.is_struct(of):
        return pa.struct([plain(member) for member in of])
    if pa.types.is_fixed_size_list(of):
        return pa.list_(plain(of.value_field), of.list_size)
    if pa.types.is_large_list(of):
        return pa.large_list(plain(of.value_field))
    if pa.types.is_list(of):
        return pa.list_(plain(of.value_field))
    return of


def as_type(array: Any, kind: pa.DataType) -> Any:
    """Cast an array to type ``kind``. Arrays that already have it are returned unchanged, since casting corrupts nested
    null arrays.
    """
    return array if array.type == kind else array.cast(kind)


def plain_table(batch: pa.RecordBatch) -> pa.Table:
    """Convert a decoded batch to plain types."""
    types = [plain_type(field.type, keeps_extensions=False) for field in batch.schema]
    arrays = [as_type(one, kind) for one, kind in zip(batch.columns, types, strict=True)]
    return pa.table(arrays, names=batch.schema.names)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Convert a schema to plain types."""
    return pa.schema([field.with_type(plain_type(field.type)) for field in schema], schema.metadata)


def range_of(chunk: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """Offset and size of the pages of a column chunk. Raises BadFileError."""
    offset = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset and chunk.dictionary_page_offset < offset:
        offset = chunk.dictionary_page_offset
    size = chunk.total_compressed_size
    if offset < 0 or size < 0:
        raise BadFileError(f"column {chunk.path_in_schema} has an invalid location: {size} bytes at offset {offset}")
    return offset, size


def plain_bytes_of(chunk: pq.ColumnChunkMetaData) -> int:
    """Size in bytes of the decoded values of a column chunk, ignoring dictionary encoding."""
    width = WIDTHS.get(chunk.physical_type)
    return int(chunk.total_uncompressed_size if width is None else width * chunk.num_values)


def packs_texts(chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether a column chunk may decode to far more bytes than its metadata says, because it stores equal strings (or
    equal beginnings of strings) once.
    """
    return chunk.physical_type not in WIDTHS and not set(chunk.encodings) <= AS_THEY_ARE


def codec_of(chunk: pq.ColumnChunkMetaData) -> str:
    """The codec of a column chunk, under its name in records."""
    name = str(chunk.compression).lower()
    return _BY_PARQUET[name].name if name in _BY_PARQUET else name


def root_setting(chunk: pq.ColumnChunkMetaData) -> int:
    """Return ROOT's compression setting with level 1, as Parquet stores no level; 0 for codecs that ROOT lacks."""
    codec = _BY_PARQUET.get(str(chunk.compression).lower(), NO_CODEC)
    return 100 * codec.number + 1 if codec.number else 0


def has_no_missing(metadata: pq.FileMetaData, leaf: int) -> bool:
    """Whether the file's statistics exclude missing values in a leaf column."""
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(leaf).statistics
        if statistics is None or not statistics.has_null_count or statistics.null_count:
            return False
    return True


def member_of(layout: ak.contents.Content, members: Sequence[str]) -> ak.contents.Content:
    """Select a nested member of a column's records, also inside lists."""
    for name in members:
        layout = layout[name]
    return layout


def trimmed(field: pa.Field, members: Sequence[str]) -> pa.Field:
    """Reduce the field of a column to the member at the path ``members``."""
    if not members:
        return field
    kind = field.type
    if _is_list(kind):
        inner = trimmed(kind.value_field, members)
        made = pa.large_list if pa.types.is_large_list(kind) else pa.list_
        return field.with_type(made(inner))
    return field.with_type(pa.struct([trimmed(kind.field(members[0]), members[1:])]))


def layout_of_arrow(array: Any, field: pa.Field, *, is_whole: bool) -> ak.contents.Content:
    """Convert a column. ``is_whole`` means that the file's statistics exclude missing values.

    Raises UnsupportedBranchError for missing lists of structs, BadFileError for missing values that contradict the
    statistics.
    """
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    # pyarrow cannot concatenate empty arrays that were created by other libraries.
    chunks = [chunk for chunk in chunks if len(chunk)]
    # Concatenate even a single chunk: awkward ignores the offset of a slice into its buffers.
    array = pa.concat_arrays(chunks) if chunks else pa.array([], array.type)
    layout = ak.from_arrow(array, generate_bitmasks=False, highlevel=False)
    return _settled(layout, field, is_whole=is_whole)


def _settled(layout: Any, field: pa.Field, *, is_whole: bool) -> object:
    """Normalize a layout: option types exactly where values may be missing, and 64-bit offsets."""
    kind = field.type
    is_structures = _is_list(kind) and pa.types.is_struct(kind.value_type)
    while layout.is_indexed and not layout.is_option:
        layout = layout.project()
    if layout.is_option:
        valid = layout.mask_as_bool(valid_when=True)
        content = layout.project()
        if not field.nullable or is_whole or is_structures:
            if not valid.all() and not is_structures:
                raise BadFileError(f"{field.name} has missing values, which its metadata exclude")
            if not valid.all():
                what = f"{field.name} has missing lists of records"
                raise UnsupportedBranchError(what, hint="rewrite the file with empty lists instead")
            return _settled(content, field, is_whole=is_whole)
    else:
        content, valid = layout, np.ones(len(layout), dtype=bool)
    inner = _settled_inner(content, field, is_whole=is_whole)
    if not field.nullable or is_whole or is_structures:
        return inner
    index = np.where(valid, np.cumsum(valid, dtype="i8") - 1, -1)
    return ak.contents.IndexedOptionArray.simplified(ak.index.Index64(index), inner)


def _settled_inner(layout: Any, field: pa.Field, *, is_whole: bool) -> object:
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
    if layout.is_list:  # strings and bytes
        return layout.to_ListOffsetArray64(True)
    return layout
