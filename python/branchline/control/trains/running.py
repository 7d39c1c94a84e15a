"""The process of a train: the command that anybody could give, started so that it outlives the server."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from branchline.base.limits import TRIAL_LOG_MAX_BYTES
from branchline.base.processes import own_python, process_lives
from branchline.base.texts import printable
from branchline.base.whole_files import failed_writing, write_whole
from branchline.control.registry.entries import DatasetEntry
from branchline.control.registry.wagon_file import WAGONS_FILE
from branchline.control.trains.train import HERE, TrainOrder

#: In the folder of a train: what the process wrote to its terminal.
LOG = "log.txt"


@dataclass(frozen=True)
class ReportTo:
    """Where a train reports: the address of this server, and the file with its token."""

    address: str
    token_file: Path


def results_of(folder: Path, order: TrainOrder) -> Path:
    """The directory of a train's results: jobs have the name of theirs. Nothing else in the folder has a name that
    ends like this.
    """
    return folder / f"{order.name}.train"


def command_of(order: TrainOrder, dataset: DatasetEntry, folder: Path) -> list[str]:
    """The command that runs a train, from any directory."""
    command = ["branchline", "run", str(folder / WAGONS_FILE), *dataset.files, "-o", str(results_of(folder, order))]
    command += ["--tree", dataset.tree] if dataset.tree else []
    command += [part for one in dataset.companions for part in ("--companion", one)]
    command += ["--on", order.place] if order.place != HERE else []
    command += ["--workers", str(order.workers)] if order.workers else []
    command += ["--allow-missing", f"{100 * order.allow_missing:g}%"] if order.allow_missing else []
    return command


def start(command: Sequence[str], folder: Path, report_to: ReportTo | None) -> int:
    """Starts the command and gives the number of its process. Raises StorageError.

    The process belongs to no session of the server: it goes on when the server ends, however that ends.
    """
    environment = dict(os.environ)
    if report_to is not None:
        environment["BRANCHLINE_REPORT_TO"] = report_to.address
        environment["BRANCHLINE_REPORT_TOKEN_FILE"] = str(report_to.token_file)
    return spawn([*own_python(), "-m", *command], environment, folder)


def spawn(words: Sequence[str], environment: Mapping[str, str], folder: Path, reads: Path | None = None) -> int:
    """Starts a process that writes its log in ``folder``, and reads from ``reads`` or nothing; gives its number. Raises
    StorageError.
    """
    log = str(folder / LOG)
    program = shutil.which(words[0]) or words[0]
    with failed_writing(folder / LOG):
        return os.posix_spawn(
            program,
            list(words),
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, str(reads or os.devnull), os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )


def lives(process: int, results: Path) -> bool:
    """Whether the process of a train with these results is there; a number that another program has by now is not."""
    if not process or not process_lives(process):
        return False
    with suppress(ChildProcessError):
        if os.waitpid(process, os.WNOHANG)[0] == process:
            return False
    try:
        return os.fsencode(str(results)) in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        # A system without /proc: the number has to do.
        return not Path("/proc/self").exists()


def end(process: int) -> None:
    """Has the process end as by Ctrl-C: it keeps what is done."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)


def log_of(folder: Path) -> str:
    """The end of what the process wrote to its terminal."""
    try:
        with (folder / LOG).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TRIAL_LOG_MAX_BYTES))
            return printable(file.read().decode(errors="replace")).strip()
    except OSError:
        return ""


def note_command(command: Sequence[str], folder: Path) -> None:
    """Writes the command for people who look at the folder. Raises StorageError."""
    write_whole(folder / "command.txt", f"{shlex.join(command)}\n".encode())
