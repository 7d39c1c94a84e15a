"""The same job in two arms: how much longer it takes, job by job, for each kind of processor."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from branchline.base.quantities import duration
from branchline.lab.sampling.job import JobOutcome
from branchline.lab.sampling.samples import StudySample
from branchline.lab.study import Study

#: With fewer jobs in a sample there is nothing to see.
JOBS_MIN = 4


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


def pairs_of_jobs(study: Study, samples: Sequence[StudySample]) -> dict[str, list[tuple[JobOutcome, JobOutcome]]]:
    """For each arm with enough jobs: a job that did not fail, and the job with the same files of the same round of the
    baseline, which did not, either, and ran on the same kind of processor.
    """
    taken = {one.key: one for one in samples if not one.error}
    found: dict[str, list[tuple[JobOutcome, JobOutcome]]] = {}
    for arm in study.arms():
        baseline = study.baseline_of(arm)
        if baseline == arm.name or arm.settings.jobs < JOBS_MIN:
            continue
        pairs = [
            (mine, theirs[mine.number])
            for (number, kind, name), sample in taken.items()
            if (kind, name) == ("arm", arm.name) and (other := taken.get((number, "arm", baseline))) is not None
            for theirs in [{one.number: one for one in other.good_jobs}]
            for mine in sample.good_jobs
            if mine.number in theirs and mine.processor == theirs[mine.number].processor
        ]
        if pairs:
            found[arm.name] = pairs
    return found


def differences(study: Study, samples: Sequence[StudySample]) -> list[JobDifferences]:
    """For each arm whose samples have enough jobs, by the kind of processor on which both of a pair ran."""
    baselines = {one.name: study.baseline_of(one) for one in study.arms()}
    found = []
    for arm, pairs in pairs_of_jobs(study, samples).items():
        for processor in dict.fromkeys(mine.processor for mine, _ in pairs):
            own = [(mine, other) for mine, other in pairs if mine.processor == processor]
            wall = [mine.wall_s - other.wall_s for mine, other in own]
            cpu = [mine.cpu_s - other.cpu_s for mine, other in own]
            found.append(
                JobDifferences(
                    arm, baselines[arm], processor, len(own), _median(wall), _middle(wall), _median(cpu), _middle(cpu)
                )
            )
    return found


def _median(values: Sequence[float]) -> str:
    return _signed(statistics.median(values))


def _middle(values: Sequence[float]) -> str:
    if len(values) < JOBS_MIN:
        return ""
    low, _, high = statistics.quantiles(values, n=4)
    return f"{_signed(low)} to {_signed(high)}"


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else '+'}{duration(abs(seconds))}"
