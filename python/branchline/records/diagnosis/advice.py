"""A piece of advice: what is, what to change, what that gains and costs, and for whom it is.

Only `records/diagnosis` and `lab/advice` make them. Reports and pages show what they are handed.
"""

from __future__ import annotations

from dataclasses import dataclass

from branchline.base.quantities import duration

#: Increased when a field changes its meaning.
ADVICE_VERSION = 1
#: For whom advice is.
ANALYST, MANAGER, SITE = "analyst", "data manager", "site"


@dataclass(frozen=True)
class Gain:
    """The part of the time that is saved, with its 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Advice:
    """``id`` never changes its meaning. ``what`` is how it is, with its numbers; ``change`` is the command or option;
    ``gain`` is the part of ``now_s`` seconds that is saved. ``cost`` is what it costs, and whether once or each time;
    ``whom`` it is for is an analyst, a data manager or a site.
    """

    id: str
    what: str
    change: str
    gain: Gain
    cost: str
    whom: str
    now_s: float
    advice_version: int = ADVICE_VERSION

    def then_words(self) -> str:
        """The time with it, in two digits: it is known no better."""
        return duration(float(f"{max(0.0, self.now_s * (1 - self.gain.value)):.2g}"), 2)

    def gain_words(self) -> str:
        """The part that is saved with its interval, and the times."""
        gain = self.gain
        return (
            f"saves {100 * gain.value:.0f} % of the time ({100 * gain.low:.0f} to {100 * gain.high:.0f} %): about "
            f"{self.then_words()} instead of {duration(self.now_s)}"
        )

    def lines(self, number: int) -> list[str]:
        """The advice for a terminal; ``number`` is its place in a list."""
        return [
            f"{number}. {self.what}",
            f"   change: {self.change}",
            f"   {self.gain_words()}",
            f"   costs: {self.cost}; for the {self.whom} [{self.id}]",
        ]
