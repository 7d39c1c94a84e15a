"""Whether a wagon may ride in a train, by its trial: good, with warnings, or not."""

from __future__ import annotations

from collections.abc import Iterator

from branchline.base.limits import (
    TRIAL_BRANCHES_MANY,
    TRIAL_FIRST_CHUNK_LONG_S,
    TRIAL_MEMORY_LARGE_BYTES,
    TRIAL_OUTPUT_LARGE_BYTES,
    TRIAL_SLOW_OF_READING,
    TRIAL_TIME_TELLING_S,
    TRIAL_WAITING_SHARE,
)
from branchline.base.quantities import count, duration, ratio, size
from branchline.control.trials.trial import DONE, FAILED, WARNED, TrialOutcome, TrialWarning, WagonTrial
from branchline.records.diagnosis import remedies


def state_of(outcome: TrialOutcome) -> str:
    """The state that a trial ends with."""
    failed = outcome.error or outcome.differences or any(one.error for one in outcome.wagons)
    return FAILED if failed else WARNED if warnings(outcome) else DONE


def reasons(outcome: TrialOutcome) -> list[str]:
    """Why a trial failed; a sentence each, none if it did not."""
    wagons = [f"{one.name}: {one.error}{f' ({one.error_line})' if one.error_line else ''}" for one in outcome.wagons]
    failed = [text for one, text in zip(outcome.wagons, wagons, strict=True) if one.error]
    return [*([outcome.error] if outcome.error else []), *failed, *outcome.differences]


def warnings(outcome: TrialOutcome) -> list[TrialWarning]:
    """What should be changed, with what to do."""
    return [one for wagon in outcome.wagons if not wagon.error for one in _of_wagon(wagon, outcome)]


def _of_wagon(wagon: WagonTrial, outcome: TrialOutcome) -> Iterator[TrialWarning]:
    if not wagon.events:
        yield TrialWarning(f"{wagon.name} saw no events", remedies.NO_EVENTS)
    if wagon.memory_bytes > TRIAL_MEMORY_LARGE_BYTES:
        what = f"{wagon.name} takes {size(wagon.memory_bytes)} of memory in each process"
        yield TrialWarning(what, remedies.MUCH_MEMORY)
    if wagon.output_bytes_forecast > TRIAL_OUTPUT_LARGE_BYTES:
        what = f"the result of {wagon.name} will have {size(wagon.output_bytes_forecast)} after the whole dataset"
        advice = remedies.MANY_ROWS if wagon.output_grows else remedies.MANY_BINS
        yield TrialWarning(what, advice)
    if wagon.first_s > TRIAL_FIRST_CHUNK_LONG_S:
        what = f"the first chunk of {wagon.name} takes {duration(wagon.first_s)}, in every process again"
        yield TrialWarning(what, remedies.LONG_FIRST_CHUNK)
    yield from _of_times(wagon, outcome)
    if len(wagon.branches) > TRIAL_BRANCHES_MANY:
        what = f"{wagon.name} reads {count(len(wagon.branches))} branches"
        yield TrialWarning(what, remedies.MANY_BRANCHES)


def _of_times(wagon: WagonTrial, outcome: TrialOutcome) -> Iterator[TrialWarning]:
    if wagon.seconds_per_event * wagon.events < TRIAL_TIME_TELLING_S:
        return
    if wagon.seconds_per_event > TRIAL_SLOW_OF_READING * outcome.read_s_per_event > 0:
        times = ratio(wagon.seconds_per_event, outcome.read_s_per_event)
        what = f"{wagon.name} takes {times} times as long for an event as reading it"
        yield TrialWarning(what, remedies.SLOWER_THAN_READING)
    waiting = wagon.seconds_per_event - wagon.cpu_s_per_event
    if waiting > TRIAL_WAITING_SHARE * wagon.seconds_per_event:
        what = f"{wagon.name} waits for more than half of its time"
        yield TrialWarning(what, remedies.WAITING_WAGON)
