"""Findings: what is wrong, where, the confidence and the evidence, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlencode

import numpy as np

from branchline.base.quantities import counted, ratio
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
#: The estimate of a finding that has none.
ONCE = Estimate(1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Cell:
    """What a finding is about; an empty text stands for all."""

    site: str = ""
    storage_element: str = ""
    host: str = ""
    wagon: str = ""
    job: str = ""


@dataclass(frozen=True)
class SeenIn:
    """What a finding was seen in."""

    jobs: int = 0
    files: int = 0


@dataclass(frozen=True)
class Finding:
    """Something that is wrong. ``estimate`` is how many times as slow, large or often it is as elsewhere, unless
    ``unit`` says otherwise. ``evidence`` is the address of the page that shows it, with ``.json`` for scripts;
    ``compared`` are sentences on what it was compared with. ``p_value`` is the chance to see so much where nothing is
    wrong; None where no such chance was calculated.
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
        """The same for the same thing that goes on."""
        places = [":".join((one.site, one.storage_element, one.host, one.wagon, one.job)) for one in self.cells]
        return f"{self.kind} {'; '.join(sorted(places))}"


def rate_words(speeds: Speeds) -> str:
    """The typical speed of jobs, and how many there are."""
    return f"{np.exp(speeds.typical) / 1e6:.3g} MB/s ({counted(speeds.jobs, 'job')}, {counted(speeds.files, 'file')})"


def times_words(times: Estimate) -> str:
    """How many times, with the interval."""
    return f"{ratio(times.value, 1, 2)} times ({ratio(times.low, 1, 2)} to {ratio(times.high, 1, 2)})"


def address(**query: str) -> str:
    """The list of jobs that a finding is about."""
    return f"/jobs?{urlencode(query)}"
