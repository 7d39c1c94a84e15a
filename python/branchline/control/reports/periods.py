"""Split periods into hours, days and months, and count the jobs that read at a site or storage element in a period.

Sums are stored by hour, day and month, so that a sum over several years adds few rows.

Jobs are counted without reading their rows. A job's span at a site or storage element lasts from the first to the last
hour in which the job read at that location. The table ``place_jobs`` has the numbers of spans that began and ended in
each hour. The number of jobs in a period is the number of spans that began before the end of the period, minus the
number of spans that ended before its start.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from branchline.control.reports.readings import Period
from branchline.errors import OptionError
from branchline.records.sensors.record import SiteReading

#: Sizes of time buckets: the values of the column ``size`` in the database.
MONTH, DAY, HOUR = "month", "day", "hour"
_SIZES = (MONTH, DAY, HOUR)
_FIRST = datetime(1, 1, 1, tzinfo=UTC)
_LAST = datetime(9999, 12, 31, 23, tzinfo=UTC)
#: Values of the column ``nearness`` that count as local reads.
LOCAL = ("host", "site")
#: Wildcard for all sites, storage elements or distances. Not a valid name, because names are printable.
ALL = "\0"
#: Distances between workers and storage elements, as in the database and in URLs.
NEAR, FAR = "local", "remote"
_ADD_PLACE_JOBS = (
    "INSERT INTO place_jobs VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (size, begin, site, element, distance)"
    " DO UPDATE SET began = began + excluded.began, ended = ended + excluded.ended"
)


@dataclass(frozen=True)
class BucketRange:
    """Time buckets of one size, from ``begin`` (inclusive) to ``end`` (exclusive), in the database's time format."""

    size: str
    begin: str
    end: str


def buckets_of(moment: str) -> list[tuple[str, str]]:
    """Return the hour, day and month that contain a time, each with its bucket size and start."""
    at = datetime.fromisoformat(moment)
    return [(size, text_of(_bucket_begin(size, at))) for size in _SIZES]


def ranges(period: Period) -> list[BucketRange]:
    """Return the largest buckets that exactly cover the hours that begin in a period.

    Raises OptionError for an invalid time.
    """
    begin, end = bounds(period)
    return [BucketRange(size, text_of(one), text_of(other)) for size, one, other in _split(_SIZES, begin, end)]


def bounds(period: Period) -> tuple[datetime, datetime]:
    """Return the first hour that begins in a period, and the first hour that begins after the period.

    Raises OptionError for an invalid time.
    """
    since = _moment(period.since, "since") if period.since else _FIRST
    until = _moment(period.until, "until") if period.until else _LAST
    return _next_bucket(HOUR, since), _next_bucket(HOUR, until)


def text_of(moment: datetime) -> str:
    """Return the hour of a time in the time format of the database."""
    return f"{moment.year:04}-{moment:%m-%dT%H}:00:00+00:00"


def _split(sizes: tuple[str, ...], begin: datetime, end: datetime) -> Iterator[tuple[str, datetime, datetime]]:
    if begin >= end:
        return
    size, *smaller = sizes
    first, last = _next_bucket(size, begin), _bucket_begin(size, end)
    if not smaller or first >= last:
        yield from _split(tuple(smaller), begin, end) if smaller else [(size, begin, end)]
        return
    yield from _split(tuple(smaller), begin, first)
    yield size, first, last
    yield from _split(tuple(smaller), last, end)


def _bucket_begin(size: str, moment: datetime) -> datetime:
    """Return the start of the bucket that contains a time."""
    hour = moment.replace(minute=0, second=0, microsecond=0)
    if size == HOUR:
        return hour
    return hour.replace(hour=0) if size == DAY else hour.replace(day=1, hour=0)


def _next_bucket(size: str, moment: datetime) -> datetime:
    """Return the start of the first bucket that begins at or after a time."""
    begin = _bucket_begin(size, moment)
    if begin == moment:
        return begin
    if begin >= _bucket_begin(size, _LAST):
        return _LAST
    return _bucket_begin(
        size, begin + {HOUR: timedelta(hours=1), DAY: timedelta(days=1), MONTH: timedelta(days=32)}[size]
    )


