"""Save forecasts, and compare saved forecasts with later measurements."""

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
    """A comparison of a forecast with a job: forecast and measured seconds. ``is_held`` is true if the interval
    contains the measured time. ``error``, ``bytes_error`` and ``requests_error`` are relative: 0.1 means that the
    forecast was ten per cent too high.
    """

    said_s: float
    measured_s: float
    error: float
    is_held: bool
    bytes_error: float
    requests_error: float


@dataclass(frozen=True)
class ForecastAccuracy:
    """The accuracy of a forecast, from comparisons with several jobs."""

    checks: tuple[Check, ...]

    @property
    def median_error(self) -> float:
        """Median of the absolute errors of the forecast time."""
        return statistics.median(abs(one.error) for one in self.checks)

    @property
    def coverage(self) -> float:
        """Fraction of the measured times that the interval contains; ideally 0.9."""
        return sum(one.is_held for one in self.checks) / len(self.checks)


def keep(forecast: WhatIf, path: Path) -> None:
    """Write a forecast to a file. Raises StorageError."""
    write_whole(path, json.dumps(finite(to_plain(forecast)), indent=1).encode())


def kept(path: Path) -> WhatIf:
    """Load a saved forecast. Raises BadFileError if the file is not a forecast or has a newer version."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        version = plain["forecast_version"]
        if not isinstance(version, int) or version > FORECAST_VERSION:
            raise BadFileError(
                f"{path} is a forecast of version {version!r:.20}; supported are versions up to {FORECAST_VERSION}"
            )
        found: WhatIf = from_plain(WhatIf, plain)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BadFileError(f"{path} is not a forecast: {error}") from error
    return found


def check(forecast: WhatIf, jobs: Sequence[JobRecord]) -> ForecastAccuracy:
    """Compare a forecast with jobs that ran under its conditions."""
    then = forecast.then
    checks = [
        Check(
            said_s=then.wall_s.value,
            measured_s=job.wall_s,
            error=_error(then.wall_s.value, job.wall_s),
            is_held=then.wall_s.holds(job.wall_s),
            bytes_error=_error(then.bytes_read.value, job.totals.bytes_read + job.totals.cached_bytes),
            requests_error=_error(then.requests.value, job.totals.read_calls),
        )
        for job in jobs
    ]
    return ForecastAccuracy(tuple(checks))


def _error(said: float, measured: float) -> float:
    return said / measured - 1 if measured > 0 else math.inf if said > 0 else 0.0


def checked_of(forecast: WhatIf, record: ForecastAccuracy) -> list[Checked]:
    """Return records of the comparisons with positive times, for `keep_checked`."""
    about = f"{forecast.subject}: {forecast.conditions.words()}"
    machine, now = machine_name(), now_text()
    return [
        Checked(about, one.said_s, one.measured_s, machine, now, is_held=one.is_held)
        for one in record.checks
        if one.said_s > 0 and one.measured_s > 0
    ]
