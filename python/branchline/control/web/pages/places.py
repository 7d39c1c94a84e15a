"""Pages of reads by site and storage element, of storage elements over time, and of the costs of users and wagons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from branchline.base.limits import ELEMENTS_DRAWN_MAX, PICTURE_BINS_MAX
from branchline.base.palette import COLOURS
from branchline.base.quantities import GB, MB, count
from branchline.control.findings.finder import DAYS
from branchline.control.reports.readings import (
    CacheHour,
    CacheReads,
    Cost,
    ElementHour,
    JobTime,
    ReadTotals,
    SiteElementTable,
)
from branchline.control.reports.reads import JOBS_DRAWN_MAX
from branchline.control.web.pages.page import PERIODS, Ask, Page
from branchline.records.charts.axes import number_axis, time_axis
from branchline.records.charts.chart import Chart, Curve
from branchline.records.charts.distributions import histogram_chart
from branchline.records.charts.efficiency import EfficiencySum, efficiency_chart
from branchline.records.charts.site_charts import UNKNOWN_SITE

ELEMENTS_SHOWN = 12
#: Maximum length of a period that is shown by hour, in days. Longer periods are shown by day, because a year with ten
#: storage elements has about 90,000 hourly values.
DAYS_BY_HOUR_MAX = 31
#: Possible bin widths of step lines, in hours.
_BIN_HOURS = (1, 2, 3, 6, 12, 24, 48, 168, 336, 672)


@dataclass(frozen=True)
class SitesShown:
    """The reads of a period by site and storage element."""

    period: str
    table: SiteElementTable


@dataclass(frozen=True)
class ElementsShown:
    """Reads by storage element and hour, or by day for a long period, and reads through the caches of sites.

    ``names`` are the storage elements, sorted by decreasing number of bytes.
    """

    period: str
    names: list[str]
    hours: list[ElementHour]
    caches: list[CacheTotal] = field(default_factory=list)
    cache_hours: list[CacheHour] = field(default_factory=list)


@dataclass(frozen=True)
class CacheTotal:
    """Reads through a cache in a period."""

    element: str
    site: str
    reads: CacheReads


@dataclass(frozen=True)
class CostsShown:
    """The costs of users and wagons in a period, and the efficiency of user jobs and trains over time."""

    period: str
    users: list[Cost] = field(default_factory=list)
    wagons: list[Cost] = field(default_factory=list)
    efficiencies: list[EfficiencySum] = field(default_factory=list)


def sites(ask: Ask) -> Page:
    """The table of reads by site and storage element."""
    shown = SitesShown(ask.period, ask.room.site_table(ask.since()))
    elements = shown.table.elements[: ask.number("elements", ELEMENTS_SHOWN)]
    cells = [one for row in shown.table.rows for one in row.elements.values()]
    fastest = max((one.bytes_per_s or 0.0 for one in cells), default=0.0)
    period = ask.period if ask.period in DAYS else "week"
    kinds_found = {
        (cell.site, cell.storage_element): one.kind
        for one in ask.room.findings.last(period).findings
        for cell in one.cells
        if cell.site and cell.storage_element
    }
    extra = {
        "periods": list(PERIODS),
        "elements": elements,
        "since": ask.since().since,
        "heat": lambda reads: _heat(reads, fastest),
        "found": kinds_found,
    }
    return Page("sites.html", "Sites and storage elements", shown, extra)


def _heat(reads: ReadTotals, fastest: float) -> int:
    """Return how slow reads are compared with the speed ``fastest``.

    The result is from 0 (at least half as fast) to 3 (less than a tenth as fast).
    """
    part = (reads.bytes_per_s or 0.0) / fastest if fastest else 1.0
    return sum(part < bound for bound in (0.5, 0.25, 0.1))


def elements(ask: Ask) -> Page:
    """Storage elements over time."""
    days = ask.room.element_days(ask.since())
    is_long = bool(days) and seconds_since(days[0].begin, days[-1].begin) > 86_400 * DAYS_BY_HOUR_MAX
    hours = days if is_long else ask.room.element_hours(ask.since())
    read = most_read(hours)
    by_day = not 0 < PERIODS[ask.period] <= DAYS_BY_HOUR_MAX
    cached = ask.room.cache_hours(ask.since(), by_day=by_day)
    shown = ElementsShown(ask.period, list(read), hours, cache_totals(cached), cached)
    extra = {
        "periods": list(PERIODS),
        "charts": element_charts(hours),
        "read": read,
        "cache_charts": cache_charts(cached),
        "monitor": ask.room.cache_monitor,
    }
    return Page("elements.html", "Storage elements over time", shown, extra)


def costs(ask: Ask) -> Page:
    """The costs of users and wagons."""
    period = ask.since()
    by_month = PERIODS[ask.period] > DAYS_BY_HOUR_MAX or not PERIODS[ask.period]
    sums = ask.room.efficiencies(period, by_month=by_month)
    shown = CostsShown(ask.period, ask.room.costs("user", period), ask.room.costs("wagon", period), sums)
    charts = [efficiency_chart(sums), *job_time_charts(ask.room.job_times(period))]
    extra = {"periods": list(PERIODS), "charts": charts}
    return Page("costs.html", "Users and wagons by cost", shown, extra)


def job_time_charts(times: Sequence[JobTime]) -> list[Chart]:
    """Return histograms of the wall time and of the throughput of jobs by site, the sites with most jobs first."""
    sites: dict[str, list[JobTime]] = {}
    for one in times:
        sites.setdefault(one.site or UNKNOWN_SITE, []).append(one)
    most = sorted(sites.items(), key=lambda pair: -len(pair[1]))
    seconds = {site: [one.seconds for one in own] for site, own in most}
    rates = {site: [one.bytes_read / one.seconds / MB for one in own] for site, own in most}
    drawn = [
        histogram_chart("Wall time of jobs", "s", seconds),
        histogram_chart("Throughput of jobs", "MB/s read from storage", rates),
    ]
    if len(times) < JOBS_DRAWN_MAX:
        return drawn
    note = f"The last {count(JOBS_DRAWN_MAX)} jobs of the period."
    return [replace(one, note=f"{note} {one.note}".strip()) for one in drawn]


def most_read(hours: Sequence[ElementHour]) -> dict[str, int]:
    """Return the number of bytes read from each storage element, in decreasing order."""
    read: dict[str, int] = {}
    for one in hours:
        read[one.element] = read.get(one.element, 0) + one.reads.bytes_read
    return {name: read[name] for name in sorted(read, key=lambda name: (-read[name], name))}


def element_charts(hours: Sequence[ElementHour]) -> list[Chart]:
    """Return charts of the read speed and amount over time, for the storage elements with the most bytes.

    ``hours`` must be sorted by time.
    """
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
    unit, unit_bytes = ("GB", GB) if fullest >= GB else ("MB", MB)
    speeds, amounts = [], []
    for number, (name, own) in enumerate(bins.items()):
        # A bin without reads has no speed, and an amount of 0 between the first and the last read.
        whole = range(min(own, default=0), max(own, default=-1) + 1)
        edges = [index * bin_s for index in (*whole, whole.stop)]
        read = [own.get(index, _Bin()) for index in whole]
        speed = [one.bytes_read / one.wall_s / MB if one.wall_s > 0 else None for one in read]
        amount = [one.bytes_read / (unit_bytes * bin_hours) for one in read]
        speeds.append(Curve(name, COLOURS[number], edges, speed))
        amounts.append(Curve(name, COLOURS[number], edges, amount))
    end_s = (int(last // bin_s) + 1) * bin_s
    return [
        _over_time("Speed of a file in its worker", "MB/s", speeds, end_s, start),
        _over_time("Data read", f"{unit}/h", amounts, end_s, start),
    ]


def cache_totals(hours: Sequence[CacheHour]) -> list[CacheTotal]:
    """Return the sums of each cache, sorted by name."""
    found: dict[str, CacheTotal] = {}
    for one in hours:
        before = found.get(one.element, CacheTotal(one.element, one.site, CacheReads()))
        found[one.element] = CacheTotal(one.element, one.site, before.reads.plus(one.reads))
    return [found[name] for name in sorted(found)]


def cache_charts(hours: Sequence[CacheHour]) -> list[Chart]:
    """Return a chart of the hits and misses of caches over time. ``hours`` must be sorted by time."""
    parts = [
        ElementHour(f"{one.element}: {kind}", one.begin, ReadTotals(bytes_read=size_bytes), one.hours)
        for one in hours
        for kind, size_bytes in (("hits", one.reads.hit_bytes), ("misses", one.reads.miss_bytes))
    ]
    return [replace(one, title="Read through caches") for one in element_charts(parts)[1:]]


def _over_time(title: str, unit: str, curves: Sequence[Curve], end_s: float, start: str) -> Chart:
    shown = [one for one in curves if any(value is not None for value in one.y)]
    highest = max((value or 0.0 for one in shown for value in one.y), default=0.0)
    axis = time_axis("time (UTC)", 0.0, end_s, start)
    return Chart(title, axis, number_axis(unit, highest), shown, empty="Nothing was read in this period.")


def seconds_since(begin: str, moment: str) -> float:
    """Return the number of seconds from ``begin`` to ``moment`` (ISO 8601)."""
    return (datetime.fromisoformat(moment) - datetime.fromisoformat(begin)).total_seconds()


@dataclass
class _Bin:
    """Reads in one bin of a step line: the number of bytes, and the time that workers spent on the files."""

    bytes_read: int = 0
    wall_s: float = 0.0
