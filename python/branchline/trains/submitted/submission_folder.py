"""The folder ``batch`` in the output directory, with the files that the jobs of a submitted train share.

Each file is written atomically. The following names are relative to the folder; STAGE.INDEX is a node of the tree that
folds results.

    train.json               public data of the train, for its status
    submission               the work of all jobs, without the following two
    dataset                  the files of the dataset
    shares/N                 a few hundred sub-jobs each
    jobs/N.json              record of a submission; N counts the first submission and each resume
    jobs/N.STEP.sh           scripts of the submission's steps
    units/STAGE.INDEX        result of a node
    units/STAGE.INDEX.lease  task that works on the node
    units/STAGE.INDEX.taken  last task that worked on the node, if it was assigned to another task
    units/STAGE.INDEX.failed why the node failed
    units/STAGE.INDEX.less   how the node must save memory
    accounts/N.STEP.TASK.*   start and end of tasks
    logs/N.STEP.TASK.log     output of tasks
    rows/STAGE.INDEX         ledger rows of a node's sub-jobs, until the last job adds them to the ledger
    tables/                  pieces of the tables that wagons return, until the train is complete
    reports/                 reports that have not been sent to the control room
    kept/INDEX               cached results of sub-jobs in an incomplete node of stage 1

A pickled value, compressed if it is large, is preceded by a line of JSON that describes it and has its checksum. Only
files of trusted users are unpickled (`branchline.base.trust`). Other users can read the files that ``status`` reads.
They cannot read the submission, whose file names may contain secrets, and the logs. The batch system writes the output
of a task (``log``) to the task's log.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import cloudpickle

from branchline.base.compression import compressed, decompressed
from branchline.base.limits import OUT_REFUSES_WAIT_S
from branchline.base.texts import print_block, print_line
from branchline.base.trust import TrustedBytes, check_trusted, read_trusted, trusts_others, unpickle
from branchline.base.whole_files import open_plain, retried
from branchline.errors import BadFileError, MissingFileError, StorageError, UntrustedFileError
from branchline.jobs.fold_tree import FoldNode
from branchline.trains.out_folder.claim import JOBS, SUBMISSION
from branchline.trains.tables.table_folder import TableFolder

#: Version of the file formats in this folder. It also changes when pickled classes move to other modules. Files with a
#: different version are rejected.
VERSION = 10
# Modes of new files, for all users and for the owner only. Regardless of the umask, other users must not be able to
# write these files, because unpickling runs code.
_FOR_ALL, _FOR_OWNER = 0o644, 0o600
_HEADER_MAX_BYTES = 65_536
Value = TypeVar("Value")


@dataclass(frozen=True)
class BatchFolder:
    """The paths inside the ``batch`` folder of an output directory."""

    out: Path

    @property
    def path(self) -> Path:
        """The ``batch`` folder itself."""
        return self.out / JOBS

    @property
    def outline(self) -> Path:
        """The path of the file with the public data of the train, for its status."""
        return self.path / "train.json"

    @property
    def submission(self) -> Path:
        """The path of the file that describes the work of all jobs."""
        return self.path / SUBMISSION

    @property
    def dataset(self) -> Path:
        """The path of the file with the list of the dataset's files."""
        return self.path / "dataset"

    @property
    def shares(self) -> Path:
        """The folder of the sub-jobs."""
        return self.path / "shares"

    @property
    def jobs(self) -> Path:
        """The folder of the records and scripts of submissions."""
        return self.path / "jobs"

    @property
    def accounts(self) -> Path:
        """The folder of the files that record the start and end of tasks."""
        return self.path / "accounts"

    @property
    def logs(self) -> Path:
        """The folder of the tasks' output."""
        return self.path / "logs"

    @property
    def units(self) -> Path:
        """The folder of the results of nodes."""
        return self.path / "units"

    @property
    def rows_folder(self) -> Path:
        """The folder of rows that have not been added to the ledger."""
        return self.path / "rows"

    @property
    def kept_folder(self) -> Path:
        """The folder of cached results, taken from the ledger when the train was submitted."""
        return self.path / "kept"

    @property
    def reports(self) -> Path:
        """The folder of reports that have not been sent to the control room. It is shared, because machines may have no
        home directory, and another machine may send the reports.
        """
        return self.path / "reports"

    @property
    def tables(self) -> TableFolder:
        """The folder of pieces of tables. Merged pieces are kept, since a resume needs them."""
        return TableFolder(str(self.path.absolute() / "tables"), str(self.out.absolute()), keeps=True)

    def make(self) -> None:
        """Create the folders. Raises StorageError, and UntrustedFileError if other users can write to an existing
        folder.
        """
        public = (self.path, self.jobs, self.accounts, self.units)
        private = (self.shares, self.logs, self.rows_folder, self.kept_folder, Path(self.tables.path))
        try:
            for folder in (*public, *private):
                if trusts_others():
                    # Tasks of other users write to these folders. The umask and the group of the directory must give
                    # them access.
                    folder.mkdir(exist_ok=True)
                    continue
                folder.mkdir(mode=0o755 if folder in public else 0o700, exist_ok=True)
                check_trusted(folder.stat(), folder)
        except UntrustedFileError:
            raise
        except OSError as error:
            what = f"cannot create the folder of the jobs: {error.strerror}"
            raise StorageError(what, path=str(self.path), hint="choose another directory with -o") from None

    def result(self, node: FoldNode) -> Path:
        """Return the path of a node's result."""
        return self.units / f"{node.stage}.{node.index}"

    def rows(self, node: FoldNode) -> Path:
        """Return the path of the ledger rows of a node's sub-jobs."""
        return self.rows_folder / f"{node.stage}.{node.index}"

    def lease(self, node: FoldNode) -> Path:
        """Return the path of a node's lease."""
        return self.units / f"{node.stage}.{node.index}.lease"

    def taken(self, node: FoldNode) -> Path:
        """Return the path of the file that names the last task that worked on a node assigned to another task."""
        return self.units / f"{node.stage}.{node.index}.taken"

    def idle(self, task: str) -> Path:
        """Return the path of the file that says that a task found no work."""
        return self.accounts / f"{task}.idle"

    def less(self, node: FoldNode) -> Path:
        """Return the path of the file that says how a node must save memory."""
        return self.units / f"{node.stage}.{node.index}.less"

    def failed(self, node: FoldNode) -> Path:
        """Return the path of the file that says why a node failed."""
        return self.units / f"{node.stage}.{node.index}.failed"

    def retried(self, action: Callable[[], Value], stops: Callable[[], bool] = lambda: False) -> Value:
        """Return the result of a task's function that reads or writes files of the train. While the output directory is
        missing, full, read-only or unreachable, the function is called again, for at most ``OUT_REFUSES_WAIT_S`` or
        until ``stops`` returns True. Raises the last error.
        """
        return retried(self.out, action, OUT_REFUSES_WAIT_S, stops)

    def retry_refused(self, label: str) -> Path:
        """Return the path of the file that says why missing units could not be submitted again after a last step."""
        return self.accounts / f"{label}.refused"


