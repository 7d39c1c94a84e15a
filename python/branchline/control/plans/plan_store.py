"""Plans in the database: as they are now with their next due time, and what came of each due time."""

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

#: A due time has at most one row, and so at most one train.
TABLES = """
CREATE TABLE IF NOT EXISTS plans (
    address TEXT PRIMARY KEY, revision INTEGER NOT NULL, content TEXT NOT NULL, due TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS plan_runs (
    number INTEGER PRIMARY KEY, plan TEXT NOT NULL, due TEXT NOT NULL, at TEXT NOT NULL, train INTEGER NOT NULL,
    why TEXT NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS plan_runs_once ON plan_runs (plan, due) WHERE due != '';
CREATE INDEX IF NOT EXISTS plan_runs_of ON plan_runs (plan, number);
"""
_COLUMNS = "address, revision, content, due"


@dataclass(frozen=True)
class KeptPlan:
    """A plan, the number of its last change, and when it is due next (ISO 8601, UTC; empty without a schedule)."""

    plan: Plan
    revision: int
    due: str = ""


@dataclass(frozen=True)
class PlanRun:
    """What came of a due time (``due``), or of a train that was full (it is empty): the number of the train, 0 for
    none, and why. Times are ISO 8601, UTC.
    """

    due: str
    at: str
    train: int
    why: str


def found(connection: sqlite3.Connection, address: str) -> KeptPlan:
    """A plan. Raises NoSuchEntryError."""
    query = f"SELECT {_COLUMNS} FROM plans WHERE address = ?"  # noqa: S608 - columns are ours
    row = connection.execute(query, (address,)).fetchone()
    if row is None:
        raise NoSuchEntryError(f"there is no plan {address!r:.160}")
    return _kept(row)


def all_plans(connection: sqlite3.Connection) -> list[KeptPlan]:
    """All plans, by address."""
    query = f"SELECT {_COLUMNS} FROM plans ORDER BY address"  # noqa: S608 - columns are ours
    return [_kept(row) for row in connection.execute(query)]


def runs(connection: sqlite3.Connection, address: str, count: int) -> list[PlanRun]:
    """What came of a plan the last times, the newest first."""
    query = "SELECT due, at, train, why FROM plan_runs WHERE plan = ? ORDER BY number DESC LIMIT ?"
    return [
        PlanRun(str(due), str(at), int(train), str(why))
        for due, at, train, why in connection.execute(query, (address, count))
    ]


def save(connection: sqlite3.Connection, plan: Plan, who: str, revision: int, now: datetime) -> int:
    """Writes a plan in the place of a revision of it (0: there is none), and gives the new one. A due time that is
    there stays, unless the schedule changes. Raises ConflictError.
    """
    before = next((one for one in all_plans(connection) if one.plan.address == plan.address), None)
    if (0 if before is None else before.revision) != revision:
        if before is not None and not revision:
            raise ConflictError(f"there is a plan {plan.address} already", hint="give it another name")
        raise ConflictError(f"plan {plan.address} was changed by somebody else meanwhile", hint="look at it again")
    [count] = connection.execute("SELECT count(*) FROM plans").fetchone()
    if before is None and count >= PLANS_MAX:
        raise ConflictError(f"there are {PLANS_MAX} plans, and not more", hint="remove one that makes no trains")
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
    """Removes a plan; its trains, its changes and what came of it stay. Raises NoSuchEntryError."""
    keep_change(connection, who, PLAN, address, _text(found(connection, address).plan), None)
    connection.execute("DELETE FROM plans WHERE address = ?", (address,))


def next_due(connection: sqlite3.Connection, plan: Plan, now: datetime) -> str:
    """The next due time that was not used: a clock that was set back brings none twice. Empty if there is none."""
    if plan.schedule is None or plan.is_paused:
        return ""
    due = plan.schedule.due_after(now)
    query = "SELECT 1 FROM plan_runs WHERE plan = ? AND due = ?"
    while connection.execute(query, (plan.address, due.isoformat())).fetchone() is not None:
        due = plan.schedule.due_after(due)
    return due.isoformat()


def check_unchanged(connection: sqlite3.Connection, kept: KeptPlan) -> None:
    """Raises ConflictError if a plan, or its due time, is not as it was when it was looked at."""
    query = "SELECT revision, due FROM plans WHERE address = ?"
    if connection.execute(query, (kept.plan.address,)).fetchone() != (kept.revision, kept.due):
        raise ConflictError(f"plan {kept.plan.address} was changed meanwhile")


def note_run(connection: sqlite3.Connection, kept: KeptPlan, run: PlanRun, now: datetime) -> None:
    """Uses up the due time of a run, which has then come to what the run says, and sets the next one."""
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
