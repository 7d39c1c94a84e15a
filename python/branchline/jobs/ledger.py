"""The ledger: results by key in one SQLite file in the results directory.

A key is a hash of everything that a result depends on, so a result of different code or files is never used by mistake.
Only the job's process writes to the file. SQLite's write-ahead log makes each write atomic, even if the process is
killed. The setting ``synchronous`` is NORMAL, so writes do not wait for the disk: after a power failure, the last rows
may be missing and are recomputed.

Results are stored as rows instead of files. Writing a row of 1 to 10 kB takes a tenth of the time of writing and
syncing a file of this size; a row of 100 MB takes a third longer than such a file. Large rows are compressed.
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

from branchline.base.compression import compressed, decompressed
from branchline.base.limits import LEDGER_RUNS_KEPT
from branchline.base.trust import TrustedBytes, check_trusted
from branchline.errors import BranchlineError, MissingFileError, OptionError, UntrustedFileError

LEDGER_NAME = "ledger.sqlite"
#: Names of the ledger file, and of the files that SQLite adds while the ledger is open or after a kill.
LEDGER_NAMES = (LEDGER_NAME, f"{LEDGER_NAME}-wal", f"{LEDGER_NAME}-shm", f"{LEDGER_NAME}-journal")
# Version of the ledger; increased when the tables or the modules of pickled classes change. A ledger with an older
# version is renamed and replaced. A ledger with a newer version is rejected.
LEDGER_VERSION = 5
# Maximum number of SQL parameters per statement, less than the limit of any SQLite version.
KEYS_AT_A_TIME = 500

# Table of data about the last job, from which the job can be repeated.
_JOB_TABLE = "CREATE TABLE IF NOT EXISTS job (name TEXT PRIMARY KEY, checksum INTEGER NOT NULL, content BLOB NOT NULL)"
_TABLES = """
CREATE TABLE runs (number INTEGER PRIMARY KEY, started TEXT NOT NULL, command TEXT NOT NULL);
CREATE TABLE results (
    key BLOB PRIMARY KEY, name TEXT NOT NULL, label TEXT NOT NULL, run INTEGER NOT NULL, checksum INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL, content BLOB NOT NULL
);
CREATE INDEX results_by_name ON results (name);
"""


class LedgerError(BranchlineError):
    """Raised if a ledger cannot be used; a job then continues without the ledger."""


class _OtherVersionError(Exception):
    """Raised if the tables of a ledger have a different version."""

    def __init__(self, version: int) -> None:
        super().__init__(f"it has version {version}; this Branchline supports version {LEDGER_VERSION}")
        self.version = version


@dataclass(frozen=True)
class LedgerRow:
    """A result in the ledger: its key, a name and a label for display, and its bytes."""

    key: bytes
    name: str
    label: str
    content: bytes


@dataclass(frozen=True)
class LedgerCount:
    """The number and total size of the results that have the same name, and how many of them the last run used."""

    name: str
    results_count: int
    size_bytes: int
    used_count: int


@dataclass(frozen=True)
class KeptResults:
    """Cached results: their number and size by wagon, and the size of the ledger file."""

    counts: tuple[LedgerCount, ...]
    file_bytes: int

    @property
    def results_count(self) -> int:
        """Number of cached results."""
        return sum(one.results_count for one in self.counts)

    @property
    def size_bytes(self) -> int:
        """Size of all cached results in bytes."""
        return sum(one.size_bytes for one in self.counts)


class Ledger:
    """An open ledger. The constructor raises LedgerError if the file cannot be used.

    >>> ledger = Ledger(Path("out/ledger.sqlite"), "branchline run ...")
    >>> ledger.put([LedgerRow(key, "spectra", "f1.root", content)])
    >>> ledger.contents([key])
    {key: content}
    """

    def __init__(self, path: Path, command: str = "", *, is_new_run: bool = True, reads_only: bool = False) -> None:
        """Open the ledger for a new run, or continue the last run.

        The file is created if it does not exist; a damaged or older file is renamed and replaced. With ``reads_only``,
        nothing is changed, and damaged or older files are rejected.
        """
        self.path = path
        self.reads_only = reads_only
        #: Why an existing file was not usable, and its new name; empty if the file was usable.
        self.replaced = ""
        _check_trusted(path)
        with _failures(path):
            self._connection = self._opened()
            try:
                # SQLite opens its files by name, so the files are checked again after they were opened.
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
            self.replaced = f"{other}; it was renamed to {aside}"
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            aside = _set_aside(path, "damaged")
            self.replaced = f"it was damaged ({error}) and renamed to {aside}"
        return _connected(path, is_new=True)

    def contents(self, keys: Sequence[bytes]) -> dict[bytes, TrustedBytes]:
        """Return the stored contents by key. Rows with a checksum mismatch are left out, and also deleted unless the
        ledger is read-only.
        """
        found: dict[bytes, TrustedBytes] = {}
        with _failures(self.path):
            for some in _portions(keys):
                marks = ",".join("?" * len(some))
                rows = self._connection.execute(
                    f"SELECT key, checksum, size_bytes, content FROM results WHERE key IN ({marks})",  # noqa: S608
                    some,
                ).fetchall()
                for key, checksum, size_bytes, content in rows:
                    with suppress(ValueError):
                        if zlib.crc32(content) == checksum:
                            found[key] = TrustedBytes(decompressed(content, size_bytes))
                damaged = [(key,) for key, *_ in rows if key not in found and not self.reads_only]
                self._connection.executemany("DELETE FROM results WHERE key = ?", damaged)
        return found

    def present(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return the subset of ``keys`` that is stored, without reading the contents."""
        found: set[bytes] = set()
        with _failures(self.path):
            for some in _portions(keys):
                marks = ",".join("?" * len(some))
                statement = f"SELECT key FROM results WHERE key IN ({marks})"  # noqa: S608 - only marks
                found |= {key for (key,) in self._connection.execute(statement, some)}
        return found

    def put(self, rows: Iterable[LedgerRow]) -> None:
        """Store all rows, or none if an error occurs; existing rows with the same key are replaced."""

        def values(one: LedgerRow) -> tuple[object, ...]:
            stored = compressed(one.content)
            return one.key, one.name, one.label, self._run, zlib.crc32(stored), len(one.content), stored

        with _failures(self.path), self._transaction():
            self._connection.executemany(
                "INSERT OR REPLACE INTO results (key, name, label, run, checksum, size_bytes, content) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                map(values, rows),
            )

    def used(self, keys: Sequence[bytes]) -> None:
        """Record that this run used the rows with the given keys."""
        with _failures(self.path), self._transaction():
            self._connection.executemany(
                "UPDATE results SET run = ? WHERE key = ? AND run <> ?", [(self._run, key, self._run) for key in keys]
            )

    def remove_old(self) -> None:
        """Delete the results that none of the last ``LEDGER_RUNS_KEPT`` runs used."""
        with _failures(self.path), self._transaction():
            self._connection.execute("DELETE FROM results WHERE run <= ?", (self._run - LEDGER_RUNS_KEPT,))
            self._connection.execute("DELETE FROM runs WHERE number <= ?", (self._run - LEDGER_RUNS_KEPT,))
        with _failures(self.path):
            self._connection.execute("PRAGMA incremental_vacuum").fetchall()

    def put_of_job(self, name: str, content: bytes) -> None:
        """Store a value about the job under a name, replacing the previous job's value."""
        with _failures(self.path), self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO job (name, checksum, content) VALUES (?, ?, ?)",
                (name, zlib.crc32(content), content),
            )

    def of_job(self, name: str) -> TrustedBytes | None:
        """Return the value that the last job stored under a name; None if there is no such value or the row is
        damaged.
        """
        with _failures(self.path):
            row = self._connection.execute("SELECT checksum, content FROM job WHERE name = ?", (name,)).fetchone()
        return row[1] if row is not None and zlib.crc32(row[1]) == row[0] else None

    def close(self) -> None:
        """Close the ledger, which merges the write-ahead log into the file."""
        with _failures(self.path):
            self._connection.close()

    def _begun(self, command: str) -> int:
        started = datetime.now(UTC).isoformat(timespec="seconds")
        cursor = self._connection.execute("INSERT INTO runs (started, command) VALUES (?, ?)", (started, command))
        return cursor.lastrowid or 0

    def _last(self) -> int:
        """Return the number of the last run; 0 if there was no run."""
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
    """Count the results in a ledger by name, without changing the ledger. Empty if the ledger does not exist. Raises
    LedgerError if it cannot be read.
    """
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


