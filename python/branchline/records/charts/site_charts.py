"""The table of reads by site and storage element, coloured by speed.

It follows figure 5 of L Betev et al., "Performance optimisations for distributed analysis in ALICE" (2014).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from branchline.base.quantities import counted, percent, rate
from branchline.records.charts.chart import CellTable, ColouredCell

#: Maximum numbers of rows and columns of the table.
SITES_MAX, ELEMENTS_MAX = 40, 12
#: Name of workers without a site, and of files without a storage element.
UNKNOWN_SITE, UNKNOWN_ELEMENT = "unknown site", "unknown storage"


class SiteElementReads(NamedTuple):
    """Reads by workers at a site from a storage element. ``wall_s`` is the time that workers spent on the files."""

    site: str
    element: str
    files: int
    bytes_read: int
    wall_s: float


def site_chart(
    reads: Iterable[SiteElementReads],
    efficiencies: Mapping[str, float],
    *,
    what: str = "file",
    is_simulated: bool = False,
) -> CellTable:
    """Return the table of read speeds, with the sites and elements from which most was read first.

    ``efficiencies`` are the efficiencies of the workers at some of the sites. ``what`` names the things that ``files``
    counts.
    """
    cells: dict[tuple[str, str], SiteElementReads] = {}
    sites: dict[str, int] = {}
    elements: dict[str, int] = {}
    for one in reads:
        site, element = one.site or UNKNOWN_SITE, one.element or UNKNOWN_ELEMENT
        before = cells.get((site, element), SiteElementReads(site, element, 0, 0, 0.0))
        cells[site, element] = SiteElementReads(
            site,
            element,
            before.files + one.files,
            before.bytes_read + one.bytes_read,
            before.wall_s + one.wall_s,
        )
        sites[site] = sites.get(site, 0) + one.bytes_read
        elements[element] = elements.get(element, 0) + one.bytes_read
    rows = sorted(sites, key=lambda name: (-sites[name], name))
    columns = sorted(elements, key=lambda name: (-elements[name], name))
    shown_rows, shown_columns = rows[:SITES_MAX], columns[:ELEMENTS_MAX]
    shown = [
        ColouredCell(
            one.site,
            one.element,
            one.bytes_read / one.wall_s,
            [rate(one.bytes_read, one.wall_s), counted(one.files, what)],
        )
        for one in cells.values()
        if one.site in shown_rows and one.element in shown_columns and one.wall_s > 0
    ]
    note = "Bytes read over the time that workers spent on the files, including their processing."
    hidden = [
        counted(len(names) - len(kept), f"more {what}")
        for what, names, kept in (("site", rows, shown_rows), ("storage element", columns, shown_columns))
        if len(names) > len(kept)
    ]
    return CellTable(
        "Read speed by site and storage element",
        shown_rows,
        shown_columns,
        shown,
        {
            site or UNKNOWN_SITE: f"{percent(part, 1.0)} efficiency"
            for site, part in efficiencies.items()
            if (site or UNKNOWN_SITE) in shown_rows
        },
        f"{note} Not shown: {' and '.join(hidden)}." if hidden else note,
        "No reads with their times were recorded.",
        is_simulated,
    )
