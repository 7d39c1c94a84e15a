"""Query the history of file reads: sums over a period, grouped by site, host and so on, and the files of a job."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from branchline.base.limits import FILES_PAGE_MAX, HISTORY_GROUP_ROWS, HISTORY_THREADS_MAX
from branchline.base.plain import from_plain
from branchline.control.history.compaction import HistoryFile, listed_files
from branchline.control.history.parquet_folder import HistoryFolder
from branchline.control.history.rows import JOB, MADE, as_written_now, records_of, table_of, unpacked_rows
from branchline.control.reports.jobs import FilesPage
from branchline.control.reports.periods import bounds
from branchline.control.reports.readings import FileGroup, Period
from branchline.errors import OptionError
from branchline.records.sensors.record import FileRecord

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

#: Columns by which queries can group file reads.
KEYS = ("site", "storage_element", "host", "store", "codec")
# Columns that queries add up.
_SUMS = (
    "events", "bytes_read", "bytes_asked", "cached_bytes", "read_calls", "late_reads", "fetch_s", "open_s", "wall_s",
    "decompress_s", "decode_s",
)  # fmt: skip
_FAILED = "replicas_failed"
# Query for the pending rows of a range of days.
_PENDING_ROWS = (
    "SELECT content, job, pending.made FROM pending JOIN jobs ON jobs.id = job_id WHERE day >= ? AND day <= ?"
    " ORDER BY pending.id"
)


def file_groups(folder: HistoryFolder, by: Sequence[str], period: Period) -> list[FileGroup]:
    """Return sums over the file reads of a period, grouped by the columns ``by``, largest number of bytes first.

    Raises OptionError for an unknown column or an invalid period, and DatabaseError.
    """
    unknown = set(by) - set(KEYS)
    if unknown or not by:
        raise OptionError(f"cannot group files by {sorted(unknown)!r:.80}", hint=f"group by any of {', '.join(KEYS)}")
    begin, end = bounds(period)
    threads = min(HISTORY_THREADS_MAX, os.cpu_count() or 1)
    with folder.held():
        with folder.database.reading() as connection:
            first_day, last_day = begin.date().isoformat(), end.date().isoformat()
            files = [one for one in listed_files(connection) if first_day <= one.day <= last_day]
            pending = connection.execute(_PENDING_ROWS, (first_day, last_day))
            partial = [_sum_rows(table, by, begin, end) for table in _pending_tables(pending)]
        # Do not split files with at most one row group between threads.
        shares = [
            _Share(one, first, threads)
            for one in files
            for first in range(threads)
            if first == 0 or one.rows > HISTORY_GROUP_ROWS
        ]
        with ThreadPoolExecutor(threads) as pool:
            for tables in pool.map(lambda share: _sum_share(folder, share, by, begin, end), shares):
                partial += tables
    return _merge_sums(partial, by)


def _pending_tables(rows: Iterator[tuple[bytes, str, str]]) -> Iterator[pyarrow.Table]:
    """Yield pending rows in tables of about HISTORY_GROUP_ROWS rows each."""
    import pyarrow

    tables: list[pyarrow.Table] = []
    for row in rows:
        tables.append(table_of(*row))
        if sum(len(one) for one in tables) >= HISTORY_GROUP_ROWS:
            yield pyarrow.concat_tables(tables)
            tables = []
    if tables:
        yield pyarrow.concat_tables(tables)


@dataclass(frozen=True)
class _Share:
    """The part of a file for one thread: every ``stride``-th row group, starting at row group ``first``."""

    file: HistoryFile
    first: int
    stride: int


def _sum_share(
    folder: HistoryFolder, share: _Share, by: Sequence[str], begin: datetime, end: datetime
) -> list[pyarrow.Table]:
    wanted = [*by, MADE, _FAILED, *_SUMS]
    found = []
    with folder.opened(share.file.name) as file:
        columns = [one for one in wanted if one in file.schema_arrow.names]
        for index in range(share.first, file.num_row_groups, share.stride):
            table = file.read_row_group(index, columns=columns, use_threads=False)
            found.append(_sum_rows(as_written_now(table, wanted), by, begin, end))
    return found


def _sum_rows(table: pyarrow.Table, by: Sequence[str], begin: datetime, end: datetime) -> pyarrow.Table:
    """Return sums over the rows of a table that were reported between ``begin`` and ``end``."""
    import pyarrow.compute as compute

    made = table.column(MADE)
    times = compute.min_max(made).as_py()
    if len(table) and not begin <= times["min"] <= times["max"] < end:
        table = table.filter(compute.and_(compute.greater_equal(made, begin), compute.less(made, end)))
    failures = compute.fill_null(compute.list_value_length(table.column(_FAILED)), 0)
    table = table.select([*by, *_SUMS]).append_column("failures", failures)
    sums = [(name, "sum") for name in (*_SUMS, "failures")]
    return table.group_by(list(by), use_threads=False).aggregate([*sums, ([], "count_all")])


def _merge_sums(partial: Sequence[pyarrow.Table], by: Sequence[str]) -> list[FileGroup]:
    """Merge the partial sums of each group into one FileGroup."""
    import pyarrow

    if not partial:
        return []
    names = [*_SUMS, "failures"]
    columns = [*(f"{name}_sum" for name in names), "count_all"]
    found = pyarrow.concat_tables(partial).group_by(list(by)).aggregate([(name, "sum") for name in columns])
    groups = []
    for row in found.to_pylist():
        values = {name: row[f"{name}_sum_sum"] for name in names} | {name: row[name] for name in by}
        # Columns that an earlier version did not write are null. Use the field's default for them.
        known = {name: value for name, value in values.items() if value is not None}
        groups.append(from_plain(FileGroup, {**known, "files": row["count_all_sum"]}))
    return sorted(groups, key=lambda one: (-one.bytes_read, one.site, one.storage_element, one.host))


def files_page(folder: HistoryFolder, job: str, first: int, count: int) -> FilesPage:
    """Return up to ``count`` of the files that a job has read, starting at index ``first``. Raises DatabaseError."""
    first, count = max(0, first), max(0, min(count, FILES_PAGE_MAX))
    with folder.held():
        with folder.database.reading() as connection:
            parts, total = _locate_parts(connection, job, first, count)
        files: list[FileRecord] = []
        for one in parts:
            if one.name:
                files += _read_part(folder, one, job)
            else:
                files += unpacked_rows(one.content)[one.skip : one.skip + one.count]
    return FilesPage(files, total)


@dataclass(frozen=True)
class _Part:
    """The requested rows of a job that are in one history file or in one batch of pending rows.

    ``name`` is the name of the history file. If ``name`` is empty, ``content`` has the pending rows. The part skips the
    job's first ``skip`` rows and has the next ``count`` rows.
    """

    name: str
    content: bytes
    skip: int
    count: int


def _locate_parts(connection: sqlite3.Connection, job: str, first: int, count: int) -> tuple[list[_Part], int]:
    """Return the parts with the requested rows, and the job's total number of rows."""
    found = connection.execute("SELECT id FROM jobs WHERE job = ?", (job,)).fetchone()
    if found is None:
        return [], 0
    rows = connection.execute(
        "SELECT day, first_batch, history_jobs.rows, name, 0 FROM history_jobs JOIN history_files USING (name)"
        " WHERE job_id = ?1 UNION ALL SELECT day, id, rows, '', id FROM pending WHERE job_id = ?1 ORDER BY 1, 2",
        found,
    )
    parts: list[_Part] = []
    begin = 0
    for _, _, there, name, waiting in rows.fetchall():
        skip, stop = max(0, first - begin), min(there, first + count - begin)
        if skip < stop:
            content = b""
            if not name:
                [content] = connection.execute("SELECT content FROM pending WHERE id = ?", (waiting,)).fetchone()
            parts.append(_Part(name, bytes(content), skip, stop - skip))
        begin += there
    return parts, begin


def _read_part(folder: HistoryFolder, part: _Part, job: str) -> Sequence[FileRecord]:
    """Read the requested rows of a job from a history file. Skips row groups without rows of the job."""
    import pyarrow.compute

    files: list[FileRecord] = []
    skip = part.skip
    with folder.opened(part.name) as file:
        column = file.schema_arrow.get_field_index(JOB)
        for index in range(file.num_row_groups):
            known = file.metadata.row_group(index).column(column).statistics
            if known is not None and known.has_min_max and not known.min <= job <= known.max:
                continue
            jobs = file.read_row_group(index, columns=[JOB]).column(0)
            there = pyarrow.compute.indices_nonzero(pyarrow.compute.equal(jobs, job))
            chosen = there[skip : skip + part.count - len(files)]
            skip = max(0, skip - len(there))
            if len(chosen):
                files += records_of(as_written_now(file.read_row_group(index)).take(chosen))
            if len(files) == part.count:
                break
    return files
