"""Plans: each due time and each full train brings one train, of what waits, and every change is kept."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.control.plans.passed_room import ADA, DATASET, OLGA, PLAN, WAGONS, make_room, until

from branchline.base.limits import PLAN_LATE_MAX_S, TRAIN_SECONDS_APPROVED
from branchline.control.accounts import Account
from branchline.control.metrics import metrics_of
from branchline.control.people import ADMINISTRATOR, OPERATOR, PHYSICIST
from branchline.control.plans.plan import DAYS, Fullness, Plan, Schedule
from branchline.control.plans.waiting import CHANGED, RODE, WAITS
from branchline.control.room import ControlRoom
from branchline.control.room_errors import ConflictError, NoSuchEntryError, RefusedError
from branchline.control.sandbox.code_rules import CodeRunning
from branchline.control.trains.train import CANCELLED, WAITING, Train
from branchline.errors import OptionError
from branchline.records.sensors.record import FINISHED

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)  # a Sunday
MONDAY = datetime(2026, 11, 23, 6, tzinfo=UTC)
DAY = timedelta(days=1)
WEEKLY = replace(PLAN, schedule=Schedule(["Monday"]))
DAILY = replace(PLAN, schedule=Schedule(list(DAYS)), runs_again=True)
FULL = replace(PLAN, name="full", full=Fullness(wagons=2))
ADDRESS = WEEKLY.address


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_room(tmp_path_factory.mktemp("made"))


@pytest.fixture
def room(tmp_path: Path, made: Path) -> Iterator[ControlRoom]:
    shutil.copytree(made, tmp_path / "room")
    room = ControlRoom(tmp_path / "room")
    yield room
    room.close()


def trains(room: ControlRoom) -> list[Train]:
    """The oldest first."""
    return room.trains.trains()[0][::-1]


def whys(room: ControlRoom, address: str = ADDRESS) -> list[tuple[str, int, str]]:
    return [(one.due[:16], one.train, one.why) for one in room.plans.runs(address)][::-1]


@pytest.mark.long
def test_a_due_time_brings_one_train_of_what_waits(room: ControlRoom) -> None:
    room.plans.save(WEEKLY, OLGA, now=NOW)
    assert room.plans.plan(ADDRESS).due == MONDAY.isoformat()
    room.plans.look(MONDAY - timedelta(seconds=1))
    assert trains(room) == []
    for _ in range(3):
        room.plans.look(MONDAY)
    [train] = trains(room)
    assert (train.plan, train.plan_why, train.state) == (ADDRESS, "Monday 06:00", WAITING)
    assert (train.order.wagons, train.order.owner, train.ordered_by) == (WAGONS, "olga", "olga")
    assert "it will take" in train.why
    assert (room.trains.folder(train.number) / "wagons.py").is_file()
    assert room.plans.plan(ADDRESS).due == (MONDAY + 7 * DAY).isoformat()
    assert whys(room) == [("2026-11-23T06:00", 1, "Monday 06:00")]


def test_a_train_of_a_plan_runs_and_its_wagons_ride_once(room: ControlRoom) -> None:
    room.plans.save(replace(WEEKLY, seconds_max=0.0), OLGA, now=NOW)
    room.trains.start()
    room.plans.look(MONDAY)
    until(lambda: room.trains.train(1).is_over)
    assert room.trains.train(1).state == FINISHED
    plan = room.plans.plan(ADDRESS).plan
    assert [(one.state, one.train) for one in room.plans.waiting(plan, MONDAY).wagons] == [(RODE, 1), (RODE, 1)]
    room.plans.look(MONDAY + 7 * DAY)
    assert [one.number for one in trains(room)] == [1]
    assert whys(room)[1:] == [("2026-11-30T06:00", 0, "no wagon waits")]
    again = replace(plan, runs_again=True)
    assert room.plans.waiting(again, MONDAY).riders == WAGONS


def test_wagons_of_a_train_that_did_not_finish_ride_at_the_next_due_time(room: ControlRoom) -> None:
    room.plans.save(WEEKLY, OLGA, now=NOW)
    room.plans.look(MONDAY)
    assert room.plans.waiting(WEEKLY, MONDAY).riders == []
    room.trains.cancel(1, OLGA)
    assert room.plans.waiting(WEEKLY, MONDAY).riders == WAGONS
    room.plans.look(MONDAY + 7 * DAY)
    assert [one.number for one in trains(room)] == [1, 2]


def test_wagons_that_run_again_do_not_while_they_run(room: ControlRoom) -> None:
    room.plans.save(DAILY, OLGA, now=NOW)
    room.plans.look(MONDAY)
    room.plans.look(MONDAY + DAY)
    assert [one.number for one in trains(room)] == [1]
    assert whys(room)[1:] == [("2026-11-24T06:00", 0, "no wagon waits")]


def test_a_wagon_that_changed_waits_for_its_trial(room: ControlRoom) -> None:
    assert room.plans.waiting(WEEKLY, NOW).riders == WAGONS
    whole = room.registry.wagon("ada/Count")
    room.registry.save_wagon(replace(whole.entry, values={"weight": 2}), ADA, whole.revision)
    found = room.plans.waiting(WEEKLY, NOW)
    assert {one.wagon: one.state for one in found.wagons} == {"ada/Count": CHANGED, "ada/Runs": WAITS}
    assert found.riders == ["ada/Runs"]
    room.registry.enable(["ada/Runs"], DATASET, ADA, is_enabled=False)
    assert room.plans.waiting(WEEKLY, NOW).riders == []


def test_a_plan_of_a_group_takes_its_wagons_alone(room: ControlRoom) -> None:
    assert room.plans.waiting(replace(WEEKLY, group="slow"), NOW).riders == ["ada/Runs"]
    assert room.plans.waiting(replace(WEEKLY, group="none"), NOW).wagons == []


def test_a_train_that_was_due_while_the_server_was_away_runs_once(room: ControlRoom) -> None:
    room.plans.save(WEEKLY, OLGA, now=NOW)
    late = MONDAY + timedelta(seconds=PLAN_LATE_MAX_S)
    for _ in range(2):
        room.plans.look(late)
    assert [one.plan_why for one in trains(room)] == ["Monday 06:00, 4 h late"]


def test_a_train_that_is_too_late_does_not_run_and_is_noted(room: ControlRoom) -> None:
    room.plans.save(DAILY, OLGA, now=NOW)
    room.plans.look(MONDAY + timedelta(days=3, hours=5))
    assert trains(room) == []
    first, last = whys(room)
    assert (first[:2], "like all other due times before 2026-11-26T06:00" in first[2]) == (
        ("2026-11-23T06:00", 0),
        True,
    )
    assert (last[:2], "5 h late" in last[2]) == (("2026-11-26T06:00", 0), True)
    room.plans.look(MONDAY + 4 * DAY)
    assert [one.plan_why for one in trains(room)] == ["Friday 06:00"]


def test_a_clock_that_is_set_back_brings_no_due_time_twice(room: ControlRoom) -> None:
    room.plans.save(DAILY, OLGA, now=NOW)
    room.plans.look(MONDAY)
    room.trains.cancel(1, OLGA)
    room.plans.pause(ADDRESS, OLGA, now=MONDAY)
    room.plans.pause(ADDRESS, OLGA, is_paused=False, now=NOW)
    assert room.plans.plan(ADDRESS).due == (MONDAY + DAY).isoformat()
    room.plans.look(MONDAY)
    assert [one.number for one in trains(room)] == [1]


def test_a_clock_that_was_years_ahead_does_not_stop_a_plan(room: ControlRoom) -> None:
    room.plans.save(WEEKLY, OLGA, now=datetime(2099, 1, 1, tzinfo=UTC))
    room.plans.look(NOW)
    assert room.plans.plan(ADDRESS).due == MONDAY.isoformat()


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25"])
def test_a_night_in_which_clocks_change_has_one_train(room: ControlRoom, day: str) -> None:
    plan = replace(DAILY, schedule=Schedule(["Sunday"], "02:30", "Europe/Zurich"))
    begin = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(hours=6)
    room.plans.save(plan, OLGA, now=begin)
    for minutes in range(0, 24 * 60, 30):
        room.plans.look(begin + timedelta(minutes=minutes))
        for one in trains(room):
            if not one.is_over:
                room.trains.cancel(one.number, OLGA)
    assert len(trains(room)) == 1


@pytest.mark.parametrize(
    ("full", "missing", "why"),
    [
        (Fullness(wagons=3), ["1 more wagon"], ""),
        (Fullness(wagons=2), [], "full: 2 wagons"),
        (Fullness(seconds=0.001), [], "of forecast time"),
        (Fullness(seconds=86_400.0), ["more of forecast time"], ""),
        (Fullness(memory_bytes=1), [], "of forecast memory"),
        (Fullness(memory_bytes=10**14), ["more of forecast memory"], ""),
        (Fullness(wagons=3, memory_bytes=1), ["1 more wagon"], "of forecast memory"),
    ],
)
def test_a_train_goes_when_it_is_full(room: ControlRoom, full: Fullness, missing: list[str], why: str) -> None:
    plan = replace(FULL, full=full)
    found = room.plans.waiting(plan, NOW)
    assert len(found.missing) == len(missing)
    assert all(part in one for part, one in zip(missing, found.missing, strict=True))
    assert why in found.full
    assert bool(found.full) == bool(why)
    room.plans.save(plan, OLGA, now=NOW)
    for _ in range(2):
        room.plans.look(NOW)
    assert [one.plan_why for one in trains(room)] == ([found.full] if why else [])


def test_a_train_goes_when_a_wagon_has_waited_for_long(room: ControlRoom) -> None:
    plan = replace(FULL, full=Fullness(hours=5))
    since = datetime.fromisoformat(room.plans.waiting(plan, NOW).wagons[0].since)
    room.plans.save(plan, OLGA)
    room.plans.look(since + timedelta(hours=4.9))
    assert trains(room) == []
    room.plans.look(since + timedelta(hours=5))
    assert [one.plan_why for one in trains(room)] == ["full: ada/Count waits for 5 h"]


def test_wagons_of_a_full_train_that_was_cancelled_do_not_fill_the_next(room: ControlRoom) -> None:
    room.plans.save(FULL, OLGA, now=NOW)
    room.plans.look(NOW)
    room.trains.cancel(1, OLGA)
    room.plans.look(NOW)
    assert [one.state for one in trains(room)] == [CANCELLED]


def test_two_plans_do_not_take_the_same_wagon(room: ControlRoom) -> None:
    room.plans.save(FULL, OLGA, now=NOW)
    room.plans.save(replace(FULL, name="second"), OLGA, now=NOW)
    room.plans.look(NOW)
    assert [one.plan for one in trains(room)] == [FULL.address]


def test_a_due_time_of_what_cannot_run_says_why(room: ControlRoom) -> None:
    room.plans.save(replace(WEEKLY, place="slurm", workers=0), OLGA, now=NOW)
    room.registry.remove_dataset(DATASET, ADA)
    room.plans.look(MONDAY)
    assert trains(room) == []
    assert whys(room) == [("2026-11-23T06:00", 0, "no wagon waits")]


def test_a_plan_of_somebody_who_is_no_operator_any_more_makes_no_train(room: ControlRoom) -> None:
    room.accounts.add(Account("root", ADMINISTRATOR), "long enough to be taken", "root")
    room.accounts.add(Account("olga", OPERATOR), "long enough to be taken", "root")
    room.plans.save(WEEKLY, OLGA, now=NOW)
    room.plans.save(FULL, OLGA, now=NOW)
    room.accounts.change(Account("olga", PHYSICIST), "root")
    room.plans.look(MONDAY)
    assert trains(room) == []
    assert "olga, the owner of plan olga/nightly, is not an operator" in whys(room)[0][2]
    assert "is not an operator" in room.plans.trouble(FULL.address)
    assert list(room.plans.troubles) == [FULL.address]
    [metric] = [one for one in metrics_of(room) if one.name == "branchline_trouble"]
    assert {one.labels["part"]: one.value for one in metric.readings}["plans"] == 1
    room.plans.pause(FULL.address, OLGA)
    assert room.plans.troubles == {}


def test_only_operators_change_plans_and_every_change_is_kept(room: ControlRoom) -> None:
    for act in (
        lambda: room.plans.save(WEEKLY, ADA),
        lambda: room.plans.pause(ADDRESS, ADA),
        lambda: room.plans.remove(ADDRESS, ADA),
    ):
        with pytest.raises(RefusedError, match="ask an operator"):
            act()
    revision = room.plans.save(WEEKLY, OLGA, now=NOW)
    assert room.plans.save(WEEKLY, OLGA, revision) == revision
    later = replace(WEEKLY, schedule=Schedule(["Monday"], "07:00"))
    with pytest.raises(ConflictError, match="already exists"):
        room.plans.save(later, OLGA)
    room.plans.save(later, OLGA, revision, now=NOW)
    with pytest.raises(ConflictError, match="changed by another person"):
        room.plans.save(WEEKLY, OLGA, revision)
    assert room.plans.plan(ADDRESS).due == (MONDAY + timedelta(hours=1)).isoformat()
    room.plans.pause(ADDRESS, OLGA)
    assert room.plans.plan(ADDRESS).due == ""
    room.plans.look(MONDAY + DAY)
    room.plans.remove(ADDRESS, OLGA)
    with pytest.raises(NoSuchEntryError):
        room.plans.plan(ADDRESS)
    assert trains(room) == []
    found = room.registry.changes("plan", ADDRESS)[::-1]
    assert [(one.action, one.who) for one in found] == [
        ("created", "olga"),
        ("changed", "olga"),
        ("changed", "olga"),
        ("removed", "olga"),
    ]
    assert [(one.name, one.before, one.after) for one in found[1].fields] == [("schedule.at", "06:00", "07:00")]


@pytest.mark.parametrize(
    "wrong",
    [
        replace(PLAN),
        replace(WEEKLY, full=Fullness(wagons=1)),
        replace(WEEKLY, name="../x"),
        replace(WEEKLY, group="<b>"),
        replace(WEEKLY, place="slurm; rm -rf /"),
        replace(WEEKLY, seconds_max=float("nan")),
        replace(WEEKLY, memory_max_bytes=-1),
        replace(WEEKLY, schedule=Schedule(["Someday"])),
        replace(FULL, full=Fullness()),
        replace(FULL, full=Fullness(wagons=1000)),
        replace(FULL, full=Fullness(hours=float("inf"))),
        replace(FULL, runs_again=True),
    ],
)
def test_plans_that_are_none_are_refused(room: ControlRoom, wrong: Plan) -> None:
    with pytest.raises(OptionError):
        room.plans.save(wrong, OLGA)
    assert room.plans.plans() == []


def test_a_plan_needs_a_dataset_and_a_server_that_runs_trains(room: ControlRoom, tmp_path: Path) -> None:
    with pytest.raises(NoSuchEntryError):
        room.plans.save(replace(WEEKLY, dataset="ada/none"), OLGA)
    other = ControlRoom(tmp_path / "other", CodeRunning(no_trains="this one runs no trains"))
    with pytest.raises(RefusedError, match="this one runs no trains"):
        other.plans.save(WEEKLY, OLGA)
    other.close()


def test_a_plan_is_never_more_generous_than_the_limits_of_all_trains(room: ControlRoom) -> None:
    room.plans.save(replace(WEEKLY, seconds_max=2 * TRAIN_SECONDS_APPROVED), OLGA, now=NOW)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("branchline.control.trains.trains.TRAIN_SECONDS_APPROVED", 1e-6)
        room.plans.look(MONDAY)
    assert [one.state for one in trains(room)] == [WAITING]


def test_the_thread_looks_by_itself(room: ControlRoom) -> None:
    room.plans.save(FULL, OLGA)
    room.plans.start()
    until(lambda: bool(trains(room)))
    assert [one.plan_why for one in trains(room)] == ["full: 2 wagons"]
