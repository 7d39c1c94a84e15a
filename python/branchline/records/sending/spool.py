"""Reports stored on disk until they are sent. Files are written atomically and readable only by the user.

    JOB/SOURCE.lock                 the control room's URL; locked by the process that writes or sends the reports
    JOB/SOURCE-NUMBER.json.gz       a report: a request body
    JOB/SOURCE-NUMBER.last.json.gz  the last report of a job
    refused/...                     reports that the server rejected

A source is a process that reports a job. A process locks a source while using it, so that reports are not sent twice.
The operating system releases the lock when the process dies. The files do not contain the control room's token, which
is only kept in memory.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from branchline.base.limits import (
    REQUEST_MAX_BYTES,
    SPOOL_LAST_BYTES,
    SPOOL_LOOK_INTERVAL_S,
    SPOOL_MAX_BYTES,
    SPOOL_QUIET_S,
    SPOOL_REFUSED_MAX,
)
from branchline.base.user_state import state_folder
from branchline.base.whole_files import failed_writing
from branchline.errors import OptionError, StorageError

_JOB = re.compile(r"[0-9a-f]{32}")
_SOURCE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.]{0,99}")
_REPORT = re.compile(rf"({_SOURCE.pattern})-([0-9]{{1,12}})(\.last)?\.json\.gz")
_LOCKED = re.compile(rf"({_SOURCE.pattern})\.lock")
_LOCK, _REFUSED, _WRITING = ".lock", "refused", ".writing-"
_ADDRESS_MAX_BYTES = 4096
# Maximum number of attempts to create and lock a job's folder. Other processes may delete the folder while it is empty.
_TRIES_MAX = 20


class SpoolFullError(Exception):
    """Raised if the spool has reached its maximum size."""


@dataclass(frozen=True)
class Spooled:
    """A report on disk."""

    path: Path
    source: str
    number: int


@dataclass
class Spool:
    """A folder with spooled reports; the folder is created on the first write."""

    folder: Path
    max_bytes: int = SPOOL_MAX_BYTES
    _size_bytes: int = 0
    _looked_s: float = field(default=float("-inf"))
    #: Lock files that this process holds. They must not be opened again: on some file systems, closing the second file
    #: descriptor would release the lock.
    _held: set[Path] = field(default_factory=set, repr=False)

    @classmethod
    def of_user(cls) -> Spool | None:
        """Return the user's spool on this machine, or None without a home directory."""
        try:
            return cls(state_folder() / "spool")
        except OptionError:
            return None

    def source(self, job: str, source: str) -> SpooledSource:
        """Return the spooled reports of one source of a job. Raises ValueError for invalid names."""
        if not _JOB.fullmatch(job) or not _SOURCE.fullmatch(source):
            raise ValueError(f"invalid job {job!r:.80} or source {source!r:.80}")
        return SpooledSource(self, self.folder / job, source)

    def sources(self) -> list[SpooledSource]:
        """Return all sources that have reports, sorted by the age of their job, oldest first."""
        return self._sources(_REPORT)

    def _sources(self, form: re.Pattern[str]) -> list[SpooledSource]:
        """Return the sources that have a file whose name matches the pattern."""
        found = []
        for folder in sorted(_folders(self.folder), key=_changed_s):
            names = {match[1] for path in _files(folder) if (match := form.fullmatch(path.name))}
            found += [SpooledSource(self, folder, name) for name in sorted(names)]
        return found

    def refused(self) -> list[Path]:
        """Return the reports that servers rejected, oldest first."""
        return sorted(_files(self.folder / _REFUSED), key=_changed_s)

    def has_room(self, size_bytes: int, *, is_last: bool) -> bool:
        """Return whether a report of this size still fits into the spool; if so, reserve the space."""
        now_s = time.monotonic()
        most = self.max_bytes + (SPOOL_LAST_BYTES if is_last else 0)
        if now_s - self._looked_s > SPOOL_LOOK_INTERVAL_S or self._size_bytes + size_bytes > most:
            self._size_bytes = sum(_size_bytes(path) for folder in _folders(self.folder) for path in _files(folder))
            self._looked_s = now_s
        if self._size_bytes + size_bytes > most:
            return False
        self._size_bytes += size_bytes
        return True

    def clear(self) -> None:
        """Remove leftovers of dead processes: partially written files, and lock files without reports."""
        for folder in _folders(self.folder):
            for path in _files(folder):
                if path.name.startswith(_WRITING) and time.time() - _changed_s(path) > SPOOL_QUIET_S:
                    with suppress(OSError):
                        path.unlink(missing_ok=True)
        for source in self._sources(_LOCKED):
            if not source.reports() and source.lock():
                source.close()


