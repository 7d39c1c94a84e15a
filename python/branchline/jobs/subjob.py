"""The words between who hands out sub-jobs and who works on them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from branchline.errors import BranchlineError
from branchline.jobs.interruption import Interruption


class Wait(enum.Enum):
    """Says that there is no sub-job now, but that there will be one."""

    WAIT = enum.auto()


WAIT = Wait.WAIT


@dataclass(frozen=True)
class SubJob:
    """A share of a job. ``label`` is for people: what it works on; ``payload`` is for the callable."""

    index: int
    label: str
    payload: Any = None


@dataclass(frozen=True)
class Finished:
    """A sub-job is done and this came out."""

    index: int
    value: Any
    worker: int = 0


@dataclass(frozen=True)
class Note:
    """A worker says something in between."""

    value: Any
    worker: int = 0


@dataclass(frozen=True)
class Lost:
    """A worker that was silent has been ended: its process, what it was at and for how long, how its process stood, and
    its sub-jobs, which are given to others.
    """

    worker: int
    pid: int
    doing: str
    seconds: float
    how: str
    subjobs: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"worker {self.worker} (process {self.pid}) was ended after {self.seconds:.0f} s of silence "
            f"({self.how}) at: {self.doing}"
        )


Message = Finished | Note
# What a place tells of a job.
Told = Message | Lost


def _say_nothing(_what: str, _kind: int = 0) -> None:
    """Nobody asks what this worker is at."""


# Gives the next sub-job, WAIT if it is not known yet, or None when there are no more.
Draw = Callable[[], SubJob | Wait | None]


@dataclass
class Context:
    """What a callable at work gets: its number, where to draw sub-jobs, and how it is told to stop."""

    worker: int
    _draw: Callable[[bool], SubJob | Wait | None]
    interruption: Interruption = field(default_factory=Interruption)
    #: Says what is begun now, and how it is waited for: see `branchline.jobs.heartbeat`.
    at: Callable[..., None] = _say_nothing

    def draw(self) -> SubJob | None:
        """The next sub-job, or None at the end; waits until one of the two is known."""
        drawn = self._draw(True)
        if isinstance(drawn, Wait):
            raise RuntimeError("a sub-job was promised that depends on this worker going on")
        return drawn

    def draw_ahead(self) -> SubJob | Wait | None:
        """The same without waiting: WAIT if it is not known yet."""
        return self._draw(False)


class Work(Protocol):
    """A picklable callable: draws sub-jobs from its context and yields a Finished for each, Notes in between."""

    def __call__(self, context: Context) -> Iterator[Message]: ...


class Place(Protocol):
    """Where a job runs."""

    workers: int

    def run(self, work: Work, draw: Draw) -> Iterator[Told]:
        """Runs the callable on all the sub-jobs that ``draw`` gives, and yields what the workers say as they say it."""

    def stop(self) -> None:
        """Asks the workers to hand over what they have and to end; ``run`` ends soon after."""


class WorkerDiedError(BranchlineError):
    """A worker process ended without having finished its sub-job, as when the kernel kills it for want of memory."""
