"""Pages of plans: the list, one plan with the wagons that wait for its next train, and the form for a new plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from starlette.exceptions import HTTPException

from branchline.control.plans.plan import DAYS
from branchline.control.plans.plan_store import KeptPlan, PlanRun
from branchline.control.plans.waiting import WaitingWagons
from branchline.control.registry.revisions import PLAN, Change
from branchline.control.room_errors import NoSuchEntryError
from branchline.control.web.pages.page import Ask, Page

ROWS = 20


@dataclass(frozen=True)
class PlanRow:
    """A plan in the list of plans.

    - ``when``: description of when the plan orders trains.
    - ``waits``: number of waiting wagons.
    - ``full``: the reason why the next train is full; empty if the train is not full.
    - ``missing``: descriptions of what would make the train full; each one is sufficient.
    - ``trouble``: error of the last check of the plan; empty on success.
    - ``last``: the latest outcome; or None.
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
    """A page of the list of plans, sorted by address. ``total`` is the total number of plans."""

    plans: list[PlanRow]
    total: int
    first: int = 0


@dataclass(frozen=True)
class PlanShown:
    """A plan with the wagons that wait for its next train, its latest outcomes (``runs``), and its latest changes."""

    kept: KeptPlan
    when: str
    waiting: WaitingWagons
    trouble: str = ""
    runs: list[PlanRun] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)


@dataclass(frozen=True)
class NewPlan:
    """The datasets and groups of wagons that users can choose in the form for a new plan."""

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
    """One plan, with the forms to change it."""
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
