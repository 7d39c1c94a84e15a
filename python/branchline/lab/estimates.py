"""Ratios of paired samples: the Hodges-Lehmann estimate with its interval by the signed-rank test.

J L Hodges and E L Lehmann, "Estimates of location based on rank tests", Ann. Math. Statist. 34 (1963) 598; the
interval is that of F Wilcoxon's test, exact for any number of pairs (M Hollander and D A Wolfe, "Nonparametric
statistical methods", section 3.3). Times are compared as logarithms: one that doubles counts as much as one that
halves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from branchline.errors import OptionError

#: Of fewer all are on one side of the truth by chance too often: of five in 6 % of the cases.
PAIRS_MIN = 6
#: More than 95 %, which is what studies hold: one that ends when its interval is narrow ends more often when it is
#: narrow by chance. benches/results/lab.md has how often each kind of study is wrong.
LEVEL = 0.963


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
    value = math.exp(_median(averages))
    cut, reached = _cut(len(logs), level)
    if cut is None:
        return Ratio(value, len(logs))
    return Ratio(value, len(logs), math.exp(averages[cut]), math.exp(averages[-1 - cut]), reached)


def _median(ordered: Sequence[float]) -> float:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


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
