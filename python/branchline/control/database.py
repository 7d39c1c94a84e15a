"""A control room's SQLite database, which one process opens at a time and one thread writes at a time.

The write-ahead log makes each transaction atomic, even if the process is killed. ``synchronous = FULL`` syncs each
transaction to the disk, because a job deletes a report as soon as the control room has acknowledged the report.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path

from branchline.base.limits import DATABASE_JOURNAL_MAX_BYTES, DATABASE_WAIT_S
from branchline.base.quantities import NS_PER_MS
from branchline.control.room_errors import DatabaseError
from branchline.errors import BranchlineError, InternalError

DATABASE = "control.sqlite"
_LOCK = "control.lock"
#: Value of `PRAGMA application_id` ("BrLi" in ASCII) that marks a control room's database.
APPLICATION_ID = 0x42724C69
#: SQLite error codes: _FULL for a full disk, _HELD for a lock held by another process, _OURS for bugs in Branchline.
_FULL = sqlite3.SQLITE_FULL
_HELD = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_OURS = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_INTERNAL, sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_RANGE)
_HINTS = {
    _FULL: "free space on this disk",
    **dict.fromkeys(_HELD, "another process has locked it, such as a backup or an SQLite shell: end that process"),
    **dict.fromkeys((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB), "it is damaged: restore it from a backup"),
}


class Database:
    """An open database. Thread-safe: each reader has a connection of its own, and writers wait for each other."""

    def __init__(self, folder: Path, migrations: Sequence[str] | None = None, *, is_beside: bool = False) -> None:
        """Open or create the database in a folder, and apply missing migrations.

        ``migrations`` are SQL scripts, by default all files in the folder ``migrations``. ``is_beside`` skips the lock,
        to use the database while a server has the database open. Then change only tables that the server does not
        cache in memory.

        Raises DatabaseError if another process has the database open, or if a later version of Branchline or another
        program created the database.
        """
        self.path = folder / DATABASE
        # Starts at the time in milliseconds. The version therefore also grows across restarts, as long as there are
        # fewer than a thousand changes per second.
        self._version = time.time_ns() // NS_PER_MS
        self._write_lock = threading.Lock()
        # Pool of idle connections. Server threads are short-lived, so connections are not kept per thread.
        self._idle: list[sqlite3.Connection] = []
        self._connections: list[sqlite3.Connection] = []
        self._connections_lock = threading.Lock()
        with _explained(self.path):
            folder.mkdir(parents=True, exist_ok=True)
            self._lock_file = -1 if is_beside else _locked(folder / _LOCK)
            try:
                self._writer = self._connected()
                self._migrate(all_migrations() if migrations is None else migrations)
            except BaseException:
                self.close()
                raise

    @property
    def version(self) -> int:
        """A version number that grows with each change of the database."""
        return self._version

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Open a write transaction, which is rolled back on errors. Raises DatabaseError, e.g. if the disk is full."""
        with self._write_lock, _explained(self.path):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                # On a full disk, SQLite may already have rolled back the transaction.
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
            self._version += 1

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open a read transaction on a snapshot of the database. Raises DatabaseError."""
        with _explained(self.path):
            with self._connections_lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._connected()
                connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("COMMIT")
                with self._connections_lock:
                    self._idle.append(connection)

    def changed(self) -> None:
        """Increase the version without a write, for pages whose content changes with time."""
        with self._write_lock:
            self._version += 1

    def close(self) -> None:
        """Close the database and release its lock. Further calls do nothing."""
        with self._connections_lock:
            for one in self._connections:
                with suppress(sqlite3.Error):
                    one.close()
            self._connections.clear()
            self._idle.clear()
        lock_file, self._lock_file = self._lock_file, -1
        if lock_file >= 0:
            os.close(lock_file)

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

    def _migrate(self, migrations: Sequence[str]) -> None:
        """Apply the migrations that the database lacks, all in one transaction."""
        self._writer.execute("BEGIN IMMEDIATE")
        version = self._checked_version(len(migrations))
        for migration in migrations[version:]:
            for statement in _statements(migration):
                self._writer.execute(statement)
        self._writer.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self._writer.execute(f"PRAGMA user_version = {len(migrations)}")
        self._writer.execute("COMMIT")
        self.path.chmod(0o600)

    def _checked_version(self, newest: int) -> int:
        """Return the number of migrations that the database has.

        Raises DatabaseError if that number exceeds ``newest``, or if no released Branchline created the database.
        """
        [version] = self._writer.execute("PRAGMA user_version").fetchone()
        [application] = self._writer.execute("PRAGMA application_id").fetchone()
        [tables] = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != APPLICATION_ID and (tables or application or version):
            what, hint = f"no released Branchline created the tables of {self.path}", "choose another directory"
            raise DatabaseError(what, path=str(self.path), hint=hint)
        if version > newest:
            what = f"{self.path} has schema version {version}, but this Branchline knows only {newest}"
            raise DatabaseError(what, path=str(self.path), hint="use a newer Branchline, or serve another directory")
        return int(version)


def _statements(sql: str) -> Iterator[str]:
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        raise ValueError(f"a migration ends with an incomplete statement: {statement.strip()[-100:]!r}")


def all_migrations() -> list[str]:
    """Return the SQL of `migrations/0001.sql`, `migrations/0002.sql` and so on. Never change a released migration."""
    folder = files("branchline.control") / "migrations"
    found = sorted((one for one in folder.iterdir() if one.name.endswith(".sql")), key=lambda one: one.name)
    return [one.read_text(encoding="utf-8") for one in found]


def _locked(path: Path) -> int:
    """Lock a file and write the process ID to the file. Raises DatabaseError if another process has the lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.read(descriptor, 100).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        what = f"{path.parent} is already served by process {owner}"
        raise DatabaseError(what, path=str(path.parent), hint="end it first, or choose another directory") from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Convert SQLite errors and OS errors to DatabaseError, or to InternalError if the cause is a bug."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        # Callers catch IntegrityError. ProgrammingError and DataError are bugs and get a traceback.
        if isinstance(error, sqlite3.ProgrammingError | sqlite3.IntegrityError | sqlite3.DataError):
            raise
        # The lowest byte of an extended error code is the primary error code.
        kind = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if kind in _OURS:
            hint = "this is an internal error in Branchline: please report it, with the output of the server"
            raise InternalError(f"invalid database statement: {error}", path=str(path), hint=hint) from error
        hint = _HINTS.get(kind, "check the disk, and that the directory is writable")
        raise DatabaseError(f"{path}: {error}", path=str(path), hint=hint, retry=kind in (_FULL, *_HELD)) from error
    except OSError as error:
        if isinstance(error, BranchlineError):
            raise
        raise DatabaseError(f"cannot open {path}: {error.strerror or error}", path=str(path)) from error
