"""Uses any ``concurrent.futures`` executor as a pool of workers: processes, threads, or an executor from another
package.
"""

from __future__ import annotations

import math
import os
import queue
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import suppress
from dataclasses import replace
from functools import partial

from branchline.base.limits import EXECUTOR_SLOTS
from branchline.jobs.pools.agent import cancel_group, end_agents, stop_agents, work_on_group
from branchline.jobs.pools.pool import Begun, Done, GroupResult, PoolError, SubJobGroup
from branchline.jobs.sites import Spot

#: Names of the exceptions of Parsl and Ray for a call whose worker process or machine was lost.
_WORKER_LOST = {"ManagerLost", "NodeDiedError", "OutOfMemoryError", "WorkerCrashedError", "WorkerLost"}


class ExecutorPool:
    """Submits each group as a call of the executor. User code runs in separate processes, even if the executor uses
    threads.
    """

    one_at_a_time = False

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._slots: int = getattr(executor, "_max_workers", None) or max(EXECUTOR_SLOTS, _parsl_workers(executor))
        self._futures: dict[int, Future[GroupResult]] = {}
        self._done: queue.SimpleQueue[tuple[int, Future[GroupResult]]] = queue.SimpleQueue()
        self._run_id = ""
        self._begun_s: dict[int, float] = {}

    def open(self, run_id: str) -> None:
        """Store the run's ID. There is nothing to connect to: the executor starts its workers itself."""
        self._run_id = run_id

    def slots(self) -> Mapping[Spot, int]:
        """Return the executor's number of workers, or a default if it is unknown. The location of the workers is
        unknown.
        """
        return {Spot(): self._slots}

    def nodes(self) -> tuple[str, ...]:
        """Return an empty tuple: an executor does not reveal where its workers are."""
        return ()

    def submit(self, group: SubJobGroup, avoided: frozenset[str]) -> None:
        """Submit a group. Raises PoolError if the executor was shut down or is broken."""
        del avoided  # the location of the workers is unknown
        cores = len(os.sched_getaffinity(0))
        group = replace(group, threads=max(1, cores // self._slots))
        try:
            future = self._executor.submit(work_on_group, group)
        except RuntimeError as error:  # includes BrokenExecutor
            raise PoolError(
                f"the executor accepts no more work: {error}", hint="pass an executor that is not shut down"
            ) from error
        self._futures[group.number] = future
        future.add_done_callback(partial(self._take, group.number))

    def exclude(self, address: str) -> bool:
        """Return False: an executor does not allow callers to choose workers."""
        del address
        return False

    def _take(self, number: int, future: Future[GroupResult]) -> None:
        self._done.put((number, future))

    def done(self, timeout_s: float) -> Iterator[Done]:
        """Yield the groups that finish within the timeout."""
        try:
            number, future = self._done.get(timeout=timeout_s)
            while True:
                if self._futures.pop(number, None) is not None:
                    yield _done(number, future)
                number, future = self._done.get_nowait()
        except queue.Empty:
            return

    def begun(self, number: int) -> Begun | None:
        """Return the time at which this method first saw the group running; None if the group is not running."""
        future = self._futures.get(number)
        if future is None or not future.running():
            return None
        return Begun(self._begun_s.setdefault(number, time.monotonic()))

    def cancel(self, number: int) -> None:
        """Cancel a group. Workers in threads are notified directly, local processes by the group's stop file."""
        if (future := self._futures.pop(number, None)) is not None:
            _cancel(future)
        cancel_group(self._run_id, number)

    def stop(self) -> None:
        """Stop all groups. Workers in threads are notified directly, local processes by the run's stop file."""
        for future in self._futures.values():
            _cancel(future)
        stop_agents(self._run_id)

    def close(self) -> None:
        """End Branchline's processes in the executor, which keeps running."""
        for future in self._futures.values():
            _cancel(future)
        self._futures.clear()
        end_agents(self._run_id)


def _parsl_workers(executor: Executor) -> int:
    """Return the maximum number of workers of the blocks of a ParslPoolExecutor, 0 for another executor."""
    count = 0
    for one in getattr(getattr(executor, "_dfk", None), "executors", {}).values():
        provider = getattr(one, "provider", None)
        nodes = getattr(provider, "max_blocks", 0) * getattr(provider, "nodes_per_block", 0)
        workers = nodes * getattr(one, "workers_per_node", 0)
        # Parsl also accepts an infinite number of blocks.
        count += int(workers) if math.isfinite(workers) else 0
    return count


def _cancel(future: Future[GroupResult]) -> None:
    with suppress(NotImplementedError):  # futures of Parsl cannot be cancelled
        future.cancel()


def _done(number: int, future: Future[GroupResult]) -> Done:
    try:
        return Done(number, future.result(timeout=0))
    except BrokenExecutor as error:
        hint = "one of its processes died; finished sub-jobs are kept"
        raise PoolError(f"the executor broke: {error}", hint=hint, retry=True) from error
    except (Exception, CancelledError) as error:  # noqa: BLE001 - the executor re-raises any exception of the call
        return Done(number, error=error, worker_died=type(error).__name__ in _WORKER_LOST)
