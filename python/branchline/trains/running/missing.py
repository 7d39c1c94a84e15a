"""What is missing of a train: the sub-jobs without a result, by file and entries, and whether that is allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from branchline.errors import BranchlineError
from branchline.records.sensors.record import FailureGroup, JobFault, MissingEntries, MissingSubJob, SkippedFile
from branchline.trains.running.failures import Failure, failure_groups
from branchline.trains.subjobs.share_result import JobError
from branchline.trains.subjobs.shares import Share, entry_range, open_tree


class MissingSubJobsError(BranchlineError):
    """Sub-jobs of a train came to no result."""


@dataclass(frozen=True)
class SetAside:
    """Why a sub-job is not tried again: how its last attempt ended, at which step, after how many attempts."""

    failure: Failure
    doing: str = ""
    attempts: int = 1

    @property
    def cause(self) -> str:
        """In words, with the log."""
        return self.failure.cause


@dataclass(frozen=True)
class Missing:
    """The sub-jobs without a result, by index, and the part of all that may be missing. ``hint`` is for the error."""

    shares: Sequence[Share]
    set_aside: Mapping[int, SetAside]
    allow_missing: float
    hint: str = ""

    @property
    def is_allowed(self) -> bool:
        """Whether no more is missing than may be."""
        return len(self.set_aside) <= self.allow_missing * len(self.shares)

    @cached_property
    def records(self) -> list[MissingSubJob]:
        """Each sub-job, in the order of the dataset."""
        return [
            MissingSubJob(
                index,
                self.shares[index].label,
                _entries_of(self.shares[index], one),
                cause=one.cause,
                doing=one.doing,
                attempts=one.attempts,
            )
            for index, one in sorted(self.set_aside.items())
        ]

    def failures(self) -> list[FailureGroup]:
        """The sub-jobs in groups of those that failed in the same way."""
        paths = {index: [file.path for file in self.shares[index].files] for index in self.set_aside}
        return failure_groups({index: one.failure for index, one in self.set_aside.items()}, paths)

    def skipped(self) -> list[SkippedFile]:
        """Each file of which sub-jobs are missing, once for each sub-job."""
        return [file for one in self.records for file in one.skipped()]

    def error(self) -> JobError | None:
        """What the job failed by, if more is missing than may be."""
        if self.is_allowed:
            return None
        return JobError.of(MissingSubJobsError(sentence_of(self.records[0]), hint=self.hint or None, retry=True))

    def further_faults(self) -> list[JobFault]:
        """The other sub-jobs that are missing; the first is in ``error``."""
        if self.is_allowed:
            return []
        return [JobFault(MissingSubJobsError.__name__, sentence_of(one)) for one in self.records[1:]]


def sentence_of(missing: MissingSubJob) -> str:
    """A missing sub-job in a sentence."""
    where = "; ".join(f"{one.path}, {one.words()}" for one in missing.files[:1])
    more = f" and {len(missing.files) - 1} more files" if len(missing.files) > 1 else ""
    at = f", at: {missing.doing}" if missing.doing else ""
    attempts = f" in the last of {missing.attempts} attempts" if missing.attempts > 1 else ""
    return f"sub-job {missing.index} is missing ({where}{more}): {missing.cause}{attempts}{at}"


def _entries_of(share: Share, one: SetAside) -> list[MissingEntries]:
    if share.parts == 1:
        return [MissingEntries(file.path, file.entry_start, file.entry_stop) for file in share.files]
    file, part = share.files[0], f"part {share.part + 1} of {share.parts}"
    # A file whose opening or reading ended a process is not opened here.
    if not one.doing.startswith("wagon "):
        return [MissingEntries(file.path, file.entry_start, file.entry_stop, part)]
    try:
        tree = open_tree(file)
        start, stop = entry_range(share, tree.entries_count, tree.basket_borders())
    except BranchlineError:
        return [MissingEntries(file.path, file.entry_start, file.entry_stop, part)]
    return [MissingEntries(file.path, start, stop)]
