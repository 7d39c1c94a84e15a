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


def study(draw: random.Random, pairs: int, truth: float) -> bool:
    """Whether a study of some pairs finds a difference, where the second takes ``truth`` times as long."""
    drift, times = 0.0, ([], [])  # type: float, tuple[list[float], list[float]]
    for _ in range(pairs):
        for arm in draw.sample((0, 1), 2):
            drift += draw.gauss(0.0, DRIFT)
            late = math.log(draw.uniform(1.35, 2.0)) if draw.random() < OUTLIERS else 0.0
            times[arm].append(math.exp(drift + draw.gauss(0.0, NOISE) + late) * (truth if arm else 1.0))
    return paired_ratio(*times).differs


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


if __name__ == "__main__":
    main()
