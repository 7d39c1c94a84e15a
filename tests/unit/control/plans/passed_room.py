"""A control room with two wagons that passed their trials on a dataset, made once and copied."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.clusters.event_files import write_events

from branchline.control.people import OPERATOR, Person
from branchline.control.plans.plan import Plan
from branchline.control.registry.entries import DatasetEntry, WagonEntry, WagonSource
from branchline.control.room import ControlRoom
from branchline.control.trials.trial import QUEUED, RUNNING

ADA, OLGA = Person("ada"), Person("olga", OPERATOR)
WAGONS, DATASET = ["ada/Count", "ada/Runs"], "ada/events"
PAIRS = [(one, DATASET) for one in WAGONS]
WAIT_S = 240.0
SOURCE = """
import numpy as np

class Count:
    branches = ["run"]
    def __init__(self, weight: int = 1):
        self.weight = weight
    def process(self, events):
        return {"n": self.weight * len(events)}

class Runs:
    branches = ["run"]
    def process(self, events):
        return {"sum": float(np.sum(np.asarray(events.run)))}
"""
#: Its trains wait for an operator, so that no test waits for them.
PLAN = Plan("olga", "nightly", DATASET, workers=1, seconds_max=1e-6)


def until(what: Callable[[], bool]) -> None:
    """Waits until it is so, or fails."""
    end = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.05)


def make_room(folder: Path) -> Path:
    """The folder of a room that can be copied."""
    (folder / "data").mkdir()
    write_events(folder / "data", 2, 100)
    room = ControlRoom(folder / "room")
    sha256 = room.sources.keep(SOURCE.encode())
    entry = WagonEntry("ada", "Count", "quick", source=WagonSource(sha256), wagon_class="Count")
    room.registry.save_wagon(entry, ADA)
    room.registry.save_wagon(replace(entry, name="Runs", group="slow", wagon_class="Runs"), ADA)
    room.registry.save_dataset(DatasetEntry("ada", "events", files=[str(folder / "data" / "*.root")]), ADA)
    room.registry.enable(WAGONS, DATASET, ADA)
    room.trials.start()
    until(lambda: all(one.state not in (QUEUED, RUNNING) for one in room.trials.last(PAIRS).values()))
    room.close()
    return folder / "room"
