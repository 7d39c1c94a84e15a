"""Move pending rows from the database to history files, and merge a day's small history files into larger files."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from branchline.base.limits import HISTORY_FILE_ROWS_MAX, HISTORY_FILES_JOINED, HISTORY_FILES_LATE, HISTORY_GROUP_ROWS
from branchline.control.history.parquet_folder import HistoryFolder
from branchline.control.history.rows import JOB, as_written_now, table_of
from branchline.control.room_errors import DatabaseError

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class HistoryFile:
    """A history file that the database lists. The file has a contiguous range of a day's batches.

    ``level`` is the number of merges: 0 for a file with formerly pending rows, and one more after each merge.
    ``first_batch`` is the ID of the file's first batch.
    """

    name: str
    day: str
    level: int
    first_batch: int
    rows: int


@dataclass(frozen=True)
class _Waiting:
    number: int
    job_id: int
    job: str
    made: str
    rows: int
    content: bytes


class StoppedError(Exception):
    """The merge was interrupted because the control room is closing. The history has not changed."""


def write_waiting(folder: HistoryFolder) -> int:
    """Write pending rows to a new file: about one row group, from the day of the oldest pending batch.

    Returns the number of written rows; 0 if no rows are pending. Raises DatabaseError, StorageError.
    """
    import pyarrow

    with folder.database.reading() as connection:
        waiting = list(_longest_waiting(connection))
    if not waiting:
        return 0
    [day] = {one.made[:10] for one in waiting}
    rows = sum(one.rows for one in waiting)
    with folder.new_file(day) as (name, writer):
        writer.write_table(_by_job(pyarrow.concat_tables(table_of(one.content, one.job, one.made) for one in waiting)))
    counts: Counter[int] = Counter()
    for one in waiting:
        counts[one.job_id] += one.rows
    with folder.listing(name) as connection:
        list_file(connection, folder, HistoryFile(name, day, 0, waiting[0].number, rows))
        connection.executemany(
            "INSERT INTO history_jobs VALUES (?, ?, ?)", [(job_id, name, count) for job_id, count in counts.items()]
        )
        gone = connection.executemany("DELETE FROM pending WHERE id = ?", [(one.number,) for one in waiting])
        if gone.rowcount != len(waiting):
            what = f"pending rows of {day} were removed from the database by another thread or process"
            raise DatabaseError(what, path=str(folder.database.path))
    return rows


def join_files(folder: HistoryFolder, today: str, check_stop: Callable[[], None]) -> int:
    """Merge one series of consecutive files. Return the number of merged files; 0 if there is nothing to merge.

    ``check_stop`` is called before each row group, and stops the merge by raising an exception. Raises DatabaseError,
    StorageError.
    """
    with folder.held():
        with folder.database.reading() as connection:
            together = _to_join(listed_files(connection), today)
        if not together:
            return 0
        day = together[0].day
        rows = 0
        with folder.new_file(day) as (name, writer):
            for table in _row_groups(folder, together):
                check_stop()
                writer.write_table(table)
                rows += len(table)
    level = max(one.level for one in together) + 1
    names = [(one.name,) for one in together]
    with folder.listing(name) as connection:
        if rows != sum(one.rows for one in together):
            listed = sum(one.rows for one in together)
            what = f"history files of {day} have {rows} rows, but the database lists {listed}"
            raise DatabaseError(what, path=str(folder.path(together[0].name).parent))
        list_file(connection, folder, HistoryFile(name, day, level, together[0].first_batch, rows))
        connection.executemany(
            "INSERT INTO history_jobs SELECT job_id, ?, rows FROM history_jobs WHERE name = ?"
            " ON CONFLICT (job_id, name) DO UPDATE SET rows = rows + excluded.rows",
            [(name, *one) for one in names],
        )
        unlist(connection, [one.name for one in together])
    folder.remove([one.name for one in together])
    return len(together)


def listed_files(connection: sqlite3.Connection) -> list[HistoryFile]:
    """Return the history files that the database lists, sorted by day and first batch."""
    query = "SELECT name, day, level, first_batch, rows FROM history_files ORDER BY day, first_batch"
    return [HistoryFile(*row) for row in connection.execute(query)]


def unlist(connection: sqlite3.Connection, names: Sequence[str]) -> None:
    """Remove files from the database's list. The files are then no longer part of the history."""
    connection.executemany("DELETE FROM history_jobs WHERE name = ?", [(one,) for one in names])
    connection.executemany("DELETE FROM history_files WHERE name = ?", [(one,) for one in names])


def list_file(connection: sqlite3.Connection, folder: HistoryFolder, file: HistoryFile) -> None:
    """Add a file to the database's list. The file is then part of the history."""
    size_bytes = folder.path(file.name).stat().st_size
    connection.execute(
        "INSERT INTO history_files VALUES (?, ?, ?, ?, ?, ?)",
        (file.name, file.day, file.level, file.first_batch, file.rows, size_bytes),
    )


def _longest_waiting(connection: sqlite3.Connection) -> Iterator[_Waiting]:
    """Yield pending batches from the day of the oldest batch, until the batches fill a row group."""
    found = connection.execute("SELECT day FROM pending ORDER BY id LIMIT 1").fetchone()
    query = (
        "SELECT pending.id, job_id, job, pending.made, rows, content FROM pending JOIN jobs ON jobs.id = job_id"
        " WHERE day = ? ORDER BY pending.id"
    )
    rows = 0
    for row in connection.execute(query, found) if found else ():
        one = _Waiting(*row)
        rows += one.rows
        yield one
        if rows >= HISTORY_GROUP_ROWS:
            return


def _to_join(files: Sequence[HistoryFile], today: str) -> list[HistoryFile]:
    """Return consecutive files to merge: HISTORY_FILES_JOINED files of one level, or a past day's remaining files."""
    for day in sorted({one.day for one in files}):
        run: list[HistoryFile] = []
        level: list[HistoryFile] = []
        for one in (file for file in files if file.day == day):
            if sum(each.rows for each in run) + one.rows > HISTORY_FILE_ROWS_MAX:
                run, level = [], []
            run.append(one)
            level = [*level, one] if level and level[-1].level == one.level else [one]
            if len(level) == HISTORY_FILES_JOINED:
                return level
        if day < today and len(run) > HISTORY_FILES_LATE:
            return run
    return []


def _row_groups(folder: HistoryFolder, files: Sequence[HistoryFile]) -> Iterator[pyarrow.Table]:
    """Yield the rows of files in row groups of at least HISTORY_GROUP_ROWS rows. The last group may be smaller.

    The rows of each job keep their order.
    """
    import pyarrow

    tables: list[pyarrow.Table] = []
    rows = 0
    for one in files:
        with folder.opened(one.name) as file:
            for index in range(file.num_row_groups):
                tables.append(as_written_now(file.read_row_group(index)))
                rows += len(tables[-1])
                if rows >= HISTORY_GROUP_ROWS:
                    yield _by_job(pyarrow.concat_tables(tables))
                    tables, rows = [], 0
    if tables:
        yield _by_job(pyarrow.concat_tables(tables))


def _by_job(table: pyarrow.Table) -> pyarrow.Table:
    """Return the rows sorted by job, so that a query for one job reads few row groups. The sort is stable."""
    import pyarrow.compute

    return table.take(pyarrow.compute.sort_indices(table, [(JOB, "ascending")]))
