"""Clusters that are too small or too large for those who read them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from branchline.base.quantities import count, counted, size
from branchline.errors import MemoryLimitError
from branchline.lab.advice.changes import CLUSTERED, AdvisedChange
from branchline.lab.advice.proposal import Proposal, inputs_of, written_cost
from branchline.lab.forecast.changed_clusters import clusters_of, data_bytes
from branchline.lab.forecast.conditions import Conditions
from branchline.lab.forecast.laid_file import LaidFile
from branchline.lab.forecast.planned_requests import PlanRequest, planned
from branchline.lab.forecast.subject import Subject
from branchline.records.diagnosis.advice import MANAGER
from branchline.records.diagnosis.record_clusters import (
    CLUSTER_BYTES,
    CLUSTER_OPTION,
    UNPACKED_AGAIN,
    seconds_unpacked_once,
    too_large_words,
)

#: Pages and baskets below this median are small; they are so because of their clusters where these are below that.
SMALL_BASKET_BYTES, SMALL_CLUSTER_BYTES = 8_000, 10_000_000
#: Baskets that end together though branches differ by this factor end with a cluster, and not since they are full.
DIFFERENT = 1.5
#: Baskets above this are large.
LARGE_BASKET_BYTES = 1_000_000


def cluster_proposals(subject: Subject) -> Iterator[Proposal]:
    """Other clusters, where those that are there are too small, or too large for the memory or the workers."""
    what, then_s = _too_small(subject), None
    if what is None:
        what, then_s = _too_large(subject)
    if what is None:
        return
    words = f"branchline merge {inputs_of(subject)} -o clusters.root {CLUSTER_OPTION} --verify"
    change = AdvisedChange(CLUSTERED, cluster_bytes=CLUSTER_BYTES, conditions=Conditions(cluster_bytes=CLUSTER_BYTES))
    cost = f"{written_cost(subject)}, with CPU to compress"
    yield Proposal("layout-clusters", what, words, cost, MANAGER, change, then_s)


def _too_small(subject: Subject) -> str | None:
    sizes = [row[1] for one in subject.laid for branch in one.extents for row in branch]
    if not sizes:
        return None
    clusters = sum(clusters_of(one) for one in subject.laid)
    mean = sum(map(data_bytes, subject.laid)) / max(1, clusters)
    median = float(np.median(sizes))
    is_cut = clusters > len(subject.laid) and all(one.is_ntuple or _ends_with_clusters(one) for one in subject.laid)
    if median >= SMALL_BASKET_BYTES or mean >= SMALL_CLUSTER_BYTES or not is_cut:
        return None
    name = "pages" if subject.laid[0].is_ntuple else "baskets"
    entries = round(sum(one.entries for one in subject.laid) / clusters)
    small = f"half of the {name} have less than {size(median)}"
    return f"{counted(clusters, 'cluster')} have {count(entries)} entries each: {small}"


def _ends_with_clusters(file: LaidFile) -> bool:
    """Whether the baskets of a TTree end where clusters do: those of all branches end together, however large."""
    branches = [own for own in file.extents if own]
    stored = [sum(row[1] for row in own) for own in branches]
    ends = {tuple(row[3] for row in own) for own in branches}
    return len(ends) == 1 and len(stored) > 1 and max(stored) > DIFFERENT * min(stored)


def _too_large(subject: Subject) -> tuple[str | None, float | None]:
    """What is wrong with clusters that are too large, and the time without that where a job shows it."""
    job = subject.job
    if job is not None:
        wanted = {one.path: one.wanted_bytes for one in subject.laid}
        return too_large_words(job, wanted), seconds_unpacked_once(job, wanted)
    largest = max(subject.laid, key=lambda one: one.wanted_bytes)
    most = sorted((max((row[1] for row in own), default=0) for own in largest.extents), reverse=True)
    times = _read_times(subject, largest)
    if sum(one > LARGE_BASKET_BYTES for one in most) < 2 or times < UNPACKED_AGAIN:
        return None, None
    limit = size(subject.memory_limit_bytes)
    return (
        f"{counted(len(largest.extents), 'branch', 'branches')} have baskets of up to {size(most[0])}, and memory of "
        f"{limit} has no room for one of each: they are read {times:.2g} times"
    ), None


def _read_times(subject: Subject, file: LaidFile) -> float:
    """How often the bytes of a file are read, as planned; 0 where its baskets fit into no plan."""
    request = PlanRequest(
        access=subject.access,
        step_entries=subject.step_entries,
        memory_limit_bytes=subject.stream_bytes,
        threads=subject.threads,
        is_named=subject.branches is not None,
    )
    try:
        found = planned(file, request)
    except MemoryLimitError:
        return 0.0
    return found.times
