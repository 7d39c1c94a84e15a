"""Intervals from the errors of earlier forecasts hold as many of the next ones as they say."""

from __future__ import annotations

import numpy as np
import pytest

from branchline.lab.forecast.checked import FAST_LINK, HELD, PAIRS_MIN, SLOW_LINK, Errors, errors_seen, usual_errors


def test_few_pairs_say_nothing() -> None:
    assert errors_seen([]) is errors_seen([5.0] * (PAIRS_MIN - 1)) is None
    assert usual_errors(0.1, 5e6) == Errors(*SLOW_LINK)
    assert usual_errors(0.1, 0.0) == usual_errors(0.1, 1e8) == usual_errors(0.0, 5e6) == Errors(*FAST_LINK)


@pytest.mark.parametrize("count", [PAIRS_MIN, 100])
@pytest.mark.parametrize("skewed", [False, True])
def test_the_next_error_is_inside_as_often_as_is_said(count: int, skewed: bool) -> None:
    random = np.random.default_rng(3)
    held = []
    for _ in range(2000):
        errors = random.normal(0.05, 0.1, count + 1)
        drawn = np.expm1(errors) if skewed else errors
        seen = errors_seen(drawn[:-1].tolist())
        assert seen is not None
        held.append(seen.low <= drawn[-1] <= seen.high)
    assert HELD - 0.02 < np.mean(held) < HELD + 0.03
