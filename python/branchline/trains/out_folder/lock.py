"""The directory for the results of a run: locked by one run at a time, and marked until its results are complete.

A run locks the directory itself, so a run that dies leaves no lock file. From the start ``job.json`` says "running",
and a text file says which results are missing. While the run works, ``status.json`` has its state for ``branchline
status``. The results of sub-jobs that the directory keeps can be listed and removed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from branchline.base.limits import STATUS_HEARTBEAT_S, STATUS_INTERVAL_S, STATUS_OLD_S
from branchline.base.processes import process_lives
from branchline.base.whole_files import failed_writing, write_whole
from branchline.errors import BranchlineError, MissingFileError, StorageError
from branchline.jobs.ledger import LEDGER_NAME, LedgerCount, counts_in, remove_ledger
from branchline.records.sensors.record import FAILED, PARTIAL, RUNNING, JobRecord
from branchline.records.sensors.status import TrainStatus
from branchline.records.sensors.this_process import branchline_version, host
from branchline.trains.tables.table_folder import clear_tables

# The text file that says which results are missing.
NOTE = "PARTIAL.txt"
# The folder of jobs that batch systems run, and the file in it that they begin with.
JOBS = "batch"
SUBMISSION = "submission"
# Tries to lock a directory that other runs remove at the same moment.
LOCK_TRIES_MAX = 20
# A folder of an earlier run gets this prefix before it is removed.
_REMOVED = ".removed-"
# The state of a run, for `branchline status`.
STATUS = "status.json"
# The state of a run of which nothing was noted yet.
_NOTHING = TrainStatus()

# The records that runs of this process wrote, by directory: device, inode and time tell whether one is still there.
_written_here: dict[Path, tuple[int, int, int]] = {}


class Claim:
    """The lock of a run on its directory. The directory is cleared at the start."""

    def __init__(self, out: Path, *, force: bool) -> None:
        self.out = out
        self._force = force
        self._has_begun = False
        self._status: StatusFile | None = None

    def begin(self, command: str) -> None:
        """Removes the files of an earlier run and records that this one is running. Raises StorageError."""
        from branchline.records.result_files.job_files import JOB, write_job

        self._clear()
        started = datetime.now(UTC).isoformat()
        who = f"process {os.getpid()} on {host()}"
        record = JobRecord(branchline=branchline_version(), status=RUNNING, host=host(), process=os.getpid())
        write_job(self.out, replace(record, started=started, command=command))
        self._status = StatusFile(self.out)
        self._status.begin()
        self._has_begun = True
        self.mark([f"The run that began at {started} ({who}) has not come to its end; {JOB} says how it ended."])

    def note(self, now: TrainStatus) -> None:
        """Writes the state of the run for `branchline status`."""
        if self._status is not None:
            self._status.note(now)

    def end(self) -> None:
        """The run came to its end, which its record says: its state is not needed any more."""
        if self._status is not None:
            self._status.close()
            self._status = None
        identity = _record_identity(self.out)
        if self._has_begun and identity is not None:
            _written_here[self.out.resolve()] = identity

    def mark(self, sentences: Sequence[str]) -> None:
        """Writes why the results are not complete; without sentences it removes that note. Raises StorageError."""
        if sentences:
            text = "\n".join(["The results in this directory are not complete.", *sentences])
            write_whole(self.out / NOTE, f"{text}\n".encode(errors="backslashreplace"))
        else:
            (self.out / NOTE).unlink(missing_ok=True)

    def _clear(self) -> None:
        """Removes the files that an earlier run listed in its record. A run that died before that listed none: then
        all files that runs write are removed.

        Raises StorageError.
        """
        from branchline.records.result_files.job_files import JOB, earlier_files

        with failed_writing(self.out):
            earlier = [*earlier_files(self.out), self.out / NOTE, self.out / STATUS]
            for path in earlier:
                path.unlink(missing_ok=True)
            top = self.out.resolve()
            folders = {folder for path in earlier for folder in path.resolve().parents if top in folder.parents}
            for folder in sorted(folders, key=lambda one: -len(one.parts)):
                with suppress(OSError):  # a folder with files of somebody else is not empty and stays
                    folder.rmdir()
            # Jobs of an earlier train that begin later find nothing to do.
            if (self.out / JOBS / SUBMISSION).exists():
                _remove_folder(self.out / JOBS)
            for left in self.out.glob(f"{_REMOVED}*"):
                shutil.rmtree(left, ignore_errors=True)
            # A complete record lists itself, so it was removed above.
            if (self.out / JOB).exists():
                self._clear_all()

    def _clear_all(self) -> None:
        from branchline.records.result_files.formats import RESULTS
        from branchline.records.result_files.job_files import JOB, PAGE, PICTURES, SENSORS
        from branchline.writing.objects.forms import FILE_NAME as HISTOGRAMS

        for name in (HISTOGRAMS, SENSORS, PAGE, JOB):
            (self.out / name).unlink(missing_ok=True)
        for folder in (RESULTS, PICTURES):
            _remove_folder(self.out / folder)
        clear_tables(self.out)
        for path in self.out.glob(".writing-*"):
            path.unlink(missing_ok=True)

    def check(self) -> None:
        """Refuses a directory with results that this run would replace. A failed run left no results. Of a run that did
        not end, the ledger has the finished sub-jobs. What this process made itself it may replace: a cell of a
        notebook runs again.

        Raises BranchlineError.
        """
        names = {one.name for one in self.out.iterdir()}
        # This run uses the results in a ledger and replaces none; one that was set aside stays.
        if all(one.startswith(LEDGER_NAME) for one in names):
            return
        if "job.json" not in names:
            raise BranchlineError(
                "this directory is not empty and no train wrote it, so it is not replaced",
                path=str(self.out),
                hint="choose another one, or remove it yourself",
            )
        status = (_record(self.out) or {}).get("status")
        goes_on = status in (RUNNING, PARTIAL) and LEDGER_NAME in names
        is_own = _record_identity(self.out) == _written_here.get(self.out.resolve(), ())
        if not self._force and status != FAILED and not goes_on and not is_own:
            what = "there are results in this directory"
            if status == RUNNING:
                what = "a run that did not come to its end was here"
            hint = "choose another one, or replace it: --force, force=True"
            raise BranchlineError(what, path=str(self.out), hint=hint)

    def undo(self, made: Sequence[Path]) -> None:
        """Removes the directories that were made for a run that did not begin."""
        for folder in made if not self._has_begun else ():
            with suppress(OSError):  # somebody else wrote a file there in the meantime
                folder.rmdir()


@contextmanager
def claimed(out: Path, *, force: bool) -> Iterator[Claim]:
    """Locks the directory inside the block, and makes it if it does not exist.

    Raises BranchlineError for a directory that another run has locked or that has results, StorageError for one that
    cannot be written to.
    """
    claim = Claim(out, force=force)
    lock, made = _locked(out)
    try:
        _check_writable(out)
        claim.check()
        yield claim
    finally:
        claim.end()
        claim.undo(made)
        os.close(lock)


def _locked(out: Path) -> tuple[int, list[Path]]:
    """The open directory, locked, and the folders that were made for it, the innermost first."""
    for _ in range(LOCK_TRIES_MAX):
        made = _made(out)
        try:
            lock = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue  # another run that did not begin removed it just now
        except OSError as error:
            raise _refused(out, error) from None
        try:
            _lock(lock, out)
            # Another run may have removed the directory in between.
            if out.exists() and os.path.samestat(os.fstat(lock), out.stat()):
                return lock, made
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
    raise StorageError(
        "this directory cannot be locked: it disappears or changes its identity each time",
        path=str(out),
        hint="choose another directory with -o",
        retry=True,
    )


def _remove_folder(folder: Path) -> None:
    """Removes a folder, or the link that stands for it. It is renamed first: whatever of it cannot be removed, as files
    that are open on NFS, is not taken for results of this run. Raises OSError.
    """
    going = folder.with_name(f"{_REMOVED}{uuid.uuid4().hex}")
    try:
        folder.rename(going)
    except FileNotFoundError:
        return
    if going.is_symlink():
        going.unlink()
    else:
        shutil.rmtree(going, ignore_errors=True)


def _made(out: Path) -> list[Path]:
    missing = [one for one in (out, *out.parents) if not one.exists()]
    try:
        # Whoever could write here could exchange the ledger.
        out.mkdir(mode=0o755, parents=True, exist_ok=True)
    except FileExistsError:
        raise BranchlineError("this is a file, not a directory for results", path=str(out)) from None
    except OSError as error:
        raise _refused(out, error) from None
    return missing


def _lock(lock: int, out: Path) -> None:
    """Locks the directory. On a file system without locks the process in the record of the run must not live, and a run
    of another machine must have written no state of late.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _in_use(out) from None
    except OSError:
        record = _record(out)
        if _lives(record) or _was_heard_of(out, record):
            raise _in_use(out) from None


