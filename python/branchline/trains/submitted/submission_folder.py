"""The folder ``batch`` in the directory of results: the files that the jobs of a submitted train share.

Each file is written whole or not at all.

    train.json               what everybody may know of the train, for its status
    submission               what is to be done
    jobs/N.json              what was submitted, N counting the submission and each resume
    jobs/N.STEP.sh           the scripts of its steps
    units/STAGE.INDEX        the result of a node of the tree by which results are folded
    units/STAGE.INDEX.lease  who works on it;  .failed  why it failed;  .less  how much less memory it is to take
    accounts/N.STEP.TASK.*   how tasks began and ended
    logs/N.STEP.TASK.log     what they printed
    rows/STAGE.INDEX         what a node's sub-jobs add to the ledger, until the last job has written it there
    tables/                  the pieces of tables that wagons return, until the train is whole
    reports/                 what its jobs have not yet sent to the control room
    kept/INDEX               what the ledger had of sub-jobs of a node of stage 1 that are not all done

Values are pickled behind one line of JSON, which says what follows and has its checksum. Only files of trusted users
are unpickled (`branchline.base.trust`). Other users see what ``status`` reads, but neither the submission, since names
of files may have secrets, nor the logs. What a task prints (``log``) the batch system writes to its log.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import cloudpickle

from branchline.base.limits import OUT_GONE_INTERVAL_S, OUT_GONE_WAIT_S
from branchline.base.texts import print_block, print_line
from branchline.base.trust import TrustedBytes, check_trusted, read_trusted, trusts_others, unpickle
from branchline.base.whole_files import open_plain
from branchline.errors import BadFileError, MissingFileError, StorageError, UntrustedFileError
from branchline.jobs.fold_tree import FoldNode
from branchline.trains.out_folder.lock import JOBS, SUBMISSION
from branchline.trains.tables.table_folder import TableFolder

#: The version of these files, which also changes with the modules of pickled classes. Another one is refused.
VERSION = 6
# Modes of new files. No other user may write them, whatever the umask: what is pickled in them is run as code.
_FOR_ALL, _FOR_OWNER = 0o644, 0o600
_HEADER_MAX_BYTES = 65_536
Value = TypeVar("Value")


@dataclass(frozen=True)
class BatchFolder:
    """The paths in the folder of one directory of results."""

    out: Path

    @property
    def path(self) -> Path:
        """The folder itself."""
        return self.out / JOBS

    @property
    def outline(self) -> Path:
        """What everybody may know of the train."""
        return self.path / "train.json"

    @property
    def submission(self) -> Path:
        """What is to be done."""
        return self.path / SUBMISSION

    @property
    def jobs(self) -> Path:
        """What was submitted."""
        return self.path / "jobs"

    @property
    def accounts(self) -> Path:
        """How tasks began and ended."""
        return self.path / "accounts"

    @property
    def logs(self) -> Path:
        """What tasks printed."""
        return self.path / "logs"

    @property
    def units(self) -> Path:
        """The results of nodes."""
        return self.path / "units"

    @property
    def rows_folder(self) -> Path:
        """What is to be written to the ledger."""
        return self.path / "rows"

    @property
    def kept_folder(self) -> Path:
        """What the ledger had when the train was submitted."""
        return self.path / "kept"

    @property
    def reports(self) -> Path:
        """What is not yet sent to the control room. Nodes may have no home, and what one leaves another one sends."""
        return self.path / "reports"

    @property
    def tables(self) -> TableFolder:
        """The pieces of tables; a resume needs those that are there."""
        return TableFolder(str(self.path.absolute() / "tables"), str(self.out.absolute()), keeps=True)

    def make(self) -> None:
        """Makes the folders. Raises StorageError, and UntrustedFileError if others can write to one that exists."""
        public = (self.path, self.jobs, self.accounts, self.units)
        private = (self.logs, self.rows_folder, self.kept_folder, Path(self.tables.path))
        try:
            for folder in (*public, *private):
                if trusts_others():
                    # Tasks that run as another user write here; the umask and the group of the directory admit them.
                    folder.mkdir(exist_ok=True)
                    continue
                folder.mkdir(mode=0o755 if folder in public else 0o700, exist_ok=True)
                check_trusted(folder.stat(), folder)
        except UntrustedFileError:
            raise
        except OSError as error:
            what = f"the folder of the jobs cannot be made: {error.strerror}"
            raise StorageError(what, path=str(self.path), hint="choose another directory with -o") from None

    def result(self, node: FoldNode) -> Path:
        """The result of a node."""
        return self.units / f"{node.stage}.{node.index}"

    def rows(self, node: FoldNode) -> Path:
        """What a node's sub-jobs add to the ledger."""
        return self.rows_folder / f"{node.stage}.{node.index}"

    def lease(self, node: FoldNode) -> Path:
        """Who works on a node."""
        return self.units / f"{node.stage}.{node.index}.lease"

    def less(self, node: FoldNode) -> Path:
        """How much less memory a node is to take."""
        return self.units / f"{node.stage}.{node.index}.less"

    def failed(self, node: FoldNode) -> Path:
        """Why a node failed."""
        return self.units / f"{node.stage}.{node.index}.failed"

    def retry_refused(self, label: str) -> Path:
        """Why nothing could be sent again after a last step."""
        return self.accounts / f"{label}.refused"


