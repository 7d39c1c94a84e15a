"""Sites by storage elements: whether a site, a storage element, or the way between two is slow.

The logarithms of speeds are split as J W Tukey splits a two-way table ("Exploratory Data Analysis", 1977): what is
typical, an effect of each site, an effect of each storage element, and what is left of each cell. All of what is local
to the workers is one column, since it is faster everywhere. A row that is slow is a slow site, a column a slow storage
element, a lone cell a slow path. A row that is slow but for what is local is a slow way out of the site.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from branchline.base.limits import FINDINGS_DRAWS, FINDINGS_PEERS_MIN, FINDINGS_PLACES_MAX
from branchline.control.findings.robust_statistics import Values, p_below, scale_of
from branchline.control.findings.speed_samples import PlaceKey, Speeds
from branchline.records.diagnosis.remedies import Estimate

#: The column of what is local.
LOCAL_COLUMN = ""
#: Sites, and storage elements, differ by a quarter where nothing is wrong: machines and networks do.
USUAL_SCATTER = float(np.log(1.25))
# Rounds of the polish: values move by less than a percent after a few.
_ROUNDS = 8


@dataclass(frozen=True)
class Effects:
    """The parts of a table's values, in logarithms: ``sites`` and ``elements`` are NaN where the row or the column has
    fewer than two values: one says nothing of both apart. ``left`` is what a cell differs by beyond them.
    """

    sites: Values
    elements: Values
    left: Values


@dataclass(frozen=True)
class SpeedTable:
    """Speeds as a table with holes (NaN). ``cells`` has what a value was made of, by row and column."""

    sites: list[str]
    elements: list[str]
    values: Values
    errors: Values
    cells: dict[tuple[int, int], list[Speeds]]

    def row(self, index: int) -> list[Speeds]:
        """All of a site."""
        return [one for (row, _), found in self.cells.items() if row == index for one in found]

    def column(self, index: int) -> list[Speeds]:
        """All of a storage element that is remote."""
        return [one for (_, column), found in self.cells.items() if column == index for one in found]


def table_of(speeds: Sequence[Speeds]) -> SpeedTable:
    """The table of the sites and the storage elements with most files."""
    sites = _most([(one.key.site, one.files) for one in speeds])
    elements = _most([(_column(one.key), one.files) for one in speeds])
    cells: dict[tuple[int, int], list[Speeds]] = {}
    for one in speeds:
        if one.key.site in sites and _column(one.key) in elements:
            cells.setdefault((sites.index(one.key.site), elements.index(_column(one.key))), []).append(one)
    values = np.full((len(sites), len(elements)), np.nan)
    errors = np.zeros_like(values)
    for place, found in cells.items():
        # Several storage elements may be local to a site: that with most jobs stands for them.
        most = max(found, key=lambda one: one.jobs)
        values[place], errors[place] = most.typical, most.error
    return SpeedTable(sites, elements, values, errors, cells)


def _column(key: PlaceKey) -> str:
    return LOCAL_COLUMN if key.is_local else key.element


def _most(found: Sequence[tuple[str, int]]) -> list[str]:
    files: dict[str, int] = {}
    for name, count in found:
        files[name] = files.get(name, 0) + count
    return sorted(files, key=lambda name: (-files[name], name))[:FINDINGS_PLACES_MAX]


def effects_of(table: SpeedTable, values: Values) -> Effects:
    """The parts of values for the places of a table, by median polish."""
    there = ~np.isnan(table.values)
    several_in_row, several_in_column = there.sum(axis=1) > 1, there.sum(axis=0) > 1
    is_local = np.array([one == LOCAL_COLUMN for one in table.elements], dtype=bool)
    left = values.copy()
    for columns in (is_local, ~is_local):
        if there[:, columns].any():
            left[:, columns] -= np.nanmedian(left[:, columns])
    sites, elements = np.zeros(len(table.sites)), np.zeros(len(table.elements))
    for _ in range(_ROUNDS):
        step = _medians(left, several_in_column, 0)
        elements, left = elements + step, left - step[None, :]
        step = _medians(left, several_in_row, 1)
        sites, left = sites + step, left - step[:, None]
    centre = float(np.median(sites[several_in_row])) if several_in_row.any() else 0.0
    sites, elements = sites - centre, elements + centre
    return Effects(np.where(several_in_row, sites, np.nan), np.where(several_in_column, elements, np.nan), left)


def _medians(values: Values, several: NDArray[np.bool_], axis: int) -> Values:
    """The medians of rows or columns that have several values; 0 for the others."""
    found = np.zeros(len(several))
    if several.any():
        chosen = values[:, several] if axis == 0 else values[several]
        found[several] = np.nanmedian(chosen, axis=axis)
    return found


@dataclass(frozen=True)
class Drawn:
    """The parts of a table, and how they scatter when its values are drawn anew within their errors."""

    effects: Effects
    draws: list[Effects]

    def interval(self, part: str, *place: int) -> Estimate:
        """How many times as slow a part says that something is: 1 is as usual."""
        found = np.array([getattr(one, part)[place] for one in self.draws])
        low, high = np.percentile(found, (2.5, 97.5))
        value = getattr(self.effects, part)[place]
        return Estimate(float(np.exp(-value)), float(np.exp(-high)), float(np.exp(-low)))


def drawn(table: SpeedTable, seed: int = 1) -> Drawn:
    """The parts, and draws of them: the same for the same table."""
    chance = np.random.default_rng(seed)
    draws = [
        effects_of(table, table.values + table.errors * chance.standard_normal(table.values.shape))
        for _ in range(FINDINGS_DRAWS)
    ]
    return Drawn(effects_of(table, table.values), draws)


def p_slow(values: Values, index: int, error: float, freedom: int) -> float:
    """The chance that the value of this place is so low where it is one like the others, which scatter by themselves.

    The scatter is that of the others. Of few it is known badly: Student's t, by the approximation of D L Wallace, Ann
    Math Stat 30 (1959) 1124. Where they agree better than usual, the usual scatter counts.
    """
    others = np.delete(values, index)
    others = others[~np.isnan(others)]
    if len(others) < FINDINGS_PEERS_MIN:
        return 1.0
    scatter = scale_of(others)
    z = float(values[index] - np.median(others)) / float(np.hypot(max(scatter, USUAL_SCATTER), error))
    if scatter > USUAL_SCATTER:
        freedom = max(1, freedom)
        z = float(np.copysign(np.sqrt(freedom * np.log1p(z * z / freedom)), z)) * (8 * freedom + 1) / (8 * freedom + 3)
    return p_below(z)
