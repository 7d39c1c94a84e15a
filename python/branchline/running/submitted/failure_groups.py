"""Groups failed sub-jobs by the cause of the failure, each with one full example."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from branchline.jobs import FoldNode
from branchline.limits import FAILED_LOG_BYTES
from branchline.running.submitted.folder import BatchFolder
from branchline.running.submitted.submission import Submission
from branchline.running.submitted.units import UnitFailure
from branchline.sensors.record import FailureGroup

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)', re.MULTILINE)
_LOG = re.compile(r" \(log: (?P<path>.*)\)$")


def failure_groups(folder: BatchFolder, submission: Submission, causes: Mapping[FoldNode, str]) -> list[FailureGroup]:
    """The groups, the largest first. ``causes`` are those of all units without a result."""
    groups: dict[object, FailureGroup] = {}
    for unit, cause in causes.items():
        failure = UnitFailure.read(folder.failed(unit))
        found = _LOG.search(cause)
        log = found["path"] if found else ""
        message = cause[: found.start()] if found else cause
        key: object = message
        example = ""
        if failure is not None and failure.traceback:
            key = (failure.kind, stack_of(failure.traceback))
            example = failure.traceback
        group = groups.setdefault(key, FailureGroup(message, example=example or _end_of(Path(log)), log=log))
        for index in submission.tree.shares_of(unit):
            group.subjobs.append(index)
            group.files += [one.path for one in submission.plan.shares[index].files]
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
