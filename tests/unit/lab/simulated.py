"""Simulated studies: how often nothing is taken for something, and how often something is found.

The machine drifts as a random walk of 1 % a sample, samples have noise of 3 %, and one in twenty takes 35 to 100 %
longer. ``python -m benches lab`` does the same with whole studies.
"""

from __future__ import annotations

import math
import random

from branchline.lab.statistics import paired_ratio

DRIFT, NOISE, OUTLIERS = 0.01, 0.03, 0.05


class Machine:
    """Gives pairs of times, of which the second takes ``truth`` times as long."""

    def __init__(self, draw: random.Random, truth: float) -> None:
        self._draw, self._truth, self._drift = draw, truth, 0.0
        self.times: tuple[list[float], list[float]] = ([], [])

    def pair(self) -> None:
        draw = self._draw
        for arm in draw.sample((0, 1), 2):
            self._drift += draw.gauss(0.0, DRIFT)
            late = math.log(draw.uniform(1.35, 2.0)) if draw.random() < OUTLIERS else 0.0
            time = math.exp(self._drift + draw.gauss(0.0, NOISE) + late)
            self.times[arm].append(time * (self._truth if arm else 1.0))


def study(draw: random.Random, pairs: int, truth: float) -> bool:
    """Whether a study of some pairs finds a difference, where the second takes ``truth`` times as long."""
    machine = Machine(draw, truth)
    for _ in range(pairs):
        machine.pair()
    return paired_ratio(*machine.times).differs


def share_that_differs(seed: int, repeats: int, pairs: int, truth: float) -> float:
    """The share of studies that find a difference."""
    draw = random.Random(seed)
    return sum(study(draw, pairs, truth) for _ in range(repeats)) / repeats
