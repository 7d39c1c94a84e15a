"""Statistics of studies: ratios of paired samples, and change points of a history.

Ratios are Hodges-Lehmann estimates (J L Hodges and E L Lehmann, "Estimates of location based on rank tests", Ann. Math.
Statist. 34 (1963) 598) with the interval of F Wilcoxon's signed-rank test, exact for any number of pairs (M Hollander
and D A Wolfe, "Nonparametric statistical methods", section 3.3). Times are compared as logarithms: one that doubles
counts as much as one that halves.

A candidate for a change point is where the cumulative sum of deviations is largest (E S Page, "Continuous inspection
schemes", Biometrika 41 (1954) 100). It counts if the distributions before and after it differ by the energy statistic,
more than in nearly all random orders of the same values (D S Matteson and N A James, "A nonparametric approach for
multiple change point analysis", J. Am. Stat. Assoc. 109 (2014) 334). Then both sides are searched.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from branchline.errors import OptionError

#: Fewest pairs with an interval: fewer are all on one side of the truth by chance too often, five in 6 % of the cases.
PAIRS_MIN = 6
#: Confidence level of intervals. Studies promise 95 %: one that ends when its interval is narrow ends more often when
#: it is narrow by chance. benches/results/lab.md has how often each kind of study is wrong.
LEVEL = 0.963
#: Fewest values on each side of a change point.
SIDE_MIN = 5
#: Number of random orders, and the part of them that may look as different: one history in a hundred has a false
#: change.
ORDERS, SURE = 499, 0.01


# --- ratios of pairs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ratio:
    """How many times as large the second of each pair is as the first. The interval from ``low`` to ``high`` holds the
    truth with the probability ``level``; all three are None where there are too few ``pairs``.
    """

    value: float
    pairs: int
    low: float | None = None
    high: float | None = None
    level: float | None = None

    @property
    def half_width(self) -> float | None:
        """Half of the interval as a part of the value: 0.02 are two per cent."""
        return None if self.low is None or self.high is None else math.sqrt(self.high / self.low) - 1.0

    @property
    def differs(self) -> bool:
        """Whether the interval leaves out that both are the same."""
        return self.low is not None and self.high is not None and not self.low <= 1.0 <= self.high


def paired_ratio(first: Sequence[float], second: Sequence[float], level: float = LEVEL) -> Ratio:
    """The ratio of pairs of positive numbers. Raises OptionError for none, or for a number that is not positive."""
    if not first or len(first) != len(second):
        raise OptionError("a ratio needs pairs of samples")
    if not all(one > 0 and math.isfinite(one) for one in (*first, *second)):
        raise OptionError("a ratio needs times above zero")
    logs = [math.log(b / a) for a, b in zip(first, second, strict=True)]
    averages = sorted((one + other) / 2 for one, other in combinations_with_replacement(logs, 2))
    value = math.exp(statistics.median(averages))
    cut, reached = _cut(len(logs), level)
    if cut is None:
        return Ratio(value, len(logs))
    return Ratio(value, len(logs), math.exp(averages[cut]), math.exp(averages[-1 - cut]), reached)


def _cut(pairs: int, level: float) -> tuple[int | None, float]:
    """How many of the ordered averages lie outside of the interval at each end, and its true level; None if even the
    whole range does not hold the truth so often.
    """
    ways = _ways(pairs)
    every, below = 2**pairs, 0
    cut, reached = None, 0.0
    for rank_sum, count in enumerate(ways):
        below += count
        if 2 * below > (1.0 - level) * every:
            break
        cut, reached = rank_sum, 1.0 - 2 * below / every
    return cut, reached


def _ways(pairs: int) -> list[int]:
    """In how many ways signs of the ranks 1 to ``pairs`` give each sum of the positive ones, by sum."""
    ways = [1]
    for rank in range(1, pairs + 1):
        longer = [*ways, *[0] * rank]
        for rank_sum, count in enumerate(ways):
            longer[rank_sum + rank] += count
        ways = longer
    return ways


# --- change points ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChangePoint:
    """The first value behind a change, by its number from 0; ``factor`` is how many times the level before the one
    behind is, as values are logarithms. ``p_value`` is the part of random orders that look as different.
    """

    index: int
    factor: float
    p_value: float


def change_points(logs: Sequence[float], seed: int = 1) -> list[ChangePoint]:
    """All changes of logarithms in the order of time."""
    draw = random.Random(seed)  # noqa: S311 - orders that can be drawn again
    borders = sorted(_borders(logs, 0, len(logs), draw))
    edges = [0, *(one for one, _ in borders), len(logs)]
    found = []
    for number, (index, p_value) in enumerate(borders):
        before, behind = logs[edges[number] : index], logs[index : edges[number + 2]]
        found.append(ChangePoint(index, math.exp(_shift(before, behind)), p_value))
    return found


def _borders(logs: Sequence[float], begin: int, end: int, draw: random.Random) -> list[tuple[int, float]]:
    values = list(logs[begin:end])
    split = _cusum_split(values)
    if split is None:
        return []
    p_value = _p_value(values, split, draw)
    if p_value > SURE:
        return []
    left, right = _borders(logs, begin, begin + split, draw), _borders(logs, begin + split, end, draw)
    return [*left, (begin + split, p_value), *right]


def _cusum_split(values: Sequence[float]) -> int | None:
    """Where the cumulative sum of the deviations' ranks is largest, weighted so that ends count as much as the middle;
    None where there are too few values. Ranks, since one outlier is no change.
    """
    count = len(values)
    if count < 2 * SIDE_MIN:
        return None
    ranks = _ranks(values)
    mean = (count + 1) / 2
    total, best, split = 0.0, -1.0, SIDE_MIN
    for index, rank in enumerate(ranks, 1):
        total += rank - mean
        if SIDE_MIN <= index <= count - SIDE_MIN:
            weighted = abs(total) / math.sqrt(index * (count - index))
            if weighted > best:
                best, split = weighted, index
    return split


def _ranks(values: Sequence[float]) -> list[float]:
    """From 1; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=lambda one: values[one])
    ranks = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for one in order[first : last + 1]:
            ranks[one] = (first + last) / 2 + 1
        first = last + 1
    return ranks


