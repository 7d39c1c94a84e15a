"""Runner for trains on the machine of a shared control room: in a sandbox, with access to the server's data folders."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from branchline.base.processes import own_python
from branchline.base.texts import printable
from branchline.base.whole_files import failed_writing, write_whole
from branchline.control.people import Person
from branchline.control.registry.entries import DatasetEntry, MergeGroup
from branchline.control.room_errors import ConflictError
from branchline.control.sandbox.sandbox import Sandbox, TrainLimits, on_data
from branchline.control.trains import runner
from branchline.control.trains.results import at_work_in, receive_results, record_of, send_results
from branchline.control.trains.runner import Standing
from branchline.control.trains.train import Train, TrainOrder
from branchline.errors import BranchlineError, StorageError
from branchline.records.sensors.record import RUNNING
from branchline.records.sensors.status import DIED, TrainStatus
from branchline.trains.out_folder.state import job_of, status_at_end

#: Names in a train's folder: the folder to which the train's code writes (WRITTEN), the settings of the train's
#: supervisor (SETTINGS), and the reason why the supervisor ended the train (WHY).
WRITTEN, SETTINGS, WHY = "written", "sandbox.json", "why.txt"
_NETWORK_HINT = "order the train on a batch system, or put the files in a data folder of the server"


@dataclass(frozen=True)
class Supervised:
    """The settings of a train's supervisor process. ``written``, ``log`` and ``why`` are paths."""

    command: list[str]
    written: str
    log: str
    why: str
    limits: TrainLimits = field(default_factory=TrainLimits)

    @classmethod
    def read(cls, path: Path) -> Supervised:
        """Read the settings from a file that the server wrote."""
        plain = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**plain, "limits": TrainLimits(**plain["limits"])})


@dataclass(frozen=True)
class SandboxRunner:
    """Runs trains in the sandbox, without network.

    A train can read the folders ``data`` and its own folder. It can write to one folder, from which the server never
    serves files. When all processes of the train have ended, the results are copied out of this folder.
    """

    reports_itself: ClassVar[bool] = False

    sandbox: Sandbox
    data: tuple[Path, ...]
    limits: TrainLimits

    def check(self, order: TrainOrder, dataset: DatasetEntry, who: Person, *, is_planned: bool) -> DatasetEntry:
        """Return the dataset with resolved paths. Raises OptionError for files outside of the data folders."""
        del order, who, is_planned
        groups = [MergeGroup(one.name, self._placed(one.files)) for one in dataset.merge_groups]
        return replace(dataset, files=self._placed(dataset.files), merge_groups=groups)

    def _placed(self, files: list[str]) -> list[str]:
        return on_data(files, self.data, _NETWORK_HINT)

    def command(self, order: TrainOrder, dataset: DatasetEntry, folder: Path) -> list[str]:
        """Return the train's command, which a user could also run by hand."""
        return runner.command_of(order, dataset, folder)

    def start(self, train: Train, folder: Path) -> int:
        """Start a supervisor process, which runs the command in the sandbox. Return the supervisor's process ID."""
        results, written = runner.results_of(folder, train.order), folder / WRITTEN
        with failed_writing(folder):
            written.mkdir(mode=0o700, exist_ok=True)
            # Mount point in the sandbox for the folder to which the train writes.
            results.mkdir(exist_ok=True)
            (folder / WHY).unlink(missing_ok=True)
        inside = [*own_python(), "-m", *train.command, "--force"]
        readable = [folder, *(one for one in self.data if one.exists())]
        command = self.sandbox.command(inside, folder, readable, (written, results), self.limits.of_processes())
        settings = Supervised(command, str(written), str(folder / runner.LOG), str(folder / WHY), self.limits)
        write_whole(folder / SETTINGS, json.dumps(asdict(settings)).encode())
        words = ["branchline.control.trains.supervisor", str(folder / SETTINGS), str(results)]
        return runner.start_process(words, folder, None)

    def look(self, train: Train, folder: Path) -> Standing:
        """Return the train's state. The status is read from the files that the train writes.

        The train is alive as long as its supervisor is alive, because the supervisor ends last.
        """
        is_alive = _is_watched(train, folder)
        record = record_of(folder / WRITTEN)
        if record is None:
            taken = job_of(runner.results_of(folder, train.order))
            status = None if taken is None or is_alive else status_at_end(taken)
        elif is_alive or record.status == RUNNING:
            state = RUNNING if is_alive else DIED
            found = at_work_in(folder / WRITTEN) or TrainStatus()
            # Remove the process ID, because process IDs differ inside and outside of the sandbox.
            status = replace(found, status=state, started=record.started, process=None)
        else:
            status = status_at_end(record)
        return Standing(status, is_alive)

    def shown(self, train: Train, folder: Path) -> TrainStatus | None:
        """Return the train's current status."""
        return self.look(train, folder).status

    def log(self, train: Train, folder: Path) -> str:
        """Return the end of the train's output, after the reason if the supervisor ended the train."""
        return "\n".join(one for one in (self.ended(train, folder), runner.log_of(folder)) if one)

    def ended(self, train: Train, folder: Path) -> str:
        """Return the reason why the supervisor ended the train; empty if the train ended by itself."""
        del train
        with suppress(OSError):
            return printable((folder / WHY).read_text(encoding="utf-8"))
        return ""

    def cancel(self, train: Train, folder: Path) -> None:
        """Ask the supervisor to end the train."""
        if _is_watched(train, folder):
            runner.end_process(train.process)

    def can_resume(self, train: Train, folder: Path) -> bool:
        """Return False, because trains in the sandbox are restarted instead, and reuse finished results."""
        del train, folder
        return False

    def resume(self, train: Train, folder: Path) -> None:
        """Raise ConflictError, because trains in the sandbox are not submitted to a batch system."""
        raise ConflictError(f"train {train.number} was not submitted", path=str(folder))

    def take(self, train: Train, folder: Path) -> None:
        """Copy the result files that the train's record lists."""
        written = folder / WRITTEN
        if record_of(written) is None:
            return
        take_folder(written, runner.results_of(folder, train.order))


def _is_watched(train: Train, folder: Path) -> bool:
    return runner.is_process_alive(train.process, runner.results_of(folder, train.order))


def take_folder(written: Path, results: Path) -> None:
    """Copy results from ``written``, a folder of the server to which user code can write. Raises StorageError."""
    reading, writing = os.pipe()
    failed: list[Exception] = []

    def send() -> None:
        try:
            with open(writing, "wb") as to:
                send_results(written, to)
        except (BranchlineError, OSError) as error:
            failed.append(error)

    thread = threading.Thread(target=send, name="branchline-results")
    with open(reading, "rb") as source:
        thread.start()
        try:
            receive_results(source, results)
        except StorageError as error:
            source.close()
            thread.join()
            raise (StorageError(f"cannot copy the results: {failed[0]}") if failed else error) from None
    thread.join()
