"""Due times: one for each day, also where clocks change."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from branchline.control.plans.plan import DAYS, Schedule
from branchline.errors import OptionError


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def all_due(schedule: Schedule, first: str, last: str) -> list[datetime]:
    found, moment = [], at(first)
    while (moment := schedule.due_after(moment)) < at(last):
        found.append(moment)
    return found


def test_days_and_a_time_are_due_in_their_zone() -> None:
    schedule = Schedule(["Monday", "Thursday"], "06:00", "Europe/Zurich")
    assert schedule.due_after(at("2026-11-23T04:59")) == at("2026-11-23T05:00")
    assert schedule.due_after(at("2026-11-23T05:00")) == at("2026-11-26T05:00")
    assert schedule.due_until(at("2026-11-23T05:00")) == at("2026-11-23T05:00")
    assert schedule.due_until(at("2026-11-23T04:59")) == at("2026-11-19T05:00")
    assert schedule.words(at("2026-11-23T05:00")) == "Monday 06:00 Europe/Zurich"
    assert Schedule(["Monday"]).words(at("2026-11-23T06:00")) == "Monday 06:00"


@pytest.mark.parametrize(
    ("time", "first", "last", "found"),
    [
        # On 29 March 2026 clocks in Zurich go from 02:00 to 03:00, on 25 October from 03:00 to 02:00.
        ("02:30", "2026-03-29T00:00", "2026-03-29T12:00", "2026-03-29T01:30"),
        ("02:00", "2026-03-29T00:00", "2026-03-29T12:00", "2026-03-29T01:00"),
        ("03:00", "2026-03-29T00:00", "2026-03-29T12:00", "2026-03-29T01:00"),
        ("02:30", "2026-10-24T23:00", "2026-10-25T12:00", "2026-10-25T00:30"),
        ("03:00", "2026-10-24T23:00", "2026-10-25T12:00", "2026-10-25T02:00"),
    ],
)
def test_a_time_that_clocks_skip_or_repeat_is_due_once(time: str, first: str, last: str, found: str) -> None:
    assert all_due(Schedule(list(DAYS), time, "Europe/Zurich"), first, last) == [at(found)]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Zurich", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu"])
@pytest.mark.parametrize("time", ["00:00", "01:30", "02:00", "02:30", "23:59"])
def test_every_day_of_a_year_has_one_due_time(zone: str, time: str) -> None:
    schedule = Schedule(list(DAYS), time, zone)
    found = all_due(schedule, "2025-12-31T12:00", "2026-12-31T12:00")
    assert len(found) == 365
    assert {second - first for first, second in itertools.pairwise(found)} <= {
        timedelta(hours=hours) for hours in (23, 23.5, 24, 24.5, 25)
    }
    for one in found[::30]:
        assert schedule.due_until(one) == one
        assert schedule.due_until(one + timedelta(hours=1)) == one
        assert schedule.due_after(one - timedelta(microseconds=1)) == one


def test_a_date_that_a_zone_left_out_brings_no_second_train() -> None:
    # Samoa had no 30 December 2011.
    schedule = Schedule(list(DAYS), "06:00", "Pacific/Apia")
    found = all_due(schedule, "2011-12-28T00:00", "2012-01-02T00:00")
    assert found == sorted(set(found))
    assert at("2011-12-30T16:00") in found


@pytest.mark.parametrize(
    "wrong",
    [
        Schedule([]),
        Schedule(["monday"]),
        Schedule(["Monday", "Monday"]),
        Schedule(["Monday"], "6:00"),
        Schedule(["Monday"], "24:00"),
        Schedule(["Monday"], "06:00\n"),
        Schedule(["Monday"], zone="Europe"),
        Schedule(["Monday"], zone="Europe/Nowhere"),
        Schedule(["Monday"], zone="../../etc/passwd"),
        Schedule(["Monday"], zone="/etc/localtime"),
        Schedule(["Monday"], zone="a" * 10_000),
        Schedule(["Monday"], zone=""),
    ],
)
def test_schedules_that_are_none_are_refused(wrong: Schedule) -> None:
    with pytest.raises(OptionError):
        wrong.check()
