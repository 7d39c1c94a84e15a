"""The history of wagons, datasets, activations, measures and plans: who changed what, when, and the difference."""

from __future__ import annotations

import difflib
import json
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from branchline.base.limits import DIFFERENCE_LINES_MAX

# What is changed, and how.
WAGON, DATASET, ACTIVATION, MEASURE, PLAN = "wagon", "dataset", "activation", "measure", "plan"
CREATED, CHANGED, REMOVED = "created", "changed", "removed"

#: An entry as plain data; None where there is none.
Plain = Mapping[str, object]


@dataclass(frozen=True)
class FieldChange:
    """A field that differs, with both values as texts; empty where there is none. ``lines`` is the difference of a long
    text, line by line as ``diff -u`` has it.
    """

    name: str
    before: str = ""
    after: str = ""
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Change:
    """One change: of which wagon, dataset, activation, measure or plan (``subject``, ``address``), who did it, when
    (ISO 8601, UTC), and what differs. ``number`` grows with every change.
    """

    number: int
    at: str
    who: str
    subject: str
    address: str
    action: str
    fields: list[FieldChange] = field(default_factory=list)


def keep_change(
    connection: sqlite3.Connection, who: str, subject: str, address: str, before: str | None, after: str | None
) -> int:
    """Keeps a change inside of a transaction, and gives its number. ``before`` and ``after`` are JSON; None is none."""
    action = REMOVED if after is None else CREATED if before is None else CHANGED
    at = datetime.now(UTC).isoformat(timespec="microseconds")
    made = connection.execute(
        "INSERT INTO changes (at, who, subject, address, action, before, after) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (at, who, subject, address, action, before, after),
    )
    return int(made.lastrowid or 0)


def differences(before: Plain | None, after: Plain | None) -> list[FieldChange]:
    """The fields that differ, those inside of others by their path as ``values.pt_min``."""
    first, second = _flat(before or {}), _flat(after or {})
    names = [*first, *(name for name in second if name not in first)]
    return [
        FieldChange(name, first.get(name, ""), second.get(name, ""))
        for name in names
        if first.get(name, "") != second.get(name, "")
    ]


def line_difference(name: str, before: str, after: str) -> FieldChange | None:
    """The lines in which two texts differ; None if they are the same."""
    if before == after:
        return None
    lines = _different(before.splitlines(), after.splitlines())
    if len(lines) > DIFFERENCE_LINES_MAX:
        left = len(lines) - DIFFERENCE_LINES_MAX
        lines = [*lines[:DIFFERENCE_LINES_MAX], f"... and {left} more lines"]
    return FieldChange(name, lines=lines)


def _different(first: list[str], second: list[str]) -> list[str]:
    """As ``diff -u`` has it. What is the same at both ends is left out first: the time of difflib grows with the square
    of what it gets, or faster.
    """
    head = _same_count(first, second)
    tail = _same_count(
        first[: head - 1 : -1] if head else first[::-1], second[: head - 1 : -1] if head else second[::-1]
    )
    begin = max(0, head - 3)
    left, right = (one[begin : len(one) - max(0, tail - 3)] for one in (first, second))
    if max(len(left), len(right)) > DIFFERENCE_LINES_MAX:
        return [f"... {len(first)} and {len(second)} lines, of which too many differ to be compared one by one"]
    lines = difflib.unified_diff(left, right, "before", "after", lineterm="", n=3)
    return [_moved(line, begin) if line.startswith("@@ -") else line for line in lines]


def _same_count(first: list[str], second: list[str]) -> int:
    """How many lines are the same from the beginning."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))


def _moved(line: str, lines: int) -> str:
    """The head of a part, whose numbers are that much larger. Lines of the texts begin with a sign of their own."""
    return re.sub(r"([-+])(\d+)", lambda found: f"{found[1]}{int(found[2]) + lines}", line)


def _flat(plain: Plain, prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in plain.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        elif value not in (None, "", []):
            flat[f"{prefix}{name}"] = value if isinstance(value, str) else json.dumps(value)
    return flat
