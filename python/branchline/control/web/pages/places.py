"""What was read where: sites by storage elements, storage elements over time, and what users and wagons cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from branchline.control.findings.finder import DAYS
from branchline.control.reports.readings import Cost, ElementHour, Reads, SiteElementTable
from branchline.control.web.pages.element_pictures import element_pictures, most_read
from branchline.control.web.pages.page import PERIODS, Ask, Page
from branchline.control.web.pictures import seconds_since

ELEMENTS_SHOWN = 12
#: Longer periods are shown by days: of a year with ten elements there are 90 000 hours.
DAYS_BY_HOUR_MAX = 31


@dataclass(frozen=True)
class SitesShown:
    """The table of a period."""

    period: str
    table: SiteElementTable


@dataclass(frozen=True)
class ElementsShown:
    """Reads by storage element and hour, or by day where there are too many hours; ``names`` has the elements, the one
    with most bytes first.
    """

    period: str
    names: list[str]
    hours: list[ElementHour]


@dataclass(frozen=True)
class CostsShown:
    """What users and wagons cost in a period."""

    period: str
    users: list[Cost] = field(default_factory=list)
    wagons: list[Cost] = field(default_factory=list)


def sites(ask: Ask) -> Page:
    """Sites by storage elements, as figure 5 of the ALICE study has them."""
    shown = SitesShown(ask.period, ask.room.site_table(ask.since()))
    elements = shown.table.elements[: ask.number("elements", ELEMENTS_SHOWN)]
    fastest = max((one.bytes_per_s or 0.0 for one in _cells(shown.table)), default=0.0)
    extra = {
        "periods": list(PERIODS),
        "elements": elements,
        "since": ask.since().since,
        "heat": lambda reads: _heat(reads, fastest),
        "found": _found(ask),
    }
    return Page("sites.html", "Sites and storage elements", shown, extra)


def _found(ask: Ask) -> dict[tuple[str, str], str]:
    """Kinds of findings by site and storage element."""
    period = ask.period if ask.period in DAYS else "week"
    return {
        (cell.site, cell.storage_element): one.kind
        for one in ask.room.findings.last(period).findings
        for cell in one.cells
        if cell.site and cell.storage_element
    }


def _cells(table: SiteElementTable) -> list[Reads]:
    """What each site read from each element."""
    return [one for row in table.rows for one in row.elements.values()]


def _heat(reads: Reads, fastest: float) -> int:
    """How slow reads are beside the fastest cell: 3 below a tenth of it, 0 above a half."""
    part = (reads.bytes_per_s or 0.0) / fastest if fastest else 1.0
    return sum(part < bound for bound in (0.5, 0.25, 0.1))


def elements(ask: Ask) -> Page:
    """Storage elements over time."""
    days = ask.room.element_days(ask.since())
    is_long = bool(days) and seconds_since(days[0].begin, days[-1].begin) > 86_400 * DAYS_BY_HOUR_MAX
    hours = days if is_long else ask.room.element_hours(ask.since())
    read = most_read(hours)
    shown = ElementsShown(ask.period, list(read), hours)
    extra = {"periods": list(PERIODS), "pictures": element_pictures(hours), "read": read}
    return Page("elements.html", "Storage elements over time", shown, extra)


def costs(ask: Ask) -> Page:
    """What users and wagons cost."""
    period = ask.since()
    shown = CostsShown(ask.period, ask.room.costs("user", period), ask.room.costs("wagon", period))
    return Page("costs.html", "Users and wagons by cost", shown, {"periods": list(PERIODS)})
