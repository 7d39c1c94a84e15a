"""Sums of what was read, by site, storage element, hour, user and wagon, from the database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from branchline.control.readings import Cost, ElementHour, Period, Reads, SiteElementTable, SiteRow

_LOCAL = ("host", "site")
_SUMS = "sum(files), sum(bytes_read), sum(failures), sum(wall_s), sum(fetch_s)"
# Before and after all times.
_FIRST, _LAST = "", "~"


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
    """Sites by storage elements in a period."""
    bounds = _bounds(period)
    cells = [
        _Cell(*row)
        for row in connection.execute(
            f"SELECT site, element, nearness, {_SUMS} FROM sums WHERE hour >= ? AND hour < ?"  # noqa: S608 - ours
            " GROUP BY site, element, nearness",
            bounds,
        )
    ]
    jobs = _Jobs.of(connection, bounds)
    times = {
        site: (wall_s, waiting_s)
        for site, wall_s, waiting_s in connection.execute(
            "SELECT site, sum(wall_s), sum(waiting_s) FROM site_times WHERE hour >= ? AND hour < ? GROUP BY site",
            bounds,
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
    """Reads by storage element and hour, in the order of the hours."""
    rows = connection.execute(
        f"SELECT hour, element, {_SUMS} FROM sums WHERE hour >= ? AND hour < ?"  # noqa: S608 - ours
        " GROUP BY hour, element ORDER BY hour, element",
        _bounds(period),
    )
    return [ElementHour(element, hour, Reads(0, *sums)) for hour, element, *sums in rows]


def user_costs(connection: sqlite3.Connection, period: Period) -> list[Cost]:
    """What users cost: of jobs that began in the period; the most CPU time first."""
    rows = connection.execute(
        "SELECT user, count(*), sum(events), sum(bytes_read), sum(ifnull(cpu_s, 0)) AS cpu, sum(seconds) FROM jobs"
        " WHERE started >= ? AND started < ? GROUP BY user ORDER BY cpu DESC, user",
        _bounds(period),
    )
    return [Cost(*row) for row in rows]


def wagon_costs(connection: sqlite3.Connection, period: Period) -> list[Cost]:
    """What wagons cost, in jobs that ended in the period; the most CPU time first."""
    rows = connection.execute(
        "SELECT wagon, count(*), sum(events), 0, sum(cpu_s) AS cpu, sum(seconds), sum(output_bytes) FROM wagon_costs"
        " WHERE hour >= ? AND hour < ? GROUP BY wagon ORDER BY cpu DESC, wagon",
        _bounds(period),
    )
    return [Cost(*row) for row in rows]


def _bounds(period: Period) -> tuple[str, str]:
    return period.since or _FIRST, period.until or _LAST


class _Jobs:
    """How many jobs read at a site, and at it from an element or from near and far; None stands for all."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str | None, str | None, bool | None], int] = {}

    @classmethod
    def of(cls, connection: sqlite3.Connection, bounds: tuple[str, str]) -> _Jobs:
        found = cls()
        is_local = f"nearness IN {_LOCAL!r}"
        for keys in ("site, element, NULL", f"site, NULL, {is_local}", "site, NULL, NULL", "NULL, element, NULL",
                     f"NULL, NULL, {is_local}", "NULL, NULL, NULL"):  # fmt: skip
            grouped = ", ".join(one for one in keys.split(", ", 2) if one != "NULL")
            query = f"SELECT {keys}, count(DISTINCT job_id) FROM cells WHERE hour >= ? AND hour < ?"  # noqa: S608
            for site, element, near, count in connection.execute(
                f"{query} GROUP BY {grouped}" if grouped else query, bounds
            ):
                found._jobs[site, element, None if near is None else bool(near)] = count
        return found

    def at(self, site: str | None, element: str | None = None, is_local: bool | None = None) -> int:
        return self._jobs.get((site, element, is_local), 0)


def _site_row(
    site: str | None,
    cells: Sequence[_Cell],
    times: tuple[float, float] | None,
    jobs: _Jobs,
    elements: Sequence[str],
) -> SiteRow:
    local = [one for one in cells if one.nearness in _LOCAL]
    remote = [one for one in cells if one.nearness not in _LOCAL]
    by_element = {one: [cell for cell in cells if cell.element == one] for one in elements}
    return SiteRow(
        "all sites" if site is None else site,
        jobs.at(site),
        _efficiency(*times) if times else None,
        _added(cells, jobs.at(site)),
        _added(local, jobs.at(site, None, True)),
        _added(remote, jobs.at(site, None, False)),
        {element: _added(found, jobs.at(site, element)) for element, found in by_element.items() if found},
    )


def _efficiency(wall_s: float, waiting_s: float) -> float | None:
    return max(0.0, wall_s - waiting_s) / wall_s if wall_s > 0 else None


def _added(cells: Iterable[_Cell], jobs: int) -> Reads:
    sums: Iterator[tuple[int, int, int, float, float]] = (one[3:] for one in cells)
    totals = [sum(column) for column in zip(*sums, strict=True)] or [0, 0, 0, 0.0, 0.0]
    return Reads(jobs, int(totals[0]), int(totals[1]), int(totals[2]), float(totals[3]), float(totals[4]))


def _most_read(cells: Sequence[_Cell], key: Callable[[_Cell], str]) -> list[str]:
    """The different values of a key, the one with most bytes first."""
    size_bytes: dict[str, int] = {}
    for one in cells:
        size_bytes[key(one)] = size_bytes.get(key(one), 0) + one.bytes_read
    return sorted(size_bytes, key=lambda name: (-size_bytes[name], name))
