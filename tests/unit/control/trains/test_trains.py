"""Trains: only wagons that passed ride; a train outlives the server, is cancelled, sent again and cloned."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.clusters.event_files import write_events
from tests.unit.control.batches import batch, identity

from branchline.control.measures import UNDONE, MeasureOrder
from branchline.control.people import OPERATOR, Person
from branchline.control.registry.entries import DatasetEntry, WagonEntry, WagonSource
from branchline.control.room import ControlRoom
from branchline.control.room_errors import ConflictError, NoSuchEntryError, RefusedError
from branchline.control.sandbox.code_rules import CodeRunning
from branchline.control.trains import runner
from branchline.control.trains.choosing import Runners
from branchline.control.trains.train import CANCELLED, WAITING, TrainOrder
from branchline.control.trials.trial import QUEUED
from branchline.control.trials.trial import RUNNING as AT_WORK
from branchline.errors import OptionError
from branchline.records.diagnosis.remedies import SEND_AGAIN
from branchline.records.sensors.record import FAILED, FINISHED, RUNNING

ADA, BOB, OLGA = Person("ada"), Person("bob"), Person("olga", OPERATOR)
WAIT_S = 240.0
SOURCE = """
import pathlib, time
import numpy as np

class Total:
    branches = ["px", "run"]
    def __init__(self, gate: str = ""):
        self.gate = gate
    def process(self, events):
        while self.gate and not pathlib.Path(self.gate).exists():
            time.sleep(0.02)
        return {"sum": float(np.sum(np.asarray(events.run))), "n": len(events)}

class Twice:
    requires = ["Total"]
    def process(self, events):
        return {"twice": 2 * events.outputs["Total"]["n"]}
