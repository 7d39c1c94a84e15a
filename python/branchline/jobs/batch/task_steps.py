"""Parts that all batch systems share: steps of tasks and their script, records of what was submitted, and calls of the
systems' commands, each with a deadline.
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
from branchline.errors import BatchError

#: The state of a task that has not ended.
State = Literal["queued", "running", "held"]


@dataclass(frozen=True)
class Step:
    """Tasks that differ in their number, which is the last word of the command line. ``logs`` is the folder of their
    logs, ``exits`` the one where each leaves its exit code; the names of both begin with ``label``.

    ``afterwards`` is a command that runs after each task on the machine from which they were submitted; if it fails,
    the task runs once more. Only systems have it whose nodes cannot submit.
    """

    label: str
    tasks: int
    words: tuple[str, ...]
    logs: Path
    exits: Path
    afterwards: tuple[str, ...] = ()

    def log_of(self, task: int | str) -> Path:
        """The log of a task."""
        return self.logs / f"{self.label}.{task}.log"


@dataclass(frozen=True)
class JobArray:
    """Tasks that share a job number of the batch system: those of a step from ``first_task`` on."""

    id: str
    step: int = 0
    first_task: int = 0


@dataclass(frozen=True)
class Submitted:
    """Steps that a batch system has accepted: one array or several for each step, or one for all steps."""

    system: str
    arrays: tuple[JobArray, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """The job numbers of the batch system."""
        return tuple(one.id for one in self.arrays)


@dataclass(frozen=True)
class TaskState:
    """A task that has not ended. ``reason`` is the system's text on why it is queued or held."""

    step: int
    task: int
    state: State
    reason: str = ""


def script(step: Step, prologue: Sequence[str], task: str, node: str, log: str = "") -> str:
    """A shell script that runs a task, and writes its node and its exit code to files: so a killed process is noticed.

    ``task`` is the number of the task and ``node`` its node as the shell knows them; ``log`` its log, quoted for the
    shell, where the batch system cannot give it the usual name. The script ends with the same code.
    """
    exit_file = f"{shlex.quote(str(step.exits / step.label))}.$branchline_task.exit"
    log_file = f"{shlex.quote(str(step.logs / step.label))}.$branchline_task.log"
    node_file = f"{shlex.quote(str(step.exits / step.label))}.$branchline_task.node"
    lines = [
        "#!/bin/bash",
        f"branchline_task={task}",
        *([f"ln -sf {log} {log_file}"] if log else []),
        # A task that was started again has the code of its last attempt only.
        f"rm -f {exit_file}",
        f"echo {node} > {node_file}",
        *prologue,
        f"{shlex.join(step.words)} $branchline_task",
        "code=$?",
        f"echo $code > {exit_file}",
        "exit $code",
    ]
    return "\n".join(lines) + "\n"


class TooManyJobsError(BatchError):
    """A batch system takes no more jobs of a user, or none at all."""


def call(
    words: Sequence[str],
    where: str,
    timeout_s: float = BATCH_CALL_TIMEOUT_S,
    variables: Mapping[str, str] | None = None,
    without: Collection[str] = (),
) -> str:
    """The output of a command. ``variables`` are added to its environment, those in ``without`` are left out of it;
    ``where`` is the hint if there is no such command. Raises BatchError.
    """
    program = shutil.which(words[0])
    if program is None:
        raise BatchError(f"there is no {words[0]} here", hint=where)
    try:
        done = subprocess.run(  # noqa: S603 - the words are ours and the user's, and no shell sees them
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
        raise BatchError(f"{words[0]} did not answer within {timeout_s:.0f} s", retry=True) from None
    except OSError as error:
        raise BatchError(f"{words[0]} cannot be started: {error.strerror}", path=program) from None
    if done.returncode:
        reason = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        raise BatchError(f"{words[0]} failed: {reason}", retry=True)
    return done.stdout
