"""The interface of a batch system and the list of supported systems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

from branchline.base.limits import BATCH_CALL_TIMEOUT_S
from branchline.errors import BatchError
from branchline.jobs.batch.htcondor import HTCondor
from branchline.jobs.batch.site_settings import Site
from branchline.jobs.batch.slurm import Slurm
from branchline.jobs.batch.task_steps import JobArray, Submitted, TaskState, TaskStep, TooManyJobsError

__all__ = [
    "BATCH_SYSTEMS",
    "BatchError",
    "BatchSystem",
    "JobArray",
    "Submitted",
    "SystemName",
    "TaskState",
    "TaskStep",
    "TooManyJobsError",
    "batch_system",
    "is_batch_system",
]

SystemName = Literal["slurm", "htcondor"]


class BatchSystem(Protocol):
    """A batch system. All methods raise BatchError if it is missing, refuses the request or does not answer in time."""

    name: str
    #: Whether jobs can submit further jobs. If not, a step's ``afterwards`` command runs on the submitting machine.
    can_submit_from_nodes: bool
    #: Whether tasks inherit the environment variables of the submitting process.
    passes_environment: bool

    def check(self, folder: Path) -> None:
        """Check that this machine can submit jobs that write to the folder."""

    def submit(
        self, name: str, steps: Sequence[TaskStep], folder: Path, site: Site, excluded: Sequence[str] = ()
    ) -> Submitted:
        """Submit steps of tasks.

        A step starts when all tasks of the previous step have finished, whether or not they succeeded. Tasks do not run
        on ``excluded`` nodes. Scripts are written to ``folder``. Raises TooManyJobsError if a limit is exceeded; tasks
        that were already submitted are then cancelled.
        """

    def room(self) -> int | None:
        """Return the number of tasks that can be submitted now; None if the number is unknown, or if the system itself
        delays tasks above its limits.
        """

    def states(self, submitted: Submitted, timeout_s: float = BATCH_CALL_TIMEOUT_S) -> list[TaskState]:
        """Return the tasks that are queued, held or running."""

    def causes(self, submitted: Submitted, timeout_s: float = BATCH_CALL_TIMEOUT_S) -> dict[tuple[int, int], str]:
        """Return why tasks failed, by (step, task). Tasks that the system no longer remembers are left out."""

    def release_command(self, submitted: Submitted, held: Sequence[TaskState]) -> str:
        """Return the command with which the user releases held tasks."""

    def task_end_s(self, site: Site) -> float:
        """Return when the system ends the task of this process, in seconds since 1970; infinity if never, and 0 if the
        task has a limit and its end is unknown.
        """

    def cancel(self, submitted: Submitted) -> None:
        """Cancel all tasks, both running and queued."""


_SYSTEMS = {one.name: one for one in (Slurm, HTCondor)}
#: Names of the supported batch systems.
BATCH_SYSTEMS = tuple(_SYSTEMS)


def is_batch_system(name: object) -> bool:
    """Return whether ``name`` is the name of a batch system."""
    return isinstance(name, str) and name in BATCH_SYSTEMS


def batch_system(name: str) -> BatchSystem:
    """Return the batch system with the given name. Raises KeyError."""
    return _SYSTEMS[name]()
