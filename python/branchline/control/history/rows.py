"""Storage formats of file records: compressed columns in the database for pending records, then Parquet files."""

from __future__ import annotations

import dataclasses
import json
import typing
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

from branchline.base.limits import FILE_REMARKS_MAX, LOCATION_LENGTH_MAX, NAME_LENGTH_MAX
from branchline.base.plain import field_types, from_plain
from branchline.base.texts import printable
from branchline.records.sensors.record import FileRecord

if TYPE_CHECKING:
    import pyarrow

#: Columns that are not fields of FileRecord: the job, and the time at which the job created the batch.
JOB, MADE = "job", "made"
_LOCATIONS = {"path", "replica", "remarks", "replicas_failed"}


def packed_rows(files: Sequence[FileRecord]) -> bytes:
    """Serialize records for the database. Truncates strings and replaces unprintable characters."""
    columns = {name: _fitting(name, files) for name in _names()}
    return zlib.compress(json.dumps(columns, separators=(",", ":")).encode(errors="surrogatepass"), 1)


def unpacked_rows(content: bytes) -> list[FileRecord]:
    """Deserialize the result of ``packed_rows``."""
    columns = _unpacked_columns(content)
    return [
        from_plain(FileRecord, dict(zip(columns, values, strict=True)))
        for values in zip(*columns.values(), strict=True)
    ]


def table_of(content: bytes, job: str, made: str) -> pyarrow.Table:
    """Convert the result of ``packed_rows`` to an Arrow table with the additional columns JOB and MADE."""
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


def records_of(table: pyarrow.Table) -> list[FileRecord]:
    """Convert an Arrow table to records. Null columns, which an earlier version did not write, get field defaults."""
    return [from_plain(FileRecord, row) for row in table.to_pylist()]


def row_schema() -> pyarrow.Schema:
    """Return the schema of the Parquet files."""
    import pyarrow

    texts = pyarrow.string()
    kinds = {str: texts, int: pyarrow.int64(), float: pyarrow.float64(), list: pyarrow.list_(texts)}
    columns = [(JOB, texts), (MADE, pyarrow.timestamp("ms", "UTC"))]
    return pyarrow.schema([*columns, *((name, kinds[kind]) for name, kind in _kinds().items())])


def repeated_columns() -> list[str]:
    """Return the names of the columns with few distinct values. Dictionary encoding compresses these columns."""
    return [JOB, *(name for name, kind in _kinds().items() if kind is str and name not in _LOCATIONS)]


def as_written_now(table: pyarrow.Table, names: Sequence[str] = ()) -> pyarrow.Table:
    """Convert rows from any version of Branchline to the current schema. Missing columns become null.

    The result has the columns ``names``, or all columns if ``names`` is empty.
    """
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
    """Return the type of each column: str, int, float, or list (a list of strings)."""
    hints = field_types(FileRecord)
    return {name: _kind(hints[name]) for name in _names()}


def _kind(hint: object) -> type:
    if typing.get_origin(hint) is list:
        return list
    [kind] = [one for one in typing.get_args(hint) or (hint,) if one is not type(None)]
    return typing.cast(type, kind)


def _unpacked_columns(content: bytes) -> Mapping[str, list[object]]:
    columns: dict[str, list[object]] = json.loads(zlib.decompress(content))
    return columns


def _fitting(name: str, files: Sequence[FileRecord]) -> Sequence[object]:
    """Return a column with truncated and printable strings."""
    kind = _kinds()[name]
    length_max = LOCATION_LENGTH_MAX if name in _LOCATIONS else NAME_LENGTH_MAX
    if kind is str:
        return _cut((getattr(one, name) for one in files), length_max)
    values = [getattr(one, name) for one in files]
    if kind is list:
        return [_cut(one[:FILE_REMARKS_MAX], length_max) if one else one for one in values]
    return values


def _cut(texts: Iterable[str], length_max: int) -> list[str]:
    known: dict[str, str] = {}
    return [known.get(one) or known.setdefault(one, printable(one[:length_max])) for one in texts]
