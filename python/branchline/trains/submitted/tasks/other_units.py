"""Finds work for a task that has finished its own units: units on which no task works."""

from __future__ import annotations

import os
import random
import time

from branchline.jobs.fold_tree import FoldNode
from branchline.trains.submitted.submission import StepRecord
from branchline.trains.submitted.submission_folder import BatchFolder

#: Number of units that are found by listing the folder once.
FOUND_MAX = 20
#: The units that were found are used for this time, or for longer if listing the folder takes more than this part of
#: the time.
LISTED_S = 5.0
LISTING_PART = 0.05


class OtherUnits:
    """The units of a step without a result, a lease or a failure. A unit is offered once."""

    def __init__(self, folder: BatchFolder, step: StepRecord, attempt: str) -> None:
        """``attempt`` identifies the process. Tasks that are idle at the same time find different units."""
        self._folder = folder
        # The units by task and by name that had no result when the folder was last listed.
        self._left = [{folder.result(one).name: one for one in nodes} for nodes in step.tasks]
        self._random = random.Random(attempt)  # noqa: S311 - spreads tasks over the units
        self._found: list[FoldNode] = []
        self._valid_until_s = 0.0

    def next(self) -> FoldNode | None:
        """Return a unit, probably from one of the longest lists of remaining units; None if there is none. Raises
        OSError.
        """
        if not self._found or time.monotonic() > self._valid_until_s:
            self._look()
        if not self._found:
            return None
        unit = self._found.pop()
        for units in self._left:
            units.pop(self._folder.result(unit).name, None)
        return unit

    def _look(self) -> None:
        begin_s = time.monotonic()
        names = set(os.listdir(self._folder.units))
        self._left = [{name: one for name, one in units.items() if name not in names} for units in self._left]
        free = [
            [one for name, one in units.items() if f"{name}.lease" not in names and f"{name}.failed" not in names]
            for units in self._left
        ]
        found: list[FoldNode] = []
        while len(found) < FOUND_MAX and any(free):
            # A task works on its list from the front.
            [units] = self._random.choices(free, weights=[len(one) for one in free])
            found.append(units.pop())
        self._found = found[::-1]
        now_s = time.monotonic()
        self._valid_until_s = now_s + max(LISTED_S, (now_s - begin_s) / LISTING_PART)
