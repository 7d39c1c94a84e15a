"""Find the wagons that wait for a plan's next train, why other wagons do not wait, and what would fill the train.

Plans poll these functions often, so enabled wagons, their trial keys and their forecasts are cached.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from branchline.base.limits import PLAN_NEEDS_KEPT_MAX, TRAIN_WAGONS_MAX
from branchline.base.quantities import counted, duration, size
from branchline.control.database import Database
from branchline.control.plans.plan import Fullness, Plan
from branchline.control.registry.entries import Activation
from branchline.control.registry.registry import Grid, Registry
from branchline.control.registry.revisions import ACTIVATION
from branchline.control.trains.train import ENDS, STARTING, last_ride
from branchline.control.trains.train import WAITING as FOR_APPROVAL
from branchline.control.trials.trial import DONE, WARNED, Needs, TrialOutcome, needs_of, together
from branchline.control.trials.trials import Trials
from branchline.errors import BranchlineError
from branchline.records.sensors.record import FINISHED, RUNNING

# States of a wagon in a plan. A wagon whose last trial failed or has not ended has the state of the trial instead.
WAITS, RODE, NOT_TRIED, CHANGED = "waits", "rode unchanged", "not tried", "changed since its trial"
# States of a train that has not ended.
_UNDER_WAY = (FOR_APPROVAL, STARTING, RUNNING)


@dataclass(frozen=True)
class PlanWagon:
    """A wagon that is enabled on a plan's dataset.

    - ``since``: time at which the wagon started to wait (ISO 8601, UTC); empty if the wagon does not wait.
    - ``trial``: number of the wagon's last trial; or 0.
    - ``train``: number of the last train with the wagon's current version; or 0.
    - ``seconds``, ``memory_bytes``: forecast for the wagon alone.
    """

    wagon: str
    state: str = NOT_TRIED
    since: str = ""
    trial: int = 0
    train: int = 0
    seconds: float = 0.0
    memory_bytes: int = 0


@dataclass(frozen=True)
class WaitingWagons:
    """The wagons of a plan.

    - ``wagons``: all wagons, sorted by decreasing waiting time.
    - ``count``: number of waiting wagons.
    - ``seconds``, ``memory_bytes``: forecast for a train with the waiting wagons.
    - ``full``: the reason why the train is full; empty if the train is not full.
    - ``missing``: descriptions of what would make the train full; each one is sufficient.
    - ``more``: number of waiting wagons above the maximum number of wagons in a train.
    """

    wagons: list[PlanWagon] = field(default_factory=list)
    count: int = 0
    seconds: float = 0.0
    memory_bytes: int = 0
    full: str = ""
    missing: list[str] = field(default_factory=list)
    more: int = 0

    @property
    def riders(self) -> list[str]:
        """The addresses of the wagons that a train ordered now would contain."""
        return [one.wagon for one in self.wagons if one.state == WAITS][:TRAIN_WAGONS_MAX]


def counted_states(plan: Plan) -> tuple[str, ...]:
    """Return the states of a train after which an unchanged wagon does not wait for another train.

    In a plan with a schedule, the wagons of a failed train wait for the next train. In a plan that orders trains when
    full, these wagons do not wait, because the next train would be full immediately. An operator has to rerun the
    failed train or change its wagons.
    """
    if plan.full is not None:
        return (*_UNDER_WAY, *ENDS)
    return _UNDER_WAY if plan.runs_again else (*_UNDER_WAY, FINISHED)


def waiting(
    connection: sqlite3.Connection, plan: Plan, keys: Mapping[str, str], needs: TrialNeeds, now: datetime
) -> WaitingWagons:
    """Return the states of a plan's wagons, and whether a train with the waiting wagons is full.

    ``keys`` has the trial keys of the enabled wagons' current versions, by address; a broken wagon has an empty key.
    """
    found = [_plan_wagon(connection, plan, wagon, key, needs) for wagon, key in keys.items()]
    found.sort(key=lambda one: (one.state != WAITS, one.since, one.wagon))
    wait = [one for one in found if one.state == WAITS]
    riders = wait[:TRAIN_WAGONS_MAX]
    forecast = together([needs.of(connection, one.trial) for one in riders])
    full, missing = "", list[str]()
    if plan.full is not None:
        reached, missing = _fullness(plan.full, riders, forecast, now)
        full = f"full: {reached[0]}" if reached and riders else ""
    return WaitingWagons(
        found, len(wait), forecast.seconds, forecast.memory_bytes, full, missing, max(0, len(wait) - TRAIN_WAGONS_MAX)
    )


def _plan_wagon(connection: sqlite3.Connection, plan: Plan, wagon: str, key: str, needs: TrialNeeds) -> PlanWagon:
    query = "SELECT number, key, state FROM trials WHERE wagon = ? AND dataset = ? ORDER BY number DESC LIMIT 1"
    row = connection.execute(query, (wagon, plan.dataset)).fetchone()
    if row is None:
        return PlanWagon(wagon)
    trial, tried, state = int(row[0]), str(row[1]), str(row[2])
    if state not in (DONE, WARNED):
        return PlanWagon(wagon, state, trial=trial)
    if tried != key:
        return PlanWagon(wagon, CHANGED, trial=trial)
    forecast = needs.of(connection, trial)
    train = last_ride(connection, wagon, plan.dataset, key, counted_states(plan))
    since = "" if train else _since(connection, wagon, plan.dataset, key)
    return PlanWagon(wagon, RODE if train else WAITS, since, trial, train, forecast.seconds, forecast.memory_bytes)


def _since(connection: sqlite3.Connection, wagon: str, dataset: str, key: str) -> str:
    """Return the time from which a wagon's current version was enabled and had passed its trial.

    Repeated trials do not change this time.
    """
    query = "SELECT min(ended) FROM trials WHERE wagon = ? AND dataset = ? AND key = ? AND state IN (?, ?)"
    [passed] = connection.execute(query, (wagon, dataset, key, DONE, WARNED)).fetchone()
    query = (
        "SELECT max(changes.at) FROM entries JOIN changes ON changes.number = entries.revision"
        " WHERE entries.subject = ? AND entries.address = ?"
    )
    [enabled] = connection.execute(query, (ACTIVATION, Activation(wagon, dataset).address)).fetchone()
    return max(str(passed or ""), str(enabled or ""))


def _fullness(full: Fullness, riders: Sequence[PlanWagon], needs: Needs, now: datetime) -> tuple[list[str], list[str]]:
    """Return descriptions of the reached limits, and of what is missing to reach each other limit."""
    waits_s = max([(now - datetime.fromisoformat(one.since)).total_seconds() for one in riders if one.since], default=0)
    reached, missing = [], []
    if full.wagons:
        left = full.wagons - len(riders)
        if left > 0:
            missing.append(counted(left, "more wagon"))
        else:
            reached.append(counted(len(riders), "wagon"))
    if full.seconds:
        if needs.seconds < full.seconds:
            missing.append(f"{duration(full.seconds - needs.seconds)} more of forecast time")
        else:
            reached.append(f"{duration(needs.seconds)} of forecast time")
    if full.memory_bytes:
        if needs.memory_bytes < full.memory_bytes:
            missing.append(f"{size(full.memory_bytes - needs.memory_bytes)} more of forecast memory")
        else:
            reached.append(f"{size(needs.memory_bytes)} of forecast memory")
    if full.hours:
        left_s = full.hours * 3600 - waits_s
        if not riders:
            missing.append(f"a wagon that waits for {duration(full.hours * 3600)}")
        elif left_s > 0:
            missing.append(f"{duration(left_s)} more of waiting of {riders[0].wagon}")
        else:
            reached.append(f"{riders[0].wagon} waits for {duration(waits_s)}")
    return reached, missing


class EnabledWagons:
    """The enabled wagons of plans. Caches the wagons' trial keys until the registry changes."""

    def __init__(self, database: Database, registry: Registry, trials: Trials) -> None:
        self._database = database
        self._registry = registry
        self._trials = trials
        self._lock = threading.Lock()
        self._last = -1
        self._grid = Grid()
        self._keys: dict[tuple[str, str], str] = {}

    def of(self, plan: Plan) -> dict[str, str]:
        """Return the current trial keys of a plan's wagons, by address. A removed or broken wagon has an empty key."""
        with self._database.reading() as connection:
            [last] = connection.execute("SELECT ifnull(max(number), 0) FROM changes").fetchone()
        with self._lock:
            if last != self._last:
                # Drop the keys of the previous registry state. A concurrent change has a higher number, so the next
                # call detects the change.
                self._grid, self._keys, self._last = self._registry.grid(), {}, last
            grid, keys = self._grid, self._keys
        wagons = [one.address for one in grid.wagons if not plan.group or one.group == plan.group]
        found = {}
        for wagon in wagons:
            pair = wagon, plan.dataset
            if pair not in grid.enabled:
                continue
            if pair not in keys:
                # A wagon that was concurrently removed or broken has no key. The registry page shows the error.
                with suppress(BranchlineError):
                    keys[pair] = self._trials.key_of(*pair)
            found[wagon] = keys.get(pair, "")
        return found


class TrialNeeds:
    """A cache of forecast resource needs, because trial outcomes contain profiles and are slow to parse."""

    def __init__(self) -> None:
        self._known: dict[int, Needs] = {}

    def of(self, connection: sqlite3.Connection, trial: int) -> Needs:
        """Return the forecast resource needs of the wagon in a finished trial."""
        found = self._known.get(trial)
        if found is None:
            row = connection.execute("SELECT outcome FROM trials WHERE number = ?", (trial,)).fetchone()
            found = needs_of(None if row is None or row[0] is None else TrialOutcome.from_dict(json.loads(row[0])))
            if len(self._known) >= PLAN_NEEDS_KEPT_MAX:
                self._known.clear()
            self._known[trial] = found
        return found
