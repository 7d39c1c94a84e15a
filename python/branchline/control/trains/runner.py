"""The interface of train runners, the runner of a single-user control room, and functions for a train's process.

The process runs the same command that a user would run. The process has a session of its own, so that it survives a
restart of the server.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from branchline.base.environment import REPORT_TO, REPORT_TOKEN_FILE
from branchline.base.limits import TRIAL_LOG_MAX_BYTES
from branchline.base.processes import own_python, process_lives
from branchline.base.texts import end_of_log
from branchline.base.whole_files import failed_writing, write_whole
from branchline.control.people import Person
from branchline.control.registry.entries import DatasetEntry
from branchline.control.registry.wagon_file import WAGONS_FILE
from branchline.control.trains.train import HERE, Train, TrainOrder
from branchline.records.sensors.status import TrainStatus
from branchline.trains.out_folder.claim import JOBS, SUBMISSION
from branchline.trains.out_folder.state import job_of

#: Name of the log file in a train's folder, which has the output of the train's process.
LOG = "log.txt"


@dataclass(frozen=True)
class ReportTo:
    """Where a train sends reports: the URL of this server, and the file with the server's token."""

    address: str
    token_file: Path


@dataclass(frozen=True)
class Standing:
    """A train's state: the status from its run (None until the first report), and whether its process is alive."""

    status: TrainStatus | None
    is_alive: bool


class Runner(Protocol):
    """Starts, monitors and cancels trains. ``folder`` is always the train's folder in the control room.

    ``reports_itself`` is whether trains send their own reports; otherwise, the control room reports the trains.
    """

    reports_itself: ClassVar[bool]

    def check(self, order: TrainOrder, dataset: DatasetEntry, who: Person, *, is_planned: bool) -> DatasetEntry:
        """Return the dataset as this runner needs it. Raises OptionError or RefusedError if the train cannot run."""
        ...

    def command(self, order: TrainOrder, dataset: DatasetEntry, folder: Path) -> list[str]:
        """Return a new train's command."""
        ...

    def start(self, train: Train, folder: Path) -> int:
        """Start or restart a train and return its process ID. Raises BranchlineError."""
        ...

    def look(self, train: Train, folder: Path) -> Standing:
        """Return a train's current state. Raises BranchlineError."""
        ...

    def shown(self, train: Train, folder: Path) -> TrainStatus | None:
        """Return a train's status for pages, without waiting. May be a few seconds old. Raises BranchlineError."""
        ...

    def log(self, train: Train, folder: Path) -> str:
        """Return the end of a train's log."""
        ...

    def ended(self, train: Train, folder: Path) -> str:
        """Return the reason why a train's process was ended early; empty if unknown."""
        ...

    def cancel(self, train: Train, folder: Path) -> None:
        """Cancel a train. Results of finished sub-jobs are kept. Raises BranchlineError."""
        ...

    def can_resume(self, train: Train, folder: Path) -> bool:
        """Whether the missing sub-jobs have to be run with ``resume`` instead of ``start``. Raises BranchlineError."""
        ...

    def resume(self, train: Train, folder: Path) -> None:
        """Resubmit a train's missing sub-jobs to the batch system. Raises BranchlineError."""
        ...

    def take(self, train: Train, folder: Path) -> None:
        """Copy an ended train's results into the control room, if they are not already there. Raises StorageError."""
        ...


