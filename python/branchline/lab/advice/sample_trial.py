"""Try a change on a sample of some files: rewrite them in a temporary folder if necessary, and read the original and
the changed files alternately.

For nearby files this is more accurate than any model, since the cost of a layout is CPU time.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from branchline.errors import BranchlineError, OptionError
from branchline.lab.advice.changes import CONVERTED, FLATTENED, MERGED, AdvisedChange, is_same, write_changed
from branchline.lab.advice.timed_read import ReadingRequest, read_at_once_s
from branchline.lab.forecast.subject import Subject
from branchline.lab.sampling.page_cache import StillCachedError, make_cold
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.records.diagnosis.advice import GAIN_MIN

#: Maximum number of files in a sample, which are the smallest ones, and their maximum total size. A single file may
#: have up to the third size; larger ones are not rewritten for a trial.
SAMPLE_FILES, SAMPLE_BYTES, TRIED_BYTES_MAX = 8, 60_000_000, 300_000_000
#: Maximum number of files in a sample for trying a merge. Many files are needed, since opening files dominates. Each
#: read uses a new process, because a large file needs memory that the process has not touched yet, while many small
#: files reuse their memory.
SMALL_FILES = 2000
#: Usual number of rounds and time limit of a trial. Each round reads the original and the changed files.
ROUNDS, TRIAL_S = 5, 20.0
#: Maximum number of rounds for reads that are noisy or fast, and the time in seconds for which fast reads are repeated.
ROUNDS_MAX, QUICK_S = 25, 2.0
#: Assumed relative uncertainty of the ratio of two reading times after only one round.
ONE_ROUND_NOISE = 0.1
#: The fastest 1/8 of the rounds are assumed to be free of other load.
QUICK_PART = 8


@dataclass(frozen=True)
class TriedChange:
    """The times in seconds of reading the sample before and after a change. Each is the minimum over the rounds, since
    other load only slows down.

    ``part`` is the share of the sample in the total size of all files. ``noise`` is the error of the logarithm of
    `factor`, estimated from the spread of the fastest rounds. ``growth`` is the relative growth of the files.

    ``is_apart`` is true if each read used its own process, so that both times include the overhead of a first read. The
    times are then medians, since other load disturbs these reads as much as it disturbs a job.
    """

    before_s: float
    after_s: float
    part: float
    noise: float = 0.0
    growth: float = 0.0
    is_apart: bool = False

    @property
    def factor(self) -> float:
        """Ratio of the time after the change to the time before."""
        return self.after_s / max(1e-9, self.before_s)


def try_change(subject: Subject, change: AdvisedChange) -> TriedChange | None:
    """Try a change. Returns None if the files are too large, or if their content cannot be written in the new
    format. Raises StillCachedError if cold files stay in the page cache.
    """
    sample = _sample(subject, change)
    if not sample:
        return None
    shares = _shares(subject, change, sample)
    with _trial_folder(subject, sample) as name:
        folder = Path(name)
        try:
            changed = _changed(change, shares, folder)
            if change.kind == CONVERTED and not all(map(is_same, changed, shares)):
                # A conversion that loses or renames branches is not an improvement.
                return None
            is_apart = change.kind == MERGED or subject.jobs > 1 or subject.is_cold
            before, others = _in_turns(subject, change, shares, changed, folder if is_apart else None)
            written = sum(Path(one.path).stat().st_size for own in changed for one in own) if change.writes else 0
        except StillCachedError:
            # Without cold files there is no answer for any change.
            raise
        except BranchlineError:
            return None
    sizes = _sizes(subject)
    size = sum(sizes[one.path] for own in shares for one in own)
    part = min(1.0, size / len(shares) / max(1, sum(sizes.values())))
    growth = written / max(1, size) - 1 if change.writes else 0.0
    if is_apart:
        middle = statistics.median(before), statistics.median(others)
        return TriedChange(*middle, part, noise_of_medians(before, others), growth, is_apart=True)
    return TriedChange(min(before), min(others), part, noise_of(before, others), growth)


def _shares(subject: Subject, change: AdvisedChange, sample: Sequence[DataFile]) -> list[list[DataFile]]:
    """Return the files that each of the concurrent jobs reads: different ones if there are enough, otherwise all."""
    least = 2 if change.kind == MERGED else 1
    if len(sample) < least * subject.jobs:
        return [list(sample)] * subject.jobs
    return [list(sample[number :: subject.jobs]) for number in range(subject.jobs)]


def _changed(change: AdvisedChange, shares: Sequence[list[DataFile]], folder: Path) -> list[list[DataFile]]:
    """Write the changed files of each job into a folder of its own, and return the files that the jobs then read."""
    if not change.writes:
        return list(shares)
    if all(own is shares[0] for own in shares):
        return [list(write_changed(change, shares[0], folder / "0", is_verified=False))] * len(shares)
    return [
        list(write_changed(change, own, folder / str(number), is_verified=False)) for number, own in enumerate(shares)
    ]


def _trial_folder(subject: Subject, sample: Sequence[DataFile]) -> tempfile.TemporaryDirectory[str]:
    """Create the folder for changed files. Cold files must be on the same device as the originals.

    Raises OptionError if the folder cannot be created there.
    """
    if not subject.is_cold:
        return tempfile.TemporaryDirectory(prefix="branchline-try-")
    beside = Path(sample[0].path).resolve().parent
    try:
        return tempfile.TemporaryDirectory(prefix=".branchline-try-", dir=beside)
    except OSError as error:
        hint = "copy some of the files to a folder on the same disk, and give that folder"
        raise OptionError(f"no file can be written to {beside}: {error.strerror}", hint=hint) from None


def _sizes(subject: Subject) -> dict[str, int]:
    """Return the sizes of all files by path; an unknown size is estimated by the mean."""
    known = {one.path: one.size_bytes for one in subject.laid}
    mean = sum(known.values()) // max(1, len(known))
    return {one.path: known.get(one.path, one.size_bytes or mean) for one in subject.files}


def noise_of_medians(before: Sequence[float], after: Sequence[float]) -> float:
    """Return the error of the logarithm of the ratio of the medians of two series of times, which were measured
    alternately.
    """
    if len(before) < 3:
        return ONE_ROUND_NOISE
    logs = [math.log(max(1e-9, then) / max(1e-9, now)) for now, then in zip(before, after, strict=True)]
    # The standard error of a median is larger than the standard error of a mean.
    return math.sqrt(math.pi / 2) * statistics.stdev(logs) / math.sqrt(len(logs))


def noise_of(before: Sequence[float], after: Sequence[float]) -> float:
    """Return the error of the logarithm of the ratio of the minima of two series of times, estimated from the next
    fastest rounds. Slow rounds are ignored, since they depend on other load.
    """
    if len(before) < 2:
        return ONE_ROUND_NOISE
    return math.hypot(*(_above_quickest(one) for one in (before, after)))


def is_unsettled(before: Sequence[float], after: Sequence[float]) -> bool:
    """Return whether the fastest rounds show a relevant gain that the next fastest ones do not confirm."""
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
    # A single file cannot be merged with others; any difference would be noise.
    return [] if change.kind == MERGED and len(chosen) < 2 else chosen


def _in_turns(
    subject: Subject,
    change: AdvisedChange,
    before: Sequence[list[DataFile]],
    after: Sequence[list[DataFile]],
    apart: Path | None,
) -> tuple[list[float], list[float]]:
    """Return the times of both series, measured alternately, for the files of each job. With a folder ``apart``, each
    job is a new process; without, the only job reads in this process.
    """
    # Flat files have only the columns of the wanted branches, under other names.
    wanted = (subject.branches, None if change.kind == FLATTENED else subject.branches)
    limit = subject.memory_limit_bytes
    begin_s = time.monotonic()
    times: tuple[list[float], list[float]] = ([], [])
    while _goes_on(times, time.monotonic() - begin_s):
        for own, jobs, branches, access in zip(
            times, (before, after), wanted, (subject.access, change.access or subject.access), strict=True
        ):
            if subject.is_cold:
                make_cold(list({one.path for files in jobs for one in files}))
            if apart is None:
                own.append(read_s(jobs[0], branches, access, subject.threads, limit))
                continue
            requests = [ReadingRequest.of(files, branches, access, subject.threads, apart) for files in jobs]
            own.append(read_at_once_s([replace(one, memory_limit_bytes=limit) for one in requests], apart))
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
    """Return the time in seconds for reading and decoding some branches of some files, with a memory limit of ``limit``
    bytes. Raises the errors of reading.
    """
    sources = [Source(one.opens, one.tree) for one in files]
    begin_s = time.monotonic()
    with ChunkStream(sources, branches, access=access, threads=threads, memory_limit=limit) as stream:
        for chunk in stream:
            del chunk
    return time.monotonic() - begin_s
