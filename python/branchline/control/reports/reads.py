"""Query sums of reads by site, storage element, hour and day, and the costs of users and wagons."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from branchline.control.reports.periods import DAY, LOCAL, ReadPlace, bounds, jobs_at, ranges, text_of
from branchline.control.reports.readings import (
    CacheHour,
    CacheReads,
    Cost,
    ElementHour,
    JobTime,
    Period,
    ReadTotals,
    SiteElementTable,
    SiteReadings,
)
from branchline.records.charts.efficiency import EfficiencySum
from branchline.records.sending.message import TRAIN

#: Maximum number of jobs in a histogram. More jobs would hardly change its shape.
JOBS_DRAWN_MAX = 10_000
_SUMS = "sum(files), sum(bytes_read), sum(failures), sum(wall_s), sum(fetch_s)"


class _Cell(NamedTuple):
    site: str
    element: str
    nearness: str
    files: int
    bytes_read: int
    failures: int
    wall_s: float
    fetch_s: float


def site_table(connection: sqlite3.Connection, period: Period) -> SiteElementTable:
    """Return the reads of a period by site and storage element."""
    query = (
        f"SELECT site, element, nearness, {_SUMS} FROM sums WHERE size = ? AND begin >= ? AND begin < ?"  # noqa: S608
        " GROUP BY site, element, nearness"
    )
    cells = [_Cell(*row) for one in ranges(period) for row in connection.execute(query, (one.size, one.begin, one.end))]
    jobs = jobs_at(connection, period)
    times = {
        site: (wall_s, waiting_s)
        for site, wall_s, waiting_s in connection.execute(
            "SELECT site, sum(wall_s), sum(waiting_s) FROM site_hours WHERE hour >= ? AND hour < ? GROUP BY site",
            _hours(period),
        )
    }
    elements = _most_read(cells, lambda one: one.element)
    sites = _most_read(cells, lambda one: one.site)
    rows = [
        _site_row(site, [one for one in cells if one.site == site], times.get(site), jobs, elements) for site in sites
    ]
    every = (sum(one for one, _ in times.values()), sum(one for _, one in times.values()))
    return SiteElementTable(elements, rows, _site_row(None, cells, every, jobs, elements))


def element_hours(connection: sqlite3.Connection, period: Period) -> list[ElementHour]:
    """Return reads by storage element and hour, sorted by hour."""
    rows = connection.execute(
        "SELECT hour, element, files, bytes_read, failures, wall_s, fetch_s FROM element_hours"
        " WHERE hour >= ? AND hour < ? ORDER BY hour, element",
        _hours(period),
    )
    return [ElementHour(element, hour, ReadTotals(0, *sums)) for hour, element, *sums in rows]


def element_days(connection: sqlite3.Connection, period: Period) -> list[ElementHour]:
    """Return reads by storage element and day, sorted by day, for the days that begin in the period."""
    rows = connection.execute(
        f"SELECT begin, element, {_SUMS} FROM sums WHERE size = ? AND begin >= ? AND begin < ?"  # noqa: S608 - constant
        " GROUP BY begin, element ORDER BY begin, element",
        (DAY, *_hours(period)),
    )
    return [ElementHour(element, begin, ReadTotals(0, *sums), 24) for begin, element, *sums in rows]


def cache_hours(connection: sqlite3.Connection, period: Period, *, by_day: bool) -> list[CacheHour]:
    """Return reads through caches by hour or day, sorted by time."""
    begin = "substr(hour, 1, 10) || 'T00:00:00+00:00'" if by_day else "hour"
    rows = connection.execute(
        f"SELECT element, max(site), {begin}, sum(files), sum(hit_bytes), sum(miss_bytes),"  # noqa: S608 - constant
        " sum(bypass_bytes) FROM cache_hours WHERE hour >= ? AND hour < ? GROUP BY 3, element ORDER BY 3, element",
        _hours(period),
    )
    hours = 24 if by_day else 1
    return [CacheHour(element, site, begin, CacheReads(*sums), hours) for element, site, begin, *sums in rows]


def user_costs(connection: sqlite3.Connection, period: Period) -> list[Cost]:
    """Return the costs of users for jobs that started in the period, sorted by decreasing CPU time."""
    begin, end = _hours(period)
    kept = connection.execute(
        "SELECT user, count(*), sum(events), sum(bytes_read), total(cpu_s), sum(seconds) FROM jobs"
        " WHERE started >= ? AND started < ? GROUP BY user",
        (begin, end),
    )
    forgotten = connection.execute(
        "SELECT user, sum(jobs), sum(events), sum(bytes_read), sum(cpu_s), sum(seconds) FROM forgotten_costs"
        " WHERE started >= ? AND started < ? GROUP BY user",
        (begin, end),
    )
    costs: dict[str, Cost] = {}
    for one in (Cost(*row) for row in (*kept, *forgotten)):
        if one.name in costs:
            other = costs[one.name]
            one = Cost(
                one.name,
                other.jobs + one.jobs,
                other.events + one.events,
                other.bytes_read + one.bytes_read,
                other.cpu_s + one.cpu_s,
                other.wall_s + one.wall_s,
            )
        costs[one.name] = one
    return sorted(costs.values(), key=lambda one: (-one.cpu_s, one.name))


def wagon_costs(connection: sqlite3.Connection, period: Period) -> list[Cost]:
    """Return the costs of wagons in jobs that ended in the period, sorted by decreasing CPU time."""
    rows = connection.execute(
        "SELECT wagon, sum(jobs), sum(events), 0, sum(cpu_s) AS cpu, sum(seconds), sum(output_bytes) FROM wagon_hours"
        " WHERE hour >= ? AND hour < ? GROUP BY wagon HAVING sum(jobs) > 0 ORDER BY cpu DESC, wagon",
        _hours(period),
    )
    return [Cost(*row) for row in rows]


def efficiencies(connection: sqlite3.Connection, period: Period, *, by_month: bool) -> list[EfficiencySum]:
    """Return sums over the user jobs and trains that started in the period, by month or day, sorted by time.

    Jobs without CPU time are left out, since the time for which they occupied cores is not stored.
    """
    begin = "substr(started, 1, 7) || '-01'" if by_month else "substr(started, 1, 10)"
    rows = connection.execute(
        f"SELECT first, wagons > 1 AS is_train, count(*), sum(wagons), sum(cpu_s), sum(cpu_s / efficiency)"  # noqa: S608
        f" FROM (SELECT {begin} AS first, json_array_length(wagons) AS wagons, cpu_s, efficiency FROM jobs"
        " WHERE started >= ? AND started < ? AND kind = ? AND has_ended AND efficiency > 0 AND cpu_s > 0)"
        " WHERE wagons > 0 GROUP BY first, is_train ORDER BY first, is_train",
        (*_hours(period), TRAIN),
    )
    return [EfficiencySum(first, by_month, bool(is_train), *sums) for first, is_train, *sums in rows]


def job_times(connection: sqlite3.Connection, period: Period) -> list[JobTime]:
    """Return the times of the last ``JOBS_DRAWN_MAX`` jobs that started in the period and have ended."""
    rows = connection.execute(
        "SELECT site, seconds, bytes_read FROM jobs WHERE started >= ? AND started < ? AND kind = ? AND has_ended"
        " AND seconds > 0 ORDER BY started DESC LIMIT ?",
        (*_hours(period), TRAIN, JOBS_DRAWN_MAX),
    )
    return [JobTime(*row) for row in rows]


def _hours(period: Period) -> tuple[str, str]:
    begin, end = bounds(period)
    return text_of(begin), text_of(end)


def _site_row(
    site: str | None,
    cells: Sequence[_Cell],
    times: tuple[float, float] | None,
    jobs: Mapping[ReadPlace, int],
    elements: Sequence[str],
) -> SiteReadings:
    local = [one for one in cells if one.nearness in LOCAL]
    remote = [one for one in cells if one.nearness not in LOCAL]
    by_element = {one: [cell for cell in cells if cell.element == one] for one in elements}

    def added(of: Sequence[_Cell], element: str | None = None, is_local: bool | None = None) -> ReadTotals:
        sums: Iterator[tuple[int, int, int, float, float]] = (one[3:] for one in of)
        totals = [sum(column) for column in zip(*sums, strict=True)] or [0, 0, 0, 0.0, 0.0]
        jobs_there = jobs.get(ReadPlace.of(site, element, is_local), 0)
        return ReadTotals(
            jobs_there, int(totals[0]), int(totals[1]), int(totals[2]), float(totals[3]), float(totals[4])
        )

    every = added(cells)
    wall_s, waiting_s = times or (0.0, 0.0)
    return SiteReadings(
        "all sites" if site is None else site,
        every.jobs,
        max(0.0, wall_s - waiting_s) / wall_s if wall_s > 0 else None,
        every,
        added(local, None, True),
        added(remote, None, False),
        {element: added(found, element) for element, found in by_element.items() if found},
    )


def _most_read(cells: Sequence[_Cell], key: Callable[[_Cell], str]) -> list[str]:
    """Return the distinct values of ``key`` over all cells, sorted by decreasing number of bytes read."""
    size_bytes: dict[str, int] = {}
    for one in cells:
        size_bytes[key(one)] = size_bytes.get(key(one), 0) + one.bytes_read
    return sorted(size_bytes, key=lambda name: (-size_bytes[name], name))
