"""What a pool of far workers must be able to do, so that a job can run there: an executor's, or Dask's."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from branchline.errors import BranchlineError
from branchline.jobs.pools.groups import Group, GroupResult
from branchline.jobs.sites.spot import Spot


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
