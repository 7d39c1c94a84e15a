"""Groups of neighbouring sub-jobs: what a place hands to a far worker at a time, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field

from branchline.jobs.program import Program, Versions
from branchline.jobs.subjob import Lost, Pickled, SubJob
from branchline.jobs.workers.messages import SentError, SentFold, SentResult


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