@dataclass
class OwnRunner:
    """Runner of a single-user control room. Code runs as the server's user and writes results to the train's folder."""

    reports_itself: ClassVar[bool] = True

    report_to: ReportTo | None = None

    def check(self, order: TrainOrder, dataset: DatasetEntry, who: Person, *, is_planned: bool) -> DatasetEntry:
        """Return the dataset unchanged."""
        del order, who, is_planned
        return dataset

    def command(self, order: TrainOrder, dataset: DatasetEntry, folder: Path) -> list[str]:
        """Return the train's command, which a user could also run by hand."""
        return command_of(order, dataset, folder)

    def start(self, train: Train, folder: Path) -> int:
        """Start the train's command and return the process ID."""
        is_again = results_of(folder, train.order).exists()
        command = [*train.command, "--force"] if is_again else train.command
        return start_process(command, folder, self.report_to)

    def look(self, train: Train, folder: Path) -> Standing:
        """Return the train's state, with the status that `branchline status` shows."""
        is_alive = is_process_alive(train.process, results_of(folder, train.order))
        return Standing(self.shown(train, folder), is_alive)

    def shown(self, train: Train, folder: Path) -> TrainStatus | None:
        """Return the status that `branchline status` shows."""
        # Imported only if needed: this module imports awkward, which would delay the server start by half a second.
        from branchline.trains.submitted.handle import state_of

        return state_of(results_of(folder, train.order))

    def log(self, train: Train, folder: Path) -> str:
        """Return the end of the command's output."""
        del train
        return log_of(folder)

    def ended(self, train: Train, folder: Path) -> str:
        """Return an empty string: the reason is unknown."""
        del train, folder
        return ""

    def cancel(self, train: Train, folder: Path) -> None:
        """End the train's process and batch jobs."""
        from branchline.trains.submitted.handle import SubmittedTrain

        results = results_of(folder, train.order)
        if train.order.is_submitted and (results / JOBS / SUBMISSION).is_file():
            SubmittedTrain(results).cancel()
        if is_process_alive(train.process, results):
            end_process(train.process)

    def can_resume(self, train: Train, folder: Path) -> bool:
        """Whether the train was submitted to a batch system and no wagon failed."""
        return is_resumable(results_of(folder, train.order))

    def resume(self, train: Train, folder: Path) -> None:
        """Resubmit the train's missing sub-jobs."""
        from branchline.trains.submitted.handle import SubmittedTrain

        SubmittedTrain(results_of(folder, train.order)).resume()

    def take(self, train: Train, folder: Path) -> None:
        """Do nothing, because the results are already in the control room."""


def is_resumable(results: Path) -> bool:
    """Whether a train's missing sub-jobs can be resubmitted to the batch system.

    If a wagon failed, the train has to be started again. The new run reuses the results of the other wagons.
    """
    if not (results / JOBS / SUBMISSION).is_file():
        return False
    record = job_of(results)
    return record is None or all(one.error is None for one in record.wagons)


def results_of(folder: Path, order: TrainOrder) -> Path:
    """Return a train's result directory. The directory name becomes the job name.

    No other entry of the folder has the suffix ``.train``.
    """
    return folder / f"{order.name}.train"


def command_of(order: TrainOrder, dataset: DatasetEntry, folder: Path) -> list[str]:
    """Return the command that runs a train, from any working directory."""
    command = ["branchline", "run", str(folder / WAGONS_FILE), *dataset.files, "-o", str(results_of(folder, order))]
    command += ["--tree", dataset.tree] if dataset.tree else []
    command += [part for one in dataset.companions for part in ("--companion", one)]
    command += ["--on", order.place] if order.place != HERE else []
    command += ["--workers", str(order.workers)] if order.workers else []
    command += ["--allow-missing", f"{100 * order.allow_missing:g}%"] if order.allow_missing else []
    return command


def start_process(command: Sequence[str], folder: Path, report_to: ReportTo | None) -> int:
    """Start a command and return its process ID. Raises StorageError.

    The process has a session of its own, and continues when the server ends or is killed.
    """
    environment = dict(os.environ)
    if report_to is not None:
        environment[REPORT_TO] = report_to.address
        environment[REPORT_TOKEN_FILE] = str(report_to.token_file)
    return spawn([*own_python(), "-m", *command], environment, folder)


def spawn(words: Sequence[str], environment: Mapping[str, str], folder: Path, reads: Path | None = None) -> int:
    """Start a process and return its process ID. Raises StorageError.

    The process appends its output to the log in ``folder``. Its stdin is the file ``reads``, or empty if None.
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


def is_process_alive(process: int, results: Path) -> bool:
    """Whether a train's process is alive. The process must have the path ``results`` in its command line.

    A new process that reuses the process ID of the train's process does not count.
    """
    if not process or not process_lives(process):
        return False
    with suppress(ChildProcessError):
        if os.waitpid(process, os.WNOHANG)[0] == process:
            return False
    try:
        return os.fsencode(str(results)) in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        # On a system without /proc, only the process ID can be checked.
        return not Path("/proc/self").exists()


def end_process(process: int) -> None:
    """Send SIGTERM to a process. Like Ctrl-C, the signal starts a graceful shutdown, which keeps finished results."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)


def log_of(folder: Path) -> str:
    """Return the end of the log in a train's folder."""
    try:
        with (folder / LOG).open("rb") as file:
            return end_of_log(file, TRIAL_LOG_MAX_BYTES)
    except OSError:
        return ""


def note_command(command: Sequence[str], folder: Path) -> None:
    """Write the command to a file in a train's folder, for people who inspect the folder. Raises StorageError."""
    write_whole(folder / "command.txt", f"{shlex.join(command)}\n".encode())
