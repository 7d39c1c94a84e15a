"""How fast jobs read at each place: what findings on speed are made of. Jobs are independent of each other; files of
a job are not.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from branchline.base.limits import FINDINGS_CELL_JOBS_MIN, FINDINGS_JOBS_MAX
from branchline.control.findings.robust_statistics import MAD_TO_SIGMA, MEDIAN_ERROR, Values
from branchline.control.reports.periods import LOCAL, bounds, text_of
from branchline.control.reports.readings import Period

# Speeds of jobs of the same cell differ at least by so much (in logarithms): a lucky few that agree prove nothing.
_SPREAD_MIN = 0.1


@dataclass(frozen=True)
class PlaceKey:
    """Workers at a site, and a storage element that is local or remote to them."""

    site: str
    element: str
    is_local: bool


@dataclass(frozen=True)
class Speeds:
    """What jobs read at a place: for each the logarithm of its bytes/s, and files, bytes and seconds of all."""

    key: PlaceKey
    logs: Values
    files: int
    bytes_read: int
    wall_s: float

    @property
    def jobs(self) -> int:
        """How many."""
        return len(self.logs)

    @property
    def typical(self) -> float:
        """The median of the logarithms."""
        return float(np.median(self.logs))

    @property
    def error(self) -> float:
        """The standard error of the median."""
        deviations = np.abs(self.logs - np.median(self.logs))
        spread = max(_SPREAD_MIN, float(MAD_TO_SIGMA * np.median(deviations)))
        return MEDIAN_ERROR * spread / float(np.sqrt(self.jobs))


@dataclass
class _Sums:
    logs: list[float] = field(default_factory=list)
    files: int = 0
    bytes_read: int = 0
    wall_s: float = 0.0


def speeds_in(connection: sqlite3.Connection, period: Period) -> list[Speeds]:
    """The speeds of jobs at each place in a period; of very many jobs those that were seen last."""
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
    """From what each job read at a place: files, bytes and seconds. Places with few jobs are left out."""
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
