"""Data classes of trials: request, outcome and verdict, and the resource needs of several wagons in one train.

Requests and outcomes are passed between processes as JSON. The resource needs of a train are an upper bound, computed
from the separate trials of its wagons.
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
#: Value of ``wagon`` in the trial of a train. Such a trial tries all wagons together that passed their own trials.
TRAIN = ""
# States of a trial. A wagon whose trial ended with warnings can be in a train. A wagon whose trial failed cannot.
QUEUED, RUNNING, DONE, WARNED, FAILED = "queued", "running", "done", "warned", "failed"


@dataclass(frozen=True)
class TrialRequest:
    """A request to try the wagons in the Python file ``wagons``. ``files`` has the syntax of the command line."""

    wagons: str
    files: list[str]
    tree: str = ""
    companions: list[str] = field(default_factory=list)
    memory_limit: str = "1 GiB"
    profile: bool = True
    trial_version: int = TRIAL_VERSION

    def as_dict(self) -> dict[str, object]:
        """Convert to JSON data."""
        plain: dict[str, object] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, object]) -> TrialRequest:
        """Convert the result of ``as_dict`` back. Raises ValueError for invalid data."""
        request: TrialRequest = from_plain(cls, plain)
        check_types(request)
        return request


@dataclass(frozen=True)
class TrialFrame:
    """A line in a function. ``file`` is a path, which is relative for the trial's own sources."""

    function: str
    file: str
    line: int


@dataclass(frozen=True)
class TrialProfile:
    """A sampled profile of a wagon.

    Each stack is a list of indices into ``frames``, outermost caller first. ``seconds`` has the time of each stack.
    """

    frames: list[TrialFrame] = field(default_factory=list)
    stacks: list[list[int]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class WagonTrial:
    """The measurements of one wagon that ran alone.

    - ``first_s``: time for the first chunk of events.
    - ``memory_bytes``: memory growth of the wagon's process.
    - ``output_bytes``: size of the result on the sample.
    - ``output_bytes_forecast``: forecast of the size of the result on the whole dataset.
    - ``error``: a sentence; empty if the wagon ran without an error.
    - ``error_line``: the line of the error in the author's file.
    - ``traceback``: the part of the traceback that is in the author's code.
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
    """A wagon that must not share a train with the other wagons of a trial, and the reason."""

    wagon: str
    why: str


@dataclass(frozen=True)
class TrialOutcome:
    """The outcome of a trial.

    - ``seconds``, ``memory_bytes``, ``output_bytes``: forecasts for the whole dataset with ``workers`` processes.
    - ``basis``: sentences that explain the forecasts.
    - ``differences``: sentences about wagons whose results in the train differ from their results alone.
    - ``blamed``: the wagons that cause these differences.
    - ``error``: the reason why the trial has no results; empty if the trial has results.
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
        """Convert to JSON data."""
        plain: dict[str, object] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, object]) -> TrialOutcome:
        """Convert the result of ``as_dict`` back. Raises ValueError for invalid data.

        The data are untrusted, because they come from a process that ran user code.
        """
        outcome: TrialOutcome = from_plain(cls, plain)
        check_types(outcome)
        return outcome


@dataclass(frozen=True)
class TrialWarning:
    """A problem that does not make the trial fail, and advice on how to solve the problem."""

    what: str
    advice: str


def state_of(outcome: TrialOutcome) -> str:
    """Return the final state of a trial."""
    failed = outcome.error or outcome.differences or any(one.error for one in outcome.wagons)
    return FAILED if failed else WARNED if warnings(outcome) else DONE


def reasons(outcome: TrialOutcome) -> list[str]:
    """Return the reasons why a trial failed, as sentences. Returns no reasons if the trial did not fail."""
    wagons = [f"{one.name}: {one.error}{f' ({one.error_line})' if one.error_line else ''}" for one in outcome.wagons]
    failed = [text for one, text in zip(outcome.wagons, wagons, strict=True) if one.error]
    return [*([outcome.error] if outcome.error else []), *failed, *outcome.differences]


def warnings(outcome: TrialOutcome) -> list[TrialWarning]:
    """Return the warnings of a trial. Failed wagons get no warnings."""
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
        what = f"the first chunk of {wagon.name} takes {duration(wagon.first_s)} in each process"
        yield TrialWarning(what, remedies.LONG_FIRST_CHUNK)
    if wagon.seconds_per_event * wagon.events >= TRIAL_TIME_TELLING_S:
        if wagon.seconds_per_event > TRIAL_SLOW_OF_READING * outcome.read_s_per_event > 0:
            times = ratio(wagon.seconds_per_event, outcome.read_s_per_event)
            what = f"{wagon.name} takes {times} times as long for an event as reading it"
            yield TrialWarning(what, remedies.SLOWER_THAN_READING)
        waiting = wagon.seconds_per_event - wagon.cpu_s_per_event
        if waiting > TRIAL_WAITING_SHARE * wagon.seconds_per_event:
            what = f"{wagon.name} waits for more than half of its time"
            yield TrialWarning(what, remedies.WAITING_WAGON)
    if len(wagon.branches) > TRIAL_BRANCHES_MANY:
        what = f"{wagon.name} reads {count(len(wagon.branches))} branches"
        yield TrialWarning(what, remedies.MANY_BRANCHES)


@dataclass(frozen=True)
class Needs:
    """Forecast resource needs of one or more wagons for a whole dataset.

    ``memory_bytes`` is the memory of all workers on one machine together. ``added_bytes`` is the additional memory of
    an existing train if the wagons join this train.
    """

    seconds: float = 0.0
    memory_bytes: int = 0
    added_bytes: int = 0


def needs_of(outcome: TrialOutcome | None) -> Needs:
    """Return the resource needs from a trial's outcome. All needs are zero if ``outcome`` is None."""
    if outcome is None:
        return Needs()
    workers = max(1, outcome.workers)
    added = sum(workers * (one.memory_bytes + one.output_bytes_forecast) for one in outcome.wagons)
    return Needs(outcome.seconds, outcome.memory_bytes, added)


def together(needs: Sequence[Needs]) -> Needs:
    """Return an upper bound for the resource needs of one train with several wagons.

    The time is the sum of the wagons' times, although the wagons share the read time. The memory is the largest need
    of one wagon, plus the additional memory of the other wagons.
    """
    if not needs:
        return Needs()
    largest, *others = sorted(needs, key=lambda one: -one.memory_bytes)
    return Needs(
        sum(one.seconds for one in needs),
        largest.memory_bytes + sum(one.added_bytes for one in others),
        sum(one.added_bytes for one in needs),
    )
