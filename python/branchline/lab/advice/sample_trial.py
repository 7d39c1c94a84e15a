"""Tries a change on a sample of some files: writes them anew in a temporary folder where it asks for that, and reads
both in turns. Where files are near, this says more than any model: what a layout costs is time of the CPU.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from branchline.errors import BranchlineError
from branchline.lab.advice.changes import CONVERTED, MERGED, AdvisedChange, is_same, write_changed
from branchline.lab.advice.timed_read import ReadingRequest, read_apart_s
from branchline.lab.forecast.subject import Subject
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.records.diagnosis.advice import GAIN_MIN

#: The sample has the smallest files, up to so many and so many bytes. A larger file is not written again for a try.
SAMPLE_FILES, SAMPLE_BYTES, TRIED_BYTES_MAX = 8, 60_000_000, 300_000_000
#: Small files are tried in so many, since opening them is what costs; and each time in a new process: a large file
#: takes memory that a process has not touched yet, many small ones take the same again and again.
SMALL_FILES = 2000
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
class TriedChange:
    """The seconds that reading the sample took before and after, the quickest of each: what else the machine does only
    makes it slower. ``part`` is that of the sample in all files, by their bytes. ``noise`` is the error of the
    logarithm of `factor`, by how much the quickest rounds differ. ``growth`` is what new files have of bytes over the
    old ones, less 1. ``is_apart`` says that each was read in a process of its own, so that what only the first reading
    of a process takes is in both; they are medians then, as two readings at a time are as disturbed as one job is.
    """

    before_s: float
    after_s: float
    part: float
    noise: float = 0.0
    growth: float = 0.0
    is_apart: bool = False

    @property
    def factor(self) -> float:
        """The time after over that before."""
        return self.after_s / max(1e-9, self.before_s)


def try_change(subject: Subject, change: AdvisedChange) -> TriedChange | None:
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
            is_apart = change.kind == MERGED
            before, others = _in_turns(subject, change, sample, after, Path(folder) if is_apart else None)
            written = sum(Path(one.path).stat().st_size for one in after) if change.writes else 0
        except BranchlineError:
            return None
    sizes = _sizes(subject)
    size = sum(sizes[one.path] for one in sample)
    part = min(1.0, size / max(1, sum(sizes.values())))
    growth = written / max(1, size) - 1 if change.writes else 0.0
    if is_apart:
        middle = statistics.median(before), statistics.median(others)
        return TriedChange(*middle, part, noise_of_medians(before, others), growth, is_apart=True)
    return TriedChange(min(before), min(others), part, noise_of(before, others), growth)


def _sizes(subject: Subject) -> dict[str, int]:
    """The bytes of all files; those that are not known are as large as the others."""
    known = {one.path: one.size_bytes for one in subject.laid}
    mean = sum(known.values()) // max(1, len(known))
    return {one.path: known.get(one.path, one.size_bytes or mean) for one in subject.files}


def noise_of_medians(before: Sequence[float], after: Sequence[float]) -> float:
    """The error of the logarithm of the ratio of the medians of two readings that were made in turns."""
    if len(before) < 3:
        return ONE_ROUND_NOISE
    logs = [math.log(max(1e-9, then) / max(1e-9, now)) for now, then in zip(before, after, strict=True)]
    # That of a median is larger than that of a mean.
    return math.sqrt(math.pi / 2) * statistics.stdev(logs) / math.sqrt(len(logs))


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


def _sample(subject: Subject, change: AdvisedChange) -> list[DataFile]:
    sizes, is_merged = _sizes(subject), change.kind == MERGED
    most = SMALL_FILES if is_merged else SAMPLE_FILES
    laid = {one.path for one in subject.laid}
    candidates = [one for one in subject.files if is_merged or one.path in laid]
    chosen: list[DataFile] = []
    total = 0
    for file in sorted(candidates, key=lambda one: sizes[one.path]):
        total += sizes[file.path]
        if len(chosen) == most or total > (SAMPLE_BYTES if chosen else TRIED_BYTES_MAX):
            break
        chosen.append(file)
    # One file is not merged with any other: what differs then is noise.
    return [] if change.kind == MERGED and len(chosen) < 2 else chosen


def _in_turns(
    subject: Subject, change: AdvisedChange, before: Sequence[DataFile], after: Sequence[DataFile], apart: Path | None
) -> tuple[list[float], list[float]]:
    """The seconds of both, in turns; in processes of their own that find their work in a folder ``apart``."""
    branches, limit = subject.branches, subject.memory_limit_bytes
    begin_s = time.monotonic()
    times: tuple[list[float], list[float]] = ([], [])
    while _goes_on(times, time.monotonic() - begin_s):
        for own, files, access in zip(
            times, (before, after), (subject.access, change.access or subject.access), strict=True
        ):
            if apart is None:
                own.append(read_s(files, branches, access, subject.threads, limit))
            else:
                request = ReadingRequest.of(files, branches, access, subject.threads, apart / "done.json")
                own.append(read_apart_s(replace(request, memory_limit_bytes=limit), apart / "request.json"))
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
