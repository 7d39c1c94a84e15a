"""What all cases came to, and whether that is good."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.peers.generator.cases import Outcome

# What Branchline refuses to read, by what it says; any other refusal is a failure. ROOT describes the classes of
# what pointers point to when a basket goes to the file, which those of a tree that was written from memory never do.
KNOWN_REFUSED = (
    "the file does not describe class",
    # No file describes the type of an enumeration that only containers as branches hold; ROOT stores no arrays of it.
    "which type the numbers of enumeration",
    "ROOT does not store fixed arrays of this enumeration",
    # Of columns that are written: a TTree has neither optional values nor arrays of texts, ROOT no times and decimals.
    "no branch of a TTree can hold values that may be missing",
    "no branch of a TTree can hold arrays of anything but numbers",
    "numbers of type datetime64",
    "numbers of type timedelta64",
    "is no array: cannot convert Decimal",
    "there are no arrays of",
    "has lists of records that are missing, not only empty ones",
    "arrays of records are missing",
    "is not known, for it has no values",
)


@dataclass
class Summary:
    """The outcomes of many cases added up."""

    cases: int = 0
    equal: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    unchecked: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        self.cases += 1
        self.equal += outcome.equal
        self.refused += outcome.refused
        self.reasons = outcome.reasons | self.reasons
        self.wrong += outcome.wrong
        self.lost += outcome.lost
        self.unchecked += outcome.unchecked

    @property
    def newly_refused(self) -> list[str]:
        """Kinds that are refused with a reason that is not known."""
        return [kind for kind, reason in self.reasons.items() if not any(known in reason for known in KNOWN_REFUSED)]

    @property
    def is_good(self) -> bool:
        return not self.wrong and not self.newly_refused

    def text(self) -> str:
        """The summary for the terminal."""
        lines = [f"wrong: {text}" for text in self.wrong]
        lines += [f"refused, and not known to be: {kind}: {self.reasons[kind]}" for kind in self.newly_refused]
        lines += [f"not compared: {text}" for text in self.lost]
        lines += [f"{count} branches not compared: {why}" for why, count in self.unchecked.items()]
        lines.append("refused branches by what they hold:" if self.refused else "no branch was refused")
        lines += [
            f"{count:7}  {kind}: {self.reasons[kind].rpartition(': ')[2]}" for kind, count in self.refused.most_common()
        ]
        lines.append(
            f"{self.cases} cases: {self.equal.total()} branches of {len(self.equal)} kinds equal, "
            f"{self.refused.total()} refused, {len(self.wrong)} wrong, "
            f"{self.unchecked.total() + len(self.lost)} not compared"
        )
        return "\n".join(lines)


def to_line(outcome: Outcome) -> str:
    return json.dumps(vars(outcome))


def from_line(line: str) -> Outcome:
    stored: dict[str, Any] = json.loads(line)
    for name in ("equal", "refused", "unchecked"):
        stored[name] = Counter(stored[name])
    return Outcome(**stored)
