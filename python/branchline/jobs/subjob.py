"""Messages between a job and its workers: sub-jobs, results, notes and lost workers."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import cloudpickle

from branchline.base.trust import from_own_process, unpickle
from branchline.errors import BranchlineError
from branchline.jobs.interruption import Interruption
from branchline.jobs.sites import Spot


class Wait(enum.Enum):
    """The type of WAIT, which means that no sub-job is available now but more may become available."""

    WAIT = enum.auto()


WAIT = Wait.WAIT


@dataclass(frozen=True)
class Pickled:
    """A pickled value, such as the payload of a sub-job. Processes that only forward it do not unpickle it."""

    content: bytes

    @classmethod
    def of(cls, value: object) -> Pickled:
        """Pickle a value. Classes that cannot be imported are pickled by value."""
        return cls(cloudpickle.dumps(value))

    def value(self) -> object:
        """Return the unpickled value."""
        return unpickle(from_own_process(self.content), object)


@dataclass(frozen=True)
class SubJob:
    """A part of a job. ``label`` describes the work for display; ``payload`` is for the callable."""

    index: int
    label: str
    payload: object = None
    #: Whether a second worker may also run the sub-job at the end of a job; the first result counts.
    may_run_twice: bool = True
    #: Indices of neighbouring sub-jobs. A worker that runs all of them may fold their results; None to return each
    #: result individually.
    neighbours: range | None = None
    #: Hosts that hold the sub-job's input files, if known.
    hosts: tuple[str, ...] = ()
    #: Sub-jobs of the same kind take about equally long at the same site, such as those that read from the same storage
    #: element.
    kind: str = ""

    def packed(self) -> SubJob:
        """Return a copy with a pickled payload, which can be sent to a worker."""
        return replace(self, payload=Pickled.of(self.payload))


@dataclass(frozen=True)
class Finished:
    """A message: a sub-job is done, with this result."""

    index: int
    value: object
    worker: int = 0


@dataclass(frozen=True)
class Held:
    """A message: a sub-job is done. The worker keeps the result until the neighbours are done, and then folds their
    results.
    """

    index: int


@dataclass(frozen=True)
class Folded:
    """A message: neighbouring sub-jobs are done, and ``value`` is their combined result."""

    indices: range
    value: object
    worker: int = 0


@dataclass(frozen=True)
class Note:
    """A message: an intermediate value from a worker."""

    value: object
    worker: int = 0


@dataclass(frozen=True)
class Lost:
    """A worker process that was killed after a timeout or that died (``is_dead``); its sub-jobs are reassigned.

    - ``doing`` is the worker's last step.
    - ``seconds`` is the time without progress.
    - ``how`` says how the process ended or, after a timeout, what state it was in.
    - ``subjobs`` are the labels of its sub-jobs, starting with the sub-job in progress.
    """

    worker: int
    pid: int
    doing: str
    seconds: float
    how: str
    subjobs: tuple[str, ...]
    is_dead: bool = False
    #: Whether the worker ran out of memory or was killed because of its memory use.
    is_memory: bool = False
    #: The worker's host; empty for this machine. If the pool itself lost the worker, ``worker`` is -1.
    host: str = ""
    #: The end of the worker's standard error, if separate from the job's standard error.
    log: str = ""

    @property
    def is_from_pool(self) -> bool:
        """Whether the lost process was the pool's own worker, such as a Dask worker, and not a process started by
        Branchline.
        """
        return self.worker < 0

    @property
    def name(self) -> str:
        """The worker's name, for messages."""
        if self.is_from_pool:
            return "a worker"
        host = f" on {self.host}" if self.host else ""
        return f"worker {self.worker} (process {self.pid}{host})"

    def __str__(self) -> str:
        if self.is_dead:
            return f"{self.name} {self.how} at: {self.doing}" if self.doing else f"{self.name} {self.how}"
        return f"{self.name} was killed after {self.seconds:.0f} s without progress ({self.how}) at: {self.doing}"


@dataclass(frozen=True)
class Repeated:
    """A sub-job that ran twice because its first worker was slow.

    The fields are the reason, the worker whose result was used, and the worker that was killed or abandoned.
    """

    subjob: str
    why: str
    kept: str
    dropped: str


# Messages that a callable yields.
Message = Finished | Held | Folded | Note
# Messages that a place yields while a job runs.
FromPlace = Finished | Folded | Note | Lost | Repeated
# A function that plans retries of the sub-jobs of a lost worker. It returns False if no retries are left.
AfterLoss = Callable[[Lost, Sequence[SubJob]], bool]


