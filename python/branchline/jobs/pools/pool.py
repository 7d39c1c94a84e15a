"""The interface between a job and a pool of remote workers (Dask or an executor).

Workers run groups of neighbouring sub-jobs: each `SubJobGroup` sent to a worker returns a `GroupResult`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from branchline.errors import BranchlineError
from branchline.jobs.program import Program, Versions
from branchline.jobs.sites import Spot
from branchline.jobs.subjob import Lost, Pickled, SubJob
from branchline.jobs.workers.messages import SentError, SentFold, SentResult

if TYPE_CHECKING:
    from distributed import Client


class Begun(NamedTuple):
    """The start of a group: the time by the pool's clock, and the host, empty if unknown."""

    at_s: float
    node: str = ""


class Pool(Protocol):
    """Workers that are started and ended outside of Branchline. Groups are identified by number.

    The pool's clock is ``time.monotonic``, except in simulations: see ``OnPool``.
    """

    #: Whether a process of the pool runs only one group at a time, which uses all threads of the process.
    one_at_a_time: bool

    def open(self, run_id: str) -> None:
        """Connect to the pool, and check that its current workers can run the job. Raises PoolError."""

    def slots(self) -> Mapping[Spot, int]:
        """Return the number of groups that the workers accept at the same time, by the location of the workers.

        The result is empty if there are no workers. Raises PoolError if the pool is gone.
        """

    def nodes(self) -> Collection[str]:
        """Return the names of the current hosts; empty if the pool cannot send groups to specific hosts."""

    def submit(self, group: SubJobGroup, avoided: frozenset[str]) -> None:
        """Submit a group to a worker.

        If possible, the worker is at the group's site and not on an ``avoided`` host. Raises PoolError.
        """

    def exclude(self, address: str) -> bool:
        """Send no more groups to the worker with the address ``GroupResult.address``.

        Returns False if no worker is left, or if the pool cannot choose workers.
        """

    def begun(self, number: int) -> Begun | None:
        """Return when and where a group started; None if the group is queued or its start is unknown."""

    def done(self, timeout_s: float) -> Iterable[Done]:
        """Wait at most ``timeout_s`` for groups to finish or restart, and yield these events. Raises PoolError if the
        pool is gone.
        """

    def cancel(self, number: int) -> None:
        """Cancel a group whose result is not needed any more, if the pool supports this."""

    def stop(self) -> None:
        """Ask the workers to return partial results."""

    def close(self) -> None:
        """Cancel the remaining groups and release the workers."""


class DaskCluster(Protocol):
    """A Dask cluster: a LocalCluster, a cluster of dask-jobqueue, the GatewayCluster of dask-gateway."""

    def get_client(self) -> Client:
        """Return a client that is connected to the scheduler."""


class PoolError(BranchlineError):
    """Raised if a job's workers cannot be reached or cannot run the job."""


@dataclass(frozen=True)
class Done:
    """An event: a group finished, failed or was restarted.

    - ``error`` says why the group failed.
    - ``worker_died`` is True if the process of the group's worker died.
    - ``begun_again_at`` is the worker on which the pool restarted the group because its first worker ended. In that
      case the group has not finished.
    - ``node`` is the host of the worker that ended, if known.
    - ``has_left`` is True if the worker left gracefully, such as at the end of its lifetime or when preempted.
    """

    number: int
    result: GroupResult | None = None
    error: BaseException | None = None
    worker_died: bool = False
    begun_again_at: str = ""
    node: str = ""
    has_left: bool = False


# --- groups of sub-jobs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SubJobGroup:
    """Sub-jobs for one worker.

    ``program`` is omitted if it is large and the worker already has the program with the key ``program_key``.
    """

    number: int
    settings: PoolRunSettings
    subjobs: tuple[SubJob, ...]
    program_key: str
    program: Program | None
    threads: int | None = None
    #: Memory limit of the pool's worker; Branchline's process is killed before it exceeds the limit.
    memory_limit_bytes: int | None = None
    #: Site whose workers run the group, unless the site has no workers; None for any worker.
    site: str | None = None
    #: Hosts that hold the input files; workers on these hosts are preferred.
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class PoolRunSettings:
    """Settings shared by all groups of a run.

    - ``timeout_s`` and ``reading_timeout_s`` are as in ``LocalProcesses``.
    - ``stop_file`` is the path of a file. Workers that can access it stop when the file is created.
    - ``one_at_a_time`` is True if a process of the pool runs only one group at a time. The group then uses all
      threads of the process.
    """

    run: str
    versions: Versions
    timeout_s: float | None
    reading_timeout_s: float
    stop_file: str
    one_at_a_time: bool

    def stop_file_of(self, number: int) -> str:
        """Return the path of the file that cancels a group when it is created."""
        return f"{self.stop_file}.{number}"


@dataclass
class GroupResult:
    """The outcome of a group. ``worker`` identifies the process on ``host`` that ran the group.

    ``finished`` has individual results by index, ``folded`` the combined results of neighbours. The sub-jobs in
    ``unfinished`` have to run again. If the worker process was lost, the first unfinished sub-job was in progress.
    """

    worker: str
    host: str
    finished: list[SentResult] = field(default_factory=list)
    folded: list[SentFold] = field(default_factory=list)
    # The latest note of each kind that the worker process sent.
    notes: list[Pickled] = field(default_factory=list)
    unfinished: list[int] = field(default_factory=list)
    seconds: float = 0.0
    lost: Lost | None = None
    lost_hint: str | None = None
    #: The exception that the callable raised.
    error: SentError | None = None
    #: Whether the worker lacks the program.
    needs_program: bool = False
    #: The host's name in the pool.
    node: str = ""
    #: How the package versions in the pool's process differ from the job's versions; empty if they match.
    refused: str = ""
    #: The worker's address, in pools that can choose workers.
    address: str = ""

    @property
    def refusal(self) -> str:
        """The reason why the worker cannot run this job; empty if it can run the job."""
        if self.error is not None and self.error.is_refusal:
            return str(getattr(self.error.in_job(), "what", ""))
        return f"the worker on {self.host} has {self.refused}" if self.refused else ""

    @property
    def done_count(self) -> int:
        """The number of sub-jobs with a result."""
        return len(self.finished) + sum(len(one.indices) for one in self.folded)

    @property
    def result_bytes(self) -> float | None:
        """The mean serialized size of a result; None if there are no results."""
        values = [one.value for one in self.finished] + [one.value for one in self.folded]
        sizes = [len(one.content) for one in values]
        return sum(sizes) / len(sizes) if sizes else None
