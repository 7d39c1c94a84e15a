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

from branchline.base.limits import DATABASE_JOURNAL_MAX_BYTES, DATABASE_WAIT_S
from branchline.control.room_errors import DatabaseError
from branchline.errors import BranchlineError, InternalError

DATABASE = "control.sqlite"
_LOCK = "control.lock"
#: Raised when a table or a key changes that is there already: what is there stays as it was made. Tables of version 1,
#: which no release had, have several shapes.
DATABASE_VERSION = 2
#: What SQLite calls a disk that is full, a lock of others, and statements that we wrote wrongly.
_FULL = sqlite3.SQLITE_FULL
_HELD = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_OURS = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_INTERNAL, sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_RANGE)
_HINTS = {
    _FULL: "make room there",
    **dict.fromkeys(_HELD, "another process holds it, such as a backup or a shell with a transaction: end that"),
    **dict.fromkeys((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB), "it is damaged: bring it back from a copy"),
}


class Database:
    """An open database. Threads may use it at the same time: each reads by a connection of its own, and writes one
    after the other.
    """

    def __init__(self, folder: Path, tables: Sequence[str], *, is_beside: bool = False) -> None:
        """Opens the database in a folder, which is made; ``tables`` are statements that make what is not there. One
        that ``is_beside`` works beside the process that has it, on what that process does not remember.

        Raises DatabaseError if another process has it, or a Branchline with other tables made it.
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
        """Makes the tables that are not there; those that are there must be of this version, whoever made them."""
        self._writer.execute("BEGIN IMMEDIATE")
        self._check_version()
        for statement in ";".join(tables).split(";"):
            self._writer.execute(statement)
        self._writer.execute(f"PRAGMA user_version = {DATABASE_VERSION}")
        self._writer.execute("COMMIT")
        self.path.chmod(0o600)

    def _check_version(self) -> None:
        [version] = self._writer.execute("PRAGMA user_version").fetchone()
        [tables] = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if version == DATABASE_VERSION or not (version or tables):
            return
        if version > DATABASE_VERSION:
            what = f"a later Branchline made {self.path}, which is of version {version}"
            hint = "use that one, or serve another directory"
        elif version:
            what = f"an earlier Branchline made {self.path}, which is of version {version}"
            hint = f"move {self.path.parent} away and begin a new one, or serve it with the Branchline that made it"
        else:
            what, hint = f"{self.path} has tables that no Branchline made", "name another directory"
        raise DatabaseError(f"{what}; this one knows version {DATABASE_VERSION}", path=str(self.path), hint=hint)


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
    """Turns errors of SQLite into those for people: of the disk, of others who hold the database, or of ours."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        # Some callers look for one that breaks a rule of a table. Others are of Python's module, and ours.
        if isinstance(error, sqlite3.ProgrammingError | sqlite3.IntegrityError | sqlite3.DataError):
            raise
        raise _of_sqlite(path, error) from error
    except OSError as error:
        if isinstance(error, BranchlineError):
            raise
        raise DatabaseError(f"{path} cannot be used: {error.strerror or error}", path=str(path)) from error


def _of_sqlite(path: Path, error: sqlite3.DatabaseError) -> DatabaseError | InternalError:
    """What an error of SQLite means. Its extended codes have the kind in the lowest byte."""
    kind = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if kind in _OURS:
        hint = "this is a fault of Branchline: please report it, with what the server printed"
        return InternalError(f"the database was asked wrongly: {error}", path=str(path), hint=hint)
    hint = _HINTS.get(kind, "check the disk, and that the directory may be written to")
    return DatabaseError(f"{path}: {error}", path=str(path), hint=hint, retry=kind in (_FULL, *_HELD))
