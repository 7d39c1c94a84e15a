"""A trace: its rows, their columns, the job that was traced, and the Parquet file that holds all of it.

A trace is one table. The ``kind`` of a row is *file*, for a file that was read; *request*, for bytes of it; *part*, the
piece of the file that a request hit; *extent*, a basket or page that was decompressed or decoded; or *span*, a time in
which a thread did one activity. Columns that do not apply to a kind are null.
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
#: Outcomes of requests without an error. After a read that must not wait and finds nothing in the page cache, another
#: one follows that waits for the disk.
OK, END_OF_FILE, MAPPED, NOT_CACHED = "ok", "end of file", "mapped", "not in the page cache"
NO_FAILURES = (OK, END_OF_FILE, MAPPED, NOT_CACHED)
#: The version of the format; a reader refuses a newer one.
VERSION = 1
#: The ending of the folder in which requests are collected, after the name of the trace.
UNFINISHED = ".unfinished"
#: Rows of a kind that lie in more pieces than this are gathered one by one.
RUNS_MAX = 1000
_JOB_KEY = b"branchline.trace"
_TEXT = pa.dictionary(pa.int32(), pa.string())
#: Every column, with what it means; times are nanoseconds since the trace began.
COLUMNS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("kind", _TEXT, "What the row is: file, request, part, extent, span."),
    ("request", pa.int64(), "The number of the request; of a part, of the request that it belongs to."),
    ("job", _TEXT, "The job, or the command line of the process, that sent the request."),
    ("wagon", _TEXT, "The wagon that the request was for; null where it was for none."),
    ("process", pa.int64(), "The process of the request."),
    ("thread", pa.int64(), "The thread of the request."),
    ("what", _TEXT, "Of a request the call that it was; of a part what lies there; of a span what was done."),
    ("file", _TEXT, "Path or URL of the file."),
    ("tree", _TEXT, "The tree, or the object, whose bytes these are."),
    ("branch", _TEXT, "The branch whose bytes these are."),
    ("basket", pa.int32(), "The number of the basket in its branch."),
    ("column", pa.int32(), "Of a page, the column of the RNTuple that it is of, where that is known."),
    ("entry_start", pa.int64(), "The first entry of the basket."),
    ("entry_stop", pa.int64(), "The entry after its last."),
    ("offset", pa.int64(), "The first byte in the file; null where it is not known."),
    ("size_bytes", pa.int64(), "Bytes that were requested; of a file and a part its size."),
    ("got_bytes", pa.int64(), "Bytes that came."),
    ("extent_bytes", pa.int64(), "Of a part, the whole size of what lies there."),
    ("queued_ns", pa.int64(), "When the request was decided, before it was sent."),
    ("sent_ns", pa.int64(), "When the request was sent; of a span and an extent when it began."),
    ("first_byte_ns", pa.int64(), "When the first byte came, where that is known."),
    ("last_byte_ns", pa.int64(), "When the last byte had come; of a span and an extent when it ended."),
    ("store", _TEXT, "The storage element that served it."),
    ("connection", pa.int64(), "The connection that carried it; of a local file its descriptor."),
    ("attempt", pa.int16(), "1 for the first try."),
    ("outcome", _TEXT, "ok, end of file, mapped, not in the page cache, or the error."),
)
SCHEMA = pa.schema([(name, kind) for name, kind, _ in COLUMNS])
T = TypeVar("T")


Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Codes:
    """Texts as numbers into a list of these; negative for none."""

    indices: Numbers
    texts: list[str]

    def __len__(self) -> int:
        return len(self.indices)


#: The values of a column; None stands for rows that have none of it.
Values = Numbers | Codes | Sequence[int] | Sequence[str | None] | None


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rows of one kind as columns of the same length, with the names of ``COLUMNS``."""

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
        """The columns that these rows have, without their kind."""
        found = {name: getattr(self, name) for name, _, _ in COLUMNS if name != "kind"}
        return {name: values for name, values in found.items() if values is not None}


