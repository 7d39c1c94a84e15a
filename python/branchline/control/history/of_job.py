"""The files that a job has read, page by page, in the order in which they were reported."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from branchline.base.limits import FILES_PAGE_MAX
from branchline.control.history.parquet_folder import HistoryFolder
from branchline.control.history.rows import JOB, as_written_now, records_of, unpacked_rows
from branchline.control.reports.jobs import FilesPage
from branchline.records.sensors.record import FileRecord


@dataclass(frozen=True)
class _Part:
    """Rows of the job from ``skip`` on, ``count`` of them: in a listed file, or ``content`` that waits."""

    name: str
    content: bytes
    skip: int
    count: int


def files_page(folder: HistoryFolder, job: str, first: int, count: int) -> FilesPage:
    """Some rows of a job. Raises DatabaseError."""
    first, count = max(0, first), max(0, min(count, FILES_PAGE_MAX))
    with folder.held():
        with folder.database.reading() as connection:
            parts, total = _parts(connection, job, first, count)
        files: list[FileRecord] = []
        for one in parts:
            if one.name:
                files += _in_file(folder, one, job)
            else:
                files += unpacked_rows(one.content)[one.skip : one.skip + one.count]
    return FilesPage(files, total)


def _parts(connection: sqlite3.Connection, job: str, first: int, count: int) -> tuple[list[_Part], int]:
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
            content = b"" if name else _content(connection, waiting)
            parts.append(_Part(name, content, skip, stop - skip))
        begin += there
    return parts, begin


def _content(connection: sqlite3.Connection, waiting: int) -> bytes:
    [content] = connection.execute("SELECT content FROM pending WHERE id = ?", (waiting,)).fetchone()
    return bytes(content)


def _in_file(folder: HistoryFolder, part: _Part, job: str) -> Sequence[FileRecord]:
    """Rows of the job in a file; only groups that have some are read."""
    import pyarrow.compute

    files: list[FileRecord] = []
    skip = part.skip
    with folder.opened(part.name) as file:
        column = file.schema_arrow.get_field_index(JOB)
        for index in range(file.num_row_groups):
            if not _may_have(file.metadata.row_group(index).column(column).statistics, job):
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


def _may_have(statistics: Any, job: str) -> bool:
    return statistics is None or not statistics.has_min_max or statistics.min <= job <= statistics.max
