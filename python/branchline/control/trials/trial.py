"""What a trial is asked, and what it found: values that cross processes as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from branchline.base.plain import check_types, from_plain, to_plain

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
