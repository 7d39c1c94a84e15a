"""Forecasts that are kept, and compared with what was measured later."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from branchline.base.plain import finite, from_plain, to_plain
from branchline.base.whole_files import write_whole
from branchline.errors import BadFileError
from branchline.lab.forecast.checked import Checked, machine_name, now_text
from branchline.lab.forecast.forecasting import FORECAST_VERSION, WhatIf
from branchline.records.sensors.record import JobRecord


@dataclass(frozen=True)
class Check:
    """A forecast beside a job: seconds as they were said and as they were, and whether the interval has them.
    ``bytes_error`` and ``requests_error`` are parts, as ``error`` is: 0.1 is ten per cent too much said.
    """

    said_s: float
    measured_s: float
    error: float
    is_held: bool
    bytes_error: float
    requests_error: float


@dataclass(frozen=True)
class Record:
    """How right forecasts were: the median and the largest of their errors, and how many intervals held."""

    checks: tuple[Check, ...]

    @property
    def median_error(self) -> float:
        """Without its sign."""
        return statistics.median(abs(one.error) for one in self.checks)

    @property
    def coverage(self) -> float:
        """The part of the intervals that hold what was measured; 0.9 if they are right."""
        return sum(one.is_held for one in self.checks) / len(self.checks)


def keep(forecast: WhatIf, path: Path) -> None:
    """Writes a forecast to a file. Raises StorageError."""
    write_whole(path, json.dumps(finite(to_plain(forecast)), indent=1).encode())


def kept(path: Path) -> WhatIf:
    """A forecast that was kept. Raises BadFileError for what is none, or of a later version."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        version = plain["forecast_version"]
        if not isinstance(version, int) or version > FORECAST_VERSION:
            raise BadFileError(
                f"{path} is a forecast of version {version!r:.20}, and this Branchline reads {FORECAST_VERSION}"
            )
        found: WhatIf = from_plain(WhatIf, plain)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BadFileError(f"{path} is no forecast: {error}") from error
    return found


def check(forecast: WhatIf, jobs: Sequence[JobRecord]) -> Record:
    """How right a forecast was, by jobs that did the work under its conditions."""
    return Record(tuple(_check(forecast, job) for job in jobs))


def _check(forecast: WhatIf, job: JobRecord) -> Check:
    then, totals = forecast.then, job.totals
    return Check(
        said_s=then.wall_s.value,
        measured_s=job.wall_s,
        error=_error(then.wall_s.value, job.wall_s),
        is_held=then.wall_s.holds(job.wall_s),
        bytes_error=_error(then.bytes_read.value, totals.bytes_read + totals.cached_bytes),
        requests_error=_error(then.requests.value, totals.read_calls),
    )


def _error(said: float, measured: float) -> float:
    return said / measured - 1 if measured > 0 else math.inf if said > 0 else 0.0


def checked_of(forecast: WhatIf, record: Record) -> list[Checked]:
    """What is kept of a comparison: those that have a time."""
    about = f"{forecast.subject}: {forecast.conditions.words()}"
    machine, now = machine_name(), now_text()
    return [
        Checked(about, one.said_s, one.measured_s, machine, now, is_held=one.is_held)
        for one in record.checks
        if one.said_s > 0 and one.measured_s > 0
    ]
