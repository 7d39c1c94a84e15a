"""A trace: its rows, their columns, the traced job, and the Parquet file that contains them.

A trace is one table. Columns that do not apply to a kind of row are null. The ``kind`` of a row is one of

- *file*: a file that was read;
- *request*: a read of a file;
- *part*: a piece of a file that a request hit;
- *extent*: a basket or page that was decompressed or decoded;
- *span*: an activity of a thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from branchline.base.whole_files import whole_file
from branchline.errors import BadFileError, MissingFileError, OptionError

FILE, REQUEST, PART, EXTENT, SPAN = "file", "request", "part", "extent", "span"
#: Outcomes of requests without an error. NOT_CACHED is the outcome of a non-blocking read that finds nothing in the
#: page cache; a second read then waits for the disk.
OK, END_OF_FILE, MAPPED, NOT_CACHED = "ok", "end of file", "mapped", "not in the page cache"
NO_FAILURES = (OK, END_OF_FILE, MAPPED, NOT_CACHED)
#: Version of the trace format. Traces with a newer version are rejected.
VERSION = 1
#: Suffix that is appended to the trace's name for the folder in which processes record their requests.
UNFINISHED = ".unfinished"
#: If the rows of a kind form more contiguous runs than this, the rows are gathered one by one, and the runs are not
#: sliced.
RUNS_MAX = 1000
_JOB_KEY = b"branchline.trace"
_TEXT = pa.dictionary(pa.int32(), pa.string())
#: Name, type and description of each column. Times are in nanoseconds since the start of the trace.
COLUMNS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("kind", _TEXT, "The kind of the row: file, request, part, extent, span."),
    ("request", pa.int64(), "The number of the request; for a part, the number of its request."),
    ("job", _TEXT, "The job that sent the request, or the command line of its process."),
    ("wagon", _TEXT, "The wagon for which the request was sent, if any."),
    ("process", pa.int64(), "The process of the request."),
    ("thread", pa.int64(), "The thread of the request."),
    ("what", _TEXT, "For a request its call; for a part the kind of piece; for a span the activity."),
    ("file", _TEXT, "Path or URL of the file."),
    ("tree", _TEXT, "The tree or object that the bytes belong to."),
    ("branch", _TEXT, "The branch that the bytes belong to."),
    ("basket", pa.int32(), "The index of the basket in its branch."),
    ("column", pa.int32(), "For a page, its column of the RNTuple, if known."),
    ("entry_start", pa.int64(), "The first entry of the basket."),
    ("entry_stop", pa.int64(), "The entry after the last one of the basket."),
    ("offset", pa.int64(), "The offset of the first byte in the file; null if unknown."),
    ("size_bytes", pa.int64(), "Requested bytes; for a file or part its size."),
    ("got_bytes", pa.int64(), "Received bytes."),
    ("extent_bytes", pa.int64(), "For a part, the total size of the piece."),
    ("queued_ns", pa.int64(), "When the request was queued, before it was sent."),
    ("sent_ns", pa.int64(), "When the request was sent; for a span or extent its start."),
    ("first_byte_ns", pa.int64(), "When the first byte arrived, if known."),
    ("last_byte_ns", pa.int64(), "When the last byte arrived; for a span or extent its end."),
    ("store", _TEXT, "The storage element that served the request."),
    ("connection", pa.int64(), "The connection of the request; for a local file the file descriptor."),
    ("attempt", pa.int16(), "The number of the attempt, starting at 1."),
    ("outcome", _TEXT, "ok, end of file, mapped, not in the page cache, or the error."),
)
SCHEMA = pa.schema([(name, kind) for name, kind, _ in COLUMNS])
T = TypeVar("T")


Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Codes:
    """A string column, stored as indices into the list ``texts``; negative indices are missing values."""

    indices: Numbers
    texts: list[str]

    def __len__(self) -> int:
        return len(self.indices)


#: Values of a column; None if the column is null in all rows.
Values = Numbers | Codes | Sequence[int] | Sequence[str | None] | None


@dataclass(frozen=True, kw_only=True)
class RowGroup:
    """Rows of one kind as columns of equal length, named as in ``COLUMNS``."""

    kind: str
    request: Values = None
    job: Values = None
    wagon: Values = None
    process: Values = None
    thread: Values = None
    what: Values = None
    file: Values = None
    tree: Values = None
    branch: Values = None
    basket: Values = None
    column: Values = None
    entry_start: Values = None
    entry_stop: Values = None
    offset: Values = None
    size_bytes: Values = None
    got_bytes: Values = None
    extent_bytes: Values = None
    queued_ns: Values = None
    sent_ns: Values = None
    first_byte_ns: Values = None
    last_byte_ns: Values = None
    store: Values = None
    connection: Values = None
    attempt: Values = None
    outcome: Values = None

    def __len__(self) -> int:
        return max((len(one) for one in self.columns().values()), default=0)

    def columns(self) -> dict[str, Numbers | Codes | Sequence[int] | Sequence[str | None]]:
        """Return the columns that are not null, without ``kind``."""
        found = {name: getattr(self, name) for name, _, _ in COLUMNS if name != "kind"}
        return {name: values for name, values in found.items() if values is not None}


@dataclass(frozen=True)
class TracedJob:
    """The job that was traced.

    ``program`` is the tool that recorded the trace (branchline or strace). ``processes`` is the number of recorded
    processes, and ``exit_code`` is the command's exit code; both are None if unknown. ``notes`` are sentences on what
    the trace does not contain.
    """

    command: str = "a job"
    program: str = ""
    host: str = ""
    started_unix_ns: int = 0
    wall_ns: int = 0
    processes: int | None = None
    exit_code: int | None = None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the known fields as numbers, strings and lists."""
        facts = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: list(value) if name == "notes" else value for name, value in facts.items() if value is not None}

    @classmethod
    def from_json(cls, plain: Mapping[str, object]) -> TracedJob:
        """Parse the output of ``to_json``. Missing fields get their defaults, and unknown fields are ignored.

        Raises ValueError or TypeError for fields of the wrong type.
        """
        usual = cls()
        notes = plain.get("notes", ())
        if not isinstance(notes, list | tuple):
            raise TypeError("notes are not a list")
        return cls(
            command=str(plain.get("command", usual.command)),
            program=str(plain.get("program", usual.program)),
            host=str(plain.get("host", usual.host)),
            started_unix_ns=_number(plain.get("started_unix_ns")) or 0,
            wall_ns=_number(plain.get("wall_ns")) or 0,
            processes=_number(plain.get("processes")),
            exit_code=_number(plain.get("exit_code")),
            notes=tuple(str(note) for note in notes),
        )


