"""Findings about speed: slow sites, slow storage elements, slow network paths, and drift.

Sites and storage elements are compared with each other. Drift means that a storage element became slower: its speed is
compared with the week before at the same sites, so that a different mix of sites does not count as drift.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from branchline.base.limits import FINDINGS_FALSE_RATE, FINDINGS_SLOW_TIMES
from branchline.base.quantities import counted
from branchline.control.findings.finding import (
    BAD_ELEMENT,
    BAD_PATH,
    BAD_SITE,
    DRIFT,
    UNTOLD,
    Cell,
    Finding,
    SeenIn,
    address,
    rate_words,
    times_words,
)
from branchline.control.findings.speed_samples import Speeds
from branchline.control.findings.two_way import LOCAL_COLUMN, USUAL_SCATTER, Drawn, SpeedTable, drawn, p_slow, table_of
from branchline.lab.statistics import discoveries, p_below
from branchline.records.diagnosis import remedies
from branchline.records.diagnosis.remedies import Estimate, avoid_slow, stage_from_afar

Part = Literal["sites", "elements", "left"]
# Normal day-to-day scatter of the logarithm of a storage element's speed.
_DAYS_DIFFER = USUAL_SCATTER / 2


def slow_places(speeds: Sequence[Speeds]) -> list[Finding]:
    """Return findings for slow reads. Each finding names a site, a storage element or a network path as the cause."""
    table = table_of(speeds)
    if not table.sites:
        return []
    parts = drawn(table)
    sites = _slow_ones(parts, "sites", [(row,) for row in range(len(table.sites))])
    columns = [(column,) for column, name in enumerate(table.elements) if name != LOCAL_COLUMN]
    elements = _slow_ones(parts, "elements", columns)
    cells = _slow_ones(parts, "left", sorted(table.cells))
    findings = [_site_finding(table, parts, one) for one in sites] + [_element_finding(table, one) for one in elements]
    slow_elements = {table.elements[one.place[0]] for one in elements}
    findings += [_cell_finding(table, one) for one in cells if not _is_local_of(table, one.place, slow_elements)]
    return findings


@dataclass(frozen=True)
class _Slow:
    """A slow row, column or cell of the speed table.

    ``times`` is the slowdown. ``p_value`` is the probability that chance alone causes a deviation of this size.
    """

    part: Part
    place: tuple[int, ...]
    times: Estimate
    p_value: float


def _slow_ones(parts: Drawn, part: Part, places: Sequence[tuple[int, ...]]) -> list[_Slow]:
    """Return the rows, columns or cells whose slowdown is statistically significant and large enough to matter."""
    values = getattr(parts.effects, part)
    given = [one for one in places if not np.isnan(values[one])]
    family = np.array([values[one] for one in given])
    found = []
    for index, place in enumerate(given):
        times = parts.interval(part, *place)
        found.append(_Slow(part, place, times, p_slow(family, index, _log_error(times), len(family) - 2)))
    counts = discoveries([one.p_value for one in found], FINDINGS_FALSE_RATE)
    return [one for one, does in zip(found, counts, strict=True) if does and one.times.value >= FINDINGS_SLOW_TIMES]


def _site_finding(table: SpeedTable, parts: Drawn, slow: _Slow) -> Finding:
    """Return the finding for a slow site.

    If the site's workers read local files as fast as workers elsewhere, the finding blames the network path to remote
    storage instead.
    """
    [row] = slow.place
    site, speeds = table.sites[row], table.row(row)
    local = [one for one in speeds if one.key.is_local]
    remote = [one for one in speeds if not one.key.is_local]
    sample = SeenIn(sum(one.jobs for one in speeds), sum(one.files for one in speeds))
    cells = [Cell(site, one.key.element) for one in speeds]
    compared = [
        f"{rate_words(one)} from {one.key.element}{' (local)' if one.key.is_local else ''}" for one in speeds[:6]
    ]
    found = Finding(
        "", "", cells, sample, slow.times, evidence=address(site=site), compared=compared, p_value=slow.p_value
    )
    times = times_words(slow.times)
    if not local:
        sentence = f"workers at {site} read {times} slower than other sites from the same storage; all reads are remote"
        advice = remedies.SLOW_SITE_OR_ITS_WAY
        return replace(found, kind=UNTOLD, sentence=sentence, advice=advice)
    column = table.elements.index(LOCAL_COLUMN)
    # Deviation of the site's local reads, including the site's own effect.
    local_off = parts.effects.left[row, column] + parts.effects.sites[row]
    if remote and local_off > parts.effects.sites[row] / 2:
        sentence = (
            f"workers at {site} read remote files {times} slower than other sites, but local files as fast: the "
            "connection of the site to the outside is slow, not its machines, and not the storage"
        )
        advice = remedies.SLOW_WAY_OF_SITE
        lost = _lost_s(remote, slow.times)
        most_waited = max(remote, key=lambda one: one.wall_s).key.element
        proposal = stage_from_afar(site, most_waited, lost)
        cells = [Cell(site, one.key.element) for one in remote]
        return replace(found, kind=BAD_PATH, sentence=sentence, advice=advice, cells=cells, proposal=proposal)
    sentence = f"workers at {site} read {times} slower than other sites from the same storage, and also local files"
    advice = remedies.SLOW_SITE
    return replace(found, kind=BAD_SITE, sentence=sentence, advice=advice)


def _element_finding(table: SpeedTable, slow: _Slow) -> Finding:
    [column] = slow.place
    element, speeds = table.elements[column], table.column(column)
    own = [
        one for (_, at), found in table.cells.items() for one in found if one.key.element == element and at != column
    ]
    sites = [one.key.site for one in speeds]
    sample = SeenIn(sum(one.jobs for one in speeds), sum(one.files for one in speeds))
    lost = _lost_s([*speeds, *own], slow.times)
    return Finding(
        BAD_ELEMENT,
        f"reads from {element} are {times_words(slow.times)} slower than from other storage, at"
        f" {counted(len(sites), 'site')}: the storage is slow, not a site",
        [Cell(one, element) for one in sites],
        sample,
        slow.times,
        evidence=address(element=element),
        compared=[f"{rate_words(one)} at {one.key.site}" for one in (speeds + own)[:6]],
        advice=remedies.SLOW_STORAGE,
        proposal=avoid_slow(element, lost),
        p_value=slow.p_value,
    )


def _cell_finding(table: SpeedTable, slow: _Slow) -> Finding:
    row, column = slow.place
    [first, *_] = speeds = table.cells[row, column]
    site, element = table.sites[row], first.key.element
    others_at_site = [one for one in table.row(row) if one not in speeds]
    others_of_element = [
        one for found in table.cells.values() for one in found if one.key.element == element and one.key.site != site
    ]
    lost = _lost_s(speeds, slow.times)
    is_path = bool(others_at_site and others_of_element)
    times = times_words(slow.times)
    sentence = f"workers at {site} read from {element} {times} slower than expected from their other reads"
    cause = ": the path between them is slow, not the site, and not the storage" if is_path else ""
    compared = [f"{rate_words(first)} there"]
    compared += [f"{rate_words(one)} at {site} from {one.key.element}" for one in others_at_site[:3]]
    compared += [f"{rate_words(one)} from {element} at {one.key.site}" for one in others_of_element[:3]]
    return Finding(
        BAD_PATH if is_path else UNTOLD,
        sentence + cause,
        [Cell(site, element)],
        SeenIn(first.jobs, first.files),
        slow.times,
        evidence=address(site=site, element=element),
        compared=compared,
        advice=remedies.SLOW_WAY_BETWEEN if is_path else remedies.NOT_TOLD_APART,
        proposal=avoid_slow(element, lost, site),
        p_value=slow.p_value,
    )


def _is_local_of(table: SpeedTable, place: tuple[int, ...], elements: set[str]) -> bool:
    """Whether a cell of the table has local reads from one of the storage elements ``elements``."""
    return any(one.key.is_local and one.key.element in elements for one in table.cells[place[0], place[1]])


def _lost_s(speeds: Sequence[Speeds], times: Estimate) -> Estimate:
    """Return the worker time in seconds that a slowdown by the factor ``times`` cost."""
    wall_s = sum(one.wall_s for one in speeds)
    low, value, high = (wall_s * max(0.0, 1 - 1 / one) for one in (times.low, times.value, times.high))
    return Estimate(value, low, high, times.level)


def drifted(now: Sequence[Speeds], before: Sequence[Speeds]) -> list[Finding]:
    """Return findings for storage elements that were faster before. Each site is compared with itself."""
    known = {one.key: one for one in before}
    pairs: dict[str, list[tuple[Speeds, Speeds]]] = {}
    for one in now:
        if one.key in known:
            pairs.setdefault(one.key.element, []).append((one, known[one.key]))
    tried = {element: _drift(found) for element, found in sorted(pairs.items())}
    p_values = [p_below(-math.log(one.value) / _log_error(one)) for one in tried.values()]
    counts = discoveries(p_values, FINDINGS_FALSE_RATE)
    findings = []
    for (element, times), p_value, does in zip(tried.items(), p_values, counts, strict=True):
        if not does or times.value < FINDINGS_SLOW_TIMES:
            continue
        found = pairs[element]
        drift = Finding(
            DRIFT,
            f"the same sites read from {element} {times_words(times)} faster in the week before",
            [Cell(own.key.site, element) for own, _ in found],
            SeenIn(sum(own.jobs for own, _ in found), sum(own.files for own, _ in found)),
            times,
            evidence=address(element=element),
            compared=[
                f"{rate_words(own)} now at {own.key.site}, {rate_words(earlier)} before" for own, earlier in found[:4]
            ],
            advice=remedies.SLOWER_THAN_BEFORE,
            p_value=p_value,
        )
        findings.append(drift)
    return findings


def _drift(pairs: Sequence[tuple[Speeds, Speeds]]) -> Estimate:
    """Return the slowdown ratio of a storage element: the mean over sites, weighted by inverse squared errors."""
    errors = [math.hypot(now.error, before.error, _DAYS_DIFFER) for now, before in pairs]
    weights = [1 / error**2 for error in errors]
    changes = [before.typical - now.typical for now, before in pairs]
    mean = sum(weight * change for weight, change in zip(weights, changes, strict=True)) / sum(weights)
    # All sites share the day-to-day scatter, so averaging over sites does not reduce this part of the error.
    error = math.hypot(1 / math.sqrt(sum(weights)), _DAYS_DIFFER)
    return Estimate(math.exp(mean), math.exp(mean - 1.96 * error), math.exp(mean + 1.96 * error))


def _log_error(times: Estimate) -> float:
    """Return the standard error of a ratio's logarithm, calculated from the 95 % confidence interval."""
    return float(np.log(times.high / times.low)) / (2 * 1.96)
