"""The change log of wagons, datasets, activations, measures and plans: author, time and diff of each change."""

from __future__ import annotations

import difflib
import json
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from branchline.base.limits import DIFFERENCE_LINES_MAX

# Kinds of entries and kinds of changes in the change log.
WAGON, DATASET, ACTIVATION, MEASURE, PLAN = "wagon", "dataset", "activation", "measure", "plan"
CREATED, CHANGED, REMOVED = "created", "changed", "removed"

#: An entry as JSON-compatible data.
Plain = Mapping[str, object]


@dataclass(frozen=True)
class FieldChange:
    """A field that differs between two versions, with both values as strings. An absent value is an empty string.

    ``lines`` is the difference between two long texts, in the format of ``diff -u``.
    """

    name: str
    before: str = ""
    after: str = ""
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Change:
    """One change of an entry. The person ``who`` made the change at the time ``at`` (ISO 8601, UTC).

    ``subject`` is the kind of the entry, such as "wagon" or "dataset", and ``address`` is its unique name. ``fields``
    are the fields that differ. ``number`` increases with every change.
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
    """Store a change within the current transaction and return its number.

    ``before`` and ``after`` are the entry as JSON. ``before`` is None for a new entry, ``after`` for a removed entry.
    """
    action = REMOVED if after is None else CREATED if before is None else CHANGED
    at = datetime.now(UTC).isoformat(timespec="microseconds")
    made = connection.execute(
        "INSERT INTO changes (at, who, subject, address, action, before, after) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (at, who, subject, address, action, before, after),
    )
    return int(made.lastrowid or 0)


def differences(before: Plain | None, after: Plain | None) -> list[FieldChange]:
    """Return the fields that differ between two versions of an entry. None stands for an absent entry.

    Nested fields have paths such as ``values.pt_min``.
    """
    first, second = _flat(before or {}), _flat(after or {})
    names = [*first, *(name for name in second if name not in first)]
    return [
        FieldChange(name, first.get(name, ""), second.get(name, ""))
        for name in names
        if first.get(name, "") != second.get(name, "")
    ]


def line_difference(name: str, before: str, after: str) -> FieldChange | None:
    """Return the lines in which two texts differ; None for identical texts."""
    if before == after:
        return None
    lines = _different(before.splitlines(), after.splitlines())
    if len(lines) > DIFFERENCE_LINES_MAX:
        left = len(lines) - DIFFERENCE_LINES_MAX
        lines = [*lines[:DIFFERENCE_LINES_MAX], f"... and {left} more lines"]
    return FieldChange(name, lines=lines)


def _different(first: list[str], second: list[str]) -> list[str]:
    """Return the difference between two lists of lines, in the format of ``diff -u``.

    Common lines at the beginning and at the end are removed first, because the run time of difflib grows at least
    quadratically with the number of lines.
    """
    head = _same_count(first, second)
    tail = _same_count(
        first[: head - 1 : -1] if head else first[::-1], second[: head - 1 : -1] if head else second[::-1]
    )
    begin = max(0, head - 3)
    left, right = (one[begin : len(one) - max(0, tail - 3)] for one in (first, second))
    if max(len(left), len(right)) > DIFFERENCE_LINES_MAX:
        return [f"... {len(first)} and {len(second)} lines; too many differ to show them"]
    lines = difflib.unified_diff(left, right, "before", "after", lineterm="", n=3)
    return [_moved(line, begin) if line.startswith("@@ -") else line for line in lines]


def _same_count(first: list[str], second: list[str]) -> int:
    """Return the number of equal lines at the beginning of two lists."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))


def _moved(line: str, lines: int) -> str:
    """Return a diff hunk header with its line numbers increased by ``lines``."""
    return re.sub(r"([-+])(\d+)", lambda found: f"{found[1]}{int(found[2]) + lines}", line)


def _flat(plain: Plain, prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in plain.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        elif value not in (None, "", []):
            flat[f"{prefix}{name}"] = value if isinstance(value, str) else json.dumps(value)
    return flat
