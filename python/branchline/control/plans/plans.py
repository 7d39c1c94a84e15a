"""The plans of a control room: changed by operators, looked at all the time, and made into trains."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from branchline.base.limits import PLAN_LATE_MAX_S, PLAN_LOOK_S
from branchline.base.quantities import duration
from branchline.control.accounts import Accounts
from branchline.control.background_errors import trouble_of
from branchline.control.database import Database
from branchline.control.people import Person
from branchline.control.plans import plan_store
from branchline.control.plans.plan import Plan
from branchline.control.plans.plan_store import KeptPlan, PlanRun
from branchline.control.plans.waiting import EnabledWagons, TrialNeeds, Waiting, counted_states, waiting
from branchline.control.registry.registry import Registry
from branchline.control.room_errors import ConflictError, NoSuchEntryError, RefusedError
from branchline.control.trains.train import Planned, last_ride
from branchline.control.trains.trains import Trains
from branchline.control.trials.trials import Trials
from branchline.errors import OptionError

#: No schedule has its next due time later than this; a clock that was wrong may have set one.
_WEEKS = timedelta(days=14)


class Plans:
    """All plans. A thread looks at them from ``start`` to ``stop``. What changes anything takes the person who does it.

    Methods raise RefusedError without the right, NoSuchEntryError for what is not there, OptionError for what is wrong,
    ConflictError where somebody else was faster.
    """

    def __init__(
        self, database: Database, registry: Registry, trials: Trials, trains: Trains, accounts: Accounts
    ) -> None:
        self._database = database
        self._registry = registry
        self._trains = trains
        self._accounts = accounts
        self._troubles: dict[str, str] = {}
        self._enabled = EnabledWagons(database, registry, trials)
        self._needs = TrialNeeds()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins to look at plans. What was due while the server was away is made up for, if it is not too late."""
        self._thread = threading.Thread(target=self._keep_looking, name="branchline-plans", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends looking, within one train."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def save(self, plan: Plan, who: Person, revision: int = 0, now: datetime | None = None) -> int:
        """Makes a plan (``revision`` 0), or changes that revision of it; gives the new one. ``now`` is by default what
        the clock says.
        """
        _check_may(who)
        plan.check()
        if why := self._trains.refused(plan.place):
            raise RefusedError(why, hint="a plan would make none either")
        self._check_owner(plan)
        self._registry.dataset(plan.dataset)
        with self._database.writing() as connection:
            number = plan_store.save(connection, plan, who.name, revision, now or datetime.now(UTC))
        self._troubles.pop(plan.address, None)
        return number

    def pause(self, address: str, who: Person, *, is_paused: bool = True, now: datetime | None = None) -> None:
        """Has a plan make no trains, or make them again; what was due meanwhile is not made up for."""
        _check_may(who)
        with self._database.writing() as connection:
            kept = plan_store.found(connection, address)
            plan = replace(kept.plan, is_paused=is_paused)
            plan_store.save(connection, plan, who.name, kept.revision, now or datetime.now(UTC))
        self._troubles.pop(address, None)

    def remove(self, address: str, who: Person) -> None:
        """Removes a plan; its trains and its history stay."""
        _check_may(who)
        with self._database.writing() as connection:
            plan_store.remove(connection, address, who.name)
        self._troubles.pop(address, None)

    def plan(self, address: str) -> KeptPlan:
        """One plan."""
        with self._database.reading() as connection:
            return plan_store.found(connection, address)

    def plans(self) -> list[KeptPlan]:
        """All plans, by address."""
        with self._database.reading() as connection:
            return plan_store.all_plans(connection)

    def runs(self, address: str, count: int = 50) -> list[PlanRun]:
        """What came of a plan the last times, the newest first."""
        with self._database.reading() as connection:
            return plan_store.runs(connection, address, count)

    @property
    def troubles(self) -> dict[str, str]:
        """Why plans could make no train when they were looked at last, by address; under an empty one, why they could
        not be looked at.
        """
        return dict(self._troubles)

    def trouble(self, address: str) -> str:
        """Why a plan could make no train when it was looked at last; empty if nothing is wrong."""
        return self._troubles.get(address, "")

    def waiting(self, plan: Plan, now: datetime) -> Waiting:
        """What waits for the next train of a plan."""
        keys = self._enabled.of(plan)
        with self._database.reading() as connection:
            return waiting(connection, plan, keys, self._needs, now)

    def look(self, now: datetime) -> None:
        """Makes the trains that are due or full. Raises DatabaseError if plans cannot be read."""
        for kept in self.plans():
            if kept.plan.is_paused or self._end.is_set():
                continue
            try:
                if kept.plan.schedule is not None:
                    self._look_at_clock(kept, now)
                else:
                    self._look_at_wagons(kept, now)
                self._troubles.pop(kept.plan.address, None)
            except ConflictError:
                pass  # Somebody changed it, or ordered the same by hand: the next look sees that.
            except Exception as error:  # noqa: BLE001 - a fault of ours in one plan must not end the others
                self._troubles[kept.plan.address] = trouble_of(error, "plans")

    def _look_at_clock(self, kept: KeptPlan, now: datetime) -> None:
        """Makes the train of the last due time, once. What cannot be done now, as on a full disk, is tried again."""
        assert kept.plan.schedule is not None
        due = datetime.fromisoformat(kept.due)
        if due - now > _WEEKS:
            self._set_due(kept, now)
        if due > now:
            return
        last = max(due, kept.plan.schedule.due_until(now))
        late_s = (now - last).total_seconds()
        if late_s > PLAN_LATE_MAX_S:
            self._note_none(kept, last, now, f"missed: it was looked at {duration(late_s)} late, and nothing ran")
            return
        riders = self.waiting(kept.plan, now).riders
        if not riders:
            self._note_none(kept, last, now, "no wagon waits")
            return
        late = f", {duration(late_s)} late" if late_s > 6 * PLAN_LOOK_S else ""
        try:
            self._order(kept, riders, f"{kept.plan.schedule.words(last)}{late}", last, now)
        except (OptionError, RefusedError, NoSuchEntryError) as error:
            if self.waiting(kept.plan, now).riders != riders:
                return  # Somebody changed a wagon meanwhile: the next look takes what waits then.
            self._note_none(kept, last, now, f"no train: {error}")

    def _look_at_wagons(self, kept: KeptPlan, now: datetime) -> None:
        found = self.waiting(kept.plan, now)
        if found.full:
            self._order(kept, found.riders, found.full, None, now)

    def _order(self, kept: KeptPlan, riders: list[str], why: str, due: datetime | None, now: datetime) -> None:
        """Orders a train as its owner would by hand, but that no operator has looked at it: a large one waits."""
        plan = kept.plan
        self._check_owner(plan)
        keys = {one: key for one, key in self._enabled.of(plan).items() if one in riders}

        def note(connection: sqlite3.Connection, train: int) -> None:
            _refuse_ridden(connection, plan, keys)
            _note(connection, kept, due, train, why, now)

        planned = Planned(plan.address, why, plan.seconds_max, plan.memory_max_bytes, note)
        self._trains.order(plan.order(riders), Person(plan.owner), planned=planned)

    def _note_none(self, kept: KeptPlan, due: datetime, now: datetime, why: str) -> None:
        """A due time that brings no train is used up too."""
        with self._database.writing() as connection:
            _note(connection, kept, due, 0, why, now)

    def _set_due(self, kept: KeptPlan, now: datetime) -> None:
        with self._database.writing() as connection:
            plan_store.check_unchanged(connection, kept)
            due = plan_store.next_due(connection, kept.plan, now)
            connection.execute("UPDATE plans SET due = ? WHERE address = ?", (due, kept.plan.address))

    def _check_owner(self, plan: Plan) -> None:
        """Raises RefusedError where there are accounts, and that of the owner is no operator's."""
        accounts = self._accounts.accounts()
        known = [one for one in accounts if one.name == plan.owner and not one.is_disabled]
        if accounts and not (known and known[0].person.is_operator):
            what = f"{plan.owner} owns plan {plan.address} and is no operator"
            raise RefusedError(what, hint="an operator has to make the plan anew")

    def _keep_looking(self) -> None:
        while True:
            try:
                self.look(datetime.now(UTC))
                self._troubles.pop("", None)
            except Exception as error:  # noqa: BLE001 - it is tried again, as where the disk is full for a while
                self._troubles[""] = trouble_of(error, "plans")
            if self._end.wait(PLAN_LOOK_S):
                return


def _check_may(who: Person) -> None:
    if not who.is_operator:
        raise RefusedError(f"{who.name} may not change plans", hint="ask an operator")


def _refuse_ridden(connection: sqlite3.Connection, plan: Plan, keys: Mapping[str, str]) -> None:
    """Raises ConflictError if a wagon has begun to ride since it was looked at."""
    for wagon, key in keys.items():
        if train := last_ride(connection, wagon, plan.dataset, key, counted_states(plan)):
            raise ConflictError(f"{wagon} rides in train {train} by now")


def _note(
    connection: sqlite3.Connection, kept: KeptPlan, due: datetime | None, train: int, why: str, now: datetime
) -> None:
    """Uses up a due time in a transaction, with those before it that were missed. Raises ConflictError if that has
    happened already.
    """
    plan_store.check_unchanged(connection, kept)
    at, text = now.isoformat(timespec="milliseconds"), "" if due is None else due.isoformat()
    if kept.due and text != kept.due:
        missed = PlanRun(kept.due, at, 0, f"missed, as was all that was due up to {text}: nothing ran")
        plan_store.note_run(connection, kept, missed, now)
    plan_store.note_run(connection, kept, PlanRun(text, at, train, why), now)
