"""Data classes of findings. A finding is a problem with its location, estimated size, evidence and remedy."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlencode

import numpy as np

from branchline.base.quantities import counted, rate, ratio
from branchline.control.findings.speed_samples import Speeds
from branchline.records.diagnosis.remedies import Correction, Estimate

# Kinds of findings.
BAD_SITE = "slow site"
BAD_ELEMENT = "slow storage"
BAD_PATH = "slow path"
UNTOLD = "slow, and not told apart"
WRONG_LOCALITY = "wrong locality"
LARGE_READS = "reads larger than needs"
ROUND_TRIPS = "slow round trips"
TAIL = "tail"
BLACK_HOLE = "black hole"
FAILING_REPLICAS = "failing replicas"
OVER_FORECAST = "outside its forecast"
DRIFT = "drift"
MISSING_SUBJOBS = "sub-jobs are missing"
#: Default estimate, for findings that have no measured ratio.
ONCE = Estimate(1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Cell:
    """The site, storage element, host, wagon or job that has a problem. An empty field matches everything."""

    site: str = ""
    storage_element: str = ""
    host: str = ""
    wagon: str = ""
    job: str = ""


@dataclass(frozen=True)
class SeenIn:
    """The numbers of jobs and files on which a finding is based."""

    jobs: int = 0
    files: int = 0


@dataclass(frozen=True)
class Finding:
    """A problem.

    - ``sentence``: a description of the problem.
    - ``cells``: where the problem was found.
    - ``estimate``: the size of the problem in ``unit``; for "times", a ratio to other sites or storage elements.
    - ``evidence``: URL path of the page with the evidence; append ``.json`` for scripts.
    - ``compared``: sentences about the values with which the estimate was compared.
    - ``p_value``: probability that chance alone causes a deviation of this size; None if not calculated.
    """

    kind: str
    sentence: str
    cells: list[Cell] = field(default_factory=list)
    sample: SeenIn = SeenIn()
    estimate: Estimate = ONCE
    unit: str = "times"
    since: str = ""
    evidence: str = ""
    compared: list[str] = field(default_factory=list)
    advice: str = ""
    proposal: Correction | None = None
    p_value: float | None = None

    @property
    def name(self) -> str:
        """A key that identifies the same problem in later searches."""
        places = [":".join((one.site, one.storage_element, one.host, one.wagon, one.job)) for one in self.cells]
        return f"{self.kind} {'; '.join(sorted(places))}"


def rate_words(speeds: Speeds) -> str:
    """Format the median speed of jobs, with the numbers of jobs and files."""
    return f"{rate(np.exp(speeds.typical), 1)} ({counted(speeds.jobs, 'job')}, {counted(speeds.files, 'file')})"


def times_words(times: Estimate) -> str:
    """Format a ratio with its confidence interval."""
    return f"{ratio(times.value, 1, 2)} times ({ratio(times.low, 1, 2)} to {ratio(times.high, 1, 2)})"


def address(**query: str) -> str:
    """Return the URL path of the page that lists a finding's jobs."""
    return f"/jobs?{urlencode(query)}"
