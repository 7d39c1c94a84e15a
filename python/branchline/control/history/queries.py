"""Queries on the rows of files: sums over a period by common properties, and the files that a job read."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

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

#: What rows may be grouped by.
KEYS = ("site", "storage_element", "host", "store", "codec")
# Summed columns.
_SUMS = (
    "events", "bytes_read", "bytes_asked", "cached_bytes", "read_calls", "late_reads", "fetch_s", "open_s", "wall_s",
    "decompress_s", "decode_s",
)  # fmt: skip
_FAILED = "replicas_failed"
# Rows of a range of days that are not in history files yet.
_PENDING_ROWS = (
    "SELECT content, job, pending.made FROM pending JOIN jobs ON jobs.id = job_id WHERE day >= ? AND day <= ?"
    " ORDER BY pending.id"
)


def file_groups(folder: HistoryFolder, by: Sequence[str], period: Period) -> list[FileGroup]:
    """The groups of a period, the one with most bytes first. Raises OptionError, DatabaseError."""
    unknown = set(by) - set(KEYS)
    if unknown or not by:
        raise OptionError(f"files cannot be grouped by {sorted(unknown)!r:.80}", hint=f"by {', '.join(KEYS)}")
    begin, end = bounds(period)
    threads = min(HISTORY_THREADS_MAX, os.cpu_count() or 1)
    with folder.held():
        with folder.database.reading() as connection:
            files = [one for one in listed_files(connection) if _touches(one.day, begin, end)]
            partial = [
                _sum_rows(table, by, begin, end)
                for table in _pending_tables(
                    connection.execute(_PENDING_ROWS, (begin.date().isoformat(), end.date().isoformat()))
                )
            ]
        shares = [_Share(one, first, threads) for one in files for first in range(threads) if _has_share(one, first)]
        with ThreadPoolExecutor(threads) as pool:
            for tables in pool.map(lambda share: _sum_share(folder, share, by, begin, end), shares):
                partial += tables
    return _merge_sums(partial, by)


def _touches(day: str, begin: datetime, end: datetime) -> bool:
    return begin.date().isoformat() <= day <= end.date().isoformat()


def _pending_tables(rows: Iterator[tuple[bytes, str, str]]) -> Iterator[Any]:
    """Tables of rows that wait, of the usual size."""
    import pyarrow

    tables: list[Any] = []
    for row in rows:
        tables.append(table_of(*row))
        if sum(len(one) for one in tables) >= HISTORY_GROUP_ROWS:
            yield pyarrow.concat_tables(tables)
            tables = []
    if tables:
        yield pyarrow.concat_tables(tables)


@dataclass(frozen=True)
class _Share:
    """Every ``stride``-th group of rows of a file, from ``first`` on."""

    file: HistoryFile
    first: int
    stride: int


def _has_share(file: HistoryFile, first: int) -> bool:
    """Whether a file may have so many groups: none has more than twice the rows of a usual one."""
    return first == 0 or file.rows > HISTORY_GROUP_ROWS


def _sum_share(folder: HistoryFolder, share: _Share, by: Sequence[str], begin: datetime, end: datetime) -> list[Any]:
    wanted = [*by, MADE, _FAILED, *_SUMS]
    found = []
    with folder.opened(share.file.name) as file:
        columns = [one for one in wanted if one in file.schema_arrow.names]
        for index in range(share.first, file.num_row_groups, share.stride):
            table = file.read_row_group(index, columns=columns, use_threads=False)
            found.append(_sum_rows(as_written_now(table, wanted), by, begin, end))
    return found


def _sum_rows(table: Any, by: Sequence[str], begin: datetime, end: datetime) -> Any:
    """Sums of rows of a period."""
    import pyarrow.compute as compute

    made = table.column(MADE)
    times = compute.min_max(made).as_py()
    if len(table) and not begin <= times["min"] <= times["max"] < end:
        table = table.filter(compute.and_(compute.greater_equal(made, begin), compute.less(made, end)))
    failures = compute.fill_null(compute.list_value_length(table.column(_FAILED)), 0)
    table = table.select([*by, *_SUMS]).append_column("failures", failures)
    sums = [(name, "sum") for name in (*_SUMS, "failures")]
    return table.group_by(list(by), use_threads=False).aggregate([*sums, ([], "count_all")])


def _merge_sums(partial: Sequence[Any], by: Sequence[str]) -> list[FileGroup]:
    """The sums of all parts."""
    import pyarrow

    if not partial:
        return []
    names = [*_SUMS, "failures"]
    columns = [*(f"{name}_sum" for name in names), "count_all"]
    found = pyarrow.concat_tables(partial).group_by(list(by)).aggregate([(name, "sum") for name in columns])
    groups = []
    for row in found.to_pylist():
        values = {name: row[f"{name}_sum_sum"] for name in names} | {name: row[name] for name in by}
        # What earlier versions did not write has its default.
        known = {name: value for name, value in values.items() if value is not None}
        groups.append(from_plain(FileGroup, {**known, "files": row["count_all_sum"]}))
    return sorted(groups, key=lambda one: (-one.bytes_read, one.site, one.storage_element, one.host))


def files_page(folder: HistoryFolder, job: str, first: int, count: int) -> FilesPage:
    """Some rows of a job. Raises DatabaseError."""
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
    """Rows of the job from ``skip`` on, ``count`` of them: in a listed file, or ``content`` that waits."""

    name: str
    content: bytes
    skip: int
    count: int


def _locate_parts(connection: sqlite3.Connection, job: str, first: int, count: int) -> tuple[list[_Part], int]:
    """Where the rows are, and how many rows the job has in all."""
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
            content = b"" if name else _pending_content(connection, waiting)
            parts.append(_Part(name, content, skip, stop - skip))
        begin += there
    return parts, begin


def _pending_content(connection: sqlite3.Connection, waiting: int) -> bytes:
    [content] = connection.execute("SELECT content FROM pending WHERE id = ?", (waiting,)).fetchone()
    return bytes(content)


def _read_part(folder: HistoryFolder, part: _Part, job: str) -> Sequence[FileRecord]:
    """Rows of the job in a file; only groups that have some are read."""
    import pyarrow.compute

    files: list[FileRecord] = []
    skip = part.skip
    with folder.opened(part.name) as file:
        column = file.schema_arrow.get_field_index(JOB)
        for index in range(file.num_row_groups):
            if not _may_contain_job(file.metadata.row_group(index).column(column).statistics, job):
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


def _may_contain_job(statistics: Any, job: str) -> bool:
    return statistics is None or not statistics.has_min_max or statistics.min <= job <= statistics.max
