"""Writes a Parquet file from chunks: one row group per chunk, with Arrow's nested types."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from branchline import _core
from branchline.base.codecs import CODECS, NO_CODEC
from branchline.errors import OptionError, StorageError, UnsupportedBranchError
from branchline.writing.columns.fields import FieldPlan
from branchline.writing.columns.output_file import FileSize, Layout, Target

PARQUET_NAMES = {one.name: one.parquet[0] for one in (*CODECS, NO_CODEC) if one.parquet}
LEVELS = tuple("123456789")


class ParquetFileWriter:
    """Writes a Parquet file, which has a temporary name until it is complete."""

    def __init__(self, target: Target, layout: Layout, plan: FieldPlan, sample: ak.Array) -> None:
        self._path = target.path
        codec, _, level = layout.codec.partition(":")
        if codec not in PARQUET_NAMES or (level and level not in LEVELS):
            raise OptionError(f"Parquet has no codec {layout.codec!r}", hint="choose one of zstd:5, zlib:6, lz4, none")
        self._schema = _table(plan, sample).schema
        metadata = {b"name": target.name.encode(), b"title": target.title.encode()}
        self._row_groups = 0
        self._output = _core.NewFile(self._path, target.inputs, target.force)
        with _naming(self._path):
            self._writer = pq.ParquetWriter(
                self._output.temporary,
                self._schema.with_metadata(metadata),
                compression=PARQUET_NAMES[codec],
                compression_level=int(level) if level and codec != "lz4" else None,
                data_page_size=layout.page_bytes,
            )

    def fill(self, plan: FieldPlan, chunk: ak.Array) -> None:
        """Append a row group."""
        table = _table(plan, chunk)
        if table.schema != self._schema:
            try:
                table = table.cast(self._schema)
            except pa.ArrowException as error:
                message = f"later entries have different types than the first: {error}"
                raise UnsupportedBranchError(message, hint="leave out the differing branches with --drop") from None
        with _naming(self._path):
            self._writer.write_table(table, row_group_size=max(len(chunk), 1))
        self._row_groups += 1

    def finish(self) -> FileSize:
        """Finish the file."""
        with _naming(self._path):
            self._writer.close()
        self._output.publish()
        return FileSize(self._row_groups, self._path.stat().st_size)

    def abandon(self) -> None:
        """Remove the unfinished file."""
        with contextlib.suppress(Exception):
            self._writer.close()
        self._output.abandon()


def _table(plan: FieldPlan, chunk: ak.Array) -> pa.Table:
    names = [field.name for field in plan.fields]
    layouts = plan.layouts(chunk)
    columns, may_miss, refused = {}, {}, {}
    for name, layout in zip(names, layouts, strict=True):
        try:
            array = ak.transform(_stored, ak.Array(layout))
            columns[name] = ak.to_arrow(array, extensionarray=False, list_to32=True, string_to32=True)
            may_miss[name] = array.layout.is_option or array.layout.is_unknown or columns[name].null_count > 0
        except (pa.ArrowException, TypeError, ValueError, IndexError) as error:
            refused[name] = str(error).strip().splitlines()[0]
    if refused:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
        hint = f"leave them out: --drop '{','.join(refused)}'"
        raise UnsupportedBranchError(f"Parquet cannot hold these branches: {reasons}", hint=hint)
    # Declare columns without missing values as not nullable; readers would otherwise return option types.
    fields = [pa.field(name, array.type, nullable=may_miss[name]) for name, array in columns.items()]
    return pa.table(columns, schema=pa.schema(fields))


def _stored(layout: ak.contents.Content, **_: object) -> ak.contents.Content | None:
    """Replace values for which Parquet has no type.

    Records without members become nulls. Unions become records with one member for each type; all members
    except one are null.
    """
    record = layout.content if layout.is_option else layout
    if record.is_record and not record.fields:
        nothing = ak.index.Index64(np.full(len(layout), -1))
        return ak.contents.IndexedOptionArray(nothing, ak.contents.EmptyArray())
    if layout.is_union:
        alternatives = [_alternative(layout, number) for number in range(len(layout.contents))]
        known = [one for one in alternatives if one is not None]
        stored = [ak.transform(_stored, one, highlevel=False) for one in known]
        return ak.contents.RecordArray(stored, [f"_{number}" for number in range(len(known))], length=len(layout))
    if layout.is_option and len(layout) and not layout.mask_as_bool(valid_when=True).any():
        if layout.content.is_unknown:
            return ak.contents.IndexedOptionArray(ak.index.Index64(np.full(len(layout), -1)), layout.content)
        # Parquet requires a value in the content even if every element is missing.
        filler = ak.transform(_stored, layout.content.form.length_one_array(highlevel=False), highlevel=False)
        return ak.contents.IndexedOptionArray.simplified(ak.index.Index64(np.full(len(layout), -1)), filler)
    return None


def _alternative(layout: ak.contents.Content, number: int) -> ak.contents.Content | None:
    """Return a union's values of one type, with nulls in place of other values; None if the type is unknown."""
    content = layout.project(number)
    here = layout.tags.data[: len(layout)] == number
    index = np.where(here, np.cumsum(here) - 1, -1)
    if (content.content if content.is_option else content).is_unknown:
        return None
    return ak.contents.IndexedOptionArray.simplified(ak.index.Index64(index), content)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Convert an OSError to a StorageError with the file's path."""
    try:
        yield
    except OSError as error:
        # Do not use Arrow's message, which repeats the reason.
        reason = os.strerror(error.errno) if error.errno else str(error)
        hint = None
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "free some disk space; no output was left under this name"
        raise StorageError(f"cannot write: {reason}", path=os.fspath(path), hint=hint) from None