def _in_use(out: Path) -> BranchlineError:
    record = _record(out) or {}
    who = f": process {record.get('process')} on {record.get('host')}" if record.get("status") == RUNNING else ""
    hint = "choose another directory with -o"
    if who and record.get("host") != host():
        hint += f", or try again {STATUS_OLD_S:.0f} s after its end"
    return BranchlineError(f"another run is writing its results here{who}", path=str(out), hint=hint)


def _lives(record: dict[str, object] | None) -> bool:
    """True if a record is that of a run whose process lives on this machine."""
    if record is None or record.get("status") != RUNNING or record.get("host") != host():
        return False
    process = record.get("process")
    # A record that names no process counts as that of a living one.
    return not isinstance(process, int) or process <= 0 or process_lives(process)


def _was_heard_of(out: Path, record: dict[str, object] | None) -> bool:
    """True if a run of another machine wrote its state of late, by the clock of the file system. While it writes its
    results, its record may already say that it ended.
    """
    if record is not None and record.get("host") == host():
        return False
    try:
        # A new file, then an opened one: what a mount keeps of other machines' files may be a minute old.
        with tempfile.TemporaryFile(dir=out) as now, (out / STATUS).open("rb") as status:
            return os.fstat(now.fileno()).st_mtime - os.fstat(status.fileno()).st_mtime < STATUS_OLD_S
    except OSError:
        return False  # there is no state, or nothing can be written here, which is said next


