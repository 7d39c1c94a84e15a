"""What was read before a measure and since, from the sums by the hour: no page reads rows of jobs."""

from __future__ import annotations

import sqlite3
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta

from branchline.base.limits import MEASURE_BEFORE_HOURS
from branchline.control.measures.measure import Measure, MeasureOrder, Split
from branchline.control.reports.buckets import ranges, text_of
from branchline.control.reports.readings import Period, Reads

_SUMS = "sum(files), sum(bytes_read), sum(failures), sum(wall_s), sum(fetch_s)"


@dataclass(frozen=True)
class Effect:
    """Reads in the day before a measure, and since it began (up to the end of the hour in which it ended)."""

    before: Split
    since: Split


def reads_before(connection: sqlite3.Connection, order: MeasureOrder, now: datetime) -> tuple[Split, Split]:
    """The reads of a day up to now, and those of them in this hour."""
    first, end = now - timedelta(hours=MEASURE_BEFORE_HOURS), now + timedelta(hours=1)
    return _reads(connection, order, first, end), _reads(connection, order, now, end)


def effect(connection: sqlite3.Connection, measure: Measure) -> Effect:
    """What was read before and since."""
    begin, end = datetime.fromisoformat(measure.begins), datetime.fromisoformat(measure.undone or measure.ends)
    hours = _reads(connection, measure.order, begin, end + timedelta(hours=1))
    since = Split(_minus(hours.meant, measure.hour.meant), _minus(hours.others, measure.hour.others))
    return Effect(measure.before, since)


def _reads(connection: sqlite3.Connection, order: MeasureOrder, begin: datetime, end: datetime) -> Split:
    """The reads of whole hours: from that with ``begin`` to before that with ``end``."""
    period = Period(text_of(begin.astimezone(UTC)), text_of(end.astimezone(UTC)))
    query = (
        f"SELECT element = ?, {_SUMS} FROM sums"  # noqa: S608 - ours
        " WHERE size = ? AND begin >= ? AND begin < ? AND (? = '' OR site = ?) GROUP BY 1"
    )
    found = {True: Reads(), False: Reads()}
    for one in ranges(period):
        given = (order.storage_element, one.size, one.begin, one.end, order.site, order.site)
        for meant, *sums in connection.execute(query, given):
            found[bool(meant)] = _plus(found[bool(meant)], Reads(0, *sums))
    return Split(found[True], found[False])


def _plus(first: Reads, second: Reads) -> Reads:
    return Reads(*(one + other for one, other in zip(astuple(first), astuple(second), strict=True)))


def _minus(reads: Reads, part: Reads) -> Reads:
    """What is left. Sums of seconds differ in their last bits: nothing is below zero."""
    return Reads(
        0,
        max(0, reads.files - part.files),
        max(0, reads.bytes_read - part.bytes_read),
        max(0, reads.failures - part.failures),
        max(0.0, reads.wall_s - part.wall_s),
        max(0.0, reads.fetch_s - part.fetch_s),
    )
