"""Pages of reads by place: sites by storage elements, storage elements over time, and costs of users and wagons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from branchline.base.limits import ELEMENTS_DRAWN_MAX, PICTURE_BINS_MAX
from branchline.control.findings.finder import DAYS
from branchline.control.reports.readings import Cost, ElementHour, Reads, SiteElementTable
from branchline.control.web.pages.page import PERIODS, Ask, Page
from branchline.control.web.pictures import Line, Picture, line_picture, seconds_since

ELEMENTS_SHOWN = 12
#: Longer periods are shown by days: of a year with ten elements there are 90 000 hours.
DAYS_BY_HOUR_MAX = 31
#: Hours that one step of a line may stand for: few enough of them to be seen.
_BIN_HOURS = (1, 2, 3, 6, 12, 24, 48, 168, 336, 672)


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
    fastest = max((one.bytes_per_s or 0.0 for one in _site_reads(shown.table)), default=0.0)
    extra = {
        "periods": list(PERIODS),
        "elements": elements,
        "since": ask.since().since,
        "heat": lambda reads: _heat(reads, fastest),
        "found": _finding_kinds(ask),
    }
    return Page("sites.html", "Sites and storage elements", shown, extra)


def _finding_kinds(ask: Ask) -> dict[tuple[str, str], str]:
    """Kinds of findings by site and storage element."""
    period = ask.period if ask.period in DAYS else "week"
    return {
        (cell.site, cell.storage_element): one.kind
        for one in ask.room.findings.last(period).findings
        for cell in one.cells
        if cell.site and cell.storage_element
    }


def _site_reads(table: SiteElementTable) -> list[Reads]:
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


def most_read(hours: Sequence[ElementHour]) -> dict[str, int]:
    """Bytes that were read from each storage element, the most first."""
    read: dict[str, int] = {}
    for one in hours:
        read[one.element] = read.get(one.element, 0) + one.reads.bytes_read
    return {name: read[name] for name in sorted(read, key=lambda name: (-read[name], name))}


def element_pictures(hours: Sequence[ElementHour]) -> list[Picture]:
    """Speed and amount over time, of the elements from which most was read; ``hours`` are in the order of time."""
    if not hours:
        return []
    start = hours[0].begin
    last = seconds_since(start, hours[-1].begin)
    shortest = hours[0].hours
    bin_hours = next(
        (one for one in _BIN_HOURS if one >= shortest and one * 3600 * PICTURE_BINS_MAX > last), _BIN_HOURS[-1]
    )
    bin_s = bin_hours * 3600.0
    names = list(most_read(hours))[:ELEMENTS_DRAWN_MAX]
    bins: dict[str, dict[int, _Bin]] = {name: {} for name in names}
    for one in hours:
        if one.element in bins:
            found = bins[one.element].setdefault(int(seconds_since(start, one.begin) // bin_s), _Bin())
            found.bytes_read += one.reads.bytes_read
            found.wall_s += one.reads.wall_s
    fullest = max(one.bytes_read for found in bins.values() for one in found.values()) / bin_hours
    unit, unit_bytes = ("GB", 1e9) if fullest >= 1e9 else ("MB", 1e6)
    speeds = [Line(name, _step_lines(_speeds(bins[name]), bin_s)) for name in names]
    amounts = [Line(name, _step_lines(_amounts(bins[name], unit_bytes * bin_hours), bin_s)) for name in names]
    return [
        line_picture("MB/s of a file in its worker", speeds, start),
        line_picture(f"{unit} read an hour", amounts, start),
    ]


@dataclass
class _Bin:
    """What was read in some hours: bytes, and the time of their files in workers."""

    bytes_read: int = 0
    wall_s: float = 0.0


def _speeds(bins: dict[int, _Bin]) -> dict[int, float]:
    return {index: one.bytes_read / one.wall_s / 1e6 for index, one in bins.items() if one.wall_s > 0}


def _amounts(bins: dict[int, _Bin], unit: float) -> dict[int, float]:
    """Also 0 where nothing was read."""
    whole = range(min(bins), max(bins) + 1) if bins else range(0)
    return {index: bins[index].bytes_read / unit if index in bins else 0.0 for index in whole}


def _step_lines(values: dict[int, float], bin_s: float) -> list[list[tuple[float, float]]]:
    """A line over bins: each is a step, and neighbours are joined."""
    parts: list[list[tuple[float, float]]] = []
    for _, group in groupby(enumerate(sorted(values)), key=lambda pair: pair[1] - pair[0]):
        parts.append([(at * bin_s, values[index]) for _, index in group for at in (index, index + 1)])
    return parts
