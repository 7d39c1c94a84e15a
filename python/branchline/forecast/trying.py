"""Tries a change on a sample of some files: writes them anew in a temporary folder where it asks for that, and reads
both in turns. Where files are near, this says more than any model: what a layout costs is time of the CPU.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from branchline.access import Access
from branchline.dataset import DataFile
from branchline.errors import BranchlineError
from branchline.forecast.changing import CONVERTED, MERGED, Change, is_same, write_changed
from branchline.forecast.ideas import GAIN_MIN
from branchline.forecast.subject import Subject
from branchline.tree import ChunkStream, Source

#: The sample has the smallest files, up to so many and so many bytes. A larger file is not written again for a try.
SAMPLE_FILES, SAMPLE_BYTES, TRIED_BYTES_MAX = 8, 60_000_000, 300_000_000
#: Small files are tried in so many, since opening them is what costs.
SMALL_FILES = 100
#: Both are read in turns so often, as long as that takes no more than so many seconds.
ROUNDS, TRIAL_S = 5, 20.0
#: What takes milliseconds is read more often, as long as all of it takes no more than so many seconds; and what the
#: machine disturbs so much that a gain would not be seen.
ROUNDS_MAX, QUICK_S = 25, 2.0
#: By how much the ratio of two readings is uncertain where there was one round only.
ONE_ROUND_NOISE = 0.1
#: The quickest of so many rounds, one and the next, are what a machine takes that does nothing else.
QUICK_PART = 8


@dataclass(frozen=True)
class Trial:
    """The seconds that reading the sample took before and after, the quickest of each: what else the machine does only
    makes it slower. ``part`` is that of the sample in all files, by their bytes. ``noise`` is the error of the
    logarithm of `factor`, by how much the quickest rounds differ. ``growth`` is what new files have of bytes over the
    old ones, less 1.
    """

    before_s: float
    after_s: float
    part: float
    noise: float = 0.0
    growth: float = 0.0

    @property
    def factor(self) -> float:
        """The time after over that before."""
        return self.after_s / max(1e-9, self.before_s)


def try_change(subject: Subject, change: Change) -> Trial | None:
    """Tries a change; None where it cannot be tried: files are too large, or what they hold cannot be written so."""
    sample = _sample(subject, change)
    if not sample:
        return None
    with tempfile.TemporaryDirectory(prefix="branchline-try-") as folder:
        try:
            after = write_changed(change, sample, Path(folder), is_verified=False) if change.writes else sample
            if change.kind == CONVERTED and not is_same(after, sample):
                # What is lost, or has another name, is no faster.
                return None
            before, others = _in_turns(subject, change, sample, after)
            written = sum(Path(one.path).stat().st_size for one in after) if change.writes else 0
        except BranchlineError:
            return None
    sizes = {one.path: one.size_bytes for one in subject.laid}
    size = sum(sizes.get(one.path, 0) for one in sample)
    part = size / max(1, sum(sizes.values())) / subject.scale
    growth = written / max(1, size) - 1 if change.writes else 0.0
    return Trial(min(before), min(others), min(1.0, part), noise_of(before, others), growth)


def noise_of(before: Sequence[float], after: Sequence[float]) -> float:
    """The error of the logarithm of the ratio of the quickest of two readings, from the seconds of each in some rounds:
    by how much the next quickest differ. Slow rounds say nothing, since other programs make them as slow as they like.
    """
    if len(before) < 2:
        return ONE_ROUND_NOISE
    return math.hypot(*(_above_quickest(one) for one in (before, after)))


def is_unsettled(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether the quickest rounds show a gain that is worth a word, which the others make doubtful."""
    gain = -math.log(max(1e-9, min(after)) / max(1e-9, min(before)))
    return gain > GAIN_MIN and 2 * noise_of(before, after) > gain


def _above_quickest(seconds: Sequence[float]) -> float:
    ordered = sorted(max(1e-9, one) for one in seconds)
    return math.log(ordered[max(1, len(ordered) // QUICK_PART)] / ordered[0])


def _sample(subject: Subject, change: Change) -> list[DataFile]:
    by_path = {one.path: one for one in subject.files}
    most = SMALL_FILES if change.kind == MERGED else SAMPLE_FILES
    chosen: list[DataFile] = []
    total = 0
    for laid in sorted(subject.laid, key=lambda one: one.size_bytes):
        total += laid.size_bytes
        if len(chosen) == most or total > (SAMPLE_BYTES if chosen else TRIED_BYTES_MAX):
            break
        chosen.append(by_path[laid.path])
    # One file is not merged with any other: what differs then is noise.
    return [] if change.kind == MERGED and len(chosen) < 2 else chosen


def _in_turns(
    subject: Subject, change: Change, before: Sequence[DataFile], after: Sequence[DataFile]
) -> tuple[list[float], list[float]]:
    branches = subject.branches
    begin_s = time.monotonic()
    times: tuple[list[float], list[float]] = ([], [])
    while _goes_on(times, time.monotonic() - begin_s):
        limit = subject.memory_limit_bytes
        times[0].append(read_s(before, branches, subject.access, subject.threads, limit))
        times[1].append(read_s(after, branches, change.access or subject.access, subject.threads, limit))
    return times


def _goes_on(times: tuple[list[float], list[float]], spent_s: float) -> bool:
    rounds = len(times[0])
    if rounds < 1:
        return True
    if rounds >= ROUNDS_MAX or spent_s >= TRIAL_S:
        return False
    return rounds < ROUNDS or spent_s < QUICK_S or is_unsettled(*times)


def read_s(
    files: Sequence[DataFile], branches: Sequence[str] | None, access: Access, threads: int, limit: int
) -> float:
    """The seconds in which some branches of some files are read and decoded in memory of ``limit`` bytes. Raises what
    reading raises.
    """
    sources = [Source(one.opens, one.tree) for one in files]
    begin_s = time.monotonic()
    with ChunkStream(sources, branches, access=access, threads=threads, memory_limit=limit) as stream:
        for chunk in stream:
            del chunk
    return time.monotonic() - begin_s
