"""A control room's plans: changes by operators, and a thread that orders trains when trains are due or full."""

from __future__ import annotations

import sqlite3
import threading
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
from branchline.control.plans.waiting import EnabledWagons, TrialNeeds, WaitingWagons, counted_states, waiting
from branchline.control.registry.registry import Registry
from branchline.control.room_errors import ConflictError, NoSuchEntryError, RefusedError
from branchline.control.trains.train import Planned, last_ride
from branchline.control.trains.trains import Trains
from branchline.control.trials.trials import Trials
from branchline.errors import OptionError

#: Maximum plausible time until the next due time. A later due time was computed with a wrong clock and is recomputed.
_WEEKS = timedelta(days=14)


class Plans:
    """All plans. From ``start`` to ``stop``, a thread checks the plans and orders trains.

    Methods raise RefusedError if the person is not an operator, NoSuchEntryError for an unknown plan or dataset,
    OptionError for an invalid plan, and ConflictError if another person has changed the plan.
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
        """Start the thread. Trains that were due while the server was down are ordered, up to PLAN_LATE_MAX_S late."""
        self._thread = threading.Thread(target=self._keep_looking, name="branchline-plans", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread. Waits until a train order in progress is complete."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def save(self, plan: Plan, who: Person, revision: int = 0, now: datetime | None = None) -> int:
        """Create a plan (``revision`` 0), or replace the plan's current revision ``revision``. Return the new revision.

        ``now`` defaults to the current time.
        """
        _check_may(who)
        plan.check()
        if why := self._trains.refused(plan.place):
            raise RefusedError(why, hint="choose another place for the trains of the plan")
        self._check_owner(plan)
        self._registry.dataset(plan.dataset)
        with self._database.writing() as connection:
            number = plan_store.save(connection, plan, who.name, revision, now or datetime.now(UTC))
        self._troubles.pop(plan.address, None)
        return number

    def pause(self, address: str, who: Person, *, is_paused: bool = True, now: datetime | None = None) -> None:
        """Pause or resume a plan. Trains that were due during the pause are skipped."""
        _check_may(who)
        with self._database.writing() as connection:
            kept = plan_store.found(connection, address)
            plan = replace(kept.plan, is_paused=is_paused)
            plan_store.save(connection, plan, who.name, kept.revision, now or datetime.now(UTC))
        self._troubles.pop(address, None)

    def remove(self, address: str, who: Person) -> None:
        """Remove a plan, but keep its trains and its history."""
        _check_may(who)
        with self._database.writing() as connection:
            plan_store.remove(connection, address, who.name)
        self._troubles.pop(address, None)

    def plan(self, address: str) -> KeptPlan:
        """Return the plan with this address."""
        with self._database.reading() as connection:
            return plan_store.found(connection, address)

    def plans(self) -> list[KeptPlan]:
        """Return all plans, sorted by address."""
        with self._database.reading() as connection:
            return plan_store.all_plans(connection)

    def runs(self, address: str, count: int = 50) -> list[PlanRun]:
        """Return a plan's last ``count`` outcomes, newest first."""
        with self._database.reading() as connection:
            return plan_store.runs(connection, address, count)

    @property
    def troubles(self) -> dict[str, str]:
        """Errors of the last check, by plan address. The empty address has an error that concerns all plans."""
        return dict(self._troubles)

    def trouble(self, address: str) -> str:
        """Return the error of a plan's last check; empty on success."""
        return self._troubles.get(address, "")

    def waiting(self, plan: Plan, now: datetime) -> WaitingWagons:
        """Return the states of a plan's wagons, and whether a train with the waiting wagons is full."""
        keys = self._enabled.of(plan)
        with self._database.reading() as connection:
            return waiting(connection, plan, keys, self._needs, now)

    def look(self, now: datetime) -> None:
        """Order all trains that are due or full. Raises DatabaseError if plans cannot be read."""
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
                pass  # The plan changed, or its train was ordered, during this check. The next check handles this.
            except Exception as error:  # noqa: BLE001 - an internal error in one plan must not stop the others
                self._troubles[kept.plan.address] = trouble_of(error, "plans")

    def _look_at_clock(self, kept: KeptPlan, now: datetime) -> None:
        """Order the train of a plan's last due time, at most once. Errors such as a full disk are retried."""
        assert kept.plan.schedule is not None
        due = datetime.fromisoformat(kept.due)
        if due - now > _WEEKS:
            with self._database.writing() as connection:
                plan_store.check_unchanged(connection, kept)
                new_due = plan_store.next_due(connection, kept.plan, now)
                connection.execute("UPDATE plans SET due = ? WHERE address = ?", (new_due, kept.plan.address))
        if due > now:
            return
        last = max(due, kept.plan.schedule.due_until(now))
        late_s = (now - last).total_seconds()
        if late_s > PLAN_LATE_MAX_S:
            self._note_none(kept, last, now, f"missed: the server checked it {duration(late_s)} late")
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
                return  # The waiting wagons changed during this check. The next check orders the train.
            self._note_none(kept, last, now, f"no train: {error}")

    def _look_at_wagons(self, kept: KeptPlan, now: datetime) -> None:
        found = self.waiting(kept.plan, now)
        if found.full:
            self._order(kept, found.riders, found.full, None, now)

    def _order(self, kept: KeptPlan, riders: list[str], why: str, due: datetime | None, now: datetime) -> None:
        """Order a train on behalf of the plan's owner.

        Unlike trains that operators order, a large train needs approval.
        """
        plan = kept.plan
        self._check_owner(plan)
        keys = {one: key for one, key in self._enabled.of(plan).items() if one in riders}

        def note(connection: sqlite3.Connection, train: int) -> None:
            for wagon, key in keys.items():
                # Another train may have included the wagon since the check.
                if ridden := last_ride(connection, wagon, plan.dataset, key, counted_states(plan)):
                    raise ConflictError(f"{wagon} is already in train {ridden}")
            _note(connection, kept, due, train, why, now)

        planned = Planned(plan.address, why, plan.seconds_max, plan.memory_max_bytes, note)
        self._trains.order(plan.order(riders), Person(plan.owner), planned=planned)

    def _note_none(self, kept: KeptPlan, due: datetime, now: datetime, why: str) -> None:
        """Store that no train was ordered at a due time, with the reason ``why``."""
        with self._database.writing() as connection:
            _note(connection, kept, due, 0, why, now)

    def _check_owner(self, plan: Plan) -> None:
        """Raise RefusedError unless the plan's owner is an enabled operator or the control room has no accounts."""
        accounts = self._accounts.accounts()
        known = [one for one in accounts if one.name == plan.owner and not one.is_disabled]
        if accounts and not (known and known[0].person.is_operator):
            what = f"{plan.owner}, the owner of plan {plan.address}, is not an operator"
            raise RefusedError(what, hint="an operator has to create the plan again")

    def _keep_looking(self) -> None:
        while True:
            try:
                self.look(datetime.now(UTC))
                self._troubles.pop("", None)
            except Exception as error:  # noqa: BLE001 - retried later, for example if the disk is full
                self._troubles[""] = trouble_of(error, "plans")
            if self._end.wait(PLAN_LOOK_S):
                return


def _check_may(who: Person) -> None:
    if not who.is_operator:
        raise RefusedError(f"{who.name} may not change plans", hint="ask an operator")


def _note(
    connection: sqlite3.Connection, kept: KeptPlan, due: datetime | None, train: int, why: str, now: datetime
) -> None:
    """Store the outcome of a due time in an open transaction, and mark skipped earlier due times as missed.

    Raises ConflictError if the plan has changed or the due time already has an outcome.
    """
    plan_store.check_unchanged(connection, kept)
    at, text = now.isoformat(timespec="milliseconds"), "" if due is None else due.isoformat()
    if kept.due and text != kept.due:
        missed = PlanRun(kept.due, at, 0, f"missed, like all other due times before {text}")
        plan_store.note_run(connection, kept, missed, now)
    plan_store.note_run(connection, kept, PlanRun(text, at, train, why), now)
