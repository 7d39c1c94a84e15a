"""Measures: those in force and earlier ones, the form for a new one, and what each has changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.exceptions import HTTPException

from branchline.base.limits import MEASURE_HOURS, MEASURE_HOURS_MAX
from branchline.control.measures import IN_FORCE, Effect, Measure
from branchline.control.reports.readings import Reads
from branchline.control.room_errors import NoSuchEntryError
from branchline.control.web.pages.page import Ask, Page
from branchline.records.diagnosis.remedies import ACTIONS, SEND_AGAIN

ROWS = 50


@dataclass(frozen=True)
class MeasureRow:
    """A measure and how it stands."""

    measure: Measure
    state: str
    what: str


@dataclass(frozen=True)
class MeasuresListed:
    """Some of the measures, the newest first, ``total`` in all."""

    measures: list[MeasureRow]
    total: int
    first: int = 0


@dataclass(frozen=True)
class MeasureShown:
    """A measure, how it stands, and what was read before it and since; None for one that changes no reading."""

    measure: Measure
    state: str
    what: str
    effect: Effect | None = None


@dataclass(frozen=True)
class Compared:
    """A row of the table of a measure: reads from somewhere, in some time."""

    where: str
    when: str
    reads: Reads


def measures(ask: Ask) -> Page:
    """What is in force, what has ended, and the form to switch one on; the address may fill it in."""
    first = ask.number("first")
    found, total = ask.room.measures.measures(first, ROWS)
    now = datetime.now(UTC)
    shown = MeasuresListed([MeasureRow(one, one.state(now), one.order.what) for one in found], total, first)
    given = {name: ask.text(name) for name in ("kind", "storage_element", "site", "job", "why", "finding")}
    extra = {
        "kinds": ACTIONS,
        "given": given,
        "hours": MEASURE_HOURS,
        "hours_max": MEASURE_HOURS_MAX,
        "may_change": ask.person.is_operator,
    }
    return Page("measures.html", "Measures", shown, extra)


def measure(ask: Ask) -> Page:
    """One measure, and whether it helped."""
    number = ask.path_number("number")
    try:
        found = ask.room.measures.measure(number)
    except NoSuchEntryError as error:
        raise HTTPException(404, str(error)) from None
    state = found.state(datetime.now(UTC))
    effect = None if found.order.kind == SEND_AGAIN else ask.room.measures.effect(found)
    shown = MeasureShown(found, state, found.order.what, effect)
    extra = {
        "rows": [] if effect is None else _rows(found.order.storage_element, effect),
        "may_undo": ask.person.is_operator and state == IN_FORCE,
    }
    return Page("measure.html", f"Measure {number}", shown, extra)


def _rows(element: str, effect: Effect) -> list[Compared]:
    before, since = "day before", "since it began"
    return [
        Compared(element, before, effect.before.meant),
        Compared(element, since, effect.since.meant),
        Compared("all others", before, effect.before.others),
        Compared("all others", since, effect.since.others),
    ]
