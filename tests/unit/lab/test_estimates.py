"""The interval of a ratio of pairs is the one of the books, and holds what it promises."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import scipy.stats
from tests.unit.lab.simulated import share_that_differs

from branchline.errors import OptionError
from branchline.lab.statistics import PAIRS_MIN, paired_ratio


def test_a_ratio_is_the_median_of_all_averages_of_two() -> None:
    found = paired_ratio([1.0] * 3, [1.0, 2.0, 8.0])
    averages = sorted([0, math.log(2), math.log(8), math.log(2) / 2, math.log(8) / 2, math.log(16) / 2])
    assert found.value == pytest.approx(math.exp((averages[2] + averages[3]) / 2))
    assert (found.low, found.high, found.level, found.half_width, found.differs) == (None, None, None, None, False)


@pytest.mark.parametrize("pairs", [6, 7, 12, 25, 60])
def test_the_interval_has_the_ratios_that_the_signed_rank_test_does_not_refuse(pairs: int) -> None:
    draw = random.Random(pairs)
    first = [draw.lognormvariate(0, 0.1) for _ in range(pairs)]
    second = [draw.lognormvariate(0.05, 0.1) for _ in range(pairs)]
    found = paired_ratio(first, second)
    assert found.low is not None
    assert found.high is not None
    assert found.level is not None
    logs = np.log(np.array(second) / np.array(first))
    for ratio, is_inside in ((found.low, True), (found.high, True), (found.low, False), (found.high, False)):
        outwards = -1 if ratio == found.low else 1
        shifted = logs - math.log(ratio) - (0 if is_inside else outwards * 1e-9) + (outwards * 1e-9 if is_inside else 0)
        p_value = scipy.stats.wilcoxon(shifted, method="exact").pvalue
        assert (p_value > 1 - found.level + 1e-12) == is_inside


def test_fewer_than_six_pairs_have_no_interval() -> None:
    for pairs in range(1, 12):
        found = paired_ratio([1.0] * pairs, [1.0 + 0.01 * one for one in range(pairs)])
        assert (found.low is not None) == (pairs >= PAIRS_MIN)
        assert found.level is None or found.level >= 0.963


@pytest.mark.parametrize(("first", "second"), [([], []), ([1.0], []), ([0.0], [1.0]), ([1.0], [math.nan])])
def test_what_has_no_ratio_is_refused(first: list[float], second: list[float]) -> None:
    with pytest.raises(OptionError, match="a ratio needs"):
        paired_ratio(first, second)


def test_nothing_is_seldom_taken_for_something_and_a_difference_is_found() -> None:
    assert share_that_differs(1, 200, 12, 1.0) <= 0.06
    assert share_that_differs(1, 200, 12, 1.05) >= 0.5
