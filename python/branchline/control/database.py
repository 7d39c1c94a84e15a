"""The SQLite file of a control room: opened by one process at a time, written by one thread at a time.

The write-ahead log makes each transaction whole or nothing, whatever is killed. ``synchronous = FULL``: what was
acknowledged to a job is on the disk, since the job forgets it then.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from branchline.control.errors import DatabaseError
from branchline.limits import DATABASE_JOURNAL_MAX_BYTES, DATABASE_WAIT_S

DATABASE = "control.sqlite"
_LOCK = "control.lock"
#: Raised when tables change in a way that an earlier Branchline would misunderstand.
DATABASE_VERSION = 1


class Database:
    """An open database. Threads may use it at the same time: each reads by a connection of its own, and writes one
    after the other.
    """

    def __init__(self, folder: Path, tables: Sequence[str], *, is_beside: bool = False) -> None:
        """Opens the database in a folder, which is made; ``tables`` are statements that make what is not there. One
        that ``is_beside`` works beside the process that has it, on what that process does not remember.

        Raises DatabaseError if another process has it, or a later Branchline wrote it.
        """
        self.path = folder / DATABASE
        # It goes on growing when the process is started again: no room has a thousand changes a second.
        self._version = time.time_ns() // 1_000_000
        self._write_lock = threading.Lock()
        # Threads of a server come and go: a connection goes from one to the next, and there are as many as were needed
        # at once.
        self._idle: list[sqlite3.Connection] = []
        self._connections: list[sqlite3.Connection] = []
        self._connections_lock = threading.Lock()
        with _explained(self.path):
            folder.mkdir(parents=True, exist_ok=True)
            self._lock_file = -1 if is_beside else _locked(folder / _LOCK)
            try:
                self._writer = self._connected()
                self._prepare(tables)
            except BaseException:
                self.close()
                raise

    @property
    def version(self) -> int:
        """A number that grows with every change."""
        return self._version

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all that is done inside, or nothing if it raises. Raises DatabaseError, as for a full disk."""
        with self._write_lock, _explained(self.path):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                # Where the disk is full SQLite may have rolled back by itself, or may not have committed.
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
            self._version += 1

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The state of one moment, whatever is written meanwhile. Raises DatabaseError."""
        with _explained(self.path):
            connection = self._reader()
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("COMMIT")
                with self._connections_lock:
                    self._idle.append(connection)

    def changed(self) -> None:
        """Lets the version grow where time alone changed what is shown."""
        with self._write_lock:
            self._version += 1

    def close(self) -> None:
        """Closes it, and lets others open it; once is enough."""
        with self._connections_lock:
            for one in self._connections:
                with suppress(sqlite3.Error):
                    one.close()
            self._connections.clear()
            self._idle.clear()
        lock_file, self._lock_file = self._lock_file, -1
        if lock_file >= 0:
            os.close(lock_file)

    def _reader(self) -> sqlite3.Connection:
        with self._connections_lock:
            if self._idle:
                return self._idle.pop()
        connection = self._connected()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=DATABASE_WAIT_S, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        with self._connections_lock:
            self._connections.append(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA journal_size_limit = {DATABASE_JOURNAL_MAX_BYTES}")
        return connection

    def _prepare(self, tables: Sequence[str]) -> None:
        [version] = self._writer.execute("PRAGMA user_version").fetchone()
        if version > DATABASE_VERSION:
            what = f"{self.path} is of version {version}, and this Branchline knows versions up to {DATABASE_VERSION}"
            raise DatabaseError(what, path=str(self.path), hint="use a later Branchline")
        self._writer.execute("BEGIN IMMEDIATE")
        for statement in ";".join(tables).split(";"):
            self._writer.execute(statement)
        self._writer.execute(f"PRAGMA user_version = {DATABASE_VERSION}")
        self._writer.execute("COMMIT")
        self.path.chmod(0o600)


def _locked(path: Path) -> int:
    """Holds a file, in which the process that has it stands. Raises DatabaseError if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.read(descriptor, 100).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        what = f"{path.parent} is served already, by process {owner}"
        raise DatabaseError(what, path=str(path.parent), hint="end it first, or name another directory") from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turns errors of SQLite into those for people; errors of statements that we wrote wrongly stay as they are."""
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
        if isinstance(error, sqlite3.ProgrammingError | sqlite3.IntegrityError | sqlite3.DataError):
            raise
        full = "full" in str(error)
        hint = "make room there" if full else "check the disk, and that the directory may be written to"
        raise DatabaseError(f"{path}: {error}", path=str(path), hint=hint, retry=full) from error
    except OSError as error:
        if isinstance(error, DatabaseError):
            raise
        raise DatabaseError(f"{path} cannot be used: {error.strerror or error}", path=str(path)) from error
