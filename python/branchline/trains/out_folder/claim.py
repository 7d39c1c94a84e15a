"""The output directory of a run. Only one run at a time can lock it. Until a run is complete, files in it mark the
results as incomplete.

A run locks the directory itself, so a run that dies leaves no lock file. From the start, ``job.json`` has status
"running", and a text file says that the results are incomplete. During the run, ``status.json`` has the current state
for ``branchline status``.
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
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from branchline.base.limits import STATUS_HEARTBEAT_S, STATUS_INTERVAL_S, STATUS_OLD_S
from branchline.base.processes import process_lives
from branchline.base.whole_files import failed_writing, write_whole
from branchline.errors import BranchlineError, StorageError
from branchline.jobs.ledger import LEDGER_NAME
from branchline.records.sensors.record import FAILED, PARTIAL, RUNNING, JobRecord
from branchline.records.sensors.status import TrainStatus
from branchline.records.sensors.this_process import branchline_version, host
from branchline.trains.tables.table_folder import clear_tables

# Name of the text file that says why the results are incomplete.
NOTE = "PARTIAL.txt"
# JOBS is the name of the folder of batch jobs. SUBMISSION is the name of the first file in that folder that the jobs
# read.
JOBS = "batch"
SUBMISSION = "submission"
# Maximum number of attempts to lock a directory that other runs keep removing.
LOCK_TRIES_MAX = 20
# Prefix of the name to which a folder of an earlier run is renamed before it is removed.
_REMOVED = ".removed-"
# Name of the file with the current state of a run, for `branchline status`.
STATUS = "status.json"
# The state of a run that has not reported a state yet.
_NOTHING = TrainStatus()

# Device, inode and modification time of the job records that this process has written, by directory. They show whether
# a record was replaced by another process.
_written_here: dict[Path, tuple[int, int, int]] = {}


class Claim:
    """A run's lock on its output directory. The directory is cleared when the run begins."""

    def __init__(self, out: Path, *, force: bool) -> None:
        self.out = out
        self._force = force
        self._has_begun = False
        self._status: StatusFile | None = None

    def begin(self, command: str) -> None:
        """Remove the files of an earlier run, and record that this run has started. Raises StorageError."""
        from branchline.records.result_files.job_files import JOB, write_job

        self._clear()
        started = datetime.now(UTC).isoformat()
        who = f"process {os.getpid()} on {host()}"
        record = JobRecord(branchline=branchline_version(), status=RUNNING, host=host(), process=os.getpid())
        write_job(self.out, replace(record, started=started, command=command))
        self._status = StatusFile(self.out)
        self._status.begin()
        self._has_begun = True
        self.mark([f"The run that began at {started} ({who}) has not finished; {JOB} says how it ended."])

    def note(self, now: TrainStatus) -> None:
        """Write the state of the run for `branchline status`."""
        if self._status is not None:
            self._status.note(now)

    def end(self) -> None:
        """End the run, whose job record now has the final state."""
        if self._status is not None:
            self._status.close()
            self._status = None
        identity = _record_identity(self.out)
        if self._has_begun and identity is not None:
            _written_here[self.out.resolve()] = identity

    def mark(self, sentences: Sequence[str]) -> None:
        """Write why the results are incomplete. If ``sentences`` is empty, remove the file with this explanation.
        Raises StorageError.
        """
        if sentences:
            text = "\n".join(["The results in this directory are not complete.", *sentences])
            write_whole(self.out / NOTE, f"{text}\n".encode(errors="backslashreplace"))
        else:
            (self.out / NOTE).unlink(missing_ok=True)

    def _clear(self) -> None:
        """Remove the files listed in the record of an earlier run. If that run died before it recorded its files,
        remove every file with a name that a run may write.

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
                with suppress(OSError):  # folders with other files are not empty and stay
                    folder.rmdir()
            # Without this folder, batch jobs of an earlier train that start later find no work.
            if (self.out / JOBS / SUBMISSION).exists():
                _remove_folder(self.out / JOBS)
            for left in self.out.glob(f"{_REMOVED}*"):
                shutil.rmtree(left, ignore_errors=True)
            # A complete record lists job.json, which was then removed above. If it still exists, the run died early.
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
        """Raise BranchlineError if the directory has files that this run must not replace.

        Files that no train has written are never replaced. Without ``force``, a run may replace only results of:

        - failed runs, which have no results
        - unfinished runs, whose finished sub-jobs are in the ledger
        - runs of this process, since notebook cells run repeatedly
        """
        names = {one.name for one in self.out.iterdir()}
        # A directory that contains only a ledger has no results to replace. Renamed old ledgers count as ledgers and
        # are kept.
        if all(one.startswith(LEDGER_NAME) for one in names):
            return
        if "job.json" not in names:
            raise BranchlineError(
                "this directory is not empty and was not written by a train, so it is not replaced",
                path=str(self.out),
                hint="choose another one, or remove it yourself",
            )
        status = (_record(self.out) or {}).get("status")
        goes_on = status in (RUNNING, PARTIAL) and LEDGER_NAME in names
        is_own = _record_identity(self.out) == _written_here.get(self.out.resolve(), ())
        if not self._force and status != FAILED and not goes_on and not is_own:
            what = "there are results in this directory"
            if status == RUNNING:
                what = "this directory has an unfinished run"
            hint = "choose another one, or replace it: --force, force=True"
            raise BranchlineError(what, path=str(self.out), hint=hint)

    def undo(self, made: Sequence[Path]) -> None:
        """Remove the directories created for a run that did not start."""
        for folder in made if not self._has_begun else ():
            with suppress(OSError):  # another process has written a file to the folder
                folder.rmdir()


def _remove_folder(folder: Path) -> None:
    """Remove a folder, or a symbolic link to one.

    The folder is renamed first. If some files cannot be removed, such as open files on NFS, they are then not mistaken
    for results of this run. Raises OSError.
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


