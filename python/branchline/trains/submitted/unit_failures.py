"""Determines why units have no result, from the files and exit codes of their tasks, the batch system, and logs.

The causes determine how units are retried: which machines to exclude, and which units must save memory.
"""

from __future__ import annotations

import json
import re
import signal
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from branchline.base.exit_codes import EXIT_INTERRUPTED, EXIT_OK
from branchline.base.limits import (
    BATCH_CALL_TIMEOUT_S,
    CHUNK_DIVISOR_MAX,
    CHUNK_SHRINK,
    LOG_TAIL_BYTES,
    NODE_FAILURES_MAX,
)
from branchline.base.whole_files import open_plain, read_plain
from branchline.errors import BatchError
from branchline.jobs.batch.site_settings import more_memory
from branchline.jobs.batch.system import batch_system
from branchline.jobs.fold_tree import FoldNode
from branchline.trains.running.missing import SubJobFailure
from branchline.trains.submitted.submission import JobsRecord, StepRecord, Submission, TrainOutline
from branchline.trains.submitted.submission_folder import BatchFolder, write_again
from branchline.trains.submitted.units import UnitFailure

# Texts that batch systems write to the end of a log when they kill a task.
_MARKS = ("DUE TO TIME LIMIT", "DUE TO NODE FAILURE", "DUE TO PREEMPTION", "oom_kill", "oom-kill", "CANCELLED AT")
_SHELL_SIGNALS = 128
# The last line of a traceback, or an error message of Branchline or of a shell script.
_EXCEPTION = re.compile(r"[\w.]*(Error|Exception|Interrupt|error)\b|/.*: ")
_ERROR_MAX_CHARS = 300
_EXIT_MAX_BYTES = 100
_KILLED = "its task was killed by signal 9 (SIGKILL), as the kernel does when memory is short"
# Words in causes that mean that a task ran out of memory.
_MEMORY_WORDS = ("memory", "oom")
# Exit codes of tasks that were ended from outside, by SIGINT, SIGKILL or SIGTERM. These exit codes do not count as
# failures of the machine.
_FROM_OUTSIDE = (EXIT_INTERRUPTED, 137, 143)


#: Causes of units that no task has begun, for example because the train was cancelled.
NOT_STARTED = ("its task never started", "no task was submitted for this unit")


def causes_of(
    folder: BatchFolder,
    outline: TrainOutline,
    units: Mapping[FoldNode, str],
    timeout_s: float = BATCH_CALL_TIMEOUT_S,
) -> dict[FoldNode, SubJobFailure]:
    """Return why each unit has no result. ``units`` maps the units to the reasons that are already known. The batch
    system is given up after ``timeout_s``.
    """
    known = {unit: SubJobFailure(reason) for unit, reason in units.items() if reason}
    for unit in units:
        failure = UnitFailure.read(folder.failed(unit)) if unit not in known else None
        if failure is not None:
            known[unit] = failure.of_subjob()
    known |= _of_tasks(folder, outline, units.keys() - known.keys(), timeout_s)
    return {unit: known.get(unit) or SubJobFailure(NOT_STARTED[1]) for unit in units}


def _of_tasks(
    folder: BatchFolder, outline: TrainOutline, units: Iterable[FoldNode], timeout_s: float = BATCH_CALL_TIMEOUT_S
) -> dict[FoldNode, SubJobFailure]:
    """Return why units have no result, by unit, according to the last task of each unit."""
    wanted = set(units)
    found: dict[FoldNode, SubJobFailure] = {}
    system = batch_system(outline.system)
    for jobs in reversed(JobsRecord.read_all(folder)) if wanted else ():
        from_system: dict[tuple[int, int], str] | None = None
        step = jobs.steps[0]
        for owner, nodes in enumerate(step.tasks):
            for unit in wanted.intersection(nodes):
                wanted.discard(unit)
                task = last_task_of(folder, step, unit, owner)
                if from_system is None:
                    from_system = {}
                    # Without an answer from the batch system, exit codes and logs are used.
                    with suppress(BatchError):
                        from_system = system.causes(jobs.submitted, timeout_s)
                found[unit] = _cause(folder, step, task, from_system.get((0, task)))
    return found


def last_task_of(folder: BatchFolder, step: StepRecord, unit: FoldNode, owner: int) -> int:
    """Return the last task that worked on a unit: the one that has taken it from its owner, or the owner."""
    try:
        label, _, task = read_plain(folder.taken(unit), _EXIT_MAX_BYTES).decode().rpartition(".")
    except (OSError, ValueError):
        return owner
    is_known = label == step.label and task.isdecimal() and int(task) < len(step.tasks)
    return int(task) if is_known else owner


def _cause(folder: BatchFolder, step: StepRecord, task: int, from_system: str | None) -> SubJobFailure:
    log = folder.logs / f"{step.label}.{task}.log"
    marked = _mark_in(log)
    code = _exit_code(folder.accounts / f"{step.label}.{task}.exit")
    if marked:
        what = marked
    elif code and not (from_system and _is_of_memory(from_system)):
        what = f"{_of_code(code)}{_last_error_in(log)}"
    elif from_system:
        what = from_system
    elif code == 0:
        what = "its task ended without writing a result"
    elif not _is_there(log):
        what = NOT_STARTED[0]
    else:
        what = "its task ended without a message, perhaps because its node failed or all its processes were killed"
    return SubJobFailure(what, log=str(log))


