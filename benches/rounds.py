"""Runs the arms in interleaved rounds: every arm reads every case once per round, in rotating order.

Ratios are computed pair by pair within a round, so that a slowdown of the machine affects both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from benches.arms import Arm
from benches.worker import Worker
from branchline.lab.sampling.page_cache import make_cold


@dataclass(frozen=True)
class Case:
    """Files and branches that every arm reads. Sizes refer to the baskets of these branches. Cold files are evicted
    from the page cache before each pass.
    """

    name: str
    codec: str
    selection: str
    files: list[str]
    tree: str
    branches: list[str] | None
    plain_bytes: int
    compressed_bytes: int
    baskets: int
    is_cold: bool = False

    @property
    def request(self) -> dict[str, Any]:
        return {"files": self.files, "tree": self.tree, "branches": self.branches}


@dataclass(frozen=True)
class Sample:
    """One measured pass."""

    case: str
    arm: str
    round: int
    seconds: float
    entries: int | None
    values: int | None
    extra: dict[str, float] = field(default_factory=dict)


class UnequalWorkError(RuntimeError):
    """Two arms of a case read different numbers of entries or values."""


def check_equal_work(samples: list[Sample]) -> None:
    """Raise UnequalWorkError unless all passes of a case counted the same entries and values."""
    for what in ("entries", "values"):
        counts = {getattr(s, what): s.arm for s in samples if getattr(s, what) is not None}
        if len(counts) > 1:
            msg = f"{samples[0].case}: the readers differ in {what}: {counts}"
            raise UnequalWorkError(msg)


def run_rounds(
    arms: list[Arm], cases: list[Case], repeats: int, setup: dict[str, Any], progress: Callable[[str], None]
) -> list[Sample]:
    """Return all samples of all arms and cases, without the first pass of an arm over a case, which is a warm-up."""
    workers: list[Worker] = []
    samples: list[Sample] = []
    try:
        for arm in arms:  # start one after the other: the first compiles the loops, the others load them
            progress(f"starting {arm.key}")
            workers.append(Worker(arm, setup))
            workers[-1].wait_ready()
        for case in cases:
            samples += run_case(workers, case, repeats, progress)
    finally:
        for worker in workers:
            worker.close()
    return samples


def run_case(workers: list[Worker], case: Case, repeats: int, progress: Callable[[str], None]) -> list[Sample]:
    """Run the rounds of one case."""
    samples = []
    for round_number in range(-1, repeats):
        turn = max(round_number, 0) % len(workers)
        progress(f"{case.name}: round {round_number + 1} of {repeats}")
        for worker in workers[turn:] + workers[:turn]:
            if case.is_cold:
                make_cold(case.files)
            answer = worker.run(case.request)
            samples.append(Sample(case.name, worker.arm.key, round_number, **answer))
    check_equal_work(samples)
    return [sample for sample in samples if sample.round >= 0]


@dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, numbers: list[float]) -> Spread:
        return cls(median(numbers), min(numbers), max(numbers))


def seconds_of(samples: list[Sample], case: str, arm: str) -> dict[int, float]:
    """Return the seconds by round."""
    return {s.round: s.seconds for s in samples if s.case == case and s.arm == arm}


def ratio(samples: list[Sample], case: str, slower: str, faster: str) -> Spread:
    """Return the seconds of `slower` divided by the seconds of `faster`, pair by pair within the rounds."""
    above, below = seconds_of(samples, case, slower), seconds_of(samples, case, faster)
    return Spread.of([above[number] / below[number] for number in sorted(above)])


def fastest(samples: list[Sample], case: str, arms: list[Arm]) -> Arm:
    """Return the arm with the smallest median."""
    return min(arms, key=lambda arm: median(seconds_of(samples, case, arm.key).values()))


def as_json(samples: list[Sample]) -> list[dict[str, Any]]:
    return [asdict(sample) for sample in samples]
