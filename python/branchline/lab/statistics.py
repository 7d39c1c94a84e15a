"""Statistics of studies and findings: ratios of paired samples, change points, robust scales, proportions and tests.

Ratios are Hodges-Lehmann estimates (J L Hodges and E L Lehmann, "Estimates of location based on rank tests", Ann. Math.
Statist. 34 (1963) 598) with the interval of F Wilcoxon's signed-rank test, exact for any number of pairs (M Hollander
and D A Wolfe, "Nonparametric statistical methods", section 3.3). They are computed from the logarithms of times, so
that doubling and halving have the same weight.

The candidate for a change point is the maximum of the cumulative sum of deviations (E S Page, "Continuous inspection
schemes", Biometrika 41 (1954) 100). It is accepted if the energy statistic of the values before and after it is larger
than in nearly all random permutations (D S Matteson and N A James, "A nonparametric approach for multiple change point
analysis", J. Am. Stat. Assoc. 109 (2014) 334). Both sides are then searched recursively.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import scipy
from numpy.typing import NDArray

from branchline.errors import OptionError
from branchline.records.diagnosis.remedies import Estimate

# `scipy` imports submodules only on first use: importing `scipy.stats` takes 0.9 s of CPU time and 70 MB.

Values = NDArray[np.float64]

#: Minimum number of pairs for an interval. With five pairs, all lie on one side of the true value in 6 % of the cases.
PAIRS_MIN = 6
#: Nominal confidence level of intervals, chosen such that intervals of studies have 95 %: a study stops when its
#: interval is narrow, and is thus biased towards intervals that are narrow by chance. benches/results/lab.md has the
#: error rate of each kind of study.
LEVEL = 0.963
#: Minimum number of values on each side of a change point.
SIDE_MIN = 5
#: Number of permutations, and the p-value below which a change is accepted: one in a hundred histories without a change
#: is reported to have one.
ORDERS, SURE = 499, 0.01
#: Ratio of the standard errors of the median and the mean, for normally distributed values.
MEDIAN_ERROR = math.sqrt(math.pi / 2)


# --- ratios of pairs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ratio:
    """The ratio of the second to the first values of pairs.

    ``low`` and ``high`` are the ends of its confidence interval, ``level`` is the confidence level; they are None if
    the number of ``pairs`` is too small.
    """

    value: float
    pairs: int
    low: float | None = None
    high: float | None = None
    level: float | None = None

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval, relative to the value: 0.02 means two per cent."""
        return None if self.low is None or self.high is None else math.sqrt(self.high / self.low) - 1.0

    @property
    def differs(self) -> bool:
        """Whether the interval excludes 1."""
        return self.low is not None and self.high is not None and not self.low <= 1.0 <= self.high


def paired_ratio(first: Sequence[float], second: Sequence[float], level: float = LEVEL) -> Ratio:
    """Return the ratio of the second to the first values of pairs. Raises OptionError without pairs, and for values
    that are not positive numbers.
    """
    if not first or len(first) != len(second):
        raise OptionError("a ratio needs pairs of samples")
    if not all(one > 0 and math.isfinite(one) for one in (*first, *second)):
        raise OptionError("a ratio needs positive times")
    logs = np.log(np.divide(second, first))
    averages = np.sort(np.add.outer(logs, logs)[np.triu_indices(len(logs))] / 2)
    value = math.exp(np.median(averages))
    cut, reached = _cut(len(logs), level)
    if cut is None:
        return Ratio(value, len(logs))
    return Ratio(value, len(logs), math.exp(averages[cut]), math.exp(averages[-1 - cut]), reached)


def _cut(pairs: int, level: float) -> tuple[int | None, float]:
    """Return the number of ordered averages that lie outside of the interval at each end, and the true confidence level
    of the interval; None as the number if even the interval from the smallest to the largest average has a lower level.

    SciPy has p-values of the signed-rank test, but no quantiles of its rank sum.
    """
    ranks = [np.eye(1, rank + 1)[0] / 2 + np.eye(1, rank + 1, rank)[0] / 2 for rank in range(1, pairs + 1)]
    outside = 2 * np.cumsum(reduce(np.convolve, ranks))
    cut = int(np.searchsorted(outside, 1.0 - level, side="right")) - 1
    return (cut, 1.0 - float(outside[cut])) if cut >= 0 else (None, 0.0)


# --- change points ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChangePoint:
    """A change in a history.

    ``index`` is the index of the first value after the change. ``factor`` is the ratio of the level after the change to
    the level before, where levels are exponentials of the values; ``low`` and ``high`` are the ends of its 95 %
    interval, which does not include the uncertainty of the index. ``p_value`` is the fraction of permutations with a
    change that is at least as large.
    """

    index: int
    factor: float
    p_value: float
    low: float
    high: float