def _last_lines(log: Path) -> list[str]:
    """Return the last lines of a log, the last one first; empty if it cannot be read."""
    try:
        with open_plain(log) as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()[::-1]
    except OSError:
        return []


def _mark_in(log: Path) -> str:
    """Return the line that the batch system wrote to a log when it ended the task; empty if there is none."""
    return next((line.strip() for line in _last_lines(log) if any(mark in line for mark in _MARKS)), "")


def _last_error_in(log: Path) -> str:
    """Return the exception with which a log ends, after a colon; empty if there is none. A task that cannot import its
    modules, for example, writes it only to its log.
    """
    last = next((line for line in _last_lines(log) if line.strip()), "")
    return f": {last[:_ERROR_MAX_CHARS]}" if _EXCEPTION.match(last) else ""


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


def _is_there(log: Path) -> bool:
    """Return whether a log exists. Also true if this user has no permission to check."""
    try:
        return log.exists()
    except PermissionError:
        return True


def failures_of(
    folder: BatchFolder, outline: TrainOutline, causes: Mapping[FoldNode, SubJobFailure], done: Container[int]
) -> dict[int, SubJobFailure]:
    """Return why sub-jobs have no result, by index. ``causes`` are the causes of their units. Sub-jobs in ``done`` have
    a result.
    """
    failures = {}
    for unit, of_unit in causes.items():
        for index in outline.tree.shares_of(unit):
            if index not in done:
                own = UnitFailure.read(folder.failed(FoldNode(0, index))) if unit.stage else None
                failures[index] = of_unit if own is None else own.of_subjob()
    return failures


class Death(Enum):
    """How the task of a unit without a result died."""

    MEMORY = "memory"
    KILLED = "killed"
    OTHER = "other"


def deaths_of(folder: BatchFolder, outline: TrainOutline, units: Collection[FoldNode]) -> dict[FoldNode, Death]:
    """Return how the last task of each unit died. A unit is left out if its task recorded a failure and continued."""
    died = [unit for unit in units if UnitFailure.read(folder.failed(unit)) is None]
    return {unit: _death(cause.message) for unit, cause in _of_tasks(folder, outline, died).items()}


def _death(message: str) -> Death:
    if message == _KILLED:
        return Death.KILLED
    return Death.MEMORY if _is_of_memory(message) else Death.OTHER


def _is_of_memory(what: str) -> bool:
    return any(word in what.lower() for word in _MEMORY_WORDS)


@dataclass(frozen=True)
class LessMemory:
    """How a unit must save memory after its task ran out of memory: reading uses less memory, and chunks are
    ``chunk_divisor`` times smaller. If ``chunk_divisor`` is 1, the chunks and therefore the result stay the same, bit
    by bit.
    """

    chunk_divisor: int = 1

    def write(self, folder: BatchFolder, unit: FoldNode) -> None:
        """Store these settings for the next task of the unit. Raises StorageError."""
        write_again(folder.less(unit), json.dumps({"chunk_divisor": self.chunk_divisor}).encode())

    @classmethod
    def read(cls, folder: BatchFolder, unit: FoldNode) -> LessMemory | None:
        """Read the settings for a unit; None if the unit need not save memory."""
        try:
            return cls(int(json.loads(folder.less(unit).read_text())["chunk_divisor"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None


def save_memory(folder: BatchFolder, deaths: Mapping[FoldNode, Death]) -> None:
    """Store settings that save memory for units whose tasks ran out of memory: first with the same chunks, then with
    smaller chunks.

    If a task was killed for an unknown reason, the chunks of its unit stay the same, because the task may not have run
    out of memory.
    """
    for unit, death in deaths.items():
        before = LessMemory.read(folder, unit)
        if before is None and death is not Death.OTHER:
            LessMemory().write(folder, unit)
        elif before is not None and death is Death.MEMORY:
            LessMemory(min(CHUNK_DIVISOR_MAX, before.chunk_divisor * CHUNK_SHRINK)).write(folder, unit)


def memory_to_request(folder: BatchFolder, submission: Submission, deaths: Mapping[FoldNode, Death]) -> str | None:
    """Return the memory request for retried tasks, given how earlier tasks died; None if the site's setting is
    sufficient.
    """
    first = submission.site.memory
    if first is None:
        return None
    grown = next((one.memory for one in reversed(JobsRecord.read_all(folder)) if one.memory), None)
    if Death.MEMORY not in deaths.values():
        return grown
    more = more_memory(grown or first, first, submission.site.memory_max)
    return None if more == first else more


def bad_nodes(folder: BatchFolder) -> tuple[str, ...]:
    """Return the machines on which several tasks failed and none succeeded. Empty if no task succeeded on any
    machine.
    """
    failed: Counter[str] = Counter()
    good: set[str] = set()
    for path in folder.accounts.glob("*.node"):
        try:
            node = path.read_text().strip()
            code = int(path.with_suffix(".exit").read_text())
        except (OSError, ValueError):
            continue  # No exit code: the task's script was killed too, for example by a cancellation.
        if code == EXIT_OK and path.with_suffix(".idle").exists():
            continue  # Other tasks did its work, so it says nothing about the machine.
        if code == EXIT_OK:
            good.add(node)
        elif code not in _FROM_OUTSIDE:
            failed[node] += 1
    # If no task succeeded anywhere, the machines are not the cause.
    if not good:
        return ()
    return tuple(
        sorted(node for node, count in failed.items() if node and count >= NODE_FAILURES_MAX and node not in good)
    )