@contextmanager
def claimed(out: Path, *, force: bool) -> Iterator[Claim]:
    """Lock the directory inside the block. Creates the directory if necessary.

    Raises BranchlineError if another run has locked the directory or if the directory contains results, and
    StorageError if the directory is not writable.
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
    """Open and lock the directory, creating it if necessary. Returns the descriptor and the folders that were created,
    innermost first.
    """
    for _ in range(LOCK_TRIES_MAX):
        made = _made(out)
        try:
            lock = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue  # another run, which failed to start, has just removed the directory
        except OSError as error:
            raise _refused(out, error) from None
        try:
            _lock(lock, out)
            # Another run may have removed the directory before the lock was acquired.
            if out.exists() and os.path.samestat(os.fstat(lock), out.stat()):
                return lock, made
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
    raise StorageError(
        "this directory cannot be locked: it keeps disappearing or being replaced",
        path=str(out),
        hint="choose another directory with -o",
        retry=True,
    )


def _made(out: Path) -> list[Path]:
    missing = [one for one in (out, *out.parents) if not one.exists()]
    try:
        # Other users must not be able to write to the directory, since they could replace the ledger.
        out.mkdir(mode=0o755, parents=True, exist_ok=True)
    except FileExistsError:
        raise BranchlineError("this is a file, not a directory for results", path=str(out)) from None
    except OSError as error:
        raise _refused(out, error) from None
    return missing


def _lock(lock: int, out: Path) -> None:
    """Lock the directory. Raises BranchlineError if another run uses it. On a file system without locks, this is the
    case if the process in the job record is alive, or if a run on another machine has written its state recently.
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
    """Return whether a job record belongs to a run whose process is alive on this machine."""
    if record is None or record.get("status") != RUNNING or record.get("host") != host():
        return False
    process = record.get("process")
    # A record without a process ID counts as alive.
    return not isinstance(process, int) or process <= 0 or process_lives(process)


def _was_heard_of(out: Path, record: dict[str, object] | None) -> bool:
    """Return whether a run on another machine has written its state recently, according to the clock of the file
    system.

    The record alone is not sufficient: it may have the final status while results are still being written.
    """
    if record is not None and record.get("host") == host():
        return False
    try:
        # Create a file to read the file system's clock. Open the state file instead of calling stat: the attributes
        # that a network mount caches may be a minute old.
        with tempfile.TemporaryFile(dir=out) as now, (out / STATUS).open("rb") as status:
            return os.fstat(now.fileno()).st_mtime - os.fstat(status.fileno()).st_mtime < STATUS_OLD_S
    except OSError:
        return False  # no state, or the directory is not writable, which is reported next


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
    what = f"cannot write results here: {error.strerror}"
    return StorageError(what, path=str(out), hint="choose another directory with -o")


class StatusFile:
    """Writes the current state to a file, at most once per second. An unchanged state is also written from time to
    time, so that an old file means that the run is stuck or dead.
    """

    def __init__(self, out: Path) -> None:
        self._path = out / STATUS
        self._lock = threading.Lock()
        self._noted = (_NOTHING, time.monotonic())
        self._written: TrainStatus | None = None
        self._written_s = 0.0
        self._is_closed = threading.Event()

    def begin(self) -> None:
        """Write the first state, even if nothing is known yet: workers may be queued for a long time."""
        self._write()
        threading.Thread(target=self._keep_writing, name="branchline-status", daemon=True).start()

    def note(self, now: TrainStatus) -> None:
        """Set the current state. The first state, and each state with a new phase, is written immediately."""
        before = self._noted
        self._noted = (now, time.monotonic())
        if before[0] is _NOTHING or before[0].phase != now.phase:
            self._write()

    def close(self) -> None:
        """Remove the state file, since the job record has the final state."""
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
            # Ignore a full disk, which is reported at the end of the run.
            with suppress(StorageError):
                write_whole(self._path, json.dumps(now.as_dict()).encode())
            self._written, self._written_s = status, time.monotonic()
