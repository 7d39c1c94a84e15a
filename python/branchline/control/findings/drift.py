"""Drift: storage elements that are read slower than in the week before, by the same sites."""

from __future__ import annotations

import math
from collections.abc import Sequence

from branchline.base.limits import FINDINGS_FALSE_RATE, FINDINGS_SLOW_TIMES
from branchline.control.findings.finding import DRIFT, Cell, Finding, SeenIn
from branchline.control.findings.samples import Speeds
from branchline.control.findings.statistics import discoveries, p_below
from branchline.control.findings.two_way import USUAL_SCATTER
from branchline.control.findings.words import address, rate_words, times_words
from branchline.records.diagnosis import remedies
from branchline.records.diagnosis.corrections import Estimate

# What a storage element does differs from day to day where nothing is wrong.
_DAYS_DIFFER = USUAL_SCATTER / 2


def drifted(now: Sequence[Speeds], before: Sequence[Speeds]) -> list[Finding]:
    """Storage elements that were faster before. Each site is compared with itself: which sites read makes no drift."""
    known = {one.key: one for one in before}
    pairs: dict[str, list[tuple[Speeds, Speeds]]] = {}
    for one in now:
        if one.key in known:
            pairs.setdefault(one.key.element, []).append((one, known[one.key]))
    tried = {element: _change(found) for element, found in sorted(pairs.items())}
    p_values = [p_below(-math.log(one.value) / _error(one)) for one in tried.values()]
    counts = discoveries(p_values, FINDINGS_FALSE_RATE)
    return [
        _finding(element, times, pairs[element], p_value)
        for (element, times), p_value, does in zip(tried.items(), p_values, counts, strict=True)
        if does and times.value >= FINDINGS_SLOW_TIMES
    ]


def _change(pairs: Sequence[tuple[Speeds, Speeds]]) -> Estimate:
    """How many times slower it is, the mean of the sites by their errors."""
    errors = [math.hypot(now.error, before.error, _DAYS_DIFFER) for now, before in pairs]
    weights = [1 / error**2 for error in errors]
    changes = [before.typical - now.typical for now, before in pairs]
    mean = sum(weight * change for weight, change in zip(weights, changes, strict=True)) / sum(weights)
    # Days are the same for all sites: more sites make that scatter no smaller.
    error = math.hypot(1 / math.sqrt(sum(weights)), _DAYS_DIFFER)
    return Estimate(math.exp(mean), math.exp(mean - 1.96 * error), math.exp(mean + 1.96 * error))


def _error(times: Estimate) -> float:
    return math.log(times.high / times.low) / (2 * 1.96)


def _finding(element: str, times: Estimate, pairs: Sequence[tuple[Speeds, Speeds]], p_value: float) -> Finding:
    return Finding(
        DRIFT,
        f"{element} was read {times_words(times)} faster in the week before, by the same sites",
        [Cell(now.key.site, element) for now, _ in pairs],
        SeenIn(sum(now.jobs for now, _ in pairs), sum(now.files for now, _ in pairs)),
        times,
        evidence=address(element=element),
        compared=[f"{rate_words(now)} now at {now.key.site}, {rate_words(before)} before" for now, before in pairs[:4]],
        advice=remedies.SLOWER_THAN_BEFORE,
        p_value=p_value,
    )
