"""The same job in two arms: how much longer it takes, job by job, for each kind of processor."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from branchline.lab.study import Study
from branchline.lab.study_samples import StudySample
from branchline.quantities import duration

#: With fewer jobs in a sample there is nothing to see.
_JOBS_MIN = 4


@dataclass(frozen=True)
class JobDifferences:
    """Of an arm beside its baseline, on one kind of processor: how many jobs were in both, and the seconds of wall and
    of CPU time that they take more: median, and the range that holds the middle half.
    """

    arm: str
    baseline: str
    processor: str
    jobs: int
    wall: str
    wall_middle: str
    cpu: str
    cpu_middle: str


def differences(study: Study, samples: Sequence[StudySample]) -> list[JobDifferences]:
    """For each arm whose samples have enough jobs, each with the same files as that of the baseline."""
    by_key = {one.key: one for one in samples if not one.error}
    found = []
    for arm in study.arms():
        baseline = study.baseline_of(arm)
        if baseline == arm.name or arm.settings.jobs < _JOBS_MIN:
            continue
        walls: dict[str, list[float]] = {}
        cpus: dict[str, list[float]] = {}
        for (number, kind, name), sample in by_key.items():
            other = by_key.get((number, "arm", baseline))
            if kind != "arm" or name != arm.name or other is None or len(other.jobs) != len(sample.jobs):
                continue
            for mine, theirs in zip(sample.jobs, other.jobs, strict=True):
                if mine.processor == theirs.processor and not mine.error and not theirs.error:
                    walls.setdefault(mine.processor, []).append(mine.wall_s - theirs.wall_s)
                    cpus.setdefault(mine.processor, []).append(mine.cpu_s - theirs.cpu_s)
        for processor, wall in walls.items():
            spread, cpu = _middle(wall), cpus[processor]
            found.append(
                JobDifferences(
                    arm.name, baseline, processor, len(wall), _median(wall), spread, _median(cpu), _middle(cpu)
                )
            )
    return found


def _median(values: Sequence[float]) -> str:
    return _signed(statistics.median(values))


def _middle(values: Sequence[float]) -> str:
    if len(values) < _JOBS_MIN:
        return ""
    low, _, high = statistics.quantiles(values, n=4)
    return f"{_signed(low)} to {_signed(high)}"


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else '+'}{duration(abs(seconds))}"
