"""What is missing of a train: the sub-jobs without a result, by file and entries, and whether that is allowed.

Failed sub-jobs are grouped by the cause of the failure, each group with one full example.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from branchline.base.limits import FAILED_LOG_BYTES
from branchline.errors import BranchlineError
from branchline.records.sensors.record import FailureGroup, JobFault, MissingEntries, MissingSubJob, SkippedFile
from branchline.trains.subjobs.share_result import JobError
from branchline.trains.subjobs.shares import Share, entry_range, open_tree

# The lines of a traceback as Python writes them for an error, and faulthandler after a crash.
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+),? in (?P<function>\S+)', re.MULTILINE)


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


@dataclass(frozen=True)
class Failure:
    """Why a sub-job has no result. ``kind`` is the class of the error, empty where a process died, and ``traceback``
    its own, or the end of the process's log where that has one; ``log`` is the file that has more, if there is one.
    """

    message: str
    kind: str = ""
    traceback: str = ""
    log: str = ""

    @classmethod
    def of(cls, error: JobError) -> Failure:
        """That of an error, with its traceback."""
        fault = error.fault()
        return cls(fault.message, fault.type, fault.traceback or "")

    @property
    def cause(self) -> str:
        """The message, with the log."""
        return self.message + (f" (log: {self.log})" if self.log else "")

    def key(self) -> object:
        """Equal for failures at the same place of the code, or by the same cause."""
        return (self.kind, stack_of(self.traceback)) if self.traceback else self.message

    def example(self) -> str:
        """The traceback, else the end of the log."""
        return self.traceback or (_end_of(Path(self.log)) if self.log else "")


def failure_groups(failures: Mapping[int, Failure], paths_of: Mapping[int, Iterable[str]]) -> list[FailureGroup]:
    """The groups, the largest first. Failures and files are by the index of their sub-job."""
    groups: dict[object, FailureGroup] = {}
    for index, failure in sorted(failures.items()):
        key = failure.key()
        if key not in groups:
            groups[key] = FailureGroup(failure.message, example=failure.example(), log=failure.log)
        groups[key].subjobs.append(index)
        groups[key].files += paths_of[index]
    return sorted(groups.values(), key=lambda one: (-len(one.subjobs), one.subjobs))


def stack_of(traceback: str) -> tuple[tuple[str, str, str], ...]:
    """The places of a traceback, without what differs from one sub-job to another."""
    return tuple((one["file"], one["line"], one["function"]) for one in _FRAME.finditer(traceback))


def _end_of(log: Path) -> str:
    """The end of a log; empty if it cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - FAILED_LOG_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
