"""Finds out why results of an earlier run cannot be reused: compares what the keys of results depend on with what they
depended on in the last run into the same directory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

CHANGES_SHOWN_MAX = 3
#: Beginning of the parts that describe the order of statements. They change with many other parts.
ORDER = "the order of statements in "
#: Beginning of the parts whose values are versions.
PACKAGE = "package "
#: Beginning of the parts for the wagons that a wagon requires. Their values are keys.
WAGON = "wagon "
#: Beginning of the parts that describe the value of a variable. It usually changes with the statement that sets it.
VALUE = "the value of "
IS_NEW = "earlier runs did not include this wagon"
NEW_DATA = "earlier runs have no results for these files and entries"


@dataclass(frozen=True)
class KeyParts:
    """What the keys of a train's results depend on: for each wagon, and for the reading of files, a digest or version
    by description.
    """

    wagons: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    reading: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def loaded(cls, content: bytes | None) -> KeyParts | None:
        """Read what ``stored`` returned; None if there is nothing or it cannot be read."""
        if content is None:
            return None
        try:
            found = json.loads(content)
            wagons = {str(name): dict(parts) for name, parts in found["wagons"].items()}
            return cls(wagons, dict(found["reading"]))
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    def stored(self, before: KeyParts | None) -> bytes:
        """Return the parts as JSON. Wagons that are only in ``before`` are kept for a later run."""
        known = {} if before is None else before.wagons
        return json.dumps(asdict(KeyParts({**known, **self.wagons}, self.reading)), sort_keys=True).encode()

    def changes_since(self, before: KeyParts) -> dict[str, str]:
        """Return for each wagon why results of the earlier run ``before`` cannot be reused, if they cannot."""
        read = _changes(before.reading, self.reading)
        causes: dict[str, str] = {}
        # Wagons come after the wagons that they require.
        for name, parts in reversed(list(self.wagons.items())):
            earlier = before.wagons.get(name)
            causes[name] = IS_NEW if earlier is None else _sentence(_changes(earlier, parts) or read)
            above = [other for other in causes if causes[other] != NEW_DATA and f"{WAGON}{name}" in self.wagons[other]]
            if not causes[name]:
                causes[name] = f"{above[0]} ran, which requires it" if above else NEW_DATA
        return causes


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    names = [name for name in [*now, *sorted(before.keys() - now.keys())] if before.get(name) != now.get(name)]
    changed = []
    for name in names:
        if name.removeprefix(VALUE) != name and name.removeprefix(VALUE) in names:
            continue
        if name not in before:
            changed.append(f"{name} was added")
        elif name not in now:
            changed.append(f"{name} is no longer used")
        elif name.startswith(PACKAGE):
            changed.append(f"{name} changed from {before[name]} to {now[name]}")
        else:
            changed.append(f"{name} changed")
    return [one for one in changed if not one.startswith(ORDER)] or changed


def _sentence(changes: list[str]) -> str:
    more = len(changes) - CHANGES_SHOWN_MAX
    return ", ".join(changes[:CHANGES_SHOWN_MAX]) + (f" and {more} more changes" if more > 0 else "")
