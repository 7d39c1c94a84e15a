"""Tries a change on a sample of some files: writes them anew in a temporary folder where it asks for that, and reads
both in turns. Where files are near, this says more than any model: what a layout costs is time of the CPU.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from branchline.access import Access
from branchline.dataset import DataFile
from branchline.errors import BranchlineError
from branchline.forecast.changing import MERGED, Change, write_changed
from branchline.forecast.subject import Subject
from branchline.tree import ChunkStream, Source

#: The sample has the smallest files, up to so many and so many bytes. A larger file is not written again for a try.
SAMPLE_FILES, SAMPLE_BYTES, TRIED_BYTES_MAX = 8, 60_000_000, 300_000_000
#: Small files are tried in so many, since opening them is what costs.
SMALL_FILES = 100
#: Both are read in turns so often, as long as that takes no more than so many seconds.
ROUNDS, TRIAL_S = 5, 20.0


@dataclass(frozen=True)
class Trial:
    """The seconds that reading the sample took before and after, the quickest of each: what else the machine does only
    makes it slower. ``part`` is that of the sample in all files, by their bytes.
    """

    before_s: float
    after_s: float
    part: float

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
            before_s, after_s = _in_turns(subject, change, sample, after)
        except BranchlineError:
            return None
    sizes = {one.path: one.size_bytes for one in subject.laid}
    part = sum(sizes.get(one.path, 0) for one in sample) / max(1, sum(sizes.values())) / subject.scale
    return Trial(before_s, after_s, min(1.0, part))


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
    return chosen


def _in_turns(
    subject: Subject, change: Change, before: Sequence[DataFile], after: Sequence[DataFile]
) -> tuple[float, float]:
    branches = subject.branches
    begin_s = time.monotonic()
    times: tuple[list[float], list[float]] = ([], [])
    while len(times[0]) < ROUNDS and (not times[0] or time.monotonic() - begin_s < TRIAL_S):
        times[0].append(read_s(before, branches, subject.access, subject.threads))
        times[1].append(read_s(after, branches, change.access or subject.access, subject.threads))
    return min(times[0]), min(times[1])


def read_s(files: Sequence[DataFile], branches: Sequence[str] | None, access: Access, threads: int) -> float:
    """The seconds in which some branches of some files are read and decoded. Raises what reading raises."""
    sources = [Source(one.opens, one.tree) for one in files]
    begin_s = time.monotonic()
    with ChunkStream(sources, branches, access=access, threads=threads) as stream:
        for chunk in stream:
            del chunk
    return time.monotonic() - begin_s