def write_first(path: Path, content: bytes, *, for_all: bool = True) -> bool:
    """Write a new file atomically and durably. If the file already exists, it is unchanged, and the function returns
    False. With ``for_all``, other users may read the file. Raises StorageError.
    """
    temporary = path.parent / f".writing-{uuid.uuid4().hex}"
    try:
        try:
            _write_through(temporary, content, _FOR_ALL if for_all or trusts_others() else _FOR_OWNER)
            return _link(temporary, path)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except OSError as error:
        raise _refused(path, error) from error


def write_again(path: Path, content: bytes) -> None:
    """Write or replace a file atomically and durably. Raises StorageError."""
    temporary = path.parent / f".writing-{uuid.uuid4().hex}"
    try:
        try:
            _write_through(temporary, content, _FOR_ALL)
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except OSError as error:
        raise _refused(path, error) from error


def _write_through(path: Path, content: bytes, mode: int) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _link(temporary: Path, path: Path) -> bool:
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:
        # Some file systems have no hard links. If two tasks get here at the same time, replacing a file is harmless,
        # since two results of a unit are equal.
        if path.exists():
            return False
        temporary.rename(path)
    return True


def _refused(path: Path, error: OSError) -> StorageError:
    what = f"cannot write {path}: {error.strerror or error}"
    return StorageError(what, path=str(path), hint="free space there, then run branchline resume", retry=True)