@dataclass(frozen=True)
class TracedJob:
    """The command that was traced, the ``program`` that recorded it (branchline or strace), the host, when it began
    (nanoseconds since 1970) and how long it took. ``processes`` is how many were recorded, ``exit_code`` that of the
    command, both None where they are not known. ``notes`` are sentences on what the trace does not hold.
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
        """The facts that are known, as numbers and texts."""
        facts = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: list(value) if name == "notes" else value for name, value in facts.items() if value is not None}

    @classmethod
    def from_json(cls, plain: Mapping[str, object]) -> TracedJob:
        """The job that ``to_json`` wrote; facts that are missing have their defaults, others are left out.

        Raises ValueError or TypeError for facts of other types.
        """
        usual = cls()
        notes = plain.get("notes", ())
        if not isinstance(notes, list | tuple):
            raise TypeError("notes are no list")
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
        raise TypeError(f"{value!r} is no number")
    return int(value)


@dataclass(frozen=True)
class Trace:
    """A trace: its rows, and the job that was traced."""

    rows: pa.Table
    job: TracedJob = field(default_factory=TracedJob)
    #: Results that are computed from the rows once, by name: tables and pages need the same ones.
    kept: dict[str, object] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, groups: Sequence[Group], job: TracedJob) -> Trace:
        """A trace of several groups of rows."""
        tables = [_table(group) for group in groups]
        return cls(pa.concat_tables(tables).unify_dictionaries() if tables else SCHEMA.empty_table(), job)

    def rows_of(self, kind: str) -> pa.Table:
        """The rows of one kind, in their order."""
        return self.once(f"rows of {kind}", lambda: self._rows_of(kind))

    def _rows_of(self, kind: str) -> pa.Table:
        column, kinds = codes(self.rows, "kind")
        places = np.nonzero(column == (kinds.index(kind) if kind in kinds else -2))[0]
        # Rows of a kind mostly lie together, and a slice copies nothing.
        starts = np.nonzero(np.diff(places, prepend=-2) > 1)[0]
        if not len(places) or len(starts) > RUNS_MAX:
            return self.rows.take(pa.array(places))
        lengths = np.diff(starts, append=len(places))
        return pa.concat_tables(
            [self.rows.slice(at, length) for at, length in zip(places[starts].tolist(), lengths.tolist(), strict=True)]
        )

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What ``make`` gives, made once for this trace under this name."""
        if name not in self.kept:
            self.kept[name] = make()
        return cast("T", self.kept[name])

    def with_rows(self, *groups: Group) -> Trace:
        """The same trace with more rows."""
        tables = [self.rows, *map(_table, groups)]
        return Trace(pa.concat_tables(tables).unify_dictionaries(), self.job)

    @property
    def notes(self) -> list[str]:
        """What this trace does not hold, in sentences."""
        return list(self.job.notes)

    def write(self, path: Path) -> None:
        """Writes it as Parquet; the file appears when it is whole. Raises StorageError."""
        job = json.dumps({"version": VERSION, **self.job.to_json()}).encode()
        table = self.rows.replace_schema_metadata({_JOB_KEY: job})
        with whole_file(path) as unfinished, pq.ParquetWriter(unfinished, table.schema, compression="zstd") as writer:
            # Row groups of one kind let readers skip the columns that this kind does not have.
            for run in self._runs(table):
                writer.write_table(run)

    def _runs(self, table: pa.Table) -> list[pa.Table]:
        """The rows in pieces of one kind, if these are few."""
        column, _ = codes(self.rows, "kind")
        starts = np.nonzero(np.diff(column, prepend=-2))[0]
        if not len(starts) or len(starts) > RUNS_MAX // 10:
            return [table]
        ends = [*starts[1:].tolist(), len(column)]
        return [table.slice(start, end - start) for start, end in zip(starts.tolist(), ends, strict=True)]


def check_replaceable(path: Path) -> None:
    """Raises OptionError for a path with something that is no trace: a mistyped option must not cost a file of data."""
    if not path.exists():
        return
    if not path.is_file():
        raise OptionError(f"{path} is no regular file, so no trace can replace it", hint="name a file for the trace")
    try:
        is_trace = path.stat().st_size == 0 or _JOB_KEY in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        is_trace = False
    if not is_trace:
        hint = "name another file for the trace, or remove this one"
        raise OptionError(f"{path} exists and is no trace, so it is not replaced", hint=hint)


def read_trace(path: Path) -> Trace:
    """The trace in a file. Raises MissingFileError, and BadFileError for a file that is no trace."""
    if not path.is_file():
        hint = None
        killed = path.with_name(path.name.removesuffix(UNFINISHED))
        if killed.with_name(killed.name + UNFINISHED).is_dir():
            hint = f"a killed job left its requests: branchline trace recover {killed}"
        raise MissingFileError(f"there is no trace {path}", path=str(path), hint=hint)
    try:
        with pq.ParquetFile(path) as file:
            table = _rows_in(file)
    except (pa.ArrowException, OSError) as error:
        raise BadFileError(f"{path} is no trace: {error}", path=str(path)) from error
    written = (table.schema.metadata or {}).get(_JOB_KEY)
    if written is None:
        hint = (
            "traces are written by `branchline trace run` and by --trace; advice on data is for ROOT files: "
            "`branchline convert FILE.parquet -o FILE.root` makes one of them"
        )
        raise BadFileError(f"{path} is Parquet, but no trace", path=str(path), hint=hint)
    try:
        plain = dict(json.loads(written))
        version, job = int(plain.get("version", 0)), TracedJob.from_json(plain)
    except (ValueError, TypeError) as error:
        raise BadFileError(f"{path} is no trace: its description is damaged", path=str(path)) from error
    if version > VERSION:
        raise BadFileError(f"{path} is a trace of a newer Branchline", path=str(path), hint="update Branchline")
    return Trace(table, job)


def _rows_in(file: pq.ParquetFile) -> pa.Table:
    """The rows of a file, in the columns of the form. Of a group of rows those columns are not read that have nothing,
    as its statistics say: of most kinds that is half of them.
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
    """A column as numbers, with ``missing`` where there is none."""
    column = table[name].combine_chunks()
    filled: Numbers = pc.fill_null(column.cast(pa.int64()), missing).to_numpy(zero_copy_only=False)
    return filled


def codes(table: pa.Table, name: str) -> tuple[Numbers, list[str]]:
    """A column of texts as numbers into a list of these; -1 where there is none."""
    column = table[name].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], _TEXT)
    indices: Numbers = pc.fill_null(column.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return indices, column.dictionary.to_pylist()


def _table(group: Group) -> pa.Table:
    """Rows of one kind with all columns of the form."""
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
        # Negative numbers stand for what is not known: offsets, entries and times have none.
        return pa.array(value, pa.int64(), mask=value < 0).cast(kind)
    array = pa.array(value, pa.string() if kind == _TEXT else kind)
    return array.dictionary_encode() if kind == _TEXT else array
