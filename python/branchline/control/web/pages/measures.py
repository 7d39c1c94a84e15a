"""Pages of measures: the list, the form for a new measure, and one measure with its effect."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.exceptions import HTTPException

from branchline.base.limits import MEASURE_HOURS, MEASURE_HOURS_MAX
from branchline.control.measures import IN_FORCE, Effect, Measure
from branchline.control.reports.readings import ReadTotals
from branchline.control.room_errors import NoSuchEntryError
from branchline.control.web.pages.page import Ask, Page
from branchline.records.diagnosis.remedies import ACTIONS, SEND_AGAIN

ROWS = 50


@dataclass(frozen=True)
class MeasureRow:
    """A measure with its state and its description (``what``)."""

    measure: Measure
    state: str
    what: str


@dataclass(frozen=True)
class MeasuresListed:
    """A page of the list of measures, newest first. ``total`` is the total number of measures."""

    measures: list[MeasureRow]
    total: int
    first: int = 0


@dataclass(frozen=True)
class MeasureShown:
    """A measure with its state, its description, and its effect. ``effect`` is None if the measure affects no reads."""

    measure: Measure
    state: str
    what: str
    effect: Effect | None = None


@dataclass(frozen=True)
class ReadsRow:
    """A row in the table of a measure's effect: reads from some storage elements (``where``) in a period (``when``)."""

    where: str
    when: str
    reads: ReadTotals


def measures(ask: Ask) -> Page:
    """The list of measures, and the form for a new measure, with initial values from the query string."""
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
    """One measure and its effect."""
    number = ask.path_number("number")
    try:
        found = ask.room.measures.measure(number)
    except NoSuchEntryError as error:
        raise HTTPException(404, str(error)) from None
    state = found.state(datetime.now(UTC))
    effect = None if found.order.kind == SEND_AGAIN else ask.room.measures.effect(found)
    shown = MeasureShown(found, state, found.order.what, effect)
    rows: list[ReadsRow] = []
    if effect is not None:
        element, before, since = found.order.storage_element, "day before", "since it began"
        rows = [
            ReadsRow(element, before, effect.before.meant),
            ReadsRow(element, since, effect.since.meant),
            ReadsRow("all others", before, effect.before.others),
            ReadsRow("all others", since, effect.since.others),
        ]
    extra = {
        "rows": rows,
        "may_undo": ask.person.is_operator and state == IN_FORCE,
    }
    return Page("measure.html", f"Measure {number}", shown, extra)
