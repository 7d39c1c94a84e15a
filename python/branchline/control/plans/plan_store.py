"""Store plans in the database: the current plans, their next due times, and the outcomes of past due times."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from branchline.base.limits import PLANS_MAX
from branchline.base.plain import from_plain, to_plain
from branchline.control.plans.plan import Plan
from branchline.control.registry.revisions import PLAN, keep_change
from branchline.control.room_errors import ConflictError, NoSuchEntryError

_COLUMNS = "address, revision, content, due"


@dataclass(frozen=True)
class KeptPlan:
    """A stored plan.

    ``revision`` is the number of the plan's last change. ``due`` is the next due time (ISO 8601, UTC); it is empty if
    the plan is paused or has no schedule.
    """

    plan: Plan
    revision: int
    due: str = ""


@dataclass(frozen=True)
class PlanRun:
    """The outcome of a due time or of a full train. Times are ISO 8601, UTC.

    ``due`` is the due time; it is empty for a full train. ``train`` is the number of the ordered train; 0 if no train
    was ordered. ``why`` is the reason for the outcome.
    """

    due: str
    at: str
    train: int
    why: str


def found(connection: sqlite3.Connection, address: str) -> KeptPlan:
    """Return the plan with this address. Raises NoSuchEntryError."""
    query = f"SELECT {_COLUMNS} FROM plans WHERE address = ?"  # noqa: S608 - constant
    row = connection.execute(query, (address,)).fetchone()
    if row is None:
        raise NoSuchEntryError(f"no plan {address!r:.160}")
    return _kept(row)


def all_plans(connection: sqlite3.Connection) -> list[KeptPlan]:
    """Return all plans, sorted by address."""
    query = f"SELECT {_COLUMNS} FROM plans ORDER BY address"  # noqa: S608 - constant
    return [_kept(row) for row in connection.execute(query)]


def runs(connection: sqlite3.Connection, address: str, count: int) -> list[PlanRun]:
    """Return a plan's last ``count`` outcomes, newest first."""
    query = "SELECT due, at, train, why FROM plan_runs WHERE plan = ? ORDER BY number DESC LIMIT ?"
    return [
        PlanRun(str(due), str(at), int(train), str(why))
        for due, at, train, why in connection.execute(query, (address, count))
    ]


def save(connection: sqlite3.Connection, plan: Plan, who: str, revision: int, now: datetime) -> int:
    """Create a plan (``revision`` 0), or replace the plan's current revision ``revision``. Return the new revision.

    The next due time is kept, unless the schedule changes or the plan is paused or resumed. Raises ConflictError if
    ``revision`` is not the current revision, if the name of a new plan exists, or if there are too many plans.
    """
    before = next((one for one in all_plans(connection) if one.plan.address == plan.address), None)
    if (0 if before is None else before.revision) != revision:
        if before is not None and not revision:
            raise ConflictError(f"plan {plan.address} already exists", hint="choose another name")
        raise ConflictError(f"plan {plan.address} was changed by another person", hint="reload it and try again")
    [count] = connection.execute("SELECT count(*) FROM plans").fetchone()
    if before is None and count >= PLANS_MAX:
        raise ConflictError(f"there are already {PLANS_MAX} plans, the maximum", hint="remove an unused plan")
    if before is not None and before.plan == plan:
        return revision
    after = _text(plan)
    assert after is not None
    number = keep_change(connection, who, PLAN, plan.address, _text(before.plan) if before else None, after)
    is_as_before = before is not None and (before.plan.schedule, before.plan.is_paused) == (
        plan.schedule,
        plan.is_paused,
    )
    due = before.due if before is not None and is_as_before else next_due(connection, plan, now)
    connection.execute("INSERT OR REPLACE INTO plans VALUES (?, ?, ?, ?)", (plan.address, number, after, due))
    return number


def remove(connection: sqlite3.Connection, address: str, who: str) -> None:
    """Remove a plan, but keep its trains, changes and outcomes. Raises NoSuchEntryError."""
    keep_change(connection, who, PLAN, address, _text(found(connection, address).plan), None)
    connection.execute("DELETE FROM plans WHERE address = ?", (address,))


def next_due(connection: sqlite3.Connection, plan: Plan, now: datetime) -> str:
    """Return a plan's next due time; empty if the plan is paused or has no schedule.

    Skips due times that already have an outcome, which can happen after the clock was set back.
    """
    if plan.schedule is None or plan.is_paused:
        return ""
    due = plan.schedule.due_after(now)
    query = "SELECT 1 FROM plan_runs WHERE plan = ? AND due = ?"
    while connection.execute(query, (plan.address, due.isoformat())).fetchone() is not None:
        due = plan.schedule.due_after(due)
    return due.isoformat()


def check_unchanged(connection: sqlite3.Connection, kept: KeptPlan) -> None:
    """Raise ConflictError if the plan or its due time has changed since ``kept`` was read."""
    query = "SELECT revision, due FROM plans WHERE address = ?"
    if connection.execute(query, (kept.plan.address,)).fetchone() != (kept.revision, kept.due):
        raise ConflictError(f"plan {kept.plan.address} has changed", hint="reload it and try again")


def note_run(connection: sqlite3.Connection, kept: KeptPlan, run: PlanRun, now: datetime) -> None:
    """Store the outcome of a due time or full train, and set the plan's next due time."""
    connection.execute(
        "INSERT INTO plan_runs (plan, due, at, train, why) VALUES (?, ?, ?, ?, ?)",
        (kept.plan.address, run.due, run.at, run.train, run.why),
    )
    connection.execute(
        "UPDATE plans SET due = ? WHERE address = ?", (next_due(connection, kept.plan, now), kept.plan.address)
    )


def _kept(row: Sequence[object]) -> KeptPlan:
    _, revision, content, due = row
    assert isinstance(revision, int)
    return KeptPlan(from_plain(Plan, json.loads(str(content))), revision, str(due))


def _text(plan: Plan) -> str:
    return json.dumps(to_plain(plan), sort_keys=True)
