"""A Parquet file that is made of chunks: one row group for each, nested types as Arrow has them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import awkward as ak
import pyarrow as pa
import pyarrow.parquet as pq

from branchline import _core
from branchline.errors import OptionError, StorageError, UnsupportedBranchError
from branchline.layout.fields import FieldPlan
from branchline.layout.targets import Layout, Target

CODECS = {"zstd": "zstd", "zlib": "gzip", "lz4": "lz4", "none": "none"}
LEVELS = tuple("123456789")


class ParquetFile:
    """Writes under another name until the file is whole."""

    def __init__(self, target: Target, layout: Layout, plan: FieldPlan, tree: Any) -> None:
        self._path = target.path
        codec, _, level = layout.codec.partition(":")
        if codec not in CODECS or (level and level not in LEVELS):
            raise OptionError(f"Parquet has no codec {layout.codec!r}", hint="one of zstd:5, zlib:6, lz4, none")
        self._schema = _table(plan, tree.arrays(plan.paths(), entry_stop=0)).schema
        metadata = {b"name": target.name.encode(), b"title": target.title.encode()}
        self._row_groups = 0
        self._output = _core.NewFile(self._path, target.inputs, target.force)
        with _told(self._path):
            self._writer = pq.ParquetWriter(
                self._output.temporary,
                self._schema.with_metadata(metadata),
                compression=CODECS[codec],
                compression_level=int(level) if level and codec != "lz4" else None,
                data_page_size=layout.page_bytes,
            )

    def fill(self, plan: FieldPlan, chunk: ak.Array) -> None:
        """Adds a row group."""
        table = _table(plan, chunk)
        if table.schema != self._schema:
            table = table.cast(self._schema)
        with _told(self._path):
            self._writer.write_table(table, row_group_size=max(len(chunk), 1))
        self._row_groups += 1

    def finish(self) -> tuple[int, int]:
        """Ends the file; row groups and bytes that it has."""
        with _told(self._path):
            self._writer.close()
        self._output.publish()
        return self._row_groups, self._path.stat().st_size

    def abandon(self) -> None:
        """Leaves nothing of it."""
        with contextlib.suppress(Exception):
            self._writer.close()
        self._output.abandon()


def _table(plan: FieldPlan, chunk: ak.Array) -> pa.Table:
    names = [field.name for field in plan.fields]
    layouts = plan.layouts(chunk)
    columns = {}
    for name, layout in zip(names, layouts, strict=True):
        try:
            columns[name] = ak.to_arrow(ak.Array(layout), extensionarray=False, list_to32=True, string_to32=True)
        except (pa.ArrowException, TypeError, ValueError) as error:
            message = f"branch {name} cannot be written to Parquet: {error}"
            raise UnsupportedBranchError(message, hint="leave it out with --drop") from None
    return pa.table(columns)


@contextlib.contextmanager
def _told(path: Path) -> Any:
    """Says of what cannot be written which file it is."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot write: {error}", path=os.fspath(path)) from None
