"""Groups failed sub-jobs by the cause of the failure, each with one full example."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from branchline.base.limits import FAILED_LOG_BYTES
from branchline.records.sensors.record import FailureGroup
from branchline.trains.subjobs.share_result import JobError

# As Python writes them for an error, and faulthandler after a crash.
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+),? in (?P<function>\S+)', re.MULTILINE)


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
