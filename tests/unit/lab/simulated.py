"""Simulated studies: how often nothing is taken for something, and how often something is found.

``python -m tests.unit.lab.simulated --repeats 800`` prints both, for several numbers of pairs. The machine drifts as
a random walk of 1 % a sample, samples have noise of 3 %, and one in twenty takes 35 to 100 % longer.
"""

from __future__ import annotations

import argparse
import math
import random

from branchline.lab.estimates import paired_ratio

DRIFT, NOISE, OUTLIERS = 0.01, 0.03, 0.05
ROUNDS_MAX = 30


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


def study_until(draw: random.Random, precision: float, truth: float) -> bool:
    """The same of a study that ends when half of its interval is as narrow as this, or after 30 pairs."""
    machine = Machine(draw, truth)
    while True:
        machine.pair()
        found = paired_ratio(*machine.times)
        if found.pairs >= ROUNDS_MAX or (found.half_width is not None and found.half_width <= precision):
            return found.differs


def share_that_differs(seed: int, repeats: int, pairs: int, truth: float) -> float:
    """The share of studies that find a difference."""
    draw = random.Random(seed)
    return sum(study(draw, pairs, truth) for _ in range(repeats)) / repeats


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=800)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}, {arguments.repeats} studies each: false alarms, and a true 5 % that is found")
    for pairs in (6, 12, 30):
        false, found = (share_that_differs(arguments.seed, arguments.repeats, pairs, truth) for truth in (1.0, 1.05))
        print(f"{pairs} pairs: {100 * false:.0f} % and {100 * found:.0f} %")
    for precision in (0.02, 0.05):
        draw = random.Random(arguments.seed)
        shares = [
            sum(study_until(draw, precision, truth) for _ in range(arguments.repeats)) / arguments.repeats
            for truth in (1.0, 1.05)
        ]
        print(f"until +-{100 * precision:.0f} %: {100 * shares[0]:.1f} % and {100 * shares[1]:.0f} %")


if __name__ == "__main__":
    main()
