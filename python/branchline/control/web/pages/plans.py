"""Plans: the list, one plan with what waits for its train, and the form for a new one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from starlette.exceptions import HTTPException

from branchline.control.plans.plan import DAYS
from branchline.control.plans.plan_store import KeptPlan, PlanRun
from branchline.control.plans.waiting import Waiting
from branchline.control.registry.revisions import PLAN, Change
from branchline.control.room_errors import NoSuchEntryError
from branchline.control.web.pages.page import Ask, Page

ROWS = 20


@dataclass(frozen=True)
class PlanRow:
    """A plan, when it makes its trains in words, and how many wagons wait. ``trouble`` is why it could make none when
    it was looked at last, ``last`` what came of it the last time.
    """

    kept: KeptPlan
    when: str
    waits: int
    full: str = ""
    missing: list[str] = field(default_factory=list)
    trouble: str = ""
    last: PlanRun | None = None


@dataclass(frozen=True)
class PlansListed:
    """Some of the plans, by address, ``total`` in all."""

    plans: list[PlanRow]
    total: int
    first: int = 0


@dataclass(frozen=True)
class PlanShown:
    """A plan, what waits for its next train, what came of it, and its last changes."""

    kept: KeptPlan
    when: str
    waiting: Waiting
    trouble: str = ""
    runs: list[PlanRun] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)


@dataclass(frozen=True)
class NewPlan:
    """Datasets and groups of wagons to choose from."""

    datasets: list[str]
    groups: list[str]


def plans(ask: Ask) -> Page:
    """The list of plans."""
    first, now = ask.number("first"), datetime.now(UTC)
    found = ask.room.plans.plans()
    rows = []
    for kept in found[first : first + ROWS]:
        waiting = ask.room.plans.waiting(kept.plan, now)
        last = next(iter(ask.room.plans.runs(kept.plan.address, 1)), None)
        trouble = ask.room.plans.trouble(kept.plan.address)
        rows.append(PlanRow(kept, kept.plan.when, waiting.count, waiting.full, waiting.missing, trouble, last))
    extra = {"may_change": ask.person.is_operator, "rows": ROWS}
    return Page("plans.html", "Plans", PlansListed(rows, len(found), first), extra)


def plan(ask: Ask) -> Page:
    """One plan, with forms to change it."""
    address = f"{ask.path('owner')}/{ask.path('name')}"
    try:
        kept = ask.room.plans.plan(address)
    except NoSuchEntryError as error:
        raise HTTPException(404, str(error)) from None
    shown = PlanShown(
        kept,
        kept.plan.when,
        ask.room.plans.waiting(kept.plan, datetime.now(UTC)),
        ask.room.plans.trouble(address),
        ask.room.plans.runs(address),
        ask.room.registry.changes(PLAN, address, count=20),
    )
    extra: dict[str, object] = {"may_change": ask.person.is_operator, "choices": _choices(ask), "days": DAYS}
    return Page("plan.html", f"Plan {address}", shown, extra)


def new_plan(ask: Ask) -> Page:
    """The form for a new plan."""
    extra = {"may_change": ask.person.is_operator, "days": DAYS, "refused": ask.room.trains.refused()}
    return Page("new_plan.html", "New plan", _choices(ask), extra)


def _choices(ask: Ask) -> NewPlan:
    datasets = [one.address for one in ask.room.registry.datasets()]
    return NewPlan(datasets, sorted({one.group for one in ask.room.registry.wagons() if one.group}))
