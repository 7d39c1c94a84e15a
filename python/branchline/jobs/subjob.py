"""What a job and its workers exchange: sub-jobs, results, notes, and how a worker was lost."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import cloudpickle

from branchline.base.trust import from_own_process, unpickle
from branchline.errors import BranchlineError
from branchline.jobs.interruption import Interruption
from branchline.jobs.sites import Spot


class Wait(enum.Enum):
    """Says that there is no sub-job now, but that there will be one."""

    WAIT = enum.auto()


WAIT = Wait.WAIT


@dataclass(frozen=True)
class Pickled:
    """The payload of a sub-job, or a note, on its way past processes that need not know it."""

    content: bytes

    @classmethod
    def of(cls, value: Any) -> Pickled:
        """Pickled by value where nobody could import it."""
        return cls(cloudpickle.dumps(value))

    def value(self) -> Any:
        """What it was."""
        return unpickle(from_own_process(self.content))


@dataclass(frozen=True)
class SubJob:
    """A share of a job. ``label`` is for people: what it works on; ``payload`` is for the callable."""

    index: int
    label: str
    payload: Any = None
    #: At the end of a job it may run on a second worker, whose result counts if it comes first.
    may_run_twice: bool = True
    #: The indices of the neighbours with which a worker that has them all may fold its result; None where it comes
    #: alone.
    neighbours: range | None = None
    #: The machines that hold what it reads, if any are known.
    hosts: tuple[str, ...] = ()

    def packed(self) -> SubJob:
        """The same with its payload pickled, for its way to a worker."""
        return replace(self, payload=Pickled.of(self.payload))


@dataclass(frozen=True)
class Finished:
    """A sub-job is done and this came out."""

    index: int
    value: Any
    worker: int = 0


@dataclass(frozen=True)
class Held:
    """A sub-job is done, and its worker holds the result, which comes with those of its neighbours."""

    index: int


@dataclass(frozen=True)
class Folded:
    """Sub-jobs are done, neighbours from the first of their group on, and ``value`` is what came out of them as one."""

    indices: range
    value: Any
    worker: int = 0


@dataclass(frozen=True)
class Note:
    """A worker says something in between."""

    value: Any
    worker: int = 0


@dataclass(frozen=True)
class Lost:
    """A worker process that is gone, and whose sub-jobs are given to others: it was silent and has been ended, or it
    died by itself (``is_dead``).

    ``doing`` is the step that it was at, ``seconds`` for how long it was silent, ``how`` how its process stood or
    ended, ``subjobs`` are the labels of its sub-jobs, of which it was at the first.
    """

    worker: int
    pid: int
    doing: str
    seconds: float
    how: str
    subjobs: tuple[str, ...]
    is_dead: bool = False
    #: It ran out of memory, or was ended since it took too much.
    is_memory: bool = False
    #: The machine; empty for this one. A worker of a pool that ended has no number of ours: -1.
    host: str = ""
    #: The end of what it wrote to its standard error, where that is not the job's own.
    log: str = ""

    @property
    def is_from_pool(self) -> bool:
        """Whether it is a worker of a pool, as Dask's, and not a process that we started."""
        return self.worker < 0

    @property
    def name(self) -> str:
        """The worker, for messages."""
        if self.is_from_pool:
            return "a worker"
        host = f" on {self.host}" if self.host else ""
        return f"worker {self.worker} (process {self.pid}{host})"

    def __str__(self) -> str:
        if self.is_dead:
            return f"{self.name} {self.how} at: {self.doing}" if self.doing else f"{self.name} {self.how}"
        return f"{self.name} was ended after {self.seconds:.0f} s of silence ({self.how}) at: {self.doing}"


@dataclass(frozen=True)
class Repeated:
    """A sub-job that ran twice, since its first worker was slow: ``why``, in words, the worker whose result counts, and
    the one that was ended or is left behind.
    """

    subjob: str
    why: str
    kept: str
    dropped: str


# What a callable yields.
Message = Finished | Held | Folded | Note
# What a place yields while a job runs.
FromPlace = Finished | Folded | Note | Lost | Repeated
# Plans what is tried again after the loss of a worker with these sub-jobs; False if nothing more can be tried.
AfterLoss = Callable[[Lost, Sequence[SubJob]], bool]


def _no_heartbeat(_what: str, _kind: int = 0) -> None:
    """For a worker that nobody watches."""


def _not_in_a_process() -> None:
    """For a callable that works in the process of the job."""


class Draw(Protocol):
    """Gives the next sub-job, WAIT if it is not known yet, or None when there are no more."""

    def __call__(self, spot: Spot | None = None, spots: Collection[Spot] = (), /) -> SubJob | Wait | None:
        """``spot`` is where the worker stands, ``spots`` where all workers stand that there are: each gets what is near
        to it first. Without a spot the order is that of the job.
        """


@dataclass
class Context:
    """What a callable at work gets: its number, where to draw sub-jobs, and the interruption that asks it to stop."""

    worker: int
    _draw: Callable[[bool], SubJob | Wait | None]
    interruption: Interruption = field(default_factory=Interruption)
    #: Says what is begun now, and how it is waited for: see `branchline.jobs.workers.heartbeat`.
    at: Callable[..., None] = _no_heartbeat
    #: When this worker began to be started, by ``time.monotonic`` of its machine.
    begin_s: float = field(default_factory=time.monotonic)
    #: How many threads it may use; None where the callable knows.
    threads: int | None = None
    #: Called when memory is short. It ends a worker process, whose sub-job is tried with less; else it does nothing.
    out_of_memory: Callable[[], None] = _not_in_a_process
    #: CPU seconds that another process took to load what this one has.
    loading_cpu_s: float = 0.0

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
    """A picklable callable: draws sub-jobs from its context and yields a Finished for each, Notes in between. For
    sub-jobs with neighbours it may yield a Held for each, and a Folded for all of them.
    """

    def __call__(self, context: Context) -> Iterator[Message]: ...


def packages_of(work: Work) -> Mapping[str, str]:
    """Return the versions of packages with which a callable was planned, its ``packages``; none for most callables."""
    packages: Mapping[str, str] = getattr(work, "packages", {})
    return packages


class Place(Protocol):
    """Where a job runs."""

    @property
    def workers(self) -> int:
        """How many sub-jobs are worked on at a time now."""

    @property
    def workers_seen(self) -> int:
        """How many workers there were so far; their numbers are below this."""

    def prepare(self) -> None:
        """Connects to what is needed, and raises what would keep the job from running at all."""

    def close(self) -> None:
        """Lets go of what ``prepare`` connected to, if ``run`` has not done so."""

    def run(self, work: Work, draw: Draw) -> Iterator[FromPlace]:
        """Runs the callable on all the sub-jobs that ``draw`` gives, and yields what the workers say as they say it."""

    def stop(self) -> None:
        """Asks the workers to hand over what they have and to end; ``run`` ends soon after."""


class WorkerDiedError(BranchlineError):
    """A worker process ended without having finished its sub-job, as when the kernel kills it for want of memory."""