def kept_results(out: Path) -> KeptResults:
    """Return the number and size of the cached results in a directory. Raises LedgerError, and MissingFileError if the
    directory has no ledger.
    """
    path = out / LEDGER_NAME
    if not path.is_file():
        raise MissingFileError("no cached results here: the ledger is missing", path=str(path))
    return KeptResults(tuple(counts_in(path)), path.stat().st_size)


def remove_ledger(folder: Path) -> None:
    """Delete the ledger in a folder if it exists.

    Raises OSError, and LedgerError for a ledger of a newer version, which is kept because its content is unknown.
    """
    path = folder / LEDGER_NAME
    version = _version_at(path)
    if version > LEDGER_VERSION:
        what = f"{path} has version {version} and is kept; this Branchline supports version {LEDGER_VERSION}"
        raise LedgerError(what, path=str(path), hint="use the Branchline version that wrote it, or move it away")
    for name in LEDGER_NAMES:
        (folder / name).unlink(missing_ok=True)


def _connected(path: Path, *, is_new: bool) -> sqlite3.Connection:
    if is_new:
        # Results are unpickled, which can run arbitrary code, so only the user may have write access to the file.
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, timeout=1.0)
    try:
        # In exclusive mode, the write-ahead log needs no shared memory, which network file systems do not support.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        # Checked before anything is written, so that a ledger with a different version is not changed.
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
    """Return the version of a ledger file; 0 if the file is missing or is not a ledger."""
    if not path.is_file():
        return 0
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, isolation_level=None, timeout=0.0)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA query_only = ON")
        return _version_of(connection)
    # The ledger is in use. Read the version from the file header, which lacks only changes that are still in the
    # write-ahead log.
    with path.open("rb") as file:
        head = file.read(100)
    return int.from_bytes(head[60:64], "big", signed=True) if head.startswith(b"SQLite format 3\0") else 0