def _record(out: Path) -> dict[str, object] | None:
    try:
        record = json.loads((out / "job.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else {}


def _record_identity(out: Path) -> tuple[int, int, int] | None:
    try:
        status = (out / "job.json").stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _check_writable(out: Path) -> None:
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".branchline-", dir=out))
    except OSError as error:
        raise _refused(out, error) from None


def _refused(out: Path, error: OSError) -> StorageError:
    what = f"results cannot be written here: {error.strerror}"
    return StorageError(what, path=str(out), hint="choose another directory with -o")


class StatusFile:
    """Writes the last state that was noted, once a second at most, and at times also where nothing has changed: a state
    that is old says that the run stands still or is gone.
    """

    def __init__(self, out: Path) -> None:
        self._path = out / STATUS
        self._lock = threading.Lock()
        self._noted = (_NOTHING, time.monotonic())
        self._written: TrainStatus | None = None
        self._written_s = 0.0
        self._is_closed = threading.Event()

    def begin(self) -> None:
        """The run is there, though nothing is known of it yet: workers may wait for long in a queue."""
        self._write()
        threading.Thread(target=self._keep_writing, name="branchline-status", daemon=True).start()

    def note(self, now: TrainStatus) -> None:
        """The state is this one now. The first one and a new phase are written at once."""
        before = self._noted
        self._noted = (now, time.monotonic())
        if before[0] is _NOTHING or before[0].phase != now.phase:
            self._write()

    def close(self) -> None:
        """Removes it: the record of the job says how the run ended."""
        self._is_closed.set()
        with self._lock, suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _keep_writing(self) -> None:
        while not self._is_closed.wait(STATUS_INTERVAL_S):
            is_new = self._noted[0] is not self._written
            if is_new or time.monotonic() - self._written_s > STATUS_HEARTBEAT_S:
                self._write()

    def _write(self) -> None:
        with self._lock:
            if self._is_closed.is_set():
                return
            status, noted_s = self._noted
            since_s = time.monotonic() - noted_s
            now = replace(
                status,
                seconds=status.seconds + since_s,
                slowest_s=status.slowest_s + since_s if status.slowest else 0.0,
                updated=datetime.now(UTC).isoformat(timespec="seconds"),
                process=os.getpid(),
            )
            # The end of the run reports a full disk.
            with suppress(StorageError):
                write_whole(self._path, json.dumps(now.as_dict()).encode())
            self._written, self._written_s = status, time.monotonic()


@dataclass(frozen=True)
class KeptResults:
    """The kept results by wagon, and the size of their file."""

    counts: tuple[LedgerCount, ...]
    file_bytes: int

    @property
    def results_count(self) -> int:
        """The number of results."""
        return sum(one.results_count for one in self.counts)

    @property
    def size_bytes(self) -> int:
        """The bytes of all results."""
        return sum(one.size_bytes for one in self.counts)


def kept_results(out: Path) -> KeptResults:
    """The kept results in a directory. Raises MissingFileError if there are none, LedgerError."""
    path = out / LEDGER_NAME
    if not path.is_file():
        raise MissingFileError("nothing is kept here: there is no ledger", path=str(path))
    return KeptResults(tuple(counts_in(path)), path.stat().st_size)


def remove_kept_results(out: Path) -> KeptResults:
    """Removes the kept results and returns what they were; other files stay. Raises BranchlineError during a run."""
    found = kept_results(out)
    with claimed(out, force=True):
        remove_ledger(out)
    return found
