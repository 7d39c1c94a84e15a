"""Findings about how files are read: remote reads, reads of more bytes than needed, and many small reads.

Remote reads are reported for sites whose workers wait for remote files but read local files fast. Small reads are
reported if each read waits for a slow network round trip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from branchline.base.limits import (
    FINDINGS_DRAWS,
    FINDINGS_LOST_SHARE,
    FINDINGS_SLOW_TIMES,
    LARGE_READS_TIMES,
    LARGE_READS_WASTE_BYTES,
    ROUND_TRIP_SLOW_S,
    ROUND_TRIPS_SMALL_BYTES,
    ROUND_TRIPS_TIME_SHARE,
)
from branchline.base.quantities import count, counted, duration, percent, rate, ratio, size
from branchline.control.findings.finding import (
    LARGE_READS,
    ROUND_TRIPS,
    WRONG_LOCALITY,
    Cell,
    Finding,
    SeenIn,
    address,
    rate_words,
    times_words,
)
from branchline.control.findings.speed_samples import Speeds
from branchline.control.findings.two_way import USUAL_SCATTER
from branchline.control.reports.readings import FileGroup
from branchline.lab.statistics import proportion
from branchline.records.diagnosis import remedies
from branchline.records.diagnosis.remedies import Estimate, stage_remote


def wrong_locality(speeds: Sequence[Speeds]) -> list[Finding]:
    """Return findings for sites whose workers lose much of their time on remote reads."""
    return [found for site in sorted({one.key.site for one in speeds}) for found in _find_remote_reads(site, speeds)]


def _find_remote_reads(site: str, speeds: Sequence[Speeds]) -> Iterator[Finding]:
    local = [one for one in speeds if one.key.site == site and one.key.is_local]
    remote = [one for one in speeds if one.key.site == site and not one.key.is_local]
    if not local or not remote:
        return
    lost = lost_share(local, remote)
    if lost.low < FINDINGS_LOST_SHARE:
        return
    wall_s = sum(one.wall_s for one in (*local, *remote))
    near, far = (sum(one.files for one in each) for each in (local, remote))
    share = proportion(far, near + far)
    near_speed, far_speed = (
        sum(one.bytes_read for one in each) / sum(one.wall_s for one in each) for each in (local, remote)
    )
    slower = ratio(near_speed, far_speed, 2)
    sentence = (
        f"{percent(far, near + far)} of the files that workers at {site} read are remote, and these are read {slower}"
        f" times slower than local files: this costs {percent(lost.value, 1.0)} of the workers' time"
    )
    compared = [
        f"{rate(near_speed, 1)} from local storage ({counted(near, 'file')}), {rate(far_speed, 1)} from"
        f" remote storage ({counted(far, 'file')})",
        *_comparisons(site, local, speeds),
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
    """Return the fraction of worker time that would be saved if the remote files were read from local storage.

    The confidence interval is propagated from the standard errors of the speeds.
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


def _comparisons(site: str, local: Sequence[Speeds], speeds: Sequence[Speeds]) -> Iterator[str]:
    """Yield sentences that support a slow network path as the cause, instead of slow machines or slow storage."""
    others = [one.typical for one in speeds if one.key.is_local and one.key.site != site]
    own = float(np.median([one.typical for one in local]))
    if others and own > float(np.median(others)) - np.log(FINDINGS_SLOW_TIMES):
        usual = np.exp(np.median(others))
        yield f"its machines read local files as fast as other sites do ({rate(usual, 1)}): they are not slow"
    elements = {one.key.element for one in speeds if one.key.site == site and not one.key.is_local}
    faster = [
        one
        for one in speeds
        if one.key.element in elements
        and one.key.site != site
        and one.typical > _typical_speed(one.key.element, site, speeds) + np.log(FINDINGS_SLOW_TIMES)
    ]
    for one in sorted(faster, key=lambda one: -one.typical)[:3]:
        yield f"{one.key.site} reads from {one.key.element} at {rate_words(one)}: the path is slow, not the storage"


def _typical_speed(element: str, site: str, speeds: Sequence[Speeds]) -> float:
    return next(one.typical for one in speeds if one.key.element == element and one.key.site == site)


def large_reads(groups: Sequence[FileGroup]) -> list[Finding]:
    """Return findings for storage elements from which jobs read many more bytes than needed.

    ``groups`` are sums of reads by site and storage element.
    """
    by_element: dict[str, list[FileGroup]] = {}
    for one in groups:
        if one.bytes_asked > 0:
            by_element.setdefault(one.storage_element, []).append(one)
    return [found for element, sites in sorted(by_element.items()) for found in _find_large_reads(element, sites)]


def _find_large_reads(element: str, sites: Sequence[FileGroup]) -> Iterator[Finding]:
    times = _ratio_of_sums([one.bytes_read for one in sites], [one.bytes_asked for one in sites])
    waste = sum(one.bytes_read - one.bytes_asked for one in sites)
    if times.low < LARGE_READS_TIMES or waste < LARGE_READS_WASTE_BYTES:
        return
    yield Finding(
        LARGE_READS,
        f"{times_words(times)} as many bytes as needed are read from {element}: {size(waste)} are wasted",
        [Cell(storage_element=element)],
        SeenIn(0, sum(one.files for one in sites)),
        times,
        evidence=address(element=element, order="bytes_read"),
        compared=[f"{size(sum(one.bytes_asked for one in sites))} were needed"],
        advice=remedies.READS_TOO_LARGE,
    )


def slow_round_trips(groups: Sequence[FileGroup]) -> list[Finding]:
    """Return findings for sites whose workers wait for many small reads from a storage element.

    ``groups`` are sums of reads by site and storage element.
    """
    return [found for one in groups for found in _find_round_trips(one)]


def _find_round_trips(group: FileGroup) -> Iterator[Finding]:
    calls, site, element = group.read_calls, group.site, group.storage_element
    if not calls or group.bytes_read / calls > ROUND_TRIPS_SMALL_BYTES:
        return
    took = _ratio_of_sums([group.fetch_s], [calls])
    if took.low < ROUND_TRIP_SLOW_S or group.fetch_s < ROUND_TRIPS_TIME_SHARE * group.wall_s:
        return
    each = size(group.bytes_read / calls)
    yield Finding(
        ROUND_TRIPS,
        f"workers at {site or 'an unknown site'} wait {duration(took.value)} for each read of {each} from"
        f" {element}, {percent(min(group.fetch_s, group.wall_s), group.wall_s)} of their time",
        [Cell(site, element)],
        SeenIn(0, group.files),
        took,
        "seconds a read",
        evidence=address(site=site, element=element),
        compared=[f"{count(calls)} reads of {each} took {duration(group.fetch_s)}"],
        advice=remedies.READS_TOO_SMALL,
    )


def _ratio_of_sums(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """Return the ratio of two sums over sites, with a bootstrap confidence interval.

    The bootstrap resamples sites instead of files, because the reads of one site are not independent. With fewer than
    three sites, the interval follows from the usual scatter between sites.
    """
    value = sum(above) / sum(below)
    if len(above) < 3:
        factor = float(np.exp(1.96 * USUAL_SCATTER))
        return Estimate(value, value / factor, value * factor)
    chosen = np.random.default_rng(1).integers(0, len(above), (10 * FINDINGS_DRAWS, len(above)))
    sums = np.asarray(below, dtype=float)[chosen].sum(axis=1)
    drawn = np.asarray(above, dtype=float)[chosen].sum(axis=1)[sums > 0] / sums[sums > 0]
    low, high = np.percentile(drawn, (2.5, 97.5))
    return Estimate(value, float(low), float(high))