def _number(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int | float | str):
        raise TypeError(f"{value!r} is not a number")
    return int(value)


@dataclass(frozen=True)
class Trace:
    """A trace: its rows and the traced job."""

    rows: pa.Table
    job: TracedJob = field(default_factory=TracedJob)
    #: Cache of results computed from the rows, by name; tables and pages share the results.
    kept: dict[str, object] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, groups: Sequence[RowGroup], job: TracedJob) -> Trace:
        """Create a trace from several groups of rows."""
        tables = [_table(group) for group in groups]
        return cls(pa.concat_tables(tables).unify_dictionaries() if tables else SCHEMA.empty_table(), job)

    def rows_of(self, kind: str) -> pa.Table:
        """Return the rows of one kind, in order."""
        return self.once(f"rows of {kind}", lambda: self._rows_of(kind))

    def _rows_of(self, kind: str) -> pa.Table:
        column, kinds = codes(self.rows, "kind")
        places = np.nonzero(column == (kinds.index(kind) if kind in kinds else -2))[0]
        # The rows of a kind are mostly contiguous, and slicing contiguous rows does not copy them.
        starts = np.nonzero(np.diff(places, prepend=-2) > 1)[0]
        if not len(places) or len(starts) > RUNS_MAX:
            return self.rows.take(pa.array(places))
        lengths = np.diff(starts, append=len(places))
        return pa.concat_tables(
            [self.rows.slice(at, length) for at, length in zip(places[starts].tolist(), lengths.tolist(), strict=True)]
        )

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return the result of ``make``, which is cached under ``name``."""
        if name not in self.kept:
            self.kept[name] = make()
        return cast("T", self.kept[name])

    def with_rows(self, *groups: RowGroup) -> Trace:
        """Return a trace with the rows of ``groups`` appended."""
        tables = [self.rows, *map(_table, groups)]
        return Trace(pa.concat_tables(tables).unify_dictionaries(), self.job)

    @property
    def notes(self) -> list[str]:
        """Sentences on what this trace does not contain."""
        return list(self.job.notes)

    def write(self, path: Path) -> None:
        """Write the trace as a Parquet file, which appears at ``path`` only when complete. Raises StorageError."""
        job = json.dumps({"version": VERSION, **self.job.to_json()}).encode()
        table = self.rows.replace_schema_metadata({_JOB_KEY: job})
        with whole_file(path) as unfinished, pq.ParquetWriter(unfinished, table.schema, compression="zstd") as writer:
            # Each row group has rows of one kind, so readers can skip the columns that are null for this kind.
            for run in self._runs(table):
                writer.write_table(run)

    def _runs(self, table: pa.Table) -> list[pa.Table]:
        """Split the rows into runs of one kind each; if the runs would be too many, return the whole table."""
        column, _ = codes(self.rows, "kind")
        starts = np.nonzero(np.diff(column, prepend=-2))[0]
        if not len(starts) or len(starts) > RUNS_MAX // 10:
            return [table]
        ends = [*starts[1:].tolist(), len(column)]
        return [table.slice(start, end - start) for start, end in zip(starts.tolist(), ends, strict=True)]


def check_replaceable(path: Path) -> None:
    """Raise OptionError if the path exists and is not a trace, so that a mistyped option cannot overwrite data."""
    if not path.exists():
        return
    if not path.is_file():
        raise OptionError(f"{path} is not a regular file, so it is not replaced", hint="name a file for the trace")
    try:
        is_trace = path.stat().st_size == 0 or _JOB_KEY in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        is_trace = False
    if not is_trace:
        hint = "choose another file for the trace, or remove this one"
        raise OptionError(f"{path} exists and is not a trace, so it is not replaced", hint=hint)


def read_trace(path: Path) -> Trace:
    """Read a trace from a file. Raises MissingFileError, or BadFileError for a file that is not a trace."""
    if not path.is_file():
        hint = None
        killed = path.with_name(path.name.removesuffix(UNFINISHED))
        if killed.with_name(killed.name + UNFINISHED).is_dir():
            hint = f"a killed job left its requests: branchline trace recover {killed}"
        raise MissingFileError(f"no trace found at {path}", path=str(path), hint=hint)
    try:
        with pq.ParquetFile(path) as file:
            table = _rows_in(file)
    except (pa.ArrowException, OSError) as error:
        raise BadFileError(f"{path} is not a trace: {error}", path=str(path)) from error
    written = (table.schema.metadata or {}).get(_JOB_KEY)
    if written is None:
        hint = (
            "traces are written by `branchline trace run` and by --trace; advice on data is for ROOT files: "
            "convert it with `branchline convert FILE.parquet -o FILE.root`"
        )
        raise BadFileError(f"{path} is Parquet, but not a trace", path=str(path), hint=hint)
    try:
        plain = dict(json.loads(written))
        version, job = int(plain.get("version", 0)), TracedJob.from_json(plain)
    except (ValueError, TypeError) as error:
        raise BadFileError(f"{path} is not a trace: its description is damaged", path=str(path)) from error
    if version > VERSION:
        raise BadFileError(f"{path} was written by a newer Branchline", path=str(path), hint="update Branchline")
    return Trace(table, job)


def _rows_in(file: pq.ParquetFile) -> pa.Table:
    """Return the rows of a file with all columns of the schema.

    In each row group, columns that are empty according to the statistics are not read. For most kinds of rows, half of
    the columns are empty.
    """
    for one in file.schema_arrow:
        if one.name in SCHEMA.names and pa.types.is_nested(one.type):
            raise pa.ArrowInvalid(f"its column {one.name} is {one.type}")
    tables = [SCHEMA.empty_table()]
    for number in range(file.num_row_groups):
        stored = file.metadata.row_group(number)
        columns = [stored.column(place) for place in range(stored.num_columns)]
        some = {
            one.path_in_schema
            for one in columns
            if one.statistics is None
            or not one.statistics.has_null_count
            or one.statistics.null_count < stored.num_rows
        }
        group = file.read_row_group(number, columns=[name for name in SCHEMA.names if name in some])
        filled = [
            group[name] if name in group.schema.names else pa.chunked_array([pa.nulls(stored.num_rows, kind)])
            for name, kind, _ in COLUMNS
        ]
        tables.append(pa.table(filled, names=SCHEMA.names).cast(SCHEMA))
    return pa.concat_tables(tables).unify_dictionaries().replace_schema_metadata(file.schema_arrow.metadata)


def numbers(table: pa.Table, name: str, missing: int = -1) -> Numbers:
    """Return a column as integers, with nulls replaced by ``missing``."""
    column = table[name].combine_chunks()
    filled: Numbers = pc.fill_null(column.cast(pa.int64()), missing).to_numpy(zero_copy_only=False)
    return filled


def codes(table: pa.Table, name: str) -> tuple[Numbers, list[str]]:
    """Return a string column as indices into a list of strings; nulls become -1."""
    column = table[name].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], _TEXT)
    indices: Numbers = pc.fill_null(column.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return indices, column.dictionary.to_pylist()


def files_read(trace: Trace) -> list[str]:
    """Return the files that were requested, ordered by first request."""
    column = trace.rows_of(REQUEST)["file"]
    return [path for path in pc.unique(column.cast(pa.string())).to_pylist() if path is not None]


def _table(group: RowGroup) -> pa.Table:
    """Return rows of one kind with all columns of the schema."""
    length, columns = len(group), group.columns()
    arrays = []
    for name, kind, _ in COLUMNS:
        if name == "kind":
            arrays.append(pa.DictionaryArray.from_arrays(pa.array(np.zeros(length, "i4")), pa.array([group.kind])))
        elif name in columns:
            arrays.append(_array(columns[name], kind))
        else:
            arrays.append(pa.nulls(length, kind))
    return pa.table(arrays, schema=SCHEMA)


def _array(value: Numbers | Codes | Sequence[int] | Sequence[str | None], kind: pa.DataType) -> pa.Array:
    if isinstance(value, Codes):
        missing = np.asarray(value.indices) < 0
        return pa.DictionaryArray.from_arrays(
            pa.array(np.asarray(value.indices, "i4"), mask=missing), pa.array(value.texts, pa.string())
        )
    if isinstance(value, np.ndarray) and value.dtype == np.int64 and kind != _TEXT:
        # Negative values mean unknown, since offsets, entries and times are never negative.
        return pa.array(value, pa.int64(), mask=value < 0).cast(kind)
    array = pa.array(value, pa.string() if kind == _TEXT else kind)
    return array.dictionary_encode() if kind == _TEXT else array
