"""Run trains: the interface of all runners, the runner of a single user, and the process of a train.

The process runs the command that a user would give, in its own session, so that it survives a restart of the server.
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

from branchline.base.limits import TRIAL_LOG_MAX_BYTES
from branchline.base.processes import own_python, process_lives
from branchline.base.texts import printable
from branchline.base.whole_files import failed_writing, write_whole
from branchline.control.people import Person
from branchline.control.registry.entries import DatasetEntry
from branchline.control.registry.wagon_file import WAGONS_FILE
from branchline.control.trains.train import HERE, Train, TrainOrder
from branchline.records.sensors.record import JobRecord
from branchline.records.sensors.status import TrainStatus
from branchline.trains.out_folder.lock import JOBS, SUBMISSION
from branchline.trains.out_folder.state import job_of
from branchline.trains.submitted.handle import SubmittedTrain, state_of

#: In the folder of a train: what the process wrote to its terminal.
LOG = "log.txt"


@dataclass(frozen=True)
class ReportTo:
    """Where a train reports: the address of this server, and the file with its token."""

    address: str
    token_file: Path


@dataclass(frozen=True)
class Standing:
    """How a train stands: what its run says, None as long as it says nothing, and whether its process lives."""

    status: TrainStatus | None
    is_alive: bool


class Runner(Protocol):
    """Starts trains, says how they stand and ends them. ``folder`` is that of a train in the control room. Trains that
    do not report themselves are reported by the control room.
    """

    reports_itself: ClassVar[bool]

    def check(self, order: TrainOrder, dataset: DatasetEntry, who: Person, *, is_planned: bool) -> DatasetEntry:
        """The dataset as such a train has it. Raises OptionError, RefusedError where it cannot run."""
        ...

    def command(self, order: TrainOrder, dataset: DatasetEntry, folder: Path) -> list[str]:
        """The command of a train that is ordered."""
        ...

    def start(self, train: Train, folder: Path) -> int:
        """Starts it, again if it was started before, and gives the number of its process. Raises BranchlineError."""
        ...

    def look(self, train: Train, folder: Path) -> Standing:
        """How it stands now. Raises BranchlineError."""
        ...

    def shown(self, train: Train, folder: Path) -> TrainStatus | None:
        """How it stands, for pages: at once, and perhaps of a few seconds ago. Raises BranchlineError."""
        ...

    def log(self, train: Train, folder: Path) -> str:
        """The end of what it wrote to its terminal."""
        ...

    def ended(self, train: Train, folder: Path) -> str:
        """Why its process was ended before its time, as far as that is known."""
        ...

    def cancel(self, train: Train, folder: Path) -> None:
        """Ends it; what is done is kept. Raises BranchlineError."""
        ...

    def can_resume(self, train: Train, folder: Path) -> bool:
        """Whether ``resume`` does what is missing, and not ``start``. Raises BranchlineError."""
        ...

    def resume(self, train: Train, folder: Path) -> None:
        """Has a batch system do what is missing. Raises BranchlineError."""
        ...

    def take(self, train: Train, folder: Path) -> None:
        """Takes over the results of a train that has ended, where the control room has not got them yet. Raises
        StorageError.
        """
        ...


@dataclass
class OwnRunner:
    """Trains of somebody who is alone: their code runs as the user of this process, and writes its results where the
    control room has them.
    """

    reports_itself: ClassVar[bool] = True

    report_to: ReportTo | None = None

    def check(self, order: TrainOrder, dataset: DatasetEntry, who: Person, *, is_planned: bool) -> DatasetEntry:
        """All can run."""
        del order, who, is_planned
        return dataset

    def command(self, order: TrainOrder, dataset: DatasetEntry, folder: Path) -> list[str]:
        """The one that anybody could give."""
        return command_of(order, dataset, folder)

    def start(self, train: Train, folder: Path) -> int:
        """Starts the command."""
        is_again = results_of(folder, train.order).exists()
        command = [*train.command, "--force"] if is_again else train.command
        return start_process(command, folder, self.report_to)

    def look(self, train: Train, folder: Path) -> Standing:
        """As `branchline status` says it."""
        is_alive = is_process_alive(train.process, results_of(folder, train.order))
        return Standing(self.shown(train, folder), is_alive)

    def shown(self, train: Train, folder: Path) -> TrainStatus | None:
        """As `branchline status` says it."""
        return state_of(results_of(folder, train.order))

    def log(self, train: Train, folder: Path) -> str:
        """What the command wrote."""
        del train
        return log_of(folder)

    def ended(self, train: Train, folder: Path) -> str:
        """Nothing is known."""
        del train, folder
        return ""

    def cancel(self, train: Train, folder: Path) -> None:
        """Ends the command and its jobs."""
        results = results_of(folder, train.order)
        if train.order.is_submitted and (results / JOBS / SUBMISSION).is_file():
            SubmittedTrain(results).cancel()
        if is_process_alive(train.process, results):
            end_process(train.process)

    def can_resume(self, train: Train, folder: Path) -> bool:
        """Where it was submitted, and no wagon failed."""
        return is_resumable(results_of(folder, train.order))

    def resume(self, train: Train, folder: Path) -> None:
        """Submits what is missing."""
        SubmittedTrain(results_of(folder, train.order)).resume()

    def take(self, train: Train, folder: Path) -> None:
        """They are there."""


def is_resumable(results: Path) -> bool:
    """Whether jobs of a batch system can do what is missing. Where wagons failed by themselves a new run has these
    again, and reuses the rest.
    """
    return (results / JOBS / SUBMISSION).is_file() and not _has_failed_wagons(job_of(results))


def _has_failed_wagons(record: JobRecord | None) -> bool:
    return record is not None and any(one.error is not None for one in record.wagons)


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


def start_process(command: Sequence[str], folder: Path, report_to: ReportTo | None) -> int:
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


def is_process_alive(process: int, results: Path) -> bool:
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


def end_process(process: int) -> None:
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