"""
ORDER = TrainOrder("ada", "first", "ada/events", ["ada/Total", "ada/Twice"], workers=1)


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.05)


def prepared(room: ControlRoom, data: Path, gate: str) -> None:
    """Two wagons that passed their trials on a dataset of three files; ``gate`` is a file for which wagons wait."""
    sha256 = room.sources.keep(SOURCE.encode())
    entry = WagonEntry("ada", "Total", source=WagonSource(sha256), wagon_class="Total")
    room.registry.save_wagon(replace(entry, values={"gate": gate}), ADA)
    twice = replace(entry, name="Twice", wagon_class="Twice", requires=["ada/Total"])
    room.registry.save_wagon(twice, ADA)
    room.registry.save_dataset(DatasetEntry("ada", "events", files=[str(data / "*.root")]), ADA)
    room.registry.enable(["ada/Total", "ada/Twice"], "ada/events", ADA)
    room.trials.start()
    pairs = [("ada/Total", "ada/events"), ("ada/Twice", "ada/events")]
    until(lambda: all(one.state not in (QUEUED, AT_WORK) for one in room.trials.last(pairs).values()))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a control room in which the wagons have passed, and the gate at which they wait."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "data").mkdir()
    (folder / "gate").touch()
    write_events(folder / "data", 3, 200)
    room = ControlRoom(folder / "room")
    prepared(room, folder / "data", str(folder / "gate"))
    room.close()
    return folder


@pytest.fixture
def gate(made: Path) -> Path:
    (made / "gate").touch()
    return made / "gate"


@pytest.fixture
def room(tmp_path: Path, made: Path, gate: Path) -> Iterator[ControlRoom]:
    shutil.copytree(made / "room", tmp_path / "room")
    room = ControlRoom(tmp_path / "room")
    room.trains.start()
    yield room
    gate.touch()
    trains = room.trains.trains()[0]
    until(lambda: not any(runner.is_process_alive(one.process, room.trains.results(one)) for one in trains))
    room.close()


def results(room: ControlRoom, number: int) -> dict[str, object]:
    record = json.loads((room.trains.results(room.trains.train(number)) / "job.json").read_text())
    return {one["name"]: one["events"] for one in record["wagons"]}


def test_a_train_runs_and_its_command_can_be_given_by_hand(room: ControlRoom) -> None:
    number = room.trains.order(ORDER, ADA)
    until(lambda: room.trains.train(number).is_over)
    train = room.trains.train(number)
    assert (train.state, train.why) == (FINISHED, "")
    assert results(room, number) == {"Total": 600, "Twice": 600}
    assert train.command[:3] == ["branchline", "run", str(room.trains.folder(number) / "wagons.py")]
    status = room.trains.status(train)
    assert status is not None
    assert status.events == 600
    clone = room.trains.clone(number, ADA)
    until(lambda: room.trains.train(clone).is_over)
    assert room.trains.train(clone).clone_of == number
    assert results(room, clone) == results(room, number)
    assert [one.number for one in room.trains.trains()[0]] == [clone, number]


def test_only_wagons_that_passed_as_they_are_now_ride(room: ControlRoom) -> None:
    sha256 = room.sources.keep(b"class Wrong:\n    def process(self, events):\n        return missing\n")
    room.registry.save_wagon(WagonEntry("ada", "Wrong", source=WagonSource(sha256), wagon_class="Wrong"), ADA)
    with pytest.raises(OptionError, match="ada/Wrong has no trial on ada/events"):
        room.trains.order(replace(ORDER, wagons=["ada/Wrong"]), ADA)
    room.registry.enable(["ada/Wrong"], "ada/events", ADA)
    room.trials.start()
    pair = ("ada/Wrong", "ada/events")
    until(lambda: room.trials.last([pair])[pair].state == "failed")
    with pytest.raises(OptionError, match="the trial of ada/Wrong on ada/events is failed"):
        room.trains.order(replace(ORDER, wagons=["ada/Wrong"]), ADA)
    whole = room.registry.wagon("ada/Total")
    room.registry.save_wagon(replace(whole.entry, values={"gate": "/dev/null"}), ADA, whole.revision)
    with pytest.raises(OptionError, match="has changed since its trial"):
        room.trains.order(ORDER, ADA)
    assert room.trains.trains() == ([], 0)


@pytest.mark.parametrize(
    "change",
    [
        {"place": "slurm; rm -rf /"},
        {"place": "dask=$(id)"},
        {"name": "../x"},
        {"wagons": []},
        {"wagons": ["ada/Total", "ada/Total"]},
        {"workers": -1},
        {"allow_missing": 2.0},
        {"dataset": "ada/none"},
    ],
)
def test_orders_that_are_none_are_refused(room: ControlRoom, change: dict[str, object]) -> None:
    with pytest.raises((OptionError, NoSuchEntryError)):
        room.trains.order(replace(ORDER, **change), ADA)  # type: ignore[arg-type]
    with pytest.raises(RefusedError):
        room.trains.order(ORDER, BOB)


def test_a_large_train_waits_for_an_operator(room: ControlRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.control.trains.trains.TRAIN_SECONDS_APPROVED", 0.001)
    number = room.trains.order(ORDER, ADA)
    train = room.trains.train(number)
    assert (train.state, "it will take" in train.why) == (WAITING, True)
    with pytest.raises(RefusedError, match="ask an operator"):
        room.trains.approve(number, ADA)
    room.trains.approve(number, OLGA)
    until(lambda: room.trains.train(number).is_over)
    assert room.trains.train(number).state == FINISHED
    with pytest.raises(ConflictError):
        room.trains.approve(number, OLGA)


def test_trains_of_earlier_do_not_run_where_none_run(room: ControlRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control room that one person had alone is shared: names of its people may be those of others."""
    monkeypatch.setattr("branchline.control.trains.trains.TRAIN_SECONDS_APPROVED", 0.001)
    waiting, cancelled = room.trains.order(ORDER, ADA), room.trains.order(replace(ORDER, name="other"), ADA)
    room.trains.cancel(cancelled, ADA)
    runners = Runners(CodeRunning(no_trains="this one runs no trains"), lambda _: "", room.folder)
    monkeypatch.setattr(room.trains, "_runners", runners)
    with pytest.raises(RefusedError, match="this one runs no trains"):
        room.trains.approve(waiting, OLGA)
    with pytest.raises(RefusedError, match="this one runs no trains"):
        room.trains.again(cancelled, ADA)
    assert [one.state for one in room.trains.trains()[0]] == [CANCELLED, WAITING]