def change_points(logs: Sequence[float], seed: int = 1) -> list[ChangePoint]:
    """Return all changes in a history, in order. The history is given as logarithms."""
    values = np.array(logs, dtype=float)
    borders = _borders(values, 0, random.Random(seed))  # noqa: S311 - reproducible permutations
    edges = [0, *(one for one, _ in borders), len(values)]
    found = []
    for number, (index, p_value) in enumerate(borders):
        before, behind = values[edges[number] : index], values[index : edges[number + 2]]
        shift, low, high = np.exp(_shift(before, behind))
        found.append(ChangePoint(index, float(shift), p_value, float(low), float(high)))
    return found


def _shift(before: Values, behind: Values) -> Values:
    """Return the Hodges-Lehmann estimate of the shift between two samples of `SIDE_MIN` or more values, and the 95 %
    interval of Wilcoxon's rank sum test, with its normal approximation (Hollander and Wolfe, section 4.3).
    """
    differences = np.sort(np.subtract.outer(behind, before), axis=None)
    count, sizes = len(differences), len(before) + len(behind) + 1
    cut = int(count / 2 - float(scipy.special.ndtri(0.975)) * math.sqrt(count * sizes / 12))
    return np.array([np.median(differences), differences[cut - 1], differences[-cut]])


def _borders(values: Values, begin: int, draw: random.Random) -> list[tuple[int, float]]:
    """Return the index of each change, counted from ``begin``, and the p-value of the change."""
    if len(values) < 2 * SIDE_MIN:
        return []
    # Ranks are used so that a single outlier does not count as a change.
    ranks = scipy.stats.rankdata(values)
    split = _cusum_split(ranks)
    p_value = _p_value(values, ranks, split, draw)
    if p_value > SURE:
        return []
    left, right = _borders(values[:split], begin, draw), _borders(values[split:], begin + split, draw)
    return [*left, (begin + split, p_value), *right]


def _cusum_split(ranks: Values) -> int:
    """Return the index with the largest cumulative sum of the ranks' deviations. Sums are weighted such that indices
    near the ends have the same chance as those in the middle.
    """
    index = np.arange(SIDE_MIN, len(ranks) - SIDE_MIN + 1)
    sums = np.cumsum(ranks - ranks.mean())[index - 1]
    return int(index[np.argmax(np.abs(sums) / np.sqrt(index * (len(ranks) - index)))])


def _p_value(values: Values, ranks: Values, split: int, draw: random.Random) -> float:
    """Return the fraction of permutations whose best split has at least the energy of this split. The best split of a
    permutation is searched in the same way as the best split of the history.

    `scipy.stats.permutation_test` cannot stop early. Most histories without a change stop after six permutations.
    """
    own = energy(values[:split], values[split:])
    order, as_different = list(range(len(values))), 1
    for _ in range(ORDERS):
        draw.shuffle(order)
        at = _cusum_split(ranks[order])
        as_different += energy(values[order[:at]], values[order[at:]]) >= own
        if as_different > SURE * (ORDERS + 1):
            break
    return as_different / (ORDERS + 1)


def energy(first: Sequence[float] | Values, second: Sequence[float] | Values) -> float:
    """Return the energy statistic of two samples (G J Szekely and M L Rizzo, 2005), scaled by the sizes of the
    samples.
    """
    n, m = len(first), len(second)
    return float(n * m / (n + m) * scipy.stats.energy_distance(first, second) ** 2)


# --- scales, proportions and tests ------------------------------------------------------------------------------------


def robust_scale(values: Values) -> float:
    """Return the standard deviation of the normal distribution that has the median absolute deviation of these values
    (F R Hampel et al., "Robust Statistics", 1986). Takes 0.05 ms for 40 values; `scipy.stats.median_abs_deviation`
    takes 1.1 ms.
    """
    return float(np.median(np.abs(values - np.median(values)))) / float(scipy.special.ndtri(0.75))


def p_below(value: float, freedom: float = math.inf) -> float:
    """Return the cumulative probability of Student's t distribution, or by default of the normal distribution."""
    return float(scipy.special.stdtr(freedom, value))


def p_of_more(hits: int, of: int, share: float) -> float:
    """Return the probability of at least ``hits`` successes in ``of`` trials that each succeed with probability
    ``share``.
    """
    # SciPy returns NaN without trials.
    return float(scipy.special.bdtrc(hits - 1, of, share)) if of > 0 else float(hits <= 0)


def proportion(hits: int, of: int) -> Estimate:
    """Return the proportion of hits with Wilson's 95 % interval. ``of``, the number of trials, is at least 1."""
    interval = scipy.stats.binomtest(hits, of).proportion_ci(0.95, method="wilson")
    return Estimate(hits / of, float(interval.low), float(interval.high), 0.95)


def discoveries(p_values: Sequence[float], rate: float) -> list[bool]:
    """Return for each test whether it is significant at the false discovery rate ``rate`` (Benjamini-Hochberg)."""
    if not p_values:
        # The control room calls this function at startup, and need not import `scipy.stats` before it has jobs.
        return []
    return [bool(one <= rate) for one in scipy.stats.false_discovery_control(p_values)]
