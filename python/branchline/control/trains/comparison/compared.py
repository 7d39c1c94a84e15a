"""What differs between two runs of a train: values for pages and scripts."""

from __future__ import annotations

from dataclasses import dataclass, field

# How a part of the results compares.
SAME, DIFFERS, ONLY_FIRST, ONLY_SECOND = "identical", "differs", "only in this run", "only in the other run"
# A table whose bytes differ, by the time of writing, and not its values.
EQUAL = "same values"
# Its bytes differ, and what that means cannot be told here.
NOT_COMPARED = "not compared"


@dataclass(frozen=True)
class BinsDrawn:
    """The bins of one axis in both runs, with sums over all other axes: ``edges`` has one more than each list."""

    axis: str = ""
    edges: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    second: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class PartCompared:
    """A file of the results in both runs: ``state`` is one of the words above, ``note`` says more.

    Of a histogram ``count`` is the number of bins with underflow and overflow, of data the number of values;
    ``differing`` is how many of them differ. ``largest`` is the largest difference of a bin or a number, and
    ``in_errors`` the largest difference in units of its bin's error, the larger of both runs; None without an error.
    ``values`` has some of the differing values as texts: name, this run, the other run.
    """

    name: str
    kind: str = ""
    state: str = SAME
    count: int = 0
    differing: int = 0
    largest: float = 0.0
    in_errors: float | None = None
    note: str = ""
    values: list[ValueCompared] = field(default_factory=list)
    bins: BinsDrawn | None = None


@dataclass(frozen=True)
class ValueCompared:
    """A number, text or list of the data in both runs; an empty text where it is missing."""

    name: str
    first: str = ""
    second: str = ""


@dataclass(frozen=True)
class CostCompared:
    """A quantity in both runs, in ``unit``: "s", "bytes", "events", "events/s" or "bytes/s". ``wagon`` is empty for the
    whole train.
    """

    name: str
    first: float
    second: float
    unit: str
    wagon: str = ""

    @property
    def change(self) -> float | None:
        """The share by which this run is above the other one; None where that was 0."""
        return self.first / self.second - 1 if self.second else None


@dataclass(frozen=True)
class RunsCompared:
    """Two runs. ``is_identical`` says that all results are the same, bit for bit: of tables their values."""

    is_identical: bool
    parts: list[PartCompared] = field(default_factory=list)
    costs: list[CostCompared] = field(default_factory=list)
