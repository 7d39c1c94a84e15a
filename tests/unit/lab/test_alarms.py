"""Alarms of the reference job: a change is found with its date, size and subject, and chance seldom raises an alarm."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta

import pytest

from branchline.lab.studies.alarms import SLOWER, UNREADABLE, WRONG_VALUES, alarms
from branchline.lab.studies.history import HistoryPoint, ReferencePoint, StorageHistory, history_of, verdict

BEGIN = datetime(2026, 1, 1, 6, tzinfo=UTC)


def days(
    seed: int, count: int = 60, at: int = 30, storage: float = 1.0, processor: float = 1.0, first: int = 0
) -> list[HistoryPoint]:
    """Daily turns that scatter, with outliers in one of twenty; from the day ``at`` on they take longer."""
    draw = random.Random(seed)

    def noise() -> float:
        outlier = draw.uniform(1.3, 3.0) if draw.random() < 0.05 else 1.0
        return math.exp(draw.gauss(0, 0.05)) * outlier

    points = []
    for day in range(count):
        late, slow = (storage, processor) if day >= at else (1.0, 1.0)
        reference = ReferencePoint(1, 7_000_000, 120e6 / late / noise(), 4e6, 4.0, 2.0 * slow * noise())
        moment = (BEGIN + timedelta(days=first + day)).isoformat(timespec="seconds")
        points.append(HistoryPoint(moment, "se", 2.0, samples=6, processor="EPYC", reference=reference))
    return points


def history(points: list[HistoryPoint]) -> StorageHistory:
    return history_of("se", "EPYC", points)


def now(points: list[HistoryPoint]) -> datetime:
    return datetime.fromisoformat(points[-1].at)


@pytest.mark.parametrize(
    ("storage", "processor", "what", "said"),
    [
        (1.4, 1.0, "storage", "since 2026-01-31 06:00 UTC the storage is 1."),
        (1.0, 1.4, "processor", "since 2026-01-31 06:00 UTC the CPU benchmark is 1."),
        (1.4, 1.3, "both", "since 2026-01-31 06:00 UTC both are different: the storage is 1."),
    ],
)
def test_a_change_of_the_storage_is_told_from_one_of_the_processor(
    storage: float, processor: float, what: str, said: str
) -> None:
    points = days(5, 45, storage=storage, processor=processor)
    found = history(points)
    [change] = found.changes
    assert (change.what, change.at[:10]) == (what, "2026-01-31")
    true = processor if what == "processor" else storage
    assert change.low <= true <= change.high
    assert true == pytest.approx(change.factor, rel=0.08)
    if what == "both":
        assert change.processor
        assert change.processor.low <= processor <= change.processor.high
    [alarm] = alarms([found], now(points))
    assert (alarm.kind, alarm.storage, alarm.worker, alarm.change) == (SLOWER, "se", "EPYC", change)
    assert alarm.sentence.startswith(f"se on EPYC: {said}")
    assert alarm.sentence in verdict([found])


def test_a_storage_that_is_fast_again_or_long_slow_is_no_alarm() -> None:
    slow = days(5, 45, storage=1.4)
    assert alarms([history(slow)], now(slow) + timedelta(days=31)) == []
    again = [*slow, *days(6, 20, first=45)]
    assert [one.what for one in history(again).changes] == ["storage", "storage"]
    assert alarms([history(again)], now(again)) == []
    faster = days(5, 45, storage=0.6, processor=0.7)
    assert history(faster).changes
    assert alarms([history(faster)], now(faster)) == []


def test_wrong_values_and_unreadable_storages_come_first() -> None:
    points = days(5, 45, storage=1.4)
    wrong = HistoryPoint("2026-02-15T06:00:00+00:00", "se", lost=6, reference=ReferencePoint(1, 7_000_000, wrong="no!"))
    gone = HistoryPoint("2026-02-15T06:00:00+00:00", "se", lost=1, error="no such file")
    found = alarms([history(points), history([*points, gone]), history([*points, wrong])], now(points))
    assert [one.kind for one in found] == [WRONG_VALUES, UNREADABLE, SLOWER]
    assert found[0].sentence == "se on EPYC: the reference job found at 2026-02-15 06:00 UTC: no!"
    assert found[1].sentence == "se on EPYC: no sample could be read at 2026-02-15 06:00 UTC: no such file"


def test_a_change_of_20_percent_is_an_alarm_within_8_turns() -> None:
    found = [alarms([history(days(seed, 38, storage=1.2))], BEGIN + timedelta(days=37)) for seed in range(10)]
    assert sum(map(bool, found)) >= 8


@pytest.mark.long
def test_few_histories_have_a_false_alarm_on_any_day_and_most_changes_are_found_in_time() -> None:
    """In histories without a change, looked at once or on each of 60 days; and in some that become 20 % slower."""
    at_end = sum(bool(alarms([history(points)], now(points))) for points in map(days, range(1000)))
    on_any_day = found_late = covered = 0
    for seed in range(1000, 1100):
        points = days(seed)
        on_any_day += any(alarms([history(points[:count])], now(points[:count])) for count in range(10, 61))
        points = days(seed, 50, at=40, storage=1.2)
        found = history(points)
        found_late += not alarms([found], now(points))
        covered += any(one.low <= 1.2 <= one.high for one in found.changes)
    assert at_end <= 5, f"{at_end} of 1000 histories have a false alarm at their end"
    assert on_any_day <= 4, f"{on_any_day} of 100 histories have a false alarm on one of their days"
    assert found_late <= 10, f"{found_late} of 100 changes are not found within 10 turns"
    assert covered >= 85, f"{covered} of 100 intervals contain the change"