def wait_until_there(out: Path) -> None:
    """Waits for a directory that has disappeared, as during a new mount, ``OUT_GONE_WAIT_S`` at most."""
    end_s = time.monotonic() + OUT_GONE_WAIT_S
    while not out.is_dir() and time.monotonic() < end_s:
        time.sleep(OUT_GONE_INTERVAL_S)


def write_first(path: Path, content: bytes, *, for_all: bool = True) -> bool:
    """Writes a file that appears whole or not at all, and survives the loss of power. The first one stays: False if
    there is one already. Other users may read it if it is ``for_all``. Raises StorageError.
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
    """The same for a file that replaces the one before. Raises StorageError."""
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
        # Some file systems have no hard links. Two results of one unit are equal, so the later one does no harm.
        if path.exists():
            return False
        temporary.rename(path)
    return True


def _refused(path: Path, error: OSError) -> StorageError:
    what = f"{path} could not be written: {error.strerror or error}"
    return StorageError(what, path=str(path), hint="make room there, then resume", retry=True)


def framed(kind: str, value: object, summary: dict[str, object] | None = None) -> bytes:
    """A value as it is written: one line that says what it is, then the value, pickled."""
    content: bytes = cloudpickle.dumps(value)
    header = {
        "branchline": kind,
        "version": VERSION,
        "size_bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        **(summary or {}),
    }
    return json.dumps(header).encode() + b"\n" + content


def read_framed(path: Path, kind: str, wanted: type[Value]) -> Value:
    """The value of a file, of the type that is wanted. Raises MissingFileError, StorageError, UntrustedFileError, and
    BadFileError for anything that is not whole or of another type.
    """
    try:
        head, _, content = read_trusted(path).partition(b"\n")
    except UntrustedFileError:
        raise
    except FileNotFoundError:
        raise MissingFileError("there is no such file", path=str(path)) from None
    except OSError as error:
        raise StorageError(f"it cannot be read: {error.strerror}", path=str(path), retry=True) from None
    header = checked_header(head, path, kind)
    if len(content) != header.get("size_bytes") or hashlib.sha256(content).hexdigest() != header.get("sha256"):
        raise BadFileError("this file is damaged: its checksum is another one", path=str(path))
    value = unpickle(TrustedBytes(content))
    if not isinstance(value, wanted):
        raise BadFileError(f"this file holds a {type(value).__name__}, not a {wanted.__name__}", path=str(path))
    return value


def read_summary(path: Path, kind: str) -> dict[str, object]:
    """The first line of a file. Raises as ``read_framed``."""
    try:
        with open_plain(path) as file:
            return checked_header(file.readline(_HEADER_MAX_BYTES), path, kind)
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError("there is no such file", path=str(path)) from None
    except OSError as error:
        raise StorageError(f"it cannot be read: {error.strerror}", path=str(path), retry=True) from None


def checked_header(head: bytes, path: Path, kind: str) -> dict[str, object]:
    """Return the first line of a file of a kind. Raises BadFileError for any other, and for another version."""
    try:
        header = json.loads(head)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("branchline") != kind:
        raise BadFileError(f"this is not a {kind} of a submitted train", path=str(path))
    if header.get("version") != VERSION:
        what = f"this {kind} has version {header.get('version')}, and this Branchline reads version {VERSION}"
        raise BadFileError(what, path=str(path), hint="use the Branchline that submitted the train")
    return header


def log(text: object) -> None:
    """Prints a line at once, so that it is there when the process is killed."""
    print_line(text)


def log_traceback(text: str) -> None:
    """Prints the lines of a traceback."""
    print_block(text)
