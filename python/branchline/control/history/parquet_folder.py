"""The folder of Parquet files. Those that the database lists count; all others are remains of a kill.

A file gets its name when it is whole and on the disk, then a transaction lists it and removes what it replaces: rows
that waited, or files that it joins. So each row is there once at every moment, wherever a process is killed.
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
from typing import Any

from branchline.base.whole_files import failed_writing, whole_file
from branchline.control.database import Database
from branchline.control.history.rows import repeated_columns, row_schema
from branchline.control.room_errors import DatabaseError

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_OURS = re.compile(r"(\.writing-)?[0-9a-f]{32}\.parquet")


class HistoryFolder:
    """The files of the history. Threads may use it at the same time."""

    def __init__(self, database: Database, folder: Path) -> None:
        """Removes files that the database does not list. Raises DatabaseError if it cannot be read."""
        self.database = database
        self._folder = folder
        self._lock = threading.Lock()
        self._readers = 0
        self._gone: list[str] = []
        self._remove_unlisted()

    def path(self, name: str) -> Path:
        """Where a listed file is."""
        return self._folder / name

    @contextmanager
    def new_file(self, day: str) -> Iterator[tuple[str, Any]]:
        """The name of a new file of a day, and the writer of its rows. It is on the disk afterwards, and not listed.

        Raises StorageError.
        """
        import pyarrow.parquet

        if not _DAY.fullmatch(day):
            raise ValueError(f"{day!r:.40} is no day")
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
        """The transaction that lists a new file; if it fails, the file is removed. Raises DatabaseError."""
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
        """While inside no file is removed: first hold, then ask which are listed."""
        with self._lock:
            self._readers += 1
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1
            self.remove([])

    def remove(self, names: Sequence[str]) -> None:
        """Removes files that are no longer listed, as soon as nobody reads any."""
        with self._lock:
            self._gone += names
            if self._readers:
                return
            gone, self._gone = self._gone, []
        for name in gone:
            # What cannot be removed now is at the next start.
            with suppress(OSError):
                (self._folder / name).unlink()

    def opened(self, name: str, **options: Any) -> Any:
        """A listed file. Raises DatabaseError if it is gone or damaged."""
        import pyarrow
        import pyarrow.parquet

        path = self._folder / name
        try:
            return pyarrow.parquet.ParquetFile(path, **options)
        except (OSError, pyarrow.ArrowException) as error:
            what = f"{path}, a file of the history, cannot be read: {error}"
            raise DatabaseError(what, path=str(path), hint="bring it back from a copy") from error

    def _remove_unlisted(self) -> None:
        with self.database.reading() as connection:
            listed = {name for (name,) in connection.execute("SELECT name FROM history_files")}
        for path in self._folder.glob("date=*/*.parquet") if self._folder.is_dir() else ():
            name = f"{path.parent.name}/{path.name}"
            if _OURS.fullmatch(path.name) and name not in listed:
                self.remove([name])
        for path in self._folder.glob("date=*/.writing-*.parquet") if self._folder.is_dir() else ():
            if _OURS.fullmatch(path.name):
                self.remove([f"{path.parent.name}/{path.name}"])


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
