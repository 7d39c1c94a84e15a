"""How trains are run: what is the same whoever's rights their code has, and the way for somebody who is alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from branchline.control.people import Person
from branchline.control.registry.entries import DatasetEntry
from branchline.control.trains import running
from branchline.control.trains.running import ReportTo
from branchline.control.trains.train import Train, TrainOrder
from branchline.records.sensors.record import JobRecord
from branchline.records.sensors.status import TrainStatus
from branchline.trains.out_folder.lock import JOBS, SUBMISSION
from branchline.trains.out_folder.state import job_of
from branchline.trains.submitted.handle import SubmittedTrain
from branchline.trains.submitted.state import state_of


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
        return running.command_of(order, dataset, folder)

    def start(self, train: Train, folder: Path) -> int:
        """Starts the command."""
        is_again = running.results_of(folder, train.order).exists()
        command = [*train.command, "--force"] if is_again else train.command
        return running.start(command, folder, self.report_to)

    def look(self, train: Train, folder: Path) -> Standing:
        """As `branchline status` says it."""
        is_alive = running.lives(train.process, running.results_of(folder, train.order))
        return Standing(self.shown(train, folder), is_alive)

    def shown(self, train: Train, folder: Path) -> TrainStatus | None:
        """As `branchline status` says it."""
        return state_of(running.results_of(folder, train.order))

    def log(self, train: Train, folder: Path) -> str:
        """What the command wrote."""
        del train
        return running.log_of(folder)

    def ended(self, train: Train, folder: Path) -> str:
        """Nothing is known."""
        del train, folder
        return ""

    def cancel(self, train: Train, folder: Path) -> None:
        """Ends the command and its jobs."""
        results = running.results_of(folder, train.order)
        if train.order.is_submitted and (results / JOBS / SUBMISSION).is_file():
            SubmittedTrain(results).cancel()
        if running.lives(train.process, results):
            running.end(train.process)

    def can_resume(self, train: Train, folder: Path) -> bool:
        """Where it was submitted, and no wagon failed."""
        return is_resumable(running.results_of(folder, train.order))

    def resume(self, train: Train, folder: Path) -> None:
        """Submits what is missing."""
        SubmittedTrain(running.results_of(folder, train.order)).resume()

    def take(self, train: Train, folder: Path) -> None:
        """They are there."""


def is_resumable(results: Path) -> bool:
    """Whether jobs of a batch system can do what is missing. Where wagons failed by themselves a new run has these
    again, and reuses the rest.
    """
    return (results / JOBS / SUBMISSION).is_file() and not _has_failed_wagons(job_of(results))


def _has_failed_wagons(record: JobRecord | None) -> bool:
    return record is not None and any(one.error is not None for one in record.wagons)
