"""A simulated machine for studies: it drifts, it is noisy, and now and then something takes much longer.

The code of studies is the real one: files and arms, rounds in a drawn order, estimates, when it ends, what is kept.
Only the jobs are simulated, and take no time.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from branchline.lab.sampling.job import JobOutcome
from branchline.lab.sampling.sampler import Turn
from branchline.lab.sampling.samples import StudySample
from branchline.lab.sampling.study_files import JobFiles
from branchline.lab.study import JobSettings

#: The variable of the environment by which an arm of a simulated study is slower: how many times the time it takes.
THROTTLE = "SIMULATED_THROTTLE"


@dataclass(frozen=True)
class Noise:
    """How times of a real machine behave. Logarithms of times drift as a random walk, a step for each sample, and have
    noise; a part of the samples takes longer by a factor between two; jobs differ in size.
    """

    drift: float = 0.01
    noise: float = 0.03
    outliers_part: float = 0.05
    outlier_factors: tuple[float, float] = (1.35, 2.0)
    size_part: float = 0.3


class SimulatedMachine:
    """Takes samples in no time. The seed draws all that happens."""

    jobs_max = 1000

    def __init__(self, seed: int, noise: Noise, place: str = "") -> None:
        self._draw = random.Random(seed)
        self._noise, self._place = noise, place
        self._drift = 0.0
        self._sizes: dict[tuple[int, int], float] = {}

    def take(self, settings: JobSettings, files: JobFiles, turn: Turn, wait_s: float) -> StudySample:
        """A sample of one second, more or less."""
        del wait_s
        noise = self._noise
        self._drift += self._draw.gauss(0.0, noise.drift)
        late = 1.0
        if self._draw.random() < noise.outliers_part:
            late = self._draw.uniform(*noise.outlier_factors)
        common = math.exp(self._drift + self._draw.gauss(0.0, noise.noise)) * late
        throttle = float(settings.environment.get(THROTTLE, 1.0))
        jobs = [
            JobOutcome(
                number,
                begin_s=1e9,
                wall_s=self._size(turn.round, number) * common * throttle,
                cpu_s=0.5 * self._size(turn.round, number),
                events=1000,
                file_bytes=10**6,
            )
            for number in range(len(files.of_jobs))
        ]
        wall_s = max(one.wall_s for one in jobs)
        at = "2026-01-01T00:00:00"
        return StudySample(
            turn.round, turn.position, turn.arm, turn.kind, at, wall_s, jobs, 10**6 * len(jobs), place=self._place
        )

    def _size(self, round_number: int, number: int) -> float:
        """The same job takes as long in all arms of a round, and another one in another round."""
        key = (round_number, number)
        if key not in self._sizes:
            self._sizes[key] = 1.0 + self._draw.uniform(-self._noise.size_part, self._noise.size_part)
        return self._sizes[key]
