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
    # Nor are the members of pairs that are enumerations of 64 bits; memberwise maps have no keys or values then.
    "which the file does not describe",
    "ROOT stored several numbers of enumeration",
    "ROOT stored the 64-bit numbers of enumeration",
    # No file describes the type of an enumeration that only containers as branches hold; ROOT stores no arrays of it.
    "the integer type of enumeration",
    "ROOT does not store fixed arrays of",
    # Of columns that are written: a TTree has neither optional values nor arrays of texts, ROOT no times and decimals.
    "a TTree branch cannot store values that may be missing",
    "a TTree branch cannot store arrays of other values than numbers",
    "a TTree branch cannot store nested lists of this type",
    "numbers of type datetime64",
    "numbers of type timedelta64",
    "cannot be converted to an array: cannot convert Decimal",
    "is not supported; store it as",
    "has missing lists of records",
    "arrays of records are missing",
    "is unknown, because it has no values",
    "some integers do not fit into int64",
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
