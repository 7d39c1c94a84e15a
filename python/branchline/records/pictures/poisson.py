"""Confidence intervals of counts (F Garwood, Biometrika 28 (1936) 437)."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

import numpy as np

from branchline.base.array_types import Floats

#: Above this count, the approximation of Wilson and Hilferty is exact to 1e-5.
_EXACT_MAX = 100


def garwood(counts: Floats) -> tuple[Floats, Floats]:
    """Return the limits of the central 68 % confidence interval of the mean for each count. The interval of 0 is from 0
    to 1.84.
    """
    numbers = np.asarray(counts).astype(np.int64)
    known = {
        one: (_quantile(one, -1.0) if one else 0.0, _quantile(one + 1, 1.0)) for one in set(numbers.ravel().tolist())
    }
    low, high = (np.array([known[one][side] for one in numbers.ravel().tolist()]) for side in (0, 1))
    return low.reshape(numbers.shape), high.reshape(numbers.shape)


@functools.lru_cache(maxsize=1000)
def _quantile(shape: int, sigmas: float) -> float:
    """Return the quantile of the gamma distribution that is ``sigmas`` standard deviations from the median of a normal
    distribution.
    """
    mean = float(shape) * (1 - 1 / (9 * shape) + sigmas / (3 * math.sqrt(shape))) ** 3
    if shape > _EXACT_MAX:
        return mean
    above = 1 - NormalDist().cdf(sigmas)
    for _ in range(5):
        # Newton's method: the probability of fewer than ``shape`` events, and its derivative, the last term.
        total = term = math.exp(-mean)
        for count in range(1, shape):
            term *= mean / count
            total += term
        mean += (total - above) / term
    return mean
