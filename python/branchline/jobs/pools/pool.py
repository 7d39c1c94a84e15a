"""A pool of far workers, an executor's or Dask's: what it must be able to do, so that a job can run there.

It works on groups of neighbouring sub-jobs: `Group` is what a place hands to a far worker at a time, `GroupResult` what
comes back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from branchline.errors import BranchlineError
from branchline.jobs.program import Program, Versions
from branchline.jobs.sites import Spot
from branchline.jobs.subjob import Lost, Pickled, SubJob
from branchline.jobs.workers.messages import SentError, SentFold, SentResult


class Pool(Protocol):
    """Workers that somebody else starts and ends. Groups are submitted by their numbers.

    The clock of a pool is ``time.monotonic``, but for one whose time is simulated: see ``OnPool``.
    """

    #: A process of the pool works on one group at a time, with all its threads.
    one_at_a_time: bool

    def open(self, run_id: str) -> None:
        """Connects, and checks that the workers that are there can work for this process. Raises PoolError."""

    def slots(self) -> Mapping[Spot, int]:
        """How many groups can be worked on at a time now, by where the workers stand; empty while there are none.
        Raises PoolError if the pool is gone.
        """

    def nodes(self) -> Collection[str]:
        """The machines that there are now, as far as they can be chosen."""

    def submit(self, group: Group, avoided: frozenset[str]) -> None:
        """Hands over a group: to a worker of its site if it names one, and to another machine than those ``avoided``,
        where there are such workers. Raises PoolError.
        """

    def exclude(self, address: str) -> bool:
        """Gives no more groups to a worker, by its address in ``GroupResult``; False if no other worker is there, or
        the pool cannot choose.
        """

    def begun_s(self, number: int) -> float | None:
        """Since when a group is worked on, by the clock of the pool; None if it waits, or that is not known."""

    def done(self, timeout_s: float) -> Iterable[Done]:
        """Waits for groups that came back, for this long at most. Raises PoolError if the pool is gone."""

    def cancel(self, number: int) -> None:
        """Nobody waits for this group any more: its work is ended, where it can be."""

    def stop(self) -> None:
        """Asks the workers to hand over what they have."""

    def close(self) -> None:
        """Drops what is left, and lets go of the workers."""


class PoolError(BranchlineError):
    """The workers of a job cannot be reached, or cannot work for it."""


@dataclass(frozen=True)
class Done:
    """A group came back, or ``error`` says why not. ``worker_died`` if that was with a worker's process.

    Or it did not come back yet: the pool gave it to another worker, ``begun_again_at``, since the first one ended.
    ``node`` is the machine of the worker that ended, where that is known; ``has_left`` says that it ended in good
    order, as at the end of its time or when it was preempted.
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
class Group:
    """Sub-jobs for one worker. ``program`` is left out where it is large and the worker has it by ``program_key``."""

    number: int
    settings: PoolRunSettings
    subjobs: tuple[SubJob, ...]
    program_key: str
    program: Program | None
    threads: int | None = None
    #: What a worker of the pool may have; the process of ours that works for it is ended before it takes more.
    memory_limit_bytes: int | None = None
    #: The site whose workers are to work on it, as long as there are some; None where any may.
    site: str | None = None
    #: The machines that hold what it reads: their workers get it if they can, else any may.
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class PoolRunSettings:
    """What all groups of a run share.

    ``timeout_s`` and ``reading_timeout_s`` are as for ``LocalProcesses``. A run ends its work early when the file
    ``stop_file`` exists, on machines that see it. ``one_at_a_time`` says that a process of the pool works on one group
    at a time, with all its threads.
    """

    run: str
    versions: Versions
    timeout_s: float | None
    reading_timeout_s: float
    stop_file: str
    one_at_a_time: bool

    def stop_file_of(self, number: int) -> str:
        """The file that says that nobody waits for a group any more."""
        return f"{self.stop_file}.{number}"


@dataclass
class GroupResult:
    """What became of a group. ``worker`` names the process that worked, on ``host``.

    ``finished`` has results by index, ``folded`` those of neighbours as one. The indices in ``unfinished`` are to be
    handed out again; if the worker was lost on the way, it was at the first of them.
    """

    worker: str
    host: str
    finished: list[SentResult] = field(default_factory=list)
    folded: list[SentFold] = field(default_factory=list)
    # The last one of each kind.
    notes: list[Pickled] = field(default_factory=list)
    unfinished: list[int] = field(default_factory=list)
    seconds: float = 0.0
    lost: Lost | None = None
    lost_hint: str | None = None
    #: What the callable raised.
    error: SentError | None = None
    #: The worker does not have the program.
    needs_program: bool = False
    #: The machine as the pool knows it.
    node: str = ""
    #: What is another version in the process of the pool than in the job.
    refused: str = ""
    #: The worker, as a pool that can choose workers addresses it.
    address: str = ""

    @property
    def refusal(self) -> str:
        """Why the worker cannot work for this job at all; empty if it can."""
        if self.error is not None and self.error.is_refusal:
            return str(getattr(self.error.in_job(), "what", ""))
        return f"the worker on {self.host} has {self.refused}" if self.refused else ""

    @property
    def done_count(self) -> int:
        """The sub-jobs with a result."""
        return len(self.finished) + sum(len(one.indices) for one in self.folded)

    @property
    def result_bytes(self) -> float | None:
        """The mean size of a result as it travels; None without one."""
        values = [one.value for one in self.finished] + [one.value for one in self.folded]
        sizes = [len(one.content) for one in values]
        return sum(sizes) / len(sizes) if sizes else None