def test_a_train_goes_on_while_the_server_is_away(room: ControlRoom, gate: Path) -> None:
    gate.unlink()
    number = room.trains.order(ORDER, ADA)
    until(lambda: (room.trains.results(room.trains.train(number)) / "job.json").exists())
    process = room.trains.train(number).process
    room.close()
    assert runner.is_process_alive(process, room.trains.results(room.trains.train(number)))
    again = ControlRoom(room.folder)
    again.trains.start()
    assert again.trains.train(number).state == RUNNING
    gate.touch()
    until(lambda: again.trains.train(number).is_over)
    assert again.trains.train(number).state == FINISHED
    assert results(again, number) == {"Total": 600, "Twice": 600}
    again.close()


@pytest.mark.long
def test_a_train_is_cancelled_and_sent_again(room: ControlRoom, gate: Path) -> None:
    gate.unlink()
    number = room.trains.order(ORDER, ADA)
    until(lambda: (room.trains.results(room.trains.train(number)) / "job.json").exists())
    with pytest.raises(RefusedError):
        room.trains.cancel(number, BOB)
    process = room.trains.train(number).process
    room.trains.cancel(number, ADA)
    assert room.trains.train(number).state == CANCELLED
    gate.touch()
    until(lambda: not runner.is_process_alive(process, room.trains.results(room.trains.train(number))))
    room.trains.again(number, ADA)
    until(lambda: room.trains.train(number).is_over)
    assert room.trains.train(number).state == FINISHED
    with pytest.raises(ConflictError, match="has no missing sub-jobs"):
        room.trains.again(number, ADA)


def test_a_measure_sends_a_train_again_and_is_undone_by_cancelling_it(room: ControlRoom, gate: Path) -> None:
    gate.unlink()
    number = room.trains.order(ORDER, ADA)
    train = room.trains.train(number)
    until(lambda: (room.trains.results(train) / "job.json").exists())
    of = replace(identity("first", "ada"), out=str(room.trains.results(train)))
    room.take(batch(of, 0))
    with pytest.raises(ConflictError, match="has no missing sub-jobs"):
        room.measures.switch_on(MeasureOrder(SEND_AGAIN, job=of.job), OLGA)
    process = room.trains.train(number).process
    room.trains.cancel(number, ADA)
    until(lambda: not runner.is_process_alive(process, room.trains.results(train)))
    with pytest.raises(RefusedError):
        room.measures.switch_on(MeasureOrder(SEND_AGAIN, job=of.job), ADA)
    sent = room.measures.switch_on(MeasureOrder(SEND_AGAIN, job=of.job, why="the disk was full"), OLGA)
    assert room.measures.measure(sent).outcome == f"train {number} runs its missing sub-jobs"
    assert room.trains.train(number).state == RUNNING
    room.measures.undo(sent, OLGA)
    assert room.trains.train(number).state == CANCELLED
    gate.touch()
    states = [one.state(datetime.now(UTC)) for one in room.measures.measures()[0]]
    assert states == [UNDONE, UNDONE]


@pytest.mark.long
def test_a_train_whose_process_is_killed_says_so_and_runs_again(room: ControlRoom, gate: Path) -> None:
    gate.unlink()
    number = room.trains.order(ORDER, ADA)
    until(lambda: (room.trains.results(room.trains.train(number)) / "job.json").exists())
    os.kill(room.trains.train(number).process, signal.SIGKILL)
    until(lambda: room.trains.train(number).is_over)
    assert (room.trains.train(number).state, room.trains.train(number).why[:16]) == (FAILED, "its process died")
    gate.touch()
    room.trains.again(number, ADA)
    until(lambda: room.trains.train(number).is_over)
    assert (room.trains.train(number).state, results(room, number)) == (FINISHED, {"Total": 600, "Twice": 600})
