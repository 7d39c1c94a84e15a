"""Wagons that have passed alone are tried together, and one that changes what others use does not ride with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.control.trials.test_excess import sandbox
from tests.unit.control.trials.test_trials import WAIT_S, Room

from branchline.control.registry.wagon_file import compose
from branchline.control.room_errors import NoSuchEntryError
from branchline.control.trials.trial import DONE, FAILED, QUEUED, RUNNING, TRAIN, WARNED, reasons
from branchline.control.trials.trials import Trial
from branchline.trains.wagons.known_changes import known_changes
from branchline.trains.wagons.wagons import load_wagons

DATASET = "ada/events"
SOURCE = """
import time

SEEN = {}

class Total:
    branches = ["px"]
    def process(self, events):
        return {"n": len(events)}

class Spoiler:
    branches = ["px"]
    def process(self, events):
        SEEN["spoiled"] = 1
        return {"n": len(events)}

class Victim:
    branches = ["px"]
    def process(self, events):
        return {"spoiled": SEEN.get("spoiled", 0), "n": len(events)}

class Slow:
    branches = ["px"]
    def process(self, events):
        time.sleep(1.5)
        return {"n": len(events)}
"""


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    room = Room(tmp_path)
    yield room
    room.trials.stop()
    room.database.close()


def waited_for(room: Room, wagon: str, is_it: Callable[[Trial], bool]) -> Trial:
    """The last trial of a wagon, or of a train, once it is as wanted."""
    end_s = time.monotonic() + WAIT_S
    while True:
        found = room.trials.last([(wagon, DATASET)]).get((wagon, DATASET))
        if found is not None and is_it(found):
            return found
        assert time.monotonic() < end_s, found
        time.sleep(0.02)


def names(trial: Trial) -> list[str]:
    return [one.name for one in trial.outcome.wagons] if trial.outcome else []


def test_wagons_that_passed_are_tried_in_one_train(room: Room) -> None:
    room.wagon("Total", "first", SOURCE)
    room.trials.start()
    assert room.ended("first").state == DONE
    with pytest.raises(NoSuchEntryError, match="fewer than two"):
        room.trials.key_of(TRAIN, DATASET)
    room.wagon("Total", "second", SOURCE)
    room.trials.look()
    trial = waited_for(room, TRAIN, lambda one: one.ended != "")
    assert (trial.state, names(trial)) == (DONE, ["first", "second"])
    assert trial.outcome is not None
    assert [one.profile for one in trial.outcome.wagons] == [None, None]
    assert trial.outcome.seconds > 0
    room.trials.look()
    time.sleep(0.3)
    assert len(room.trials.history(TRAIN, DATASET)) == 1, "nothing has changed"


@pytest.mark.long
def test_a_wagon_that_changes_what_others_use_fails_by_name_and_the_others_ride(room: Room) -> None:
    for name in ("total", "spoiler", "victim"):
        room.wagon(name.title(), name, SOURCE)
    room.trials.start()
    trial = waited_for(room, TRAIN, lambda one: one.state == DONE)
    assert names(trial) == ["total", "victim"]
    spoiler = room.ended("spoiler")
    assert spoiler.outcome is not None
    assert spoiler.state == FAILED
    assert "wagon victim has a different result in the train than alone: spoiler changes" in reasons(spoiler.outcome)[0]
    assert (room.ended("victim").state, room.ended("total").state) == (DONE, DONE)
    [_, first] = room.trials.history(TRAIN, DATASET)
    assert (first.state, names(first)) == (FAILED, ["spoiler", "total", "victim"])
    room.trials.again("ada/spoiler", DATASET)
    waited_for(room, "ada/spoiler", lambda one: one.number > first.number and one.state == FAILED)


@pytest.mark.long
def test_nobody_s_wagon_fails_by_what_the_code_of_others_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What is known of the wagons comes from the control room alone.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    room = Room(tmp_path, sandbox(), data=(tmp_path / "data",))
    for name in ("spoiler", "victim"):
        room.wagon(name.title(), name, SOURCE)
    room.trials.start()
    together = waited_for(room, TRAIN, lambda one: one.ended != "")
    time.sleep(0.3)
    states = {name: room.ended(name).state for name in ("spoiler", "victim")}
    keys = {f"ada/{name}": room.trials.key_of(f"ada/{name}", DATASET) for name in states}
    # It rides on, and its trains say what was found of it as it is now.
    known = room.trials.changers(keys, DATASET)
    assert set(known) == {"ada/spoiler"}
    assert "of a train found: wagon victim has a different result in the train than alone" in known["ada/spoiler"]
    assert room.trials.changers(dict.fromkeys(keys, "of other code"), DATASET) == {}
    whole = room.registry.with_required(list(keys))
    texts = [room.sources.text(one.source_sha256) for one in whole]
    for changers in (known, {}):
        path = compose(whole, texts, tmp_path / "train", changers=changers)
        assert set(known_changes(load_wagons(str(path))[0])) == {one.removeprefix("ada/") for one in changers}
    room.trials.stop()
    room.database.close()
    assert together.outcome is not None
    assert together.state == FAILED
    assert "spoiler changes" in reasons(together.outcome)[0]
    assert states == {"spoiler": DONE, "victim": DONE}


@pytest.mark.long
def test_a_train_gives_way_to_a_wagon_that_is_tried_alone(room: Room) -> None:
    room.wagon("Slow", "slow", SOURCE)
    room.wagon("Total", "total", SOURCE)
    room.trials.start()
    running = waited_for(room, TRAIN, lambda one: one.state == RUNNING)
    room.wagon("Victim", "victim", SOURCE)
    room.trials.look()
    alone = waited_for(room, "ada/victim", lambda one: one.state == DONE)
    together = waited_for(room, TRAIN, lambda one: one.ended != "")
    assert names(together) == ["slow", "total", "victim"]
    assert alone.ended < together.ended
    states = [one.state for one in room.trials.history(TRAIN, DATASET)]
    assert states == [WARNED], "the train that gave way is gone, since another one is wanted"
    assert together.number != running.number


@pytest.mark.long
def test_a_train_that_a_stop_of_the_server_ended_is_tried_again(room: Room) -> None:
    room.wagon("Slow", "slow", SOURCE)
    room.wagon("Total", "total", SOURCE)
    room.trials.start()
    waited_for(room, TRAIN, lambda one: one.state == RUNNING)
    begun_s = time.monotonic()
    room.trials.stop()
    assert time.monotonic() - begun_s < WAIT_S / 6, "the stop waits for the train"
    [left] = room.trials.history(TRAIN, DATASET)
    assert left.state == QUEUED
