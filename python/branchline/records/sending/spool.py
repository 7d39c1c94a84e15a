"""Reports on disk until they are sent. Each is there whole or not at all, and is the user's alone.

    JOB/SOURCE.lock                 the address that the reports of a source are for; locked by who writes or sends them
    JOB/SOURCE-NUMBER.json.gz       a report: the body of a request
    JOB/SOURCE-NUMBER.last.json.gz  the last one of a job
    refused/...                     reports that the server refused

A process holds the lock of a source while it works on it, so that no two send the same. The system releases it when a
process is killed. Nothing in these files is a secret of the control room: the token stays in memory.
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
# Tries to make a folder that others remove at the same moment, since it is empty.
_TRIES_MAX = 20


class SpoolFullError(Exception):
    """The spool has as much as it may."""


@dataclass(frozen=True)
class Spooled:
    """A report on disk."""

    path: Path
    source: str
    number: int


@dataclass
class Spool:
    """The spool in a folder, which is made when something is written there."""

    folder: Path
    max_bytes: int = SPOOL_MAX_BYTES
    _size_bytes: int = 0
    _looked_s: float = field(default=float("-inf"))
    #: The locks of this process: on some file systems opening such a file again would release its lock.
    _held: set[Path] = field(default_factory=set, repr=False)

    @classmethod
    def of_user(cls) -> Spool | None:
        """That of the user on this machine; None where there is no home directory."""
        try:
            return cls(state_folder() / "spool")
        except OptionError:
            return None

    def source(self, job: str, source: str) -> SpooledSource:
        """The reports of one source of a job. Raises ValueError for names that are none."""
        if not _JOB.fullmatch(job) or not _SOURCE.fullmatch(source):
            raise ValueError(f"{job!r:.80} and {source!r:.80} name no source of a job")
        return SpooledSource(self, self.folder / job, source)

    def sources(self) -> list[SpooledSource]:
        """All sources that have reports here, those of the oldest jobs first."""
        return self._sources(_REPORT)

    def _sources(self, form: re.Pattern[str]) -> list[SpooledSource]:
        """Those with a file whose name has this form."""
        found = []
        for folder in sorted(_folders(self.folder), key=_changed_s):
            names = {match[1] for path in _files(folder) if (match := form.fullmatch(path.name))}
            found += [SpooledSource(self, folder, name) for name in sorted(names)]
        return found

    def refused(self) -> list[Path]:
        """The reports that servers refused, the oldest first."""
        return sorted(_files(self.folder / _REFUSED), key=_changed_s)

    def has_room(self, size_bytes: int, *, is_last: bool) -> bool:
        """Whether so much more may be written."""
        now_s = time.monotonic()
        most = self.max_bytes + (SPOOL_LAST_BYTES if is_last else 0)
        if now_s - self._looked_s > SPOOL_LOOK_INTERVAL_S or self._size_bytes + size_bytes > most:
            self._size_bytes, self._looked_s = self._used_bytes(), now_s
        if self._size_bytes + size_bytes > most:
            return False
        self._size_bytes += size_bytes
        return True

    def clear(self) -> None:
        """Removes what dead processes left beside reports: files half written, and locks with nothing to send."""
        for folder in _folders(self.folder):
            for path in _files(folder):
                if path.name.startswith(_WRITING) and time.time() - _changed_s(path) > SPOOL_QUIET_S:
                    with suppress(OSError):
                        path.unlink(missing_ok=True)
        for source in self._sources(_LOCKED):
            if not source.reports() and source.lock():
                source.close()

    def _used_bytes(self) -> int:
        return sum(_size_bytes(path) for folder in _folders(self.folder) for path in _files(folder))


@dataclass
class SpooledSource:
    """The reports of one source of a job in a spool."""

    spool: Spool
    folder: Path
    name: str
    _lock: int | None = field(default=None, repr=False)
    _unsynced: set[Path] = field(default_factory=set, repr=False)

    @property
    def job(self) -> str:
        """The job."""
        return self.folder.name

    @property
    def _lock_path(self) -> Path:
        return self.folder / f"{self.name}{_LOCK}"

    @property
    def is_own(self) -> bool:
        """Whether this process works on it."""
        return self._lock_path in self.spool._held

    def server(self) -> str:
        """The address that the reports are for; empty if it cannot be read."""
        try:
            with self._lock_path.open("rb") as file:
                return file.read(_ADDRESS_MAX_BYTES).decode().strip()
        except (OSError, ValueError):
            return ""

    def begin(self, server: str) -> None:
        """Makes the folder, and locks the source for this process. Raises StorageError."""
        with failed_writing(self.folder):
            for _ in range(_TRIES_MAX):
                self.spool.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.folder.mkdir(mode=0o700, exist_ok=True)
                if self.folder.stat().st_uid != os.geteuid():
                    what = "this folder for reports belongs to somebody else"
                    raise StorageError(what, path=str(self.folder), hint="set XDG_STATE_HOME to a folder of your own")
                if self.lock() and self._lock is not None:
                    os.ftruncate(self._lock, 0)
                    os.pwrite(self._lock, f"{server}\n".encode(), 0)
                    return
        what = "this folder for reports cannot be locked"
        raise StorageError(what, path=str(self.folder), hint="set XDG_STATE_HOME to another folder")

    def lock(self) -> bool:
        """Locks the source; False while somebody has it, and where it is gone. Raises OSError."""
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
        except OSError:  # A file system without locks.
            if self._is_in_use():
                os.close(lock)
                return False
        self._lock = lock
        self.spool._held.add(self._lock_path)
        return True

    def _is_in_use(self) -> bool:
        """Whether somebody wrote a report of this source lately."""
        return any(time.time() - _changed_s(one.path) < SPOOL_QUIET_S for one in self.reports())

    def write(self, number: int, body: bytes, *, is_last: bool) -> Spooled:
        """Keeps a report. Raises SpoolFullError, and StorageError where the disk refuses."""
        if not self.spool.has_room(len(body), is_last=is_last):
            raise SpoolFullError
        path = self.folder / f"{self.name}-{number}{'.last' if is_last else ''}.json.gz"
        with failed_writing(path):
            self._write(path, body)
        self._unsynced.add(path)
        return Spooled(path, self.name, number)

    def take(self, other: SpooledSource, report: Spooled) -> None:
        """Takes over a report of another spool. Raises OSError."""
        body = other.read(report)
        if body:
            self._write(self.folder / report.path.name, body)
            report.path.unlink(missing_ok=True)

    def sync(self) -> None:
        """Brings what was written to the disk, for reports that stay: most are sent before the disk has them."""
        for path in list(self._unsynced):
            self._unsynced.discard(path)
            with suppress(OSError):
                file = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(file)
                finally:
                    os.close(file)

    def reports(self) -> list[Spooled]:
        """What is to be sent, the oldest first."""
        found = [
            Spooled(path, match[1], int(match[2]))
            for path in _files(self.folder)
            if (match := _REPORT.fullmatch(path.name)) and match[1] == self.name
        ]
        return sorted(found, key=lambda one: one.number)

    def read(self, report: Spooled) -> bytes:
        """The body of a report; empty if it cannot be read."""
        try:
            with report.path.open("rb") as file:
                return file.read(REQUEST_MAX_BYTES + 1)
        except OSError:
            return b""

    def sent(self, report: Spooled) -> None:
        """Forgets a report that the server has."""
        self._unsynced.discard(report.path)
        with suppress(OSError):  # It is sent again, and the server knows it.
            report.path.unlink(missing_ok=True)

    def refuse(self, report: Spooled) -> None:
        """Moves a report aside that the server refused; the oldest of those make room for it."""
        aside = self.spool.folder / _REFUSED
        with suppress(OSError):
            aside.mkdir(mode=0o700, exist_ok=True)
            for path in self.spool.refused()[: -SPOOL_REFUSED_MAX + 1]:
                path.unlink(missing_ok=True)
            report.path.replace(aside / f"{self.job}-{report.path.name}")
        with suppress(OSError):
            report.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Lets go of the source. What has nothing to send is removed."""
        if self._lock is None:
            return
        # The lock is held while its file goes: who waits for it finds nothing to send.
        if not self.reports():
            with suppress(OSError):
                self._lock_path.unlink(missing_ok=True)
                self.folder.rmdir()  # It stays while other sources of the job have something there.
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
    """Moves the reports of jobs that are gone from a folder that is to be removed into a spool. Raises StorageError."""
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
    """The folders of jobs."""
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
