"""Missing sub-jobs: the sub-jobs of a train that have no result. The train fails if they exceed the allowed fraction.

Failed sub-jobs are grouped by cause, with one full example per group.
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

# Traceback lines as written by Python, and by faulthandler after a crash.
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+),? in (?P<function>\S+)', re.MULTILINE)


class MissingSubJobsError(BranchlineError):
    """Sub-jobs of a train have no result."""


@dataclass(frozen=True)
class SetAside:
    """Why a sub-job is not retried: the failure of its last attempt, the step at which it failed, and the number of
    attempts.
    """

    failure: SubJobFailure
    doing: str = ""
    attempts: int = 1

    @property
    def cause(self) -> str:
        """The cause of the failure as text, with the path of the log."""
        return self.failure.cause


@dataclass(frozen=True)
class Missing:
    """The missing sub-jobs of a train. ``set_aside`` has the reason for each missing sub-job, by index.
    ``allow_missing`` is the fraction of all sub-jobs that may be missing. ``hint`` is added to the error.
    """

    shares: Sequence[Share]
    set_aside: Mapping[int, SetAside]
    allow_missing: float
    hint: str = ""

    @property
    def is_allowed(self) -> bool:
        """Whether the fraction of missing sub-jobs is within the allowed fraction."""
        return len(self.set_aside) <= self.allow_missing * len(self.shares)

    @cached_property
    def records(self) -> list[MissingSubJob]:
        """One record per missing sub-job, in dataset order."""
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
        """Group the missing sub-jobs that failed in the same way."""
        paths = {index: [file.path for file in self.shares[index].files] for index in self.set_aside}
        return failure_groups({index: one.failure for index, one in self.set_aside.items()}, paths)

    def skipped(self) -> list[SkippedFile]:
        """Return the files that missing sub-jobs should have read: one entry for each file of each missing sub-job."""
        return [file for one in self.records for file in one.skipped()]

    def error(self) -> JobError | None:
        """Return the job's error if more sub-jobs are missing than allowed; otherwise None."""
        if self.is_allowed:
            return None
        return JobError.of(MissingSubJobsError(sentence_of(self.records[0]), hint=self.hint or None, retry=True))

    def further_faults(self) -> list[JobFault]:
        """Return the faults of all missing sub-jobs except the first, which ``error`` describes."""
        if self.is_allowed:
            return []
        return [JobFault(MissingSubJobsError.__name__, sentence_of(one)) for one in self.records[1:]]


def sentence_of(missing: MissingSubJob) -> str:
    """Describe a missing sub-job in one sentence."""
    where = "; ".join(f"{one.path}, {one.words()}" for one in missing.files[:1])
    more = f" and {len(missing.files) - 1} more files" if len(missing.files) > 1 else ""
    at = f", at: {missing.doing}" if missing.doing else ""
    attempts = f" in the last of {missing.attempts} attempts" if missing.attempts > 1 else ""
    return f"sub-job {missing.index} is missing ({where}{more}): {missing.cause}{attempts}{at}"


def _entries_of(share: Share, one: SetAside) -> list[MissingEntries]:
    if share.parts == 1:
        return [MissingEntries(file.place, file.entry_start, file.entry_stop) for file in share.files]
    file, part = share.files[0], f"part {share.part + 1} of {share.parts}"
    # Open the file only if a wagon was the cause: otherwise, opening or reading this file may have killed the process.
    if not one.doing.startswith("wagon "):
        return [MissingEntries(file.path, file.entry_start, file.entry_stop, part)]
    try:
        tree = open_tree(file)
        start, stop = entry_range(share, tree.entries_count, tree.basket_borders())
    except BranchlineError:
        return [MissingEntries(file.path, file.entry_start, file.entry_stop, part)]
    return [MissingEntries(file.path, start, stop)]


@dataclass(frozen=True)
class SubJobFailure:
    """Why a sub-job has no result.

    ``kind`` is the class of the error; empty if the process died. ``traceback`` is the traceback of the error, or the
    end of the process's log if that contains a traceback. ``log`` is the path of the complete log, or empty.
    """

    message: str
    kind: str = ""
    traceback: str = ""
    log: str = ""

    @classmethod
    def of(cls, error: JobError) -> SubJobFailure:
        """Create a failure from an error, with its traceback."""
        fault = error.fault()
        return cls(fault.message, fault.type, fault.traceback or "")

    @property
    def cause(self) -> str:
        """The message, with the path of the log."""
        return self.message + (f" (log: {self.log})" if self.log else "")

    def key(self) -> object:
        """Return a key that is equal for failures of the same kind at the same line of code. Without a traceback, the
        key is the message.
        """
        return (self.kind, stack_of(self.traceback)) if self.traceback else self.message

    def example(self) -> str:
        """Return the traceback, or else the end of the log."""
        return self.traceback or (_end_of(Path(self.log)) if self.log else "")


def failure_groups(failures: Mapping[int, SubJobFailure], paths_of: Mapping[int, Iterable[str]]) -> list[FailureGroup]:
    """Group failures by cause, and return the groups, largest first. ``failures`` and ``paths_of`` map sub-job indices
    to failures and to file paths.
    """
    groups: dict[object, FailureGroup] = {}
    for index, failure in sorted(failures.items()):
        key = failure.key()
        if key not in groups:
            groups[key] = FailureGroup(failure.message, example=failure.example(), log=failure.log)
        groups[key].subjobs.append(index)
        groups[key].files += paths_of[index]
    return sorted(groups.values(), key=lambda one: (-len(one.subjobs), one.subjobs))


def stack_of(traceback: str) -> tuple[tuple[str, str, str], ...]:
    """Return the file, line and function of each frame of a traceback. Other parts of the text may vary between
    sub-jobs.
    """
    return tuple((one["file"], one["line"], one["function"]) for one in _FRAME.finditer(traceback))


def _end_of(log: Path) -> str:
    """Return the last part of a log; empty if the log cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - FAILED_LOG_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
