"""A table of read speeds by site and storage element, to separate slow sites, storage elements and network paths.

Tukey's median polish ("Exploratory Data Analysis", 1977) splits the logarithms of the speeds into a typical value, an
effect of each site, an effect of each storage element, and a residual of each cell. All local reads share one column,
because local reads are faster at every site. A slow row means a slow site, a slow column a slow storage element, and a
single slow cell a slow network path. If a row is slow except for the local reads, the site's external network
connection is slow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from branchline.base.limits import FINDINGS_DRAWS, FINDINGS_PEERS_MIN, FINDINGS_PLACES_MAX
from branchline.control.findings.speed_samples import PlaceKey, Speeds
from branchline.lab.statistics import Values, p_below, robust_scale
from branchline.records.diagnosis.remedies import Estimate

#: Name of the column for local reads.
LOCAL_COLUMN = ""
#: Normal scatter of logarithmic speeds between sites or storage elements, whose machines and networks differ.
USUAL_SCATTER = float(np.log(1.25))
# Number of median polish iterations. After a few iterations, values change by less than a percent.
_ROUNDS = 8


@dataclass(frozen=True)
class Effects:
    """The effects into which a table's logarithmic speeds are split.

    ``sites`` has the effect of each row and ``elements`` the effect of each column. An effect is NaN if its row or
    column has fewer than two values, because one value cannot be split into two effects. ``left`` has the residual of
    each cell.
    """

    sites: Values
    elements: Values
    left: Values


@dataclass(frozen=True)
class SpeedTable:
    """A table of logarithmic speeds in which missing values are NaN.

    ``cells`` has the samples from which each value was calculated, by (row, column).
    """

    sites: list[str]
    elements: list[str]
    values: Values
    errors: Values
    cells: dict[tuple[int, int], list[Speeds]]

    def row(self, index: int) -> list[Speeds]:
        """Return all samples in a row: the reads of one site."""
        return [one for (row, _), found in self.cells.items() if row == index for one in found]

    def column(self, index: int) -> list[Speeds]:
        """Return all samples in a column: the reads from one storage element, or all local reads."""
        return [one for (_, column), found in self.cells.items() if column == index for one in found]


def table_of(speeds: Sequence[Speeds]) -> SpeedTable:
    """Return a table with the sites and the storage elements that have the most files."""
    sites = _most([(one.key.site, one.files) for one in speeds])
    elements = _most([(_column(one.key), one.files) for one in speeds])
    cells: dict[tuple[int, int], list[Speeds]] = {}
    for one in speeds:
        if one.key.site in sites and _column(one.key) in elements:
            cells.setdefault((sites.index(one.key.site), elements.index(_column(one.key))), []).append(one)
    values = np.full((len(sites), len(elements)), np.nan)
    errors = np.zeros_like(values)
    for place, found in cells.items():
        # If several storage elements are local to a site, use the element with the most jobs.
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
    """Split ``values``, an array of the table's shape, into effects by median polish."""
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
    """Return the median of each row or column; 0 for rows or columns with fewer than two values."""
    found = np.zeros(len(several))
    if several.any():
        chosen = values[:, several] if axis == 0 else values[several]
        found[several] = np.nanmedian(chosen, axis=axis)
    return found


@dataclass(frozen=True)
class Drawn:
    """The effects of a table. ``draws`` are the effects of tables whose values vary randomly within their errors."""

    effects: Effects
    draws: list[Effects]

    def interval(self, part: str, *place: int) -> Estimate:
        """Return the slowdown of a row, column or cell, with the 95 % confidence interval of the draws.

        ``part`` is the name of a field of Effects, and ``place`` the indices in this field. A slowdown of 1 is normal.
        """
        found = np.array([getattr(one, part)[place] for one in self.draws])
        low, high = np.percentile(found, (2.5, 97.5))
        value = getattr(self.effects, part)[place]
        return Estimate(float(np.exp(-value)), float(np.exp(-high)), float(np.exp(-low)))


def drawn(table: SpeedTable, seed: int = 1) -> Drawn:
    """Return a table's effects with random draws. The result is the same for the same table and seed."""
    chance = np.random.default_rng(seed)
    draws = [
        effects_of(table, table.values + table.errors * chance.standard_normal(table.values.shape))
        for _ in range(FINDINGS_DRAWS)
    ]
    return Drawn(effects_of(table, table.values), draws)


def p_slow(values: Values, index: int, error: float, freedom: int) -> float:
    """Return the probability that chance alone makes ``values[index]`` this low compared with the other values.

    The test uses Student's t, because the scatter is estimated from a few other values. The assumed scatter is at least
    ``USUAL_SCATTER``. Returns 1 if there are too few other values.
    """
    others = np.delete(values, index)
    others = others[~np.isnan(others)]
    if len(others) < FINDINGS_PEERS_MIN:
        return 1.0
    scatter = robust_scale(others)
    z = float(values[index] - np.median(others)) / float(np.hypot(max(scatter, USUAL_SCATTER), error))
    return p_below(z, max(1, freedom) if scatter > USUAL_SCATTER else math.inf)