def _set_aside(path: Path, why: str) -> str:
    """Rename a ledger's files to an unused name that contains the reason; return the new name."""
    number = 1
    while (aside := path.with_name(f"{path.name}.{why}{f'-{number}' if number > 1 else ''}")).exists():
        number += 1
    # Auxiliary files are renamed first: if they were left behind, SQLite would apply them to a new ledger.
    for name in reversed(LEDGER_NAMES):
        with suppress(FileNotFoundError):
            path.with_name(name).rename(aside.with_name(name.replace(LEDGER_NAME, aside.name)))
    return aside.name


def _check_trusted(path: Path) -> None:
    """Raise LedgerError if another user could have written any of a ledger's files.

    Rows are unpickled, which can run arbitrary code. SQLite also reads auxiliary files next to the ledger, so other
    users must not have write access to the directory either.
    """
    for one in (path.parent, *map(path.with_name, LEDGER_NAMES)):
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
    """Convert exceptions of SQLite and the file system to LedgerError."""
    try:
        yield
    except _OtherVersionError as other:
        hint = f"use the Branchline version that wrote it, or move {path.name} away"
        raise LedgerError(f"the ledger cannot be used: {other}", path=str(path), hint=hint) from None
    except (sqlite3.Error, OSError, OverflowError) as error:
        raise LedgerError(f"the ledger cannot be used: {error}", path=str(path)) from error
