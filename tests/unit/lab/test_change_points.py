"""Changes of a history are found with their date and size, and nothing is seldom taken for one."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from tests.peers.peers import imported

from branchline.lab.statistics import change_points, energy, p_of_more


def history(seed: int, levels: list[tuple[int, float]]) -> list[float]:
    """Logarithms with noise of 3 % and outliers: so many values at each level."""
    draw = random.Random(seed)
    late = [math.log(draw.uniform(1.35, 2.0)) if draw.random() < 0.05 else 0.0 for _ in range(200)]
    values = [math.log(level) for count, level in levels for _ in range(count)]
    return [one + draw.gauss(0.0, 0.03) + extra for one, extra in zip(values, late, strict=False)]


def test_each_change_has_its_place_and_its_size() -> None:
    found = change_points(history(3, [(30, 1.0), (25, 1.2), (30, 0.9)]))
    assert len(found) == 2
    assert abs(found[0].index - 30) <= 1
    assert abs(found[1].index - 55) <= 1
    assert found[0].factor == pytest.approx(1.2, rel=0.03)
    assert found[1].factor == pytest.approx(0.75, rel=0.03)


def test_a_history_without_changes_seldom_has_one() -> None:
    false = sum(bool(change_points(history(seed, [(40, 1.0)]), seed)) for seed in range(100))
    assert false <= 4, f"{false} of 100"


def test_one_outlier_and_a_short_history_are_no_change() -> None:
    values = history(1, [(30, 1.0)])
    values[15] += 3.0
    assert change_points(values) == []
    assert change_points([0.0] * 5 + [1.0] * 4) == []
    assert change_points([]) == []
    assert change_points([0.5] * 50) == []


def test_the_energy_statistic_is_that_of_all_pairs() -> None:
    draw = np.random.default_rng(2)
    first, second = draw.normal(size=7), draw.normal(1, 2, size=11)

    def mean_distance(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.abs(a[:, None] - b[None, :]).mean())

    whole = 2 * mean_distance(first, second) - mean_distance(first, first) - mean_distance(second, second)
    assert energy(list(first), list(second)) == pytest.approx(7 * 11 / 18 * whole)


def test_the_places_are_those_of_ruptures() -> None:
    ruptures = imported("ruptures")
    values = history(5, [(30, 1.0), (30, 1.3), (30, 1.0)])
    theirs = ruptures.KernelCPD(kernel="rbf", min_size=5).fit(np.array(values)).predict(n_bkps=2)[:-1]
    ours = [one.index for one in change_points(values)]
    assert len(ours) == len(theirs)
    assert all(abs(one - other) <= 1 for one, other in zip(ours, theirs, strict=True))


def test_the_probability_of_more_hits_is_a_number_also_without_trials() -> None:
    assert (p_of_more(0, 0, 0.5), p_of_more(1, 0, 0.5)) == (1.0, 0.0)
    assert p_of_more(0, 3, 0.5) == 1.0
    assert p_of_more(3, 3, 0.5) == pytest.approx(0.125)
