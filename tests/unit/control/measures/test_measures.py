"""Measures: who may switch them on, what jobs are told, how they end, and what they changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.control.batches import batch, identity, read

from branchline.base.limits import MEASURE_TEXT_MAX, MEASURES_IN_FORCE_MAX, REPORT_ANSWER_BYTES
from branchline.control.database import DATABASE
from branchline.control.measures import ENDED, IN_FORCE, UNDONE, MeasureOrder
from branchline.control.people import OPERATOR, Person
from branchline.control.room import ControlRoom
from branchline.control.room_errors import ConflictError, NoSuchEntryError, RefusedError
from branchline.errors import OptionError
from branchline.records.diagnosis.remedies import AVOID_ELEMENT, SEND_AGAIN, STAGE_ELEMENT
from branchline.records.sensors.job_measures import MEASURES_FIELD, measures_in

EVA, ADA = Person("eva", OPERATOR), Person("ada")
BAD, GOOD = "root://bad.example", "root://good.example"
JOB = "a" * 32


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ControlRoom]:
    room = ControlRoom(tmp_path / "room")
    yield room
    room.close()


def numbers(room: ControlRoom, job: str = JOB) -> list[int]:
    return [one.number for one in room.measures.told(job).in_force]


def test_an_operator_switches_on_and_undoes_and_all_is_kept(room: ControlRoom) -> None:
    order = MeasureOrder(AVOID_ELEMENT, BAD, "example", why="it is slow", finding="slow storage x")
    number = room.measures.switch_on(order, EVA)
    [told] = room.measures.told(JOB).in_force
    assert (told.kind, told.storage_element, told.site) == (AVOID_ELEMENT, BAD, "example")
    assert 0 < told.seconds_left <= order.hours * 3600
    room.measures.undo(number, EVA)
    assert numbers(room) == []
    measure = room.measures.measure(number)
    assert measure.state(datetime.now(UTC)) == UNDONE
    assert (measure.who, measure.undone_by, measure.order) == ("eva", "eva", order)
    undone, created = room.registry.changes("measure")
    assert (created.who, created.action, undone.action) == ("eva", "created", "changed")
    assert {"order.why": "it is slow", "order.finding": "slow storage x"}.items() <= {
        one.name: one.after for one in created.fields
    }.items()
    assert {one.name for one in undone.fields} == {"undone", "undone_by"}
    with pytest.raises(ConflictError):
        room.measures.undo(number, EVA)


def test_a_physicist_may_do_neither(room: ControlRoom) -> None:
    order = MeasureOrder(AVOID_ELEMENT, BAD)
    with pytest.raises(RefusedError):
        room.measures.switch_on(order, ADA)
    number = room.measures.switch_on(order, EVA)
    with pytest.raises(RefusedError):
        room.measures.undo(number, ADA)
    assert numbers(room) == [number]


def test_a_measure_ends_by_itself(room: ControlRoom) -> None:
    number = room.measures.switch_on(MeasureOrder(STAGE_ELEMENT, BAD, hours=2), EVA)
    measure = room.measures.measure(number)
    begins = datetime.fromisoformat(measure.begins)
    assert measure.state(begins + timedelta(hours=1.9)) == IN_FORCE
    assert measure.state(begins + timedelta(hours=2.1)) == ENDED


def test_measures_outlive_the_server(room: ControlRoom, tmp_path: Path) -> None:
    number = room.measures.switch_on(MeasureOrder(AVOID_ELEMENT, BAD), EVA)
    undone = room.measures.switch_on(MeasureOrder(STAGE_ELEMENT, BAD), EVA)
    room.measures.undo(undone, EVA)
    room.close()
    again = ControlRoom(tmp_path / "room")
    assert numbers(again) == [number]
    again.close()
    assert (tmp_path / "room" / DATABASE).exists()


def test_a_measure_for_one_job_is_told_to_no_other(room: ControlRoom) -> None:
    number = room.measures.switch_on(MeasureOrder(AVOID_ELEMENT, BAD, job=_reported(room)), EVA)
    job = room.measures.measure(number).order.job
    assert numbers(room, job) == [number]
    assert numbers(room) == []


def test_the_same_twice_is_refused_and_so_are_too_many(room: ControlRoom) -> None:
    room.measures.switch_on(MeasureOrder(AVOID_ELEMENT, BAD), EVA)
    with pytest.raises(ConflictError, match="measure 1 already does this"):
        room.measures.switch_on(MeasureOrder(AVOID_ELEMENT, BAD, hours=3), EVA)
    for number in range(1, MEASURES_IN_FORCE_MAX):
        room.measures.switch_on(MeasureOrder(AVOID_ELEMENT, f"{BAD}:{number}"), EVA)
    with pytest.raises(ConflictError, match="in force"):
        room.measures.switch_on(MeasureOrder(AVOID_ELEMENT, GOOD), EVA)


def test_a_job_reads_all_that_may_be_in_force(room: ControlRoom) -> None:
    # The largest in JSON: four bytes a character.
    for number in range(MEASURES_IN_FORCE_MAX):
        text = chr(0x1F600 + number) * MEASURE_TEXT_MAX
        room.measures.switch_on(MeasureOrder(AVOID_ELEMENT, text, text, hours=168), EVA)
    plain = {"taken": True, MEASURES_FIELD: room.measures.told(JOB).as_dict()}
    answer = json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()
    assert len(answer) < REPORT_ANSWER_BYTES
    told = measures_in(answer, JOB)
    assert told is not None
    assert (len(told.in_force), told.ignored) == (MEASURES_IN_FORCE_MAX, 0)


def test_what_is_wrong_is_refused(room: ControlRoom) -> None:
    wrong = [
        MeasureOrder("reboot", BAD),
        MeasureOrder(AVOID_ELEMENT),
        MeasureOrder(AVOID_ELEMENT, BAD, hours=0),
        MeasureOrder(AVOID_ELEMENT, BAD, hours=169),
        MeasureOrder(AVOID_ELEMENT, BAD, "a\x00b"),
        MeasureOrder(AVOID_ELEMENT, BAD, why="y" * 2000),
        MeasureOrder(SEND_AGAIN, job="../../etc"),
        MeasureOrder(SEND_AGAIN),
    ]
    for order in wrong:
        with pytest.raises(OptionError):
            room.measures.switch_on(order, EVA)
    with pytest.raises(NoSuchEntryError):
        room.measures.switch_on(MeasureOrder(SEND_AGAIN, job="b" * 32), EVA)
    assert room.measures.measures() == ([], 0)


def test_a_page_shows_what_was_read_before_and_since(room: ControlRoom) -> None:
    now = datetime.now(UTC)
    of = identity(begin=now)
    room.take(batch(of, 0, read(f"{BAD}//a", BAD, 1000, 10.0), read(f"{GOOD}//b", GOOD, 5000, 1.0), after_s=0.0))
    number = room.measures.switch_on(MeasureOrder(AVOID_ELEMENT, BAD, "example"), EVA)
    room.take(batch(of, 1, read(f"{GOOD}//c", GOOD, 7000, 1.0), after_s=0.0))
    room.take(batch(of, 2, read(f"{GOOD}//d", GOOD, 9999, 1.0, site="another"), after_s=0.0))
    found = room.measures.effect(room.measures.measure(number))
    assert (found.before.meant.files, found.before.meant.bytes_read) == (1, 1000)
    assert (found.before.others.files, found.before.others.bytes_read) == (1, 5000)
    assert (found.since.meant.files, found.since.meant.bytes_read) == (0, 0)
    assert (found.since.others.files, found.since.others.bytes_read) == (1, 7000)


def test_another_job_is_sent_again_by_the_command_that_is_given(room: ControlRoom) -> None:
    job = _reported(room)
    number = room.measures.switch_on(MeasureOrder(SEND_AGAIN, job=job), EVA)
    measure = room.measures.measure(number)
    # The job keeps no results to go on from.
    assert measure.outcome.startswith("its owner has to run it again")
    assert measure.train == 0
    assert numbers(room, job) == []
    assert room.measures.switch_on(MeasureOrder(SEND_AGAIN, job=job), EVA) > number


def _reported(room: ControlRoom) -> str:
    of = identity()
    room.take(batch(of, 0, read(f"{BAD}//a", BAD, 1000, 10.0)))
    return of.job
