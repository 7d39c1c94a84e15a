"""Rows of files as the control room keeps them: first as compressed columns in the database, then in Parquet files."""

from __future__ import annotations

import dataclasses
import json
import typing
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from branchline.base.limits import FILE_REMARKS_MAX, LOCATION_LENGTH_MAX, NAME_LENGTH_MAX
from branchline.base.plain import field_types, from_plain
from branchline.base.texts import printable
from branchline.records.sensors.record import FileRecord

#: Columns beside those of a FileRecord: the job, and when it made the batch with this row.
JOB, MADE = "job", "made"
_LOCATIONS = {"path", "replica", "remarks", "replicas_failed"}


def packed_rows(files: Sequence[FileRecord]) -> bytes:
    """Records as they wait in the database, with texts that fit."""
    columns = {name: _fitting(name, [getattr(one, name) for one in files]) for name in _names()}
    return zlib.compress(json.dumps(columns, separators=(",", ":")).encode(errors="surrogatepass"), 1)


def unpacked_rows(content: bytes) -> list[FileRecord]:
    """The records of ``packed_rows``."""
    columns = _unpacked_columns(content)
    return [
        from_plain(FileRecord, dict(zip(columns, values, strict=True)))
        for values in zip(*columns.values(), strict=True)
    ]


def table_of(content: bytes, job: str, made: str) -> Any:
    """The rows of ``packed_rows`` as an Arrow table with job and time."""
    import pyarrow

    columns = _unpacked_columns(content)
    count = len(columns["path"])
    schema = row_schema()
    moment = pyarrow.scalar(datetime.fromisoformat(made), schema.field(MADE).type)
    given = {JOB: pyarrow.repeat(job, count), MADE: pyarrow.repeat(moment, count)}
    arrays = [
        given[one.name] if one.name in given else pyarrow.array(columns.get(one.name, [None] * count), one.type)
        for one in schema
    ]
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def records_of(table: Any) -> list[FileRecord]:
    """The records in an Arrow table; what earlier versions did not write has its default."""
    return [from_plain(FileRecord, row) for row in table.to_pylist()]


def row_schema() -> Any:
    """The columns of a Parquet file."""
    import pyarrow

    texts = pyarrow.string()
    kinds = {str: texts, int: pyarrow.int64(), float: pyarrow.float64(), list: pyarrow.list_(texts)}
    columns = [(JOB, texts), (MADE, pyarrow.timestamp("ms", "UTC"))]
    return pyarrow.schema([*columns, *((name, kinds[kind]) for name, kind in _kinds().items())])


def repeated_columns() -> list[str]:
    """Columns whose few texts are in many rows: Parquet stores each text once."""
    return [JOB, *(name for name, kind in _kinds().items() if kind is str and name not in _LOCATIONS)]


def as_written_now(table: Any, names: Sequence[str] = ()) -> Any:
    """Rows that another version may have written, with columns of this one: those named, or all."""
    import pyarrow

    schema = row_schema()
    if names:
        schema = pyarrow.schema([schema.field(name) for name in names])
    arrays = [
        table.column(one.name) if one.name in table.column_names else pyarrow.nulls(len(table), one.type)
        for one in schema
    ]
    return pyarrow.Table.from_arrays(arrays, schema=schema)


@cache
def _names() -> list[str]:
    return [one.name for one in dataclasses.fields(FileRecord)]


@cache
def _kinds() -> dict[str, type]:
    """The kind of each column: text, whole number, number or list of texts."""
    hints = field_types(FileRecord)
    return {name: _kind(hints[name]) for name in _names()}


def _kind(hint: Any) -> type:
    if typing.get_origin(hint) is list:
        return list
    [kind] = [one for one in typing.get_args(hint) or (hint,) if one is not type(None)]
    return typing.cast(type, kind)


def _unpacked_columns(content: bytes) -> Mapping[str, list[Any]]:
    columns: dict[str, list[Any]] = json.loads(zlib.decompress(content))
    return columns


def _fitting(name: str, values: list[Any]) -> list[Any]:
    """A column whose texts are printable and not too long. The same text is looked at once."""
    kind = _kinds()[name]
    length_max = LOCATION_LENGTH_MAX if name in _LOCATIONS else NAME_LENGTH_MAX
    if kind is str:
        return _cut(values, length_max)
    if kind is list:
        return [_cut(one[:FILE_REMARKS_MAX], length_max) if one else one for one in values]
    return values


def _cut(texts: Iterable[str], length_max: int) -> list[str]:
    known: dict[str, str] = {}
    return [known.get(one) or known.setdefault(one, printable(one[:length_max])) for one in texts]