def _no_heartbeat(_what: str, _kind: int = 0) -> None:
    """Do nothing: the default of ``at`` for a worker that is not monitored."""


def _not_in_a_process() -> None:
    """Do nothing: the default of ``out_of_memory`` for a callable that runs in the job's own process."""


@dataclass(frozen=True)
class Workers:
    """The current workers of a place: their numbers by location, and a function that returns the usual duration in
    seconds of a kind of sub-jobs at a site, None if it is unknown.
    """

    slots: Mapping[Spot, int] = field(default_factory=dict)
    usual_s: Callable[[str, str], float | None] = lambda _kind, _site: None

    @cached_property
    def by_site(self) -> Mapping[str, tuple[Spot, int]]:
        """One location at each site, and the number of workers there."""
        found: dict[str, tuple[Spot, int]] = {}
        for spot, count in self.slots.items():
            found[spot.site] = (spot, count + found.get(spot.site, (spot, 0))[1])
        return found


#: Workers of a place that does not know them.
NO_WORKERS = Workers()


class Draw(Protocol):
    """Returns the next sub-job, WAIT if no sub-job is available yet, or None if there are no more."""

    def __call__(self, spot: Spot | None = None, workers: Workers = NO_WORKERS, /) -> SubJob | Wait | None:
        """Return the next sub-job for a worker, preferably one whose data is near.

        ``spot`` is the worker's location, ``workers`` are all current workers. Without ``spot``, sub-jobs are returned
        in job order.
        """


class StepReporter(Protocol):
    """Reports which step a worker starts, and which timeout applies to the step."""

    def __call__(self, what: str, kind: int = ..., /) -> None: ...


@dataclass
class Context:
    """The environment of a running callable.

    The context has the worker number, the source of sub-jobs, and the interruption that asks the callable to stop.
    """

    worker: int
    _draw: Callable[[bool], SubJob | Wait | None]
    interruption: Interruption = field(default_factory=Interruption)
    #: A function that reports the step that starts now, and which timeout applies to it (see
    #: `branchline.jobs.workers.heartbeat`).
    at: StepReporter = _no_heartbeat
    #: Time at which the worker's startup began, by ``time.monotonic`` on its machine.
    begin_s: float = field(default_factory=time.monotonic)
    #: Number of threads that the callable may use; None if the callable decides.
    threads: int | None = None
    #: A function to call when memory is short. In a worker process, it exits the process, and the job retries the
    #: sub-job with less memory. Elsewhere, it does nothing.
    out_of_memory: Callable[[], None] = _not_in_a_process
    #: CPU seconds that the fork server spent on loading modules for this process.
    loading_cpu_s: float = 0.0

    def draw(self) -> SubJob | None:
        """Return the next sub-job, or None if there are no more. Blocks until one of the two is known."""
        drawn = self._draw(True)
        if isinstance(drawn, Wait):
            raise RuntimeError("the next sub-job depends on this worker, which is waiting for it")
        return drawn

    def draw_ahead(self) -> SubJob | Wait | None:
        """Return the next sub-job without blocking; WAIT if no sub-job is available yet."""
        return self._draw(False)


@runtime_checkable
class Work(Protocol):
    """A picklable callable that draws sub-jobs from its context and yields Notes, and a Finished for each sub-job.

    For sub-jobs with neighbours, the callable may instead yield a Held for each sub-job, and a Folded once all
    neighbours are done.
    """

    def __call__(self, context: Context) -> Iterator[Message]: ...


def packages_of(work: Work) -> Mapping[str, str]:
    """Return the package versions with which a callable was planned: its attribute ``packages``. Empty if it has no
    such attribute.
    """
    packages: Mapping[str, str] = getattr(work, "packages", {})
    return packages


class Place(Protocol):
    """A place where a job can run."""

    @property
    def workers(self) -> int:
        """The number of sub-jobs that can run at the moment."""

    @property
    def workers_seen(self) -> int:
        """The number of workers seen so far; worker numbers are less than this."""

    def prepare(self) -> None:
        """Connect to the workers. Raises the errors that prevent the job from running at all."""

    def close(self) -> None:
        """Close the connections that ``prepare`` opened, unless ``run`` has already closed them."""

    def run(self, work: Work, draw: Draw) -> Iterator[FromPlace]:
        """Run the callable on all sub-jobs returned by ``draw``, and yield messages as they arrive."""

    def stop(self) -> None:
        """Ask the workers to return partial results and exit; ``run`` ends soon after."""


class WorkerDiedError(BranchlineError):
    """Raised if a worker process ended before it finished its sub-job, for example because the machine ran out of
    memory.
    """