def _moment(text: str, what: str) -> datetime:
    # A year or a month means the start of the year or month.
    whole = text + {4: "-01-01", 7: "-01"}.get(len(text), "")
    try:
        moment = datetime.fromisoformat(whole)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        hint = "write it like 2026-03-01 or 2026-03-01T12:00"
        raise OptionError(f"{what} is not a valid time: {text!r:.40}", hint=hint) from None


class ReadPlace(NamedTuple):
    """A site, a storage element, and the distance between them (local or remote). Each can be ``ALL``."""

    site: str = ALL
    element: str = ALL
    distance: str = ALL

    @classmethod
    def of(cls, site: str | None, element: str | None, is_local: bool | None) -> ReadPlace:
        """Return a place. An argument of None means ``ALL``."""
        distance = ALL if is_local is None else NEAR if is_local else FAR
        return cls(ALL if site is None else site, ALL if element is None else element, distance)


class _Read(NamedTuple):
    site: str
    element: str
    is_local: bool
    first: str
    last: str


class _Span(NamedTuple):
    first: str
    last: str


def note_places(connection: sqlite3.Connection, job_id: int, hour: str, sites: Iterable[SiteReading]) -> None:
    """Count a job at all sites and storage elements where the job read in an hour."""
    query = "SELECT site, element, is_local, first, last FROM job_places WHERE job_id = ?"
    known = {
        (site, element, bool(is_local)): _Read(site, element, bool(is_local), first, last)
        for site, element, is_local, first, last in connection.execute(query, (job_id,))
    }
    now = dict(known)
    for one in sites:
        key = (one.site, one.storage_element, one.nearness in LOCAL)
        old = now.get(key)
        now[key] = _Read(*key, min(old.first, hour), max(old.last, hour)) if old else _Read(*key, hour, hour)
    changed = [one for key, one in now.items() if known.get(key) != one]
    if not changed:
        return
    connection.executemany(
        "INSERT OR REPLACE INTO job_places VALUES (?, ?, ?, ?, ?, ?)", [(job_id, *one) for one in changed]
    )
    before, after = _spans(known.values()), _spans(now.values())
    began: Counter[tuple[str, ReadPlace]] = Counter()
    ended: Counter[tuple[str, ReadPlace]] = Counter()
    for place, span in after.items():
        old_span = before.get(place)
        if span != old_span:
            began[span.first, place] += 1
            ended[span.last, place] += 1
            if old_span is not None:
                began[old_span.first, place] -= 1
                ended[old_span.last, place] -= 1
    connection.executemany(
        _ADD_PLACE_JOBS,
        [
            (*bucket, *place, began[hour, place], ended[hour, place])
            for hour, place in set(began) | set(ended)
            if began[hour, place] or ended[hour, place]
            for bucket in buckets_of(hour)
        ],
    )


def jobs_at(connection: sqlite3.Connection, period: Period) -> dict[ReadPlace, int]:
    """Return the number of jobs that read at each place in a period."""
    counts: dict[ReadPlace, int] = {}
    for place, began in _spans_before(connection, "began", period.until):
        counts[place] = counts.get(place, 0) + began
    if period.since:
        for place, ended in _spans_before(connection, "ended", period.since):
            counts[place] = max(0, counts.get(place, 0) - ended)
    return counts


def _spans_before(
    connection: sqlite3.Connection, column: Literal["began", "ended"], until: str
) -> Iterator[tuple[ReadPlace, int]]:
    """Yield the number of spans at each place that began or ended (``column``) before the time ``until``."""
    query = (
        f"SELECT site, element, distance, sum({column}) FROM place_jobs WHERE size = ? AND begin >= ? AND begin < ?"  # noqa: S608
        " GROUP BY site, element, distance"
    )
    for one in ranges(Period(until=until)):
        for *place, count in connection.execute(query, (one.size, one.begin, one.end)):
            yield ReadPlace(*place), count


def _spans(reads: Iterable[_Read]) -> dict[ReadPlace, _Span]:
    """Return a job's span at each place for which job counts are kept."""
    spans: dict[ReadPlace, _Span] = {}
    for one in reads:
        for place in (
            ReadPlace.of(one.site, one.element, None),
            ReadPlace.of(one.site, None, one.is_local),
            ReadPlace.of(one.site, None, None),
            ReadPlace.of(None, one.element, None),
            ReadPlace.of(None, None, one.is_local),
            ReadPlace(),
        ):
            old = spans.get(place, _Span(one.first, one.last))
            spans[place] = _Span(min(old.first, one.first), max(old.last, one.last))
    return spans
