"""Trials of wagons: request, outcome and verdict, and what several wagons need in one train.

Requests and outcomes are passed between processes as JSON. The needs of several wagons are an upper bound, from their
separate trials.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from branchline.base.limits import (
    TRIAL_BRANCHES_MANY,
    TRIAL_FIRST_CHUNK_LONG_S,
    TRIAL_MEMORY_LARGE_BYTES,
    TRIAL_OUTPUT_LARGE_BYTES,
    TRIAL_SLOW_OF_READING,
    TRIAL_TIME_TELLING_S,
    TRIAL_WAITING_SHARE,
)
from branchline.base.plain import check_types, from_plain, to_plain
from branchline.base.quantities import count, duration, ratio, size
from branchline.records.diagnosis import remedies

TRIAL_VERSION = 1
#: In place of a wagon: the trial is of a train of all wagons that have passed alone on the dataset.
TRAIN = ""
# States of a trial. One that is warned may ride in a train; one that failed may not.
QUEUED, RUNNING, DONE, WARNED, FAILED = "queued", "running", "done", "warned", "failed"


@dataclass(frozen=True)
class TrialRequest:
    """Wagons of a file, to be tried on a dataset: ``files`` are lines as the command line takes them. ``profile``: they
    have profiles of their time.
    """

    wagons: str
    files: list[str]
    tree: str = ""
    companions: list[str] = field(default_factory=list)
    memory_limit: str = "1 GiB"
    profile: bool = True
    trial_version: int = TRIAL_VERSION

    def as_dict(self) -> dict[str, object]:
        """As plain data."""
        plain: dict[str, object] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, object]) -> TrialRequest:
        """From what ``as_dict`` gave. Raises ValueError."""
        request: TrialRequest = from_plain(cls, plain)
        check_types(request)
        return request


@dataclass(frozen=True)
class TrialFrame:
    """A line of a function; ``file`` is relative to the sources of the trial where it is one of them."""

    function: str
    file: str
    line: int


@dataclass(frozen=True)
class TrialProfile:
    """Where the time of a wagon went: stacks, as indices into ``frames``, the caller first, each with its seconds."""

    frames: list[TrialFrame] = field(default_factory=list)
    stacks: list[list[int]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class WagonTrial:
    """What one wagon did alone. ``memory_bytes`` is what its process grew by, ``output_bytes`` the size of its result
    on the sample and ``output_bytes_forecast`` after the whole dataset. ``error`` is a sentence, ``error_line`` the
    line of the author's file, ``traceback`` that in the author's code.
    """

    name: str
    events: int = 0
    first_s: float = 0.0
    seconds_per_event: float = 0.0
    cpu_s_per_event: float = 0.0
    memory_bytes: int = 0
    output_bytes: int = 0
    output_bytes_forecast: int = 0
    output_grows: bool = False
    branches: list[str] = field(default_factory=list)
    error: str = ""
    error_line: str = ""
    traceback: str = ""
    profile: TrialProfile | None = None


@dataclass(frozen=True)
class Blame:
    """A wagon that must not ride with the others of a trial, and why."""

    wagon: str
    why: str


@dataclass(frozen=True)
class TrialOutcome:
    """What a trial found. ``seconds``, ``memory_bytes`` and ``output_bytes`` are forecasts for the whole dataset with
    ``workers`` processes; ``basis`` says how they were made. ``differences`` name wagons that give another result in
    the train than alone, and ``blamed`` those that are the reason. ``error`` is why the trial ended without an outcome.
    """

    wagons: list[WagonTrial] = field(default_factory=list)
    events: int = 0
    workers: int = 0
    read_s_per_event: float = 0.0
    seconds: float = 0.0
    memory_bytes: int = 0
    output_bytes: int = 0
    basis: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    blamed: list[Blame] = field(default_factory=list)
    error: str = ""
    trial_version: int = TRIAL_VERSION

    def as_dict(self) -> dict[str, object]:
        """As plain data."""
        plain: dict[str, object] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, object]) -> TrialOutcome:
        """From what ``as_dict`` gave; it comes from a process that ran code of users. Raises ValueError."""
        outcome: TrialOutcome = from_plain(cls, plain)
        check_types(outcome)
        return outcome


@dataclass(frozen=True)
class TrialWarning:
    """Something that is not wrong, and should be changed: what is, and what to do about it."""

    what: str
    advice: str


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
    return [one for wagon in outcome.wagons if not wagon.error for one in _wagon_warnings(wagon, outcome)]


def _wagon_warnings(wagon: WagonTrial, outcome: TrialOutcome) -> Iterator[TrialWarning]:
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
    yield from _time_warnings(wagon, outcome)
    if len(wagon.branches) > TRIAL_BRANCHES_MANY:
        what = f"{wagon.name} reads {count(len(wagon.branches))} branches"
        yield TrialWarning(what, remedies.MANY_BRANCHES)


def _time_warnings(wagon: WagonTrial, outcome: TrialOutcome) -> Iterator[TrialWarning]:
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
