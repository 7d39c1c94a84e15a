"""The combined outcome of all cases, and the check that it is good."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.peers.generator.cases import Outcome

# Known reasons for which Branchline refuses to read a branch. Any other refusal is a failure. ROOT only describes the
# classes of objects behind pointers when it writes a basket to the file. It never does so for a tree that was filled in
# memory.
KNOWN_REFUSED = (
    "the file does not describe class",
    # ROOT does not describe 64-bit enumerations in pairs either, and memberwise maps then have no keys or no values.
    "which the file does not describe",
    "ROOT stored several numbers of enumeration",
    "ROOT stored the 64-bit numbers of enumeration",
    # Files do not describe the type of an enumeration that only occurs in container branches, and ROOT does not store
    # fixed-size arrays of such enumerations.
    "the integer type of enumeration",
    "ROOT does not store fixed arrays of",
    # Refusals of columns to write: TTrees have neither optional values nor arrays of strings, and ROOT has neither
    # times nor decimals.
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
    """The sum of the outcomes of many cases."""

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
        """Return the kinds that are refused for an unknown reason."""
        return [kind for kind, reason in self.reasons.items() if not any(known in reason for known in KNOWN_REFUSED)]

    @property
    def is_good(self) -> bool:
        return not self.wrong and not self.newly_refused

    def text(self) -> str:
        """Return the summary for the terminal."""
        lines = [f"wrong: {text}" for text in self.wrong]
        lines += [f"refused for an unknown reason: {kind}: {self.reasons[kind]}" for kind in self.newly_refused]
        lines += [f"not compared: {text}" for text in self.lost]
        lines += [f"{count} branches not compared: {why}" for why, count in self.unchecked.items()]
        lines.append("refused branches by kind:" if self.refused else "no branch was refused")
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
