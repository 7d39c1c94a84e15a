"""Words and addresses that findings share."""

from __future__ import annotations

from urllib.parse import urlencode

import numpy as np

from branchline.base.quantities import counted, ratio
from branchline.control.findings.samples import Speeds
from branchline.records.diagnosis.corrections import Estimate


def rate_words(speeds: Speeds) -> str:
    """The typical speed of jobs, and how many there are."""
    return f"{np.exp(speeds.typical) / 1e6:.3g} MB/s ({counted(speeds.jobs, 'job')}, {counted(speeds.files, 'file')})"


def times_words(times: Estimate) -> str:
    """How many times, with the interval."""
    return f"{ratio(times.value, 1, 2)} times ({ratio(times.low, 1, 2)} to {ratio(times.high, 1, 2)})"


def address(**query: str) -> str:
    """The list of jobs that a finding is about."""
    return f"/jobs?{urlencode(query)}"
