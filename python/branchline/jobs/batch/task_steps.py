"""Code shared by all batch systems: steps of tasks and their scripts, records of submitted jobs, and calls of
command-line tools with a timeout.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from branchline.base.limits import BATCH_CALL_TIMEOUT_S
from branchline.base.quantities import duration
from branchline.errors import BatchError
from branchline.jobs.program import LIBRARY_THREADS

#: State of an unfinished task.
State = Literal["queued", "running", "held"]


@dataclass(frozen=True)
class TaskStep:
    """A step of a job: tasks that run the same command with different task numbers.

    - ``words`` is the command; the task number is appended as its last argument.
    - ``logs`` is the directory for the tasks' logs, and ``exits`` the directory for their exit codes. File names in
      both directories start with ``label``.
    - ``afterwards`` is a command that runs on the submitting machine after each task; if the command fails, the task
      runs once more. It is only used with systems whose nodes cannot submit jobs.
    """

    label: str
    tasks: int
    words: tuple[str, ...]
    logs: Path
    exits: Path
    afterwards: tuple[str, ...] = ()

    def log_of(self, task: int | str) -> Path:
        """Return the path of a task's log."""
        return self.logs / f"{self.label}.{task}.log"


@dataclass(frozen=True)
class JobArray:
    """Consecutive tasks of a step, starting with ``first_task``, that share a job ID of the batch system."""

    id: str
    step: int = 0
    first_task: int = 0


@dataclass(frozen=True)
class Submitted:
    """Steps that a batch system has accepted: one or more arrays per step, or a single array for all steps."""

    system: str
    arrays: tuple[JobArray, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """The job IDs in the batch system."""
        return tuple(one.id for one in self.arrays)

    def array_of(self, task: TaskState) -> JobArray:
        """Return the array of a task."""
        of_step = [one for one in self.arrays if one.step == task.step and one.first_task <= task.task]
        return max(of_step, key=lambda one: one.first_task)


@dataclass(frozen=True)
class TaskState:
    """An unfinished task. ``reason`` says, in the batch system's words, why the task is queued or held."""

    step: int
    task: int
    state: State
    reason: str = ""


def script(step: TaskStep, prologue: Sequence[str], task: str, node: str, log: str = "") -> str:
    """Return a shell script that runs a task and writes the node and the exit code to files.

    The files make it possible to detect killed tasks. ``task`` and ``node`` are shell expressions for the task number
    and the node. ``log`` is the quoted path of the task's log if the batch system cannot use the usual path; the usual
    path then becomes a symbolic link. The script exits with the task's exit code.
    """
    exit_file = f"{shlex.quote(str(step.exits / step.label))}.$branchline_task.exit"
    log_file = f"{shlex.quote(str(step.logs / step.label))}.$branchline_task.log"
    node_file = f"{shlex.quote(str(step.exits / step.label))}.$branchline_task.node"
    lines = [
        "#!/bin/bash",
        f"branchline_task={task}",
        *([f"ln -sf {log} {log_file}"] if log else []),
        # Remove the exit code of an earlier attempt. If this attempt is killed, there must be no exit code.
        f"rm -f {exit_file}",
        f"echo {node} > {node_file}",
        *(f"export {name}=${{{name}:-{threads}}}" for name, threads in LIBRARY_THREADS.items()),
        *prologue,
        f"{shlex.join(step.words)} $branchline_task",
        "code=$?",
        f"echo $code > {exit_file}",
        "exit $code",
    ]
    return "\n".join(lines) + "\n"


class TooManyJobsError(BatchError):
    """Raised if the batch system accepts no more jobs, either from this user or from any user."""


def call(
    words: Sequence[str],
    where: str,
    timeout_s: float = BATCH_CALL_TIMEOUT_S,
    variables: Mapping[str, str] | None = None,
    without: Collection[str] = (),
) -> str:
    """Run a command and return its output.

    ``variables`` are added to the command's environment, and those in ``without`` are removed. ``where`` is the hint
    for the user if the command is not installed. Raises BatchError.
    """
    program = shutil.which(words[0])
    if program is None:
        raise BatchError(f"the command {words[0]} was not found", hint=where)
    try:
        done = subprocess.run(  # noqa: S603 - arguments come from Branchline and the user, without a shell
            [program, *words[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env={name: value for name, value in os.environ.items() if name not in without} | dict(variables or {}),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BatchError(f"{words[0]} did not answer within {duration(timeout_s)}", retry=True) from None
    except OSError as error:
        raise BatchError(f"{words[0]} cannot be started: {error.strerror}", path=program) from None
    if done.returncode:
        reason = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        raise BatchError(f"{words[0]} failed: {reason}", retry=True)
    return done.stdout
