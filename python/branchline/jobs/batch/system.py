"""The interface of a batch system, and the list of those that are supported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

from branchline.errors import BatchError
from branchline.jobs.batch.htcondor import HTCondor
from branchline.jobs.batch.site_settings import Site
from branchline.jobs.batch.slurm import Slurm
from branchline.jobs.batch.task_steps import JobArray, Step, Submitted, TaskState, TooManyJobsError

__all__ = [
    "BatchError",
    "BatchSystem",
    "JobArray",
    "Step",
    "Submitted",
    "SystemName",
    "TaskState",
    "TooManyJobsError",
    "batch_system",
    "is_batch_system",
]

SystemName = Literal["slurm", "htcondor"]


class BatchSystem(Protocol):
    """A batch system. All of its methods raise BatchError where it is missing, refuses, or does not answer in time."""

    name: str
    #: Whether jobs may submit others. Else a step's ``afterwards`` runs where the step was submitted.
    can_submit_from_nodes: bool

    def check(self, folder: Path) -> None:
        """Checks that jobs which write to a folder can be submitted from here."""

    def submit(
        self, name: str, steps: Sequence[Step], folder: Path, site: Site, excluded: Sequence[str] = ()
    ) -> Submitted:
        """Submits steps of tasks. A step begins when all tasks of the one before have ended, however they ended. None
        runs on a node that is ``excluded``.
        Scripts are written to ``folder``. Raises TooManyJobsError, after which none is left, where there are too many.
        """

    def room(self) -> int | None:
        """How many tasks can be submitted now; None if that is unknown, or if the system queues the rest itself."""

    def states(self, submitted: Submitted) -> list[TaskState]:
        """The tasks that are queued, held or running."""

    def causes(self, submitted: Submitted) -> dict[tuple[int, int], str]:
        """Why tasks failed, by (step, task), as long as the system keeps that."""

    def cancel(self, submitted: Submitted) -> None:
        """Ends all tasks, and those that are queued too."""


_SYSTEMS: dict[str, type[Slurm | HTCondor]] = {"slurm": Slurm, "htcondor": HTCondor}


def is_batch_system(name: object) -> bool:
    """Whether jobs can be submitted to something of this name."""
    return isinstance(name, str) and name in _SYSTEMS


def batch_system(name: str) -> BatchSystem:
    """The batch system of a name. Raises KeyError."""
    return _SYSTEMS[name]()
