"""Samples of read speeds at each site and storage element, as input for findings about speed.

A sample has one speed per job and not one per file, because the files of a job are not statistically independent.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from branchline.base.limits import FINDINGS_CELL_JOBS_MIN, FINDINGS_JOBS_MAX
from branchline.control.reports.periods import LOCAL, bounds, text_of
from branchline.control.reports.readings import Period
from branchline.lab.statistics import MEDIAN_ERROR, Values, robust_scale

# Minimum scatter of the logarithms of the speeds in a sample, because the speeds of a few jobs can agree by chance.
_SPREAD_MIN = 0.1


@dataclass(frozen=True)
class PlaceKey:
    """A site whose workers read, and the storage element from which they read (local or remote to the site)."""

    site: str
    element: str
    is_local: bool


@dataclass(frozen=True)
class Speeds:
    """Reads of several jobs at one site from one storage element.

    ``logs`` has the natural logarithm of each job's speed in bytes/s; the other fields are sums over jobs.
    """

    key: PlaceKey
    logs: Values
    files: int
    bytes_read: int
    wall_s: float

    @property
    def jobs(self) -> int:
        """The number of jobs."""
        return len(self.logs)

    @property
    def typical(self) -> float:
        """The median of the logarithmic speeds."""
        return float(np.median(self.logs))

    @property
    def error(self) -> float:
        """The standard error of the median logarithmic speed."""
        return MEDIAN_ERROR * max(_SPREAD_MIN, robust_scale(self.logs)) / float(np.sqrt(self.jobs))


@dataclass
class _Sums:
    logs: list[float] = field(default_factory=list)
    files: int = 0
    bytes_read: int = 0
    wall_s: float = 0.0


def speeds_in(connection: sqlite3.Connection, period: Period) -> list[Speeds]:
    """Return the speeds of a period's latest ``FINDINGS_JOBS_MAX`` jobs, by site and storage element."""
    begin, end = bounds(period)
    rows = connection.execute(
        "SELECT site, element, nearness IN (?, ?), sum(files), sum(bytes_read), sum(wall_s) FROM cells"
        " WHERE job_id IN (SELECT id FROM jobs WHERE seen >= ? ORDER BY seen DESC LIMIT ?) AND hour >= ? AND hour < ?"
        " GROUP BY job_id, site, element, 3",
        (*LOCAL, text_of(begin), FINDINGS_JOBS_MAX, text_of(begin), text_of(end)),
    )
    return speeds_of(
        (PlaceKey(site, element, bool(near)), files, size, took) for site, element, near, files, size, took in rows
    )


def speeds_of(readings: Iterable[tuple[PlaceKey, int, int, float]]) -> list[Speeds]:
    """Group reads by site and storage element. Omits groups with few jobs.

    Each reading of a job is a tuple of key, number of files, bytes and seconds.
    """
    sums: dict[PlaceKey, _Sums] = {}
    for key, files, size_bytes, wall_s in readings:
        if size_bytes > 0 and wall_s > 0:
            one = sums.setdefault(key, _Sums())
            one.logs.append(float(np.log(size_bytes / wall_s)))
            one.files += files
            one.bytes_read += size_bytes
            one.wall_s += wall_s
    return [
        Speeds(key, np.array(one.logs), one.files, one.bytes_read, one.wall_s)
        for key, one in sums.items()
        if len(one.logs) >= FINDINGS_CELL_JOBS_MIN
    ]
