"""What plans ask for again and again, remembered: which wagons are enabled, their keys, and what they will take."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import suppress

from branchline.base.limits import PLAN_NEEDS_KEPT_MAX
from branchline.control.database import Database
from branchline.control.plans.plan import Plan
from branchline.control.registry.registry import Grid, Registry
from branchline.control.trials.together import Needs, needs_of
from branchline.control.trials.trial import TrialOutcome
from branchline.control.trials.trials import Trials
from branchline.errors import BranchlineError


class EnabledWagons:
    """The wagons of plans as the registry has them now. Keys are made from the sources of wagons, so they are
    remembered until something in the registry changes.
    """

    def __init__(self, database: Database, registry: Registry, trials: Trials) -> None:
        self._database = database
        self._registry = registry
        self._trials = trials
        self._lock = threading.Lock()
        self._last = -1
        self._grid = Grid()
        self._keys: dict[tuple[str, str], str] = {}

    def of(self, plan: Plan) -> dict[str, str]:
        """The wagons of a plan, with the keys that trials of them have now; empty where there can be none."""
        grid, keys = self._now()
        wagons = [one.address for one in grid.wagons if not plan.group or one.group == plan.group]
        found = {}
        for wagon in wagons:
            pair = wagon, plan.dataset
            if pair not in grid.enabled:
                continue
            if pair not in keys:
                # One that was removed or broken meanwhile has none, which the registry says where it is looked at.
                with suppress(BranchlineError):
                    keys[pair] = self._trials.key_of(*pair)
            found[wagon] = keys.get(pair, "")
        return found

    def _now(self) -> tuple[Grid, dict[tuple[str, str], str]]:
        """The registry, and the keys that were made since its last change; those of an earlier one are not used."""
        with self._database.reading() as connection:
            [last] = connection.execute("SELECT ifnull(max(number), 0) FROM changes").fetchone()
        with self._lock:
            if last != self._last:
                # What changes meanwhile has a later number, and is looked up again.
                self._grid, self._keys, self._last = self._registry.grid(), {}, last
            return self._grid, self._keys


class TrialNeeds:
    """What trials that have ended found. Their outcomes have profiles, which take long to read."""

    def __init__(self) -> None:
        self._known: dict[int, Needs] = {}

    def of(self, connection: sqlite3.Connection, trial: int) -> Needs:
        """What the wagon of a trial that has ended will take."""
        found = self._known.get(trial)
        if found is None:
            row = connection.execute("SELECT outcome FROM trials WHERE number = ?", (trial,)).fetchone()
            found = needs_of(None if row is None or row[0] is None else TrialOutcome.from_dict(json.loads(row[0])))
            if len(self._known) >= PLAN_NEEDS_KEPT_MAX:
                self._known.clear()
            self._known[trial] = found
        return found
