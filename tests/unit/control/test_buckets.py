"""Sums of periods are those of their hours, and jobs at a place are counted without looking at them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.control.batches import batch, identity, read

from branchline.control.reports.periods import bounds, buckets_of, ranges, text_of
from branchline.control.reports.readings import Period, ReadTotals
from branchline.control.room import ControlRoom
from branchline.errors import OptionError

BEGIN = datetime(2025, 11, 20, tzinfo=UTC)


@pytest.fixture
def chance() -> random.Random:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ControlRoom]:
    room = ControlRoom(tmp_path / "room")
    yield room
    room.close()


def period_of(chance: random.Random) -> Period:
    """A period of minutes to years; some have no begin or no end."""
    begin = BEGIN + timedelta(minutes=chance.randrange(60 * 24 * 90))
    end = begin + timedelta(minutes=chance.choice([10, 100, 5000, 100_000, 1_000_000]))
    return Period(chance.choice(["", begin.isoformat()]), chance.choice(["", end.isoformat()]))


def test_each_hour_of_a_period_is_in_one_bucket(chance: random.Random) -> None:
    for _ in range(200):
        period = period_of(chance)
        begin, end = bounds(period)
        found = ranges(period)
        for hours in range(0, 24 * 100, 7):
            hour = BEGIN + timedelta(hours=hours)
            buckets = buckets_of(text_of(hour))
            count = sum(one.size == size and one.begin <= first < one.end for one in found for size, first in buckets)
            assert count == (begin <= hour < end), (period, hour)


@pytest.mark.parametrize("text", ["soon", "2026-13", "9" * 100, "'; DROP TABLE sums", "-001", "2026-02-30"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="not a valid time"):
        ranges(Period(since=text))


@pytest.mark.parametrize("text", ["9999", "9999-12-31T23:59:59", "0001", "0001-01-01T00:00:00+14:00"])
def test_the_ends_of_the_calendar_are_times_or_refused(text: str) -> None:
    for period in (Period(since=text), Period(until=text)):
        try:
            assert all(one.begin < one.end for one in ranges(period))
        except OptionError:
            assert text.startswith("0001-")


def test_jobs_at_places_are_counted_as_their_reads_say(room: ControlRoom, chance: random.Random) -> None:
    sites, elements = ["cern", "gsi"], ["root://se.cern", "root://se.gsi", "root://se.jinr"]
    spans: dict[tuple[str, str, int], list[datetime]] = {}
    for number in range(20):
        who = identity(f"job{number}", begin=BEGIN + timedelta(hours=chance.randrange(24 * 60)))
        sent = []
        for _ in range(chance.randrange(1, 5)):
            site, element = chance.choice(sites), chance.choice(elements)
            after_s = chance.randrange(24 * 3600)
            hour = (datetime.fromisoformat(who.started) + timedelta(seconds=after_s)).replace(minute=0, second=0)
            sent.append((read("f.root", element, 10, 1.0, site), after_s))
            spans.setdefault((site, element, number), []).append(hour)
        chance.shuffle(sent)
        for count, (one, after_s) in enumerate(sent):
            assert room.take(batch(who, count, one, after_s=after_s))
    for _ in range(50):
        period = period_of(chance)
        begin, end = bounds(period)
        table = room.site_table(period)
        there = {key for key, hours in spans.items() if min(hours) < end and max(hours) >= begin}
        for row in table.rows:
            for element, reads in row.elements.items():
                assert reads.jobs == sum(one[:2] == (row.site, element) for one in there)
        assert table.total.every.files == sum(begin <= one < end for hours in spans.values() for one in hours)


def test_a_period_that_ends_before_it_begins_is_empty(room: ControlRoom) -> None:
    room.take(batch(identity(), 0, read("f.root", "root://se", 10, 1.0)))
    table = room.site_table(Period("2027", "2026"))
    assert (table.rows, table.total.every) == ([], ReadTotals())
