"""What wagons that were tried one by one will take at most in one train."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from branchline.control.trials.trial import TrialOutcome


@dataclass(frozen=True)
class Needs:
    """What a wagon, or several, will take for a whole dataset: seconds, and bytes of memory of all workers on one
    machine. ``added_bytes`` is what the wagon adds to a train that runs anyway.
    """

    seconds: float = 0.0
    memory_bytes: int = 0
    added_bytes: int = 0


def needs_of(outcome: TrialOutcome | None) -> Needs:
    """What a trial has found; nothing where it has no outcome."""
    if outcome is None:
        return Needs()
    workers = max(1, outcome.workers)
    added = sum(workers * (one.memory_bytes + one.output_bytes_forecast) for one in outcome.wagons)
    return Needs(outcome.seconds, outcome.memory_bytes, added)


def together(needs: Sequence[Needs]) -> Needs:
    """The most that a train of these will take: as if nothing were shared but what each worker has anyway.

    Times add up, although reading is shared. To the memory of the largest comes what the others add in each worker.
    """
    if not needs:
        return Needs()
    largest, *others = sorted(needs, key=lambda one: -one.memory_bytes)
    return Needs(
        sum(one.seconds for one in needs),
        largest.memory_bytes + sum(one.added_bytes for one in others),
        sum(one.added_bytes for one in needs),
    )
