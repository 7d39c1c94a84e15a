"""Sums over periods: kept by hour, by day and by month, so that a period of years adds few rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from branchline.control.reports.readings import Period
from branchline.errors import OptionError

#: Sizes of buckets, as the column ``size`` of the tables has them.
MONTH, DAY, HOUR = "month", "day", "hour"
_SIZES = (MONTH, DAY, HOUR)
_FIRST = datetime(1, 1, 1, tzinfo=UTC)
_LAST = datetime(9999, 12, 31, 23, tzinfo=UTC)


@dataclass(frozen=True)
class BucketRange:
    """Buckets of one size from ``begin`` to before ``end``, as the tables write times."""

    size: str
    begin: str
    end: str


def buckets_of(moment: str) -> list[tuple[str, str]]:
    """The buckets of a time: size and first moment of each."""
    at = datetime.fromisoformat(moment)
    return [(size, text_of(_begin(size, at))) for size in _SIZES]


def ranges(period: Period) -> list[BucketRange]:
    """Buckets that are the hours of a period, none twice: those that begin in it. Raises OptionError."""
    begin, end = bounds(period)
    return [BucketRange(size, text_of(one), text_of(other)) for size, one, other in _ranges(_SIZES, begin, end)]


def bounds(period: Period) -> tuple[datetime, datetime]:
    """The first hour of a period, and the first one after it. Raises OptionError for what is no time."""
    since = _moment(period.since, "since") if period.since else _FIRST
    until = _moment(period.until, "until") if period.until else _LAST
    return _next(HOUR, since), _next(HOUR, until)


def text_of(moment: datetime) -> str:
    """A time as the tables have it."""
    return f"{moment.year:04}-{moment:%m-%dT%H}:00:00+00:00"


def _ranges(sizes: tuple[str, ...], begin: datetime, end: datetime) -> Iterator[tuple[str, datetime, datetime]]:
    if begin >= end:
        return
    size, *smaller = sizes
    first, last = _next(size, begin), _begin(size, end)
    if not smaller or first >= last:
        yield from _ranges(tuple(smaller), begin, end) if smaller else [(size, begin, end)]
        return
    yield from _ranges(tuple(smaller), begin, first)
    yield size, first, last
    yield from _ranges(tuple(smaller), last, end)


def _begin(size: str, moment: datetime) -> datetime:
    """The first moment of the bucket that has a moment."""
    hour = moment.replace(minute=0, second=0, microsecond=0)
    if size == HOUR:
        return hour
    return hour.replace(hour=0) if size == DAY else hour.replace(day=1, hour=0)


def _next(size: str, moment: datetime) -> datetime:
    """The first bucket that begins at a moment or after it."""
    begin = _begin(size, moment)
    if begin == moment:
        return begin
    if begin >= _begin(size, _LAST):
        return _LAST
    return _begin(size, begin + {HOUR: timedelta(hours=1), DAY: timedelta(days=1), MONTH: timedelta(days=32)}[size])


def _moment(text: str, what: str) -> datetime:
    # A year or a month is its beginning.
    whole = text + {4: "-01-01", 7: "-01"}.get(len(text), "")
    try:
        moment = datetime.fromisoformat(whole)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        hint = "write it like 2026-03-01 or 2026-03-01T12:00"
        raise OptionError(f"{what} is {text!r:.40}, which is no time", hint=hint) from None
