"""What wagons that were tried one by one will take at most in one train."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from branchline.control.trials.trial import TrialOutcome


@dataclass(frozen=True)
class Together:
    """Seconds, and bytes of memory of all workers on one machine."""

    seconds: float = 0.0
    memory_bytes: int = 0


def together(outcomes: Sequence[TrialOutcome]) -> Together:
    """The most that a train of these will take: as if nothing were shared but what each worker has anyway.

    Times add up, although reading is shared. To the memory of the largest comes what the wagons of the others add in
    each worker.
    """
    if not outcomes:
        return Together()
    largest, *others = sorted(outcomes, key=lambda one: -one.memory_bytes)
    return Together(
        sum(one.seconds for one in outcomes), largest.memory_bytes + sum(_added_bytes(one) for one in others)
    )


def _added_bytes(outcome: TrialOutcome) -> int:
    workers = max(1, outcome.workers)
    return sum(workers * (one.memory_bytes + one.output_bytes_forecast) for one in outcome.wagons)
