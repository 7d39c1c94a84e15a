"""Robust estimates, intervals and tests.

Medians and the median absolute deviation: F R Hampel et al., "Robust Statistics" (1986). Median polish: J W Tukey,
"Exploratory Data Analysis" (1977). Intervals of shares: E B Wilson, JASA 22 (1927) 209. False discoveries: Y Benjamini
and Y Hochberg, J R Stat Soc B 57 (1995) 289.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from branchline.records.diagnosis.remedies import Estimate

Values = NDArray[np.float64]
_NORMAL = NormalDist()
# The standard deviation of a normal distribution is so many times the median absolute deviation,
MAD_TO_SIGMA = 1.4826
# and the error of a median so many times that of a mean.
MEDIAN_ERROR = 1.2533


def p_below(z: float) -> float:
    """The chance of a standard normal value of at most ``z``."""
    return _NORMAL.cdf(z)


def deviates(level: float) -> float:
    """How many standard deviations on both sides hold a share ``level`` of a normal distribution."""
    return _NORMAL.inv_cdf(0.5 + level / 2)


def scale_of(values: Values) -> float:
    """The robust standard deviation of values; 0 for fewer than two."""
    return float(MAD_TO_SIGMA * np.median(np.abs(values - np.median(values)))) if len(values) > 1 else 0.0


def share_interval(hits: int, of: int, level: float = 0.95) -> Estimate:
    """Wilson's interval of a share; ``of`` is at least 1."""
    z = deviates(level)
    share = hits / of
    centre = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return Estimate(share, max(0.0, centre - half), min(1.0, centre + half), level)


def p_of_more(hits: int, of: int, share: float) -> float:
    """The chance of at least ``hits`` of ``of`` where each has the chance ``share``: the tail of a binomial."""
    if hits <= 0 or share >= 1:
        return 1.0
    if share <= 0:
        return 0.0
    terms = [
        math.lgamma(of + 1)
        - math.lgamma(k + 1)
        - math.lgamma(of - k + 1)
        + k * math.log(share)
        + (of - k) * math.log1p(-share)
        for k in range(hits, min(of, hits + 2000) + 1)
    ]
    top = max(terms)
    return min(1.0, math.exp(top) * sum(math.exp(one - top) for one in terms))


def discoveries(p_values: Sequence[float], rate: float) -> list[bool]:
    """Which of several tests count, so that of those that do at most a share ``rate`` is false (Benjamini-Hochberg)."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    passed = [rank for rank, index in enumerate(order, 1) if p_values[index] <= rate * rank / len(p_values)]
    last = max(passed, default=0)
    found = [False] * len(p_values)
    for index in order[:last]:
        found[index] = True
    return found