def framed(kind: str, value: object, summary: dict[str, object] | None = None) -> bytes:
    """Serialize a value: one line of JSON that describes the value, followed by the pickled value, which is compressed
    if it is large.
    """
    pickled: bytes = cloudpickle.dumps(value)
    content = compressed(pickled)
    header = {
        "branchline": kind,
        "version": VERSION,
        "size_bytes": len(content),
        "pickled_bytes": len(pickled),
        "sha256": hashlib.sha256(content).hexdigest(),
        **(summary or {}),
    }
    return json.dumps(header).encode() + b"\n" + content


def read_framed(path: Path, kind: str, wanted: type[Value]) -> Value:
    """Read a value of type ``wanted`` from a file. Raises MissingFileError, StorageError, UntrustedFileError, and
    BadFileError if the file is incomplete or contains a value of another type.
    """
    try:
        head, _, content = read_trusted(path).partition(b"\n")
    except UntrustedFileError:
        raise
    except FileNotFoundError:
        raise MissingFileError("no such file", path=str(path)) from None
    except OSError as error:
        raise StorageError(f"cannot read this file: {error.strerror}", path=str(path), retry=True) from None
    header = checked_header(head, path, kind)
    if len(content) != header.get("size_bytes") or hashlib.sha256(content).hexdigest() != header.get("sha256"):
        raise BadFileError("this file is damaged: checksum mismatch", path=str(path))
    try:
        pickled = decompressed(content, int(str(header.get("pickled_bytes"))))
    except ValueError as error:
        raise BadFileError(f"this file is damaged: {error}", path=str(path)) from None
    value = unpickle(TrustedBytes(pickled), object)
    if not isinstance(value, wanted):
        raise BadFileError(f"this file contains a {type(value).__name__}, not a {wanted.__name__}", path=str(path))
    return value


def read_summary(path: Path, kind: str) -> dict[str, object]:
    """Read the first line of a file. Raises MissingFileError, StorageError, and BadFileError."""
    try:
        with open_plain(path) as file:
            return checked_header(file.readline(_HEADER_MAX_BYTES), path, kind)
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError("no such file", path=str(path)) from None
    except OSError as error:
        raise StorageError(f"cannot read this file: {error.strerror}", path=str(path), retry=True) from None


def checked_header(head: bytes, path: Path, kind: str) -> dict[str, object]:
    """Parse the first line of a file. Raises BadFileError if the file is of a different kind or version."""
    try:
        header = json.loads(head)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("branchline") != kind:
        raise BadFileError(f"this is not a {kind} of a submitted train", path=str(path))
    if header.get("version") != VERSION:
        what = f"this {kind} has version {header.get('version')}, but this Branchline reads version {VERSION}"
        raise BadFileError(what, path=str(path), hint="use the Branchline that submitted the train")
    return header


def log(text: object) -> None:
    """Print a line and flush it, so that the line is in the log even if the process is killed afterwards. If the disk
    of the log is full, the line is printed with a later one.
    """
    with suppress(OSError):
        print_line(text)


def log_traceback(text: str) -> None:
    """Print the lines of a traceback."""
    with suppress(OSError):
        print_block(text)
