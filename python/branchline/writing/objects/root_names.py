"""Names of outputs that are safe in a file system and in a ROOT file, whatever the wagon called them."""

from __future__ import annotations

import re

_UNSAFE = re.compile(r"[^A-Za-z0-9_.+=-]+")
NAME_LENGTH_MAX = 80  # long enough to tell outputs apart, short enough for every file system


class SafeNames:
    """Gives each name at one level a safe form of its own; two names never get the same one."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def give(self, name: str) -> str:
        """Return the safe form of ``name``: ASCII letters, digits and ``_.+=-``, no point in front."""
        stem = _UNSAFE.sub("_", name)[:NAME_LENGTH_MAX].lstrip("._").rstrip("_") or "_"
        safe, number = stem, 1
        # Some file systems do not tell upper from lower case.
        while safe.lower() in self._used:
            number += 1
            safe = f"{stem}_{number}"
        self._used.add(safe.lower())
        return safe
