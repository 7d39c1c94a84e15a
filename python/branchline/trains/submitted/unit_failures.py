"""Causes of units without a result: from the files of their tasks, exit codes, the batch system, and logs."""

from __future__ import annotations

import signal
from collections.abc import Collection, Container, Iterable, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path

from branchline.base.limits import LOG_TAIL_BYTES
from branchline.base.whole_files import open_plain, read_plain
from branchline.errors import BatchError
from branchline.jobs.batch.system import batch_system
from branchline.jobs.fold_tree import FoldNode
from branchline.trains.running.failures import Failure
from branchline.trains.submitted.submission import JobsRecord, StepRecord, TrainOutline
from branchline.trains.submitted.submission_folder import BatchFolder
from branchline.trains.submitted.units import UnitFailure

# What batch systems write at the end of a log when they end a task.
_MARKS = ("DUE TO TIME LIMIT", "DUE TO NODE FAILURE", "DUE TO PREEMPTION", "oom_kill", "oom-kill", "CANCELLED AT")
_SHELL_SIGNALS = 128
_EXIT_MAX_BYTES = 100
_KILLED = "its task was killed by signal 9 (SIGKILL), as the kernel does when memory is short"
# How batch systems, and marks in logs, name a death of memory.
_MEMORY_WORDS = ("memory", "oom")


class Death(Enum):
    """How the task of a unit ended that has no result."""

    MEMORY = "memory"
    KILLED = "killed"
    OTHER = "other"


def deaths_of(folder: BatchFolder, outline: TrainOutline, units: Collection[FoldNode]) -> dict[FoldNode, Death]:
    """How the last tasks of units died; units that failed while their task went on are left out."""
    died = [unit for unit in units if UnitFailure.read(folder.failed(unit)) is None]
    return {unit: _death(cause) for unit, cause in _of_tasks(folder, outline, died).items()}


def _death(cause: str) -> Death:
    what = cause.partition(" (log: ")[0]
    if what == _KILLED:
        return Death.KILLED
    return Death.MEMORY if _is_of_memory(what) else Death.OTHER


def _is_of_memory(what: str) -> bool:
    return any(word in what.lower() for word in _MEMORY_WORDS)


def causes_of(folder: BatchFolder, outline: TrainOutline, units: Mapping[FoldNode, str]) -> dict[FoldNode, str]:
    """The cause of each unit without a result, with the path of its log. ``units`` has the causes known already."""
    known = {unit: cause for unit, cause in units.items() if cause}
    open_units = [unit for unit in units if unit not in known]
    for unit in list(open_units):
        failure = UnitFailure.read(folder.failed(unit))
        if failure is not None:
            known[unit] = f"{failure.message} (log: {failure.log})"
            open_units.remove(unit)
    known |= _of_tasks(folder, outline, open_units)
    return {unit: known.get(unit, "no task was submitted for it") for unit in units}


def failures_of(
    folder: BatchFolder, outline: TrainOutline, causes: Mapping[FoldNode, str], done: Container[int]
) -> dict[int, Failure]:
    """Why sub-jobs have no result, by index, given the ``causes`` of their units and the sub-jobs that have one."""
    failures = {}
    for unit, cause in causes.items():
        of_unit = _failure(UnitFailure.read(folder.failed(unit)), cause)
        for index in outline.tree.shares_of(unit):
            if index not in done:
                own = UnitFailure.read(folder.failed(FoldNode(0, index))) if unit.stage else None
                failures[index] = of_unit if own is None else _failure(own, f"{own.message} (log: {own.log})")
    return failures


def _failure(failed: UnitFailure | None, cause: str) -> Failure:
    message, _, rest = cause.partition(" (log: ")
    log = rest.removesuffix(")")
    return Failure(message, log=log) if failed is None else Failure(message, failed.kind, failed.traceback, log)


def _of_tasks(folder: BatchFolder, outline: TrainOutline, units: Iterable[FoldNode]) -> dict[FoldNode, str]:
    """The causes of units whose tasks died, by their last tasks."""
    wanted = set(units)
    found: dict[FoldNode, str] = {}
    system = batch_system(outline.system)
    for jobs in reversed(JobsRecord.read_all(folder)) if wanted else ():
        from_system: dict[tuple[int, int], str] | None = None
        for task, nodes in enumerate(jobs.steps[0].tasks):
            for unit in wanted.intersection(nodes):
                wanted.discard(unit)
                if from_system is None:
                    from_system = {}
                    with suppress(BatchError):  # exit codes and logs give the cause then
                        from_system = system.causes(jobs.submitted)
                found[unit] = _cause(folder, jobs.steps[0], task, from_system.get((0, task)))
    return found


def _cause(folder: BatchFolder, step: StepRecord, task: int, from_system: str | None) -> str:
    log = folder.logs / f"{step.label}.{task}.log"
    marked = _mark_in(log)
    code = _exit_code(folder.accounts / f"{step.label}.{task}.exit")
    if marked:
        what = marked
    elif code and not (from_system and _is_of_memory(from_system)):
        what = _of_code(code)
    elif from_system:
        what = from_system
    elif code == 0:
        what = "its task ended without writing it"
    elif not _is_there(log):
        what = "its task never began"
    else:
        what = "its task ended without a message, as when its node fails or all its processes are killed"
    return f"{what} (log: {log})"


def _is_there(log: Path) -> bool:
    """Whether there is a log; other users cannot see that."""
    try:
        return log.exists()
    except PermissionError:
        return True


def _exit_code(path: Path) -> int | None:
    try:
        return int(read_plain(path, _EXIT_MAX_BYTES))
    except (OSError, ValueError):
        return None


def _of_code(code: int) -> str:
    number = code - _SHELL_SIGNALS
    if number == signal.SIGKILL:
        return _KILLED
    if number > 0:
        with suppress(ValueError):
            return f"its task was ended by signal {number} ({signal.Signals(number).name})"
    return f"its task ended with exit code {code}"


def _mark_in(log: Path) -> str:
    """The line with which a batch system ended a task."""
    try:
        with open_plain(log) as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - LOG_TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if any(mark in line for mark in _MARKS)), "")
