"""Sums over periods, and the number of jobs that read at a place in a period.

Sums are kept by hour, day and month, so that a period of years adds few rows.

Jobs are counted without reading their rows. A job's span at a place is from the first to the last hour in which it read
there. ``place_jobs`` counts, for each hour, the spans that began in it and those that ended in it so far. The jobs of a
period are the spans that began before its end, minus those that ended before its begin: two sums.
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

#: Sizes of buckets, as the column ``size`` of the tables has them.
MONTH, DAY, HOUR = "month", "day", "hour"
_SIZES = (MONTH, DAY, HOUR)
_FIRST = datetime(1, 1, 1, tzinfo=UTC)
_LAST = datetime(9999, 12, 31, 23, tzinfo=UTC)
#: Nearness that counts as local.
LOCAL = ("host", "site")
#: Stands for all sites, elements or distances; names are printable, so none is this.
ALL = "\0"
#: Distances, in the table and in addresses of pages.
NEAR, FAR = "local", "remote"
_ADD_PLACE_JOBS = (
    "INSERT INTO place_jobs VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (size, begin, site, element, distance)"
    " DO UPDATE SET began = began + excluded.began, ended = ended + excluded.ended"
)


@dataclass(frozen=True)
class BucketRange:
    """Buckets of one size from ``begin`` to before ``end``, as the tables write times."""

    size: str
    begin: str
    end: str


def buckets_of(moment: str) -> list[tuple[str, str]]:
    """The buckets of a time: size and first moment of each."""
    at = datetime.fromisoformat(moment)
    return [(size, text_of(_bucket_begin(size, at))) for size in _SIZES]


def ranges(period: Period) -> list[BucketRange]:
    """Buckets that are the hours of a period, none twice: those that begin in it. Raises OptionError."""
    begin, end = bounds(period)
    return [BucketRange(size, text_of(one), text_of(other)) for size, one, other in _split(_SIZES, begin, end)]


def bounds(period: Period) -> tuple[datetime, datetime]:
    """The first hour of a period, and the first one after it. Raises OptionError for what is no time."""
    since = _moment(period.since, "since") if period.since else _FIRST
    until = _moment(period.until, "until") if period.until else _LAST
    return _next_bucket(HOUR, since), _next_bucket(HOUR, until)


def text_of(moment: datetime) -> str:
    """A time as the tables have it."""
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
    """The first moment of the bucket that has a moment."""
    hour = moment.replace(minute=0, second=0, microsecond=0)
    if size == HOUR:
        return hour
    return hour.replace(hour=0) if size == DAY else hour.replace(day=1, hour=0)


def _next_bucket(size: str, moment: datetime) -> datetime:
    """The first bucket that begins at a moment or after it."""
    begin = _bucket_begin(size, moment)
    if begin == moment:
        return begin
    if begin >= _bucket_begin(size, _LAST):
        return _LAST
    return _bucket_begin(
        size, begin + {HOUR: timedelta(hours=1), DAY: timedelta(days=1), MONTH: timedelta(days=32)}[size]
    )


def _moment(text: str, what: str) -> datetime:
    # A year or a month is its beginning.
    whole = text + {4: "-01-01", 7: "-01"}.get(len(text), "")
    try:
        moment = datetime.fromisoformat(whole)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        hint = "write it like 2026-03-01 or 2026-03-01T12:00"
        raise OptionError(f"{what} is {text!r:.40}, which is no time", hint=hint) from None


class ReadPlace(NamedTuple):
    """Where jobs read: at a site, from a storage element, near or far; ``ALL`` stands for all of them."""

    site: str = ALL
    element: str = ALL
    distance: str = ALL

    @classmethod
    def of(cls, site: str | None, element: str | None, is_local: bool | None) -> ReadPlace:
        """A place; None stands for all."""
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
    """Counts a job at all places where it read in an hour."""
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
    """The number of jobs at each place in a period."""
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
    """How many spans began, or ended, before a time."""
    query = (
        f"SELECT site, element, distance, sum({column}) FROM place_jobs WHERE size = ? AND begin >= ? AND begin < ?"  # noqa: S608
        " GROUP BY site, element, distance"
    )
    for one in ranges(Period(until=until)):
        for *place, count in connection.execute(query, (one.size, one.begin, one.end)):
            yield ReadPlace(*place), count


def _spans(reads: Iterable[_Read]) -> dict[ReadPlace, _Span]:
    """The spans of a job at each place that a table shows."""
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
