"""A table of sites and storage elements: what the workers at each site read from each element, local and remote.

Its form is that of figure 5 of L Betev et al., "Performance optimisations for distributed analysis in ALICE" (2014).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from branchline.base.quantities import counted, percent, rate
from branchline.records.sensors.record import JobRecord, SiteReading, WorkerPhases

SITES_SHOWN_MAX = 40
ELEMENTS_SHOWN_MAX = 8
LOCAL = ("host", "site")
# Phases in which a worker waits: for data, or for work.
_WAITING = ("wait", "idle")


class ReadCell(NamedTuple):
    """Some of the files that a site read: how many, their share of the site's, and their speed; empty if none."""

    files: str = ""
    share: str = ""
    speed: str = ""


class SiteRow(NamedTuple):
    """What the workers at a site did; ``by_element`` is in the order of the table's elements."""

    name: str
    workers: str
    efficiency: str
    every: ReadCell
    local: ReadCell
    remote: ReadCell
    by_element: list[ReadCell]


class SiteTable(NamedTuple):
    """Sites by storage elements, those with most bytes first. There are no rows if all data was local.

    The hidden ones are not shown; job.json has them.
    """

    elements: list[str]
    rows: list[SiteRow]
    sites_hidden: int = 0
    elements_hidden: int = 0


def site_table(job: JobRecord) -> SiteTable:
    """Return the table; it has no rows where every file was on the worker's own machine."""
    if all(one.nearness == "host" for one in job.sites) and len({one.site for one in job.sites}) < 2:
        return SiteTable([], [])
    elements, sites = _most_read(job.sites, "storage_element"), _most_read(job.sites, "site")
    shown = elements[:ELEMENTS_SHOWN_MAX]
    rows = [_row(site, job, shown) for site in sites[:SITES_SHOWN_MAX]]
    return SiteTable(shown, rows, len(sites) - len(rows), len(elements) - len(shown))


def _most_read(readings: Iterable[SiteReading], name: str) -> list[str]:
    """Return the different values of a field, the one with most bytes first."""
    size_bytes: dict[str, int] = {}
    for one in readings:
        key = getattr(one, name)
        size_bytes[key] = size_bytes.get(key, 0) + one.bytes_read
    return sorted(size_bytes, key=lambda key: (-size_bytes[key], key))


def _row(site: str, job: JobRecord, elements: Sequence[str]) -> SiteRow:
    read = [one for one in job.sites if one.site == site]
    workers = [one for one in job.worker_phases if one.site == site]
    files_count = sum(one.files for one in read)
    return SiteRow(
        site or "unknown site",
        counted(len(workers), "worker"),
        _efficiency(workers),
        _cell(read, files_count),
        _cell([one for one in read if one.nearness in LOCAL], files_count),
        _cell([one for one in read if one.nearness not in LOCAL], files_count),
        [_cell([one for one in read if one.storage_element == element], files_count) for element in elements],
    )


def _efficiency(workers: Sequence[WorkerPhases]) -> str:
    """Return the share of the workers' time in which they waited neither for data nor for work."""
    wall_s = sum(one.wall_s for one in workers)
    waiting_s = sum(getattr(one, phase) for one in workers for phase in _WAITING)
    return percent(max(0.0, wall_s - waiting_s), wall_s) if wall_s > 0 else "-"


def _cell(read: Sequence[SiteReading], files_count: int) -> ReadCell:
    files = sum(one.files for one in read)
    if not files:
        return ReadCell()
    speed = rate(sum(one.bytes_read for one in read), sum(one.wall_s for one in read))
    return ReadCell(counted(files, "file"), percent(files, files_count), speed)
