"""The folder with the history's Parquet files. Files that the database does not list are left over from a crash.

A complete file is synced to the disk and renamed to its final name. One transaction then adds the file to the
database's list and removes the pending rows or the smaller files that the new file replaces. Each row of the history
therefore exists exactly once, even after a crash.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from branchline.base.whole_files import failed_writing, whole_file
from branchline.control.database import Database
from branchline.control.history.rows import repeated_columns, row_schema
from branchline.control.room_errors import DatabaseError

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_OURS = re.compile(r"(\.writing-)?[0-9a-f]{32}\.parquet")


class HistoryFolder:
    """The Parquet files of the history. Thread-safe."""

    def __init__(self, database: Database, folder: Path) -> None:
        """Open the folder and remove files that the database does not list. Raises DatabaseError."""
        self.database = database
        self._folder = folder
        self._lock = threading.Lock()
        self._readers = 0
        self._gone: list[str] = []
        with database.reading() as connection:
            listed = {name for (name,) in connection.execute("SELECT name FROM history_files")}
        for path in folder.glob("date=*/*.parquet") if folder.is_dir() else ():
            name = f"{path.parent.name}/{path.name}"
            if _OURS.fullmatch(path.name) and name not in listed:
                self.remove([name])
        for path in folder.glob("date=*/.writing-*.parquet") if folder.is_dir() else ():
            if _OURS.fullmatch(path.name):
                self.remove([f"{path.parent.name}/{path.name}"])

    def path(self, name: str) -> Path:
        """Return the path of the history file ``name``."""
        return self._folder / name

    @contextmanager
    def new_file(self, day: str) -> Iterator[tuple[str, pyarrow.parquet.ParquetWriter]]:
        """Yield the name of a new file for a day's rows, and a writer.

        On exit, the file is synced to the disk. The caller adds the file to the database's list. Raises StorageError.
        """
        import pyarrow.parquet

        if not _DAY.fullmatch(day):
            raise ValueError(f"invalid day {day!r:.40}; expected YYYY-MM-DD")
        name = f"date={day}/{uuid.uuid4().hex}.parquet"
        path = self._folder / name
        is_new_folder = not path.parent.exists()
        with whole_file(path) as temporary:
            with pyarrow.parquet.ParquetWriter(
                temporary, row_schema(), compression="zstd", use_dictionary=repeated_columns()
            ) as writer:
                yield name, writer
            _to_disk(temporary)
        with failed_writing(path):
            for folder in (path.parent, *((self._folder, self._folder.parent) if is_new_folder else ())):
                _to_disk(folder)

    @contextmanager
    def listing(self, name: str) -> Iterator[sqlite3.Connection]:
        """Open the transaction that lists a new file. A failed transaction removes the file. Raises DatabaseError."""
        try:
            with self.database.writing() as connection:
                yield connection
        except BaseException:
            with suppress(DatabaseError), self.database.reading() as connection:
                query = "SELECT 1 FROM history_files WHERE name = ?"
                if connection.execute(query, (name,)).fetchone() is None:
                    self.remove([name])
            raise

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delay the removal of files until exit.

        Enter this context before querying the database's list of files, so that all listed files exist.
        """
        with self._lock:
            self._readers += 1
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1
            self.remove([])

    def remove(self, names: Sequence[str]) -> None:
        """Remove files that the database no longer lists, as soon as no reader is inside ``held()``."""
        with self._lock:
            self._gone += names
            if self._readers:
                return
            gone, self._gone = self._gone, []
        for name in gone:
            # The next start of the control room retries the removal.
            with suppress(OSError):
                (self._folder / name).unlink()

    def opened(self, name: str) -> pyarrow.parquet.ParquetFile:
        """Open the history file ``name``. Raises DatabaseError if the file is missing or damaged."""
        import pyarrow
        import pyarrow.parquet

        path = self._folder / name
        try:
            return pyarrow.parquet.ParquetFile(path)
        except (OSError, pyarrow.ArrowException) as error:
            what = f"cannot read the history file {path}: {error}"
            raise DatabaseError(what, path=str(path), hint="restore it from a backup") from error


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