@dataclass
class SpooledSource:
    """The spooled reports of one source of a job."""

    spool: Spool
    folder: Path
    name: str
    _lock: int | None = field(default=None, repr=False)
    _unsynced: set[Path] = field(default_factory=set, repr=False)

    @property
    def job(self) -> str:
        """The job's ID."""
        return self.folder.name

    @property
    def _lock_path(self) -> Path:
        return self.folder / f"{self.name}{_LOCK}"

    @property
    def is_own(self) -> bool:
        """Whether this process has locked the source."""
        return self._lock_path in self.spool._held

    def server(self) -> str:
        """Return the URL of the control room for the reports; empty if it cannot be read."""
        try:
            with self._lock_path.open("rb") as file:
                return file.read(_ADDRESS_MAX_BYTES).decode().strip()
        except (OSError, ValueError):
            return ""

    def begin(self, server: str) -> None:
        """Create the folder, lock the source for this process, and store the control room's URL. Raises
        StorageError.
        """
        with failed_writing(self.folder):
            for _ in range(_TRIES_MAX):
                self.spool.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.folder.mkdir(mode=0o700, exist_ok=True)
                if self.folder.stat().st_uid != os.geteuid():
                    what = "the folder for reports belongs to another user"
                    raise StorageError(what, path=str(self.folder), hint="set XDG_STATE_HOME to a folder of your own")
                if self.lock() and self._lock is not None:
                    os.ftruncate(self._lock, 0)
                    os.pwrite(self._lock, f"{server}\n".encode(), 0)
                    return
        what = "cannot lock the folder for reports"
        raise StorageError(what, path=str(self.folder), hint="set XDG_STATE_HOME to another folder")

    def lock(self) -> bool:
        """Lock the source; return False if it is locked already or does not exist. Raises OSError."""
        if self.is_own:
            return False
        try:
            lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        except OSError:
            # If the file system has no locks, a source counts as locked if one of its reports was written recently.
            if any(time.time() - _changed_s(one.path) < SPOOL_QUIET_S for one in self.reports()):
                os.close(lock)
                return False
        self._lock = lock
        self.spool._held.add(self._lock_path)
        return True

    def write(self, number: int, body: bytes, *, is_last: bool) -> Spooled:
        """Write a report. Raises SpoolFullError if the spool is full, and StorageError if the file cannot be
        written.
        """
        if not self.spool.has_room(len(body), is_last=is_last):
            raise SpoolFullError
        path = self.folder / f"{self.name}-{number}{'.last' if is_last else ''}.json.gz"
        with failed_writing(path):
            self._write(path, body)
        self._unsynced.add(path)
        return Spooled(path, self.name, number)

    def take(self, other: SpooledSource, report: Spooled) -> None:
        """Move a report from another spool to this one. Raises OSError."""
        body = other.read(report)
        if body:
            self._write(self.folder / report.path.name, body)
            report.path.unlink(missing_ok=True)

    def sync(self) -> None:
        """Flush written reports to disk. Only needed for reports that are not sent soon."""
        for path in list(self._unsynced):
            self._unsynced.discard(path)
            with suppress(OSError):
                file = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(file)
                finally:
                    os.close(file)

    def reports(self) -> list[Spooled]:
        """Return the reports to send, oldest first."""
        found = [
            Spooled(path, match[1], int(match[2]))
            for path in _files(self.folder)
            if (match := _REPORT.fullmatch(path.name)) and match[1] == self.name
        ]
        return sorted(found, key=lambda one: one.number)

    def read(self, report: Spooled) -> bytes:
        """Return the body of a report; empty if it cannot be read."""
        try:
            with report.path.open("rb") as file:
                return file.read(REQUEST_MAX_BYTES + 1)
        except OSError:
            return b""

    def sent(self, report: Spooled) -> None:
        """Delete a report that the server has stored."""
        self._unsynced.discard(report.path)
        with suppress(OSError):  # if the file cannot be deleted, the report is sent again and the server ignores it
            report.path.unlink(missing_ok=True)

    def refuse(self, report: Spooled) -> None:
        """Move a report to the folder of rejected reports; delete the oldest rejected reports if there are too many."""
        aside = self.spool.folder / _REFUSED
        with suppress(OSError):
            aside.mkdir(mode=0o700, exist_ok=True)
            for path in self.spool.refused()[: -SPOOL_REFUSED_MAX + 1]:
                path.unlink(missing_ok=True)
            report.path.replace(aside / f"{self.job}-{report.path.name}")
        with suppress(OSError):
            report.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Unlock the source, and delete its lock file if no reports are left."""
        if self._lock is None:
            return
        # Delete the lock file before unlocking: a process that has already opened the file then finds no reports.
        if not self.reports():
            with suppress(OSError):
                self._lock_path.unlink(missing_ok=True)
                self.folder.rmdir()  # fails if other sources of the job have files in the folder
        os.close(self._lock)
        self._lock = None
        self.spool._held.discard(self._lock_path)

    def _write(self, path: Path, content: bytes) -> None:
        temporary = path.with_name(f"{_WRITING}{uuid.uuid4().hex}")
        try:
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "wb") as stream:
                stream.write(content)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def move_reports(folder: Path, spool: Spool) -> None:
    """Move the reports of ended jobs from a folder that will be deleted to a spool. Raises StorageError."""
    for source in Spool(folder).sources():
        with failed_writing(folder):
            if not source.lock():
                continue
            there = spool.source(source.job, source.name)
            there.begin(source.server())
            for report in source.reports():
                there.take(source, report)
            there.close()
            source.close()


def _folders(folder: Path) -> Iterator[Path]:
    """Yield the folders of all jobs in a spool."""
    with suppress(OSError):
        yield from [path for path in folder.iterdir() if _JOB.fullmatch(path.name) and path.is_dir()]


def _files(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _changed_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
