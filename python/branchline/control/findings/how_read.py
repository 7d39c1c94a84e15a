"""How files are read: more bytes than are needed, and many small reads that each wait for a round trip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from branchline.base.limits import (
    FINDINGS_DRAWS,
    LARGE_READS_TIMES,
    LARGE_READS_WASTE_BYTES,
    ROUND_TRIP_SLOW_S,
    ROUND_TRIPS_SMALL_BYTES,
    ROUND_TRIPS_TIME_SHARE,
)
from branchline.base.quantities import count, duration, percent, size
from branchline.control.findings.finding import LARGE_READS, ROUND_TRIPS, Cell, Finding, SeenIn
from branchline.control.findings.two_way import USUAL_SCATTER
from branchline.control.findings.words import address, times_words
from branchline.control.reports.readings import FileGroup
from branchline.records.diagnosis import remedies
from branchline.records.diagnosis.corrections import Estimate


def large_reads(groups: Sequence[FileGroup]) -> list[Finding]:
    """Storage elements from which many more bytes are read than were wanted. ``groups`` are by site and element."""
    by_element: dict[str, list[FileGroup]] = {}
    for one in groups:
        if one.bytes_asked > 0:
            by_element.setdefault(one.storage_element, []).append(one)
    return [found for element, sites in sorted(by_element.items()) for found in _large(element, sites)]


def _large(element: str, sites: Sequence[FileGroup]) -> Iterator[Finding]:
    times = _ratio([one.bytes_read for one in sites], [one.bytes_asked for one in sites])
    waste = sum(one.bytes_read - one.bytes_asked for one in sites)
    if times.low < LARGE_READS_TIMES or waste < LARGE_READS_WASTE_BYTES:
        return
    yield Finding(
        LARGE_READS,
        f"{times_words(times)} as many bytes are read from {element} as are needed: {size(waste)} for nothing",
        [Cell(storage_element=element)],
        SeenIn(0, sum(one.files for one in sites)),
        times,
        evidence=address(element=element, order="bytes_read"),
        compared=[f"{size(sum(one.bytes_asked for one in sites))} were needed"],
        advice=remedies.READS_TOO_LARGE,
    )


def slow_round_trips(groups: Sequence[FileGroup]) -> list[Finding]:
    """Places where workers wait for many small reads. ``groups`` are by site and element."""
    return [found for one in groups for found in _small(one)]


def _small(group: FileGroup) -> Iterator[Finding]:
    calls, site, element = group.read_calls, group.site, group.storage_element
    if not calls or group.bytes_read / calls > ROUND_TRIPS_SMALL_BYTES:
        return
    took = _ratio([group.fetch_s], [calls])
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


def _ratio(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """A ratio of sums, and how it scatters when sites are drawn anew: files of one site are read alike. One or two say
    nothing of others: then the usual scatter of places.
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