def _p_value(values: Sequence[float], split: int, draw: random.Random) -> float:
    """The part of random orders whose best split looks as different: each is searched as the history was."""
    own = energy(values[:split], values[split:])
    shuffled, as_different = list(values), 1
    for _ in range(ORDERS):
        draw.shuffle(shuffled)
        at = _cusum_split(shuffled)
        assert at is not None, "it has as many values"
        as_different += energy(shuffled[:at], shuffled[at:]) >= own
        if as_different > SURE * (ORDERS + 1):
            # More orders cannot make it sure.
            return as_different / (ORDERS + 1)
    return as_different / (ORDERS + 1)


def energy(first: Sequence[float], second: Sequence[float]) -> float:
    """The energy statistic of two samples (G J Szekely and M L Rizzo, 2005), scaled by their sizes: 0 or more."""
    n, m = len(first), len(second)
    between = 2 * _distances(first, second) / (n * m)
    within = 2 * _own_distances(first) / (n * n) + 2 * _own_distances(second) / (m * m)
    return n * m / (n + m) * (between - within)


def _distances(first: Sequence[float], second: Sequence[float]) -> float:
    return _own_distances([*first, *second]) - _own_distances(first) - _own_distances(second)


def _own_distances(values: Sequence[float]) -> float:
    """The sum of distances of all pairs: of ordered values each counts with how many are below and above it."""
    count = len(values)
    return sum((2 * index - count + 1) * one for index, one in enumerate(sorted(values)))


def _shift(before: Sequence[float], behind: Sequence[float]) -> float:
    """The Hodges-Lehmann estimate of how much later values are larger."""
    return statistics.median(after - one for one in before for after in behind)
