"""Wrong locality: workers that wait for files that lie elsewhere, though they read fast what is local to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from branchline.base.limits import FINDINGS_LOST_SHARE, FINDINGS_SLOW_TIMES
from branchline.base.quantities import counted, percent, ratio
from branchline.control.findings.finding import WRONG_LOCALITY, Cell, Finding, SeenIn
from branchline.control.findings.samples import Speeds
from branchline.control.findings.statistics import share_interval
from branchline.control.findings.words import address, rate_words
from branchline.records.diagnosis import remedies
from branchline.records.diagnosis.corrections import Estimate, stage_remote


def wrong_locality(speeds: Sequence[Speeds]) -> list[Finding]:
    """Sites whose workers lose much of their time by reading from elsewhere."""
    return [found for site in sorted({one.key.site for one in speeds}) for found in _of_site(site, speeds)]


def _of_site(site: str, speeds: Sequence[Speeds]) -> Iterator[Finding]:
    local = [one for one in speeds if one.key.site == site and one.key.is_local]
    remote = [one for one in speeds if one.key.site == site and not one.key.is_local]
    if not local or not remote:
        return
    lost = lost_share(local, remote)
    if lost.low < FINDINGS_LOST_SHARE:
        return
    wall_s = sum(one.wall_s for one in (*local, *remote))
    near, far = (sum(one.files for one in each) for each in (local, remote))
    share = share_interval(far, near + far)
    near_speed, far_speed = (
        sum(one.bytes_read for one in each) / sum(one.wall_s for one in each) for each in (local, remote)
    )
    slower = ratio(near_speed, far_speed, 2)
    sentence = (
        f"{percent(far, near + far)} of the files that workers at {site} read lie elsewhere, and come {slower} times"
        f" slower than local ones: {percent(lost.value, 1.0)} of the workers' time is lost to that"
    )
    compared = [
        f"{near_speed / 1e6:.3g} MB/s from local storage ({counted(near, 'file')}), {far_speed / 1e6:.3g} MB/s from"
        f" elsewhere ({counted(far, 'file')})",
        *_others(site, local, speeds),
        *(f"{rate_words(one)} from {one.key.element}" for one in sorted(remote, key=lambda one: -one.wall_s)[:4]),
    ]
    gain_s = Estimate(wall_s * lost.value, wall_s * lost.low, wall_s * lost.high)
    most = max(remote, key=lambda one: one.wall_s).key.element
    yield Finding(
        WRONG_LOCALITY,
        sentence,
        [Cell(site, one.key.element) for one in remote],
        SeenIn(sum(one.jobs for one in (*local, *remote)), near + far),
        replace(share, value=lost.value, low=lost.low, high=lost.high),
        "of the workers' time",
        evidence=address(site=site, distance="remote"),
        compared=compared,
        advice=remedies.READ_FROM_ELSEWHERE,
        proposal=stage_remote(site, most, gain_s),
    )


def lost_share(local: Sequence[Speeds], remote: Sequence[Speeds]) -> Estimate:
    """The share of the time of workers that reading from elsewhere took longer than reading the same from local
    storage would have; the interval is by the errors of the speeds.
    """
    wall_s = sum(one.wall_s for one in (*local, *remote))
    near = float(np.average([one.typical for one in local], weights=[one.wall_s for one in local]))
    near_error = max(one.error for one in local)
    found = []
    for deviates in (0.0, -1.96, 1.96):
        lost_s = 0.0
        for one in remote:
            slower = near - one.typical + deviates * float(np.hypot(near_error, one.error))
            lost_s += one.wall_s * max(0.0, 1 - float(np.exp(-slower)))
        found.append(lost_s / wall_s)
    return Estimate(found[0], min(found), max(found))


def _others(site: str, local: Sequence[Speeds], speeds: Sequence[Speeds]) -> Iterator[str]:
    """What shows that it is the way, and neither the machines nor the storage."""
    others = [one.typical for one in speeds if one.key.is_local and one.key.site != site]
    own = float(np.median([one.typical for one in local]))
    if others and own > float(np.median(others)) - np.log(FINDINGS_SLOW_TIMES):
        usual = np.exp(np.median(others)) / 1e6
        yield f"its machines read local files as other sites do ({usual:.3g} MB/s): they are not slow"
    elements = {one.key.element for one in speeds if one.key.site == site and not one.key.is_local}
    faster = [
        one
        for one in speeds
        if one.key.element in elements
        and one.key.site != site
        and one.typical > _own(one.key.element, site, speeds) + np.log(FINDINGS_SLOW_TIMES)
    ]
    for one in sorted(faster, key=lambda one: -one.typical)[:3]:
        yield f"{one.key.element} serves {one.key.site} with {rate_words(one)}: it is the path, not the storage"


def _own(element: str, site: str, speeds: Sequence[Speeds]) -> float:
    return next(one.typical for one in speeds if one.key.element == element and one.key.site == site)
