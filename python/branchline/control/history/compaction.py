"""Rows that wait become files of their day, and small files become larger ones."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from branchline.base.limits import HISTORY_FILE_ROWS_MAX, HISTORY_FILES_JOINED, HISTORY_FILES_LATE, HISTORY_GROUP_ROWS
from branchline.control.history.parquet_folder import HistoryFolder
from branchline.control.history.rows import JOB, as_written_now, table_of
from branchline.control.room_errors import DatabaseError


@dataclass(frozen=True)
class HistoryFile:
    """A listed file. ``level`` is 0 for one of rows that waited, and grows by one with each joining; ``first_batch`` is
    the least number of a batch in it: files of a day have the rows of one run of batches each.
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
    """The control room is being closed; what was begun is as if it had not."""


def write_waiting(folder: HistoryFolder) -> int:
    """Writes rows of the day that has waited longest as one file; the number of rows, 0 if none wait.

    Raises DatabaseError, StorageError.
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
            raise DatabaseError(f"rows of {day} were taken from the database twice", path=str(folder.database.path))
    return rows


def join_files(folder: HistoryFolder, today: str, check_stop: Callable[[], None]) -> int:
    """Joins some neighbouring files into one; the number of them, 0 if there is nothing to do.

    ``check_stop`` is called now and then and may raise. Raises DatabaseError, StorageError.
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
            what = f"files of {day} have {rows} rows, not those that are listed"
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
    """The files that count, in the order of their rows."""
    query = "SELECT name, day, level, first_batch, rows FROM history_files ORDER BY day, first_batch"
    return [HistoryFile(*row) for row in connection.execute(query)]


def unlist(connection: sqlite3.Connection, names: Sequence[str]) -> None:
    """Files that no longer count."""
    connection.executemany("DELETE FROM history_jobs WHERE name = ?", [(one,) for one in names])
    connection.executemany("DELETE FROM history_files WHERE name = ?", [(one,) for one in names])


def list_file(connection: sqlite3.Connection, folder: HistoryFolder, file: HistoryFile) -> None:
    """A file that counts from now on."""
    size_bytes = folder.path(file.name).stat().st_size
    connection.execute(
        "INSERT INTO history_files VALUES (?, ?, ?, ?, ?, ?)",
        (file.name, file.day, file.level, file.first_batch, file.rows, size_bytes),
    )


def _longest_waiting(connection: sqlite3.Connection) -> Iterator[_Waiting]:
    """Batches of one day, the first ones, with the rows of one group."""
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
    """Neighbours of a day that fit into a file: many of one level, or what is left of a day that is over."""
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


def _row_groups(folder: HistoryFolder, files: Sequence[HistoryFile]) -> Iterator[Any]:
    """The rows of files in groups of the usual size: rows of a job stay in the order in which they came."""
    import pyarrow

    tables: list[Any] = []
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


def _by_job(table: Any) -> Any:
    """Rows sorted by job, those of a job in their order, so that few groups have to be read for a job."""
    import pyarrow.compute

    return table.take(pyarrow.compute.sort_indices(table, [(JOB, "ascending")]))
