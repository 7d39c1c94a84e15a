"""What is done: results by key, in one SQLite file in the directory of results.

A key is a hash of everything that a result is seen to depend on: a row of other code or files is not wrong, only
unused. One process writes at a time, that of the job. The write-ahead log makes each write whole or nothing, whatever
is killed. With ``synchronous = NORMAL`` nothing is waited for: a machine that loses its power may lose the last rows,
which are then made again. Contents are rows and not files: rows of 1 to 10 kB take a tenth of the time of a file that
is synced, and those of 100 MB a third more.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from branchline.base.limits import LEDGER_RUNS_KEPT
from branchline.base.trust import TrustedBytes, check_trusted
from branchline.errors import BranchlineError, OptionError, UntrustedFileError

LEDGER_NAME = "ledger.sqlite"
#: The file, and those that SQLite adds while it is open or after a kill.
LEDGER_NAMES = (LEDGER_NAME, f"{LEDGER_NAME}-wal", f"{LEDGER_NAME}-shm", f"{LEDGER_NAME}-journal")
# Raised when tables change, or the modules of classes that results are pickled with: a ledger of an earlier version is
# set aside, and one of a later version refused.
LEDGER_VERSION = 3
# Parameters of a statement, below the limit of every SQLite.
KEYS_AT_A_TIME = 500

# What a job keeps of itself, to be looked at after it.
_JOB_TABLE = "CREATE TABLE IF NOT EXISTS job (name TEXT PRIMARY KEY, checksum INTEGER NOT NULL, content BLOB NOT NULL)"
_TABLES = """
CREATE TABLE runs (number INTEGER PRIMARY KEY, started TEXT NOT NULL, command TEXT NOT NULL);
CREATE TABLE results (
    key BLOB PRIMARY KEY, name TEXT NOT NULL, label TEXT NOT NULL, run INTEGER NOT NULL, checksum INTEGER NOT NULL,
    content BLOB NOT NULL
);
CREATE INDEX results_by_name ON results (name);
"""


class LedgerError(BranchlineError):
    """A ledger cannot be used. A job goes on without it."""


class _OtherVersionError(Exception):
    """A ledger has tables of another version."""

    def __init__(self, version: int) -> None:
        super().__init__(f"it is of version {version}, where this Branchline knows {LEDGER_VERSION}")
        self.version = version


@dataclass(frozen=True)
class LedgerRow:
    """A result: its key, of whom and of what it is, for people, and its bytes."""

    key: bytes
    name: str
    label: str
    content: bytes


@dataclass(frozen=True)
class LedgerCount:
    """What is kept under a name: how many results of how many bytes, and how many of them the last run used."""

    name: str
    results_count: int
    size_bytes: int
    used_count: int


class Ledger:
    """An open ledger. Raises LedgerError where the file cannot be used.

    >>> ledger = Ledger(Path("out/ledger.sqlite"), "branchline run ...")
    >>> ledger.put([LedgerRow(key, "spectra", "f1.root", content)])
    >>> ledger.contents([key])
    {key: content}
    """

    def __init__(self, path: Path, command: str = "", *, is_new_run: bool = True, reads_only: bool = False) -> None:
        """Opens the file of a job's ledger for a new run, or goes on with the last one. The file is made if it is not
        there; one that is damaged or of an earlier version is set aside under another name. With ``reads_only`` nothing
        is changed, and such a file is refused, too.
        """
        self.path = path
        self.reads_only = reads_only
        #: Why an earlier file was not usable, and where it is now; empty if it was.
        self.replaced = ""
        _check_trusted(path)
        with _failures(path):
            self._connection = self._opened()
            try:
                # SQLite opens its files by their names: they are checked again once it has them open.
                _check_trusted(path)
            except LedgerError:
                self._connection.close()
                raise
            self._run = 0
            if not reads_only:
                self._run = self._begun(command) if is_new_run else self._last() or self._begun(command)

    def _opened(self) -> sqlite3.Connection:
        path = self.path
        if self.reads_only:
            return _connected_to_read(path)
        try:
            return _connected(path, is_new=not path.exists() or path.stat().st_size == 0)
        except _OtherVersionError as other:
            if other.version > LEDGER_VERSION:
                raise
            aside = _set_aside(path, f"version-{other.version}")
            self.replaced = f"{other}; it is now {aside}"
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            aside = _set_aside(path, "damaged")
            self.replaced = f"it was damaged ({error}); it is now {aside}"
        return _connected(path, is_new=True)

    def contents(self, keys: Sequence[bytes]) -> dict[bytes, TrustedBytes]:
        """The contents that are there, by key. One whose bytes have changed on the disk is removed and not there."""
        found: dict[bytes, TrustedBytes] = {}
        with _failures(self.path):
            for some in _portions(keys):
                marks = ",".join("?" * len(some))
                rows = self._connection.execute(
                    f"SELECT key, checksum, content FROM results WHERE key IN ({marks})",  # noqa: S608 - only marks
                    some,
                ).fetchall()
                found |= {key: content for key, checksum, content in rows if zlib.crc32(content) == checksum}
                damaged = [(key,) for key, _, _ in rows if key not in found and not self.reads_only]
                self._connection.executemany("DELETE FROM results WHERE key = ?", damaged)
        return found

    def present(self, keys: Sequence[bytes]) -> set[bytes]:
        """The keys that are there; contents are not read."""
        found: set[bytes] = set()
        with _failures(self.path):
            for some in _portions(keys):
                marks = ",".join("?" * len(some))
                statement = f"SELECT key FROM results WHERE key IN ({marks})"  # noqa: S608 - only marks
                found |= {key for (key,) in self._connection.execute(statement, some)}
        return found

    def put(self, rows: Iterable[LedgerRow]) -> None:
        """Keeps rows, all or none; one of the same key is replaced."""
        with _failures(self.path), self._transaction():
            self._connection.executemany(
                "INSERT OR REPLACE INTO results (key, name, label, run, checksum, content) VALUES (?, ?, ?, ?, ?, ?)",
                [(one.key, one.name, one.label, self._run, zlib.crc32(one.content), one.content) for one in rows],
            )

    def used(self, keys: Sequence[bytes]) -> None:
        """Notes that this run used the rows of these keys."""
        with _failures(self.path), self._transaction():
            self._connection.executemany(
                "UPDATE results SET run = ? WHERE key = ? AND run <> ?", [(self._run, key, self._run) for key in keys]
            )

    def remove_old(self) -> None:
        """Removes rows that the last runs did not use."""
        with _failures(self.path), self._transaction():
            self._connection.execute("DELETE FROM results WHERE run <= ?", (self._run - LEDGER_RUNS_KEPT,))
            self._connection.execute("DELETE FROM runs WHERE number <= ?", (self._run - LEDGER_RUNS_KEPT,))
        with _failures(self.path):
            self._connection.execute("PRAGMA incremental_vacuum").fetchall()

    def put_of_job(self, name: str, content: bytes) -> None:
        """Keeps something of the last job under a name, in place of that of the job before."""
        with _failures(self.path), self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO job (name, checksum, content) VALUES (?, ?, ?)",
                (name, zlib.crc32(content), content),
            )

    def of_job(self, name: str) -> TrustedBytes | None:
        """What the last job kept under a name; None if that is nothing, or damaged."""
        with _failures(self.path):
            row = self._connection.execute("SELECT checksum, content FROM job WHERE name = ?", (name,)).fetchone()
        return row[1] if row is not None and zlib.crc32(row[1]) == row[0] else None

    def close(self) -> None:
        """Closes the file, after the write-ahead log is merged into it."""
        with _failures(self.path):
            self._connection.close()

    def _begun(self, command: str) -> int:
        started = datetime.now(UTC).isoformat(timespec="seconds")
        cursor = self._connection.execute("INSERT INTO runs (started, command) VALUES (?, ?)", (started, command))
        return cursor.lastrowid or 0

    def _last(self) -> int:
        """The number of the last run, 0 if there was none."""
        (number,) = self._connection.execute("SELECT coalesce(max(number), 0) FROM runs").fetchone()
        return int(number)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.execute("COMMIT")


def counts_in(path: Path) -> list[LedgerCount]:
    """What a ledger holds, by name; nothing is changed. Raises LedgerError for one that cannot be read."""
    if not path.is_file():
        return []
    with _failures(path):
        connection = sqlite3.connect(path, isolation_level=None, timeout=1.0)
        try:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            version = _version_of(connection)
            if version > LEDGER_VERSION:
                raise _OtherVersionError(version)
            rows = connection.execute(
                "SELECT name, count(*), sum(length(content)), sum(run = (SELECT max(number) FROM runs)) "
                "FROM results GROUP BY name ORDER BY name"
            ).fetchall()
        finally:
            connection.close()
    return [LedgerCount(*row) for row in rows]


def remove_ledger(folder: Path) -> None:
    """Removes the ledger of a folder, if there is one. One of a later version stays: only that knows what is in it.
    Raises LedgerError then, and OSError.
    """
    path = folder / LEDGER_NAME
    version = _version_at(path)
    if version > LEDGER_VERSION:
        what = f"{path} is of version {version}, where this Branchline knows {LEDGER_VERSION}, so it is not removed"
        raise LedgerError(what, path=str(path), hint="use the Branchline that made it, or move it away")
    for name in LEDGER_NAMES:
        (folder / name).unlink(missing_ok=True)


def _connected(path: Path, *, is_new: bool) -> sqlite3.Connection:
    if is_new:
        # Contents are unpickled, which runs code: nobody else may write them.
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, timeout=1.0)
    try:
        # Exclusive: the write-ahead log then needs no shared memory, which file systems of a network do not have.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        # Before anything is written: a ledger of another version stays as it is.
        version = _version_of(connection)
        if version not in (0, LEDGER_VERSION):
            raise _OtherVersionError(version)
        if is_new:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = NORMAL")
        if version == 0:
            connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {LEDGER_VERSION}; COMMIT;")
        connection.execute(_JOB_TABLE)
    except BaseException:
        connection.close()
        raise
    return connection


def _connected_to_read(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=1.0)
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA query_only = ON")
        version = _version_of(connection)
        if version != LEDGER_VERSION:
            raise _OtherVersionError(version)
    except BaseException:
        connection.close()
        raise
    return connection


def _version_of(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _version_at(path: Path) -> int:
    """The version of the ledger in a file; 0 if there is none, or none that can be read."""
    if not path.is_file():
        return 0
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, isolation_level=None, timeout=0.0)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA query_only = ON")
        return _version_of(connection)
    # It is in use: then its head has the version, if it was not raised just now.
    with path.open("rb") as file:
        head = file.read(100)
    return int.from_bytes(head[60:64], "big", signed=True) if head.startswith(b"SQLite format 3\0") else 0


def _set_aside(path: Path, why: str) -> str:
    """Gives the files of a ledger a name that says why it is not used, which nothing else has; the new name."""
    number = 1
    while (aside := path.with_name(f"{path.name}.{why}{f'-{number}' if number > 1 else ''}")).exists():
        number += 1
    # What SQLite adds goes first: beside a new ledger it would be taken for a part of it.
    for name in reversed(LEDGER_NAMES):
        with suppress(FileNotFoundError):
            path.with_name(name).rename(aside.with_name(name.replace(LEDGER_NAME, aside.name)))
    return aside.name


def _check_trusted(path: Path) -> None:
    """Raise LedgerError if another user could have written any file of a ledger: rows are unpickled, which runs code.

    SQLite also takes rows from files beside the ledger, so nobody else may add files to the directory either.
    """
    for one in (path.parent, *(path.with_name(name) for name in LEDGER_NAMES)):
        try:
            check_trusted(one.stat(), one)
        except FileNotFoundError:
            continue
        except (UntrustedFileError, OptionError) as error:
            raise LedgerError(f"the ledger is not used: {error.what}", path=str(path), hint=error.hint) from None
        except OSError as error:
            raise LedgerError(f"the ledger cannot be read: {error.strerror}", path=str(path)) from None


def _portions(keys: Sequence[bytes]) -> Iterator[list[bytes]]:
    for first in range(0, len(keys), KEYS_AT_A_TIME):
        yield list(keys[first : first + KEYS_AT_A_TIME])


@contextmanager
def _failures(path: Path) -> Iterator[None]:
    """Makes one kind of error of all that SQLite and the disk raise."""
    try:
        yield
    except _OtherVersionError as other:
        hint = f"use the Branchline that made it, or move {path.name} away"
        raise LedgerError(f"the ledger cannot be used: {other}", path=str(path), hint=hint) from None
    except (sqlite3.Error, OSError, OverflowError) as error:
        raise LedgerError(f"the ledger cannot be used: {error}", path=str(path)) from error
