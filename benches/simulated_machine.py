"""A simulated machine for studies, with drift, noise and outliers.

The code of studies is real: files and arms, rounds in random order, estimates, stopping rule, stored samples. Only the
jobs are simulated and take no time.
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

#: The environment variable with the slowdown factor of an arm in a simulated study.
THROTTLE = "SIMULATED_THROTTLE"


@dataclass(frozen=True)
class Noise:
    """The variations of times on a real machine.

    Logarithms of times drift as a random walk with one step per sample, and have noise. A fraction of the samples is
    slower by a factor from a range. Jobs differ in size.
    """

    drift: float = 0.01
    noise: float = 0.03
    outliers_part: float = 0.05
    outlier_factors: tuple[float, float] = (1.35, 2.0)
    size_part: float = 0.3


class SimulatedMachine:
    """Takes samples instantly. The seed determines all random values."""

    jobs_max = 1000

    def __init__(self, seed: int, noise: Noise, place: str = "") -> None:
        self._draw = random.Random(seed)
        self._noise, self._place = noise, place
        self._drift = 0.0
        self._sizes: dict[tuple[int, int], float] = {}

    def take(self, settings: JobSettings, files: JobFiles, turn: Turn, wait_s: float) -> StudySample:
        """Return a sample of about one second."""
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
        """Return the size of a job, which is the same in all arms of a round and changes between rounds."""
        key = (round_number, number)
        if key not in self._sizes:
            self._sizes[key] = 1.0 + self._draw.uniform(-self._noise.size_part, self._noise.size_part)
        return self._sizes[key]
