"""Trains of a shared control room that run on its machine: in a sandbox, on data that its operator has named."""

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

#: In the folder of a train: what its code writes, how it is run, and why it was ended.
WRITTEN, SETTINGS, WHY = "written", "sandbox.json", "why.txt"
_NETWORK_HINT = "order the train on a batch system, or put the files below a folder of data"


@dataclass(frozen=True)
class Supervised:
    """What the process that watches a train needs to know."""

    command: list[str]
    written: str
    log: str
    why: str
    limits: TrainLimits = field(default_factory=TrainLimits)

    @classmethod
    def read(cls, path: Path) -> Supervised:
        """Of a file that the server wrote."""
        plain = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**plain, "limits": TrainLimits(**plain["limits"])})


@dataclass(frozen=True)
class SandboxRunner:
    """The whole train runs in the sandbox of trials: it reads the folders ``data`` and its own, writes to one folder
    that nothing is served from, and has no network. What it wrote is taken over when all its processes have ended.
    """

    reports_itself: ClassVar[bool] = False

    sandbox: Sandbox
    data: tuple[Path, ...]
    limits: TrainLimits

    def check(self, order: TrainOrder, dataset: DatasetEntry, who: Person, *, is_planned: bool) -> DatasetEntry:
        """On files of the data alone."""
        del order, who, is_planned
        groups = [MergeGroup(one.name, self._placed(one.files)) for one in dataset.merge_groups]
        return replace(dataset, files=self._placed(dataset.files), merge_groups=groups)

    def _placed(self, files: list[str]) -> list[str]:
        return on_data(files, self.data, _NETWORK_HINT)

    def command(self, order: TrainOrder, dataset: DatasetEntry, folder: Path) -> list[str]:
        """The one that anybody could give."""
        return runner.command_of(order, dataset, folder)

    def start(self, train: Train, folder: Path) -> int:
        """Starts a process that runs the command in the sandbox, and watches it."""
        results, written = runner.results_of(folder, train.order), folder / WRITTEN
        with failed_writing(folder):
            written.mkdir(mode=0o700, exist_ok=True)
            # In the sandbox what is written is found here.
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
        """By the files that it writes, and the process that watches it, which ends as the last one."""
        is_alive = _is_watched(train, folder)
        return Standing(self._status(train, folder, is_alive=is_alive), is_alive)

    def shown(self, train: Train, folder: Path) -> TrainStatus | None:
        """The same."""
        return self.look(train, folder).status

    def _status(self, train: Train, folder: Path, *, is_alive: bool) -> TrainStatus | None:
        """Processes have other numbers in the sandbox than here."""
        record = record_of(folder / WRITTEN)
        if record is None:
            taken = job_of(runner.results_of(folder, train.order))
            return None if taken is None or is_alive else status_at_end(taken)
        if is_alive or record.status == RUNNING:
            state = RUNNING if is_alive else DIED
            found = at_work_in(folder / WRITTEN) or TrainStatus()
            return replace(found, status=state, started=record.started, process=None)
        return status_at_end(record)

    def log(self, train: Train, folder: Path) -> str:
        """Why it was ended, and what it wrote."""
        return "\n".join(one for one in (self.ended(train, folder), runner.log_of(folder)) if one)

    def ended(self, train: Train, folder: Path) -> str:
        """What the process that watches it found too much."""
        del train
        with suppress(OSError):
            return printable((folder / WHY).read_text(encoding="utf-8"))
        return ""

    def cancel(self, train: Train, folder: Path) -> None:
        """Has the process that watches it end it."""
        if _is_watched(train, folder):
            runner.end_process(train.process)

    def can_resume(self, train: Train, folder: Path) -> bool:
        """It is started again, and reuses what is done."""
        del train, folder
        return False

    def resume(self, train: Train, folder: Path) -> None:
        """No batch system has it."""
        raise ConflictError(f"train {train.number} was not submitted", path=str(folder))

    def take(self, train: Train, folder: Path) -> None:
        """Copies the files that its record lists."""
        written = folder / WRITTEN
        if record_of(written) is None:
            return
        take_folder(written, runner.results_of(folder, train.order))


def _is_watched(train: Train, folder: Path) -> bool:
    return runner.is_process_alive(train.process, runner.results_of(folder, train.order))


def take_folder(written: Path, results: Path) -> None:
    """Takes over results from a folder of the server's in which others wrote. Raises StorageError."""
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
            raise (StorageError(f"its results cannot be taken over: {failed[0]}") if failed else error) from None
    thread.join()
