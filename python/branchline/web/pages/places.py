"""What was read where: sites by storage elements, storage elements over time, and what users and wagons cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from branchline.control.readings import Cost, ElementHour, Reads, SiteElementTable
from branchline.limits import ELEMENTS_DRAWN_MAX
from branchline.web.pages.page import PERIODS, Ask, Page
from branchline.web.pictures import Line, line_picture, seconds_since

ELEMENTS_SHOWN = 12


@dataclass(frozen=True)
class SitesShown:
    """The table of a period."""

    period: str
    table: SiteElementTable


@dataclass(frozen=True)
class ElementsShown:
    """Reads by storage element and hour in a period; ``names`` has the elements, the one with most bytes first."""

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
    }
    return Page("sites.html", "Sites and storage elements", shown, extra)


def _cells(table: SiteElementTable) -> list[Reads]:
    """What each site read from each element."""
    return [one for row in table.rows for one in row.elements.values()]


def _heat(reads: Reads, fastest: float) -> int:
    """How slow reads are beside the fastest cell: 3 below a tenth of it, 0 above a half."""
    part = (reads.bytes_per_s or 0.0) / fastest if fastest else 1.0
    return sum(part < bound for bound in (0.5, 0.25, 0.1))


def elements(ask: Ask) -> Page:
    """Storage elements over time."""
    hours = ask.room.element_hours(ask.since())
    read: dict[str, int] = {}
    for one in hours:
        read[one.element] = read.get(one.element, 0) + one.reads.bytes_read
    names = sorted(read, key=lambda name: (-read[name], name))
    begin = hours[0].begin if hours else ""
    speeds = [
        Line(
            name,
            [
                (seconds_since(begin, one.begin), (one.reads.bytes_per_s or 0.0) / 1e6)
                for one in hours
                if one.element == name
            ],
        )
        for name in names[:ELEMENTS_DRAWN_MAX]
    ]
    amounts = [
        Line(
            name,
            [(seconds_since(begin, one.begin), one.reads.bytes_read / 1e9) for one in hours if one.element == name],
        )
        for name in names[:ELEMENTS_DRAWN_MAX]
    ]
    pictures = [
        line_picture("MB/s while a file was read", speeds, begin),
        line_picture("GB read an hour", amounts, begin),
    ]
    shown = ElementsShown(ask.period, names, hours)
    extra = {"periods": list(PERIODS), "pictures": pictures, "read": read, "begin": begin}
    return Page("elements.html", "Storage elements over time", shown, extra)


def costs(ask: Ask) -> Page:
    """What users and wagons cost."""
    period = ask.since()
    shown = CostsShown(ask.period, ask.room.costs("user", period), ask.room.costs("wagon", period))
    return Page("costs.html", "Users and wagons by cost", shown, {"periods": list(PERIODS)})
