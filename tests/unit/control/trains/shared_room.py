"""A shared control room on files of data, in which code of people runs in the sandbox."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tests.clusters.event_files import write_events
from tests.unit.control.trials.test_excess import sandbox

from branchline.control.people import Person
from branchline.control.registry.entries import DatasetEntry, WagonEntry, WagonSource
from branchline.control.room import ControlRoom
from branchline.control.sandbox.code_rules import CodeRunning
from branchline.control.sandbox.sandbox import TrainLimits
from branchline.control.trains.train import Train, TrainOrder
from branchline.control.trials.trial import QUEUED, RUNNING

ADA = Person("ada")
WAIT_S = 240.0


def until(what: Callable[[], bool]) -> None:
    """Waits until it is so, or fails."""
    end = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.05)


class SharedRoom:
    """One wagon of ada's, whose code is given, on a dataset of three files."""

    def __init__(self, folder: Path, source: str, limits: TrainLimits | None = None) -> None:
        self.folder = folder.resolve()
        self.data = self.folder / "data"
        self.data.mkdir()
        write_events(self.data, 3, 200)
        self._limits = limits
        sandbox()
        self.open()
        sha256 = self.room.sources.keep(source.encode())
        entry = WagonEntry("ada", "Wagon", source=WagonSource(sha256), wagon_class="Wagon")
        self.room.registry.save_wagon(entry, ADA)
        self.save_dataset()
        self.room.registry.enable(["ada/Wagon"], "ada/events", ADA)
        self.tried()

    def open(self) -> None:
        """Begins to serve."""
        running = CodeRunning.of_shared_server([self.data], [self.folder / "room"], self._limits)
        self.room = ControlRoom(self.folder / "room", running)
        self.room.trials.start()
        self.room.trains.start()

    def save_dataset(self, **changed: object) -> None:
        """Registers the dataset."""
        found = [entry for entry in self.room.registry.datasets() if entry.address == "ada/events"]
        revision = self.room.registry.dataset("ada/events")[1] if found else 0
        fields: dict[str, object] = {"files": [str(self.data / "*.root")], "short": [str(self.data / "*.root")]}
        entry = DatasetEntry("ada", "events", **{**fields, **changed})  # type: ignore[arg-type]
        self.room.registry.save_dataset(entry, ADA, revision)

    def tried(self) -> None:
        """Waits for the trial, in which the wagon passes."""
        self.room.trials.look()
        pair = ("ada/Wagon", "ada/events")

        def is_over() -> bool:
            found = self.room.trials.last([pair]).get(pair)
            is_of_now = found is not None and found.key == self.room.trials.key_of(*pair)
            return is_of_now and found is not None and found.state not in (QUEUED, RUNNING)

        until(is_over)
        outcome = self.room.trials.last([pair])[pair].outcome
        assert outcome is not None
        assert outcome.error == "", outcome.error

    def ordered(self, **changed: object) -> int:
        """The number of a train."""
        order = {"owner": "ada", "name": "first", "dataset": "ada/events", "wagons": ["ada/Wagon"], "workers": 2}
        return self.room.trains.order(TrainOrder(**{**order, **changed}), ADA)  # type: ignore[arg-type]

    def ended(self, number: int) -> Train:
        """A train once it has come to its end."""
        until(lambda: self.room.trains.train(number).is_over)
        return self.room.trains.train(number)

    def results(self, number: int) -> Path:
        """Its results."""
        return self.room.trains.results(self.room.trains.train(number))

    def written(self, number: int) -> Path:
        """The folder that its code writes to."""
        return self.room.trains.folder(number) / "written"
