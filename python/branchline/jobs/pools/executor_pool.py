"""Any executor of ``concurrent.futures`` as a pool of workers: processes, threads, or those of another package."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import replace
from functools import partial

from branchline.base.limits import EXECUTOR_SLOTS
from branchline.jobs.pools.agent import cancel_group, end_agents, stop_agents, work_on_group
from branchline.jobs.pools.pool import Done, Group, GroupResult, PoolError
from branchline.jobs.sites import Spot


class ExecutorPool:
    """Each group is a call of the executor. The code of users runs in processes of its own, so that threads do, too."""

    one_at_a_time = False

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._slots: int = getattr(executor, "_max_workers", None) or EXECUTOR_SLOTS
        self._futures: dict[int, Future[GroupResult]] = {}
        self._done: queue.SimpleQueue[tuple[int, Future[GroupResult]]] = queue.SimpleQueue()
        self._run_id = ""
        self._begun_s: dict[int, float] = {}

    def open(self, run_id: str) -> None:
        """An executor starts its workers by itself."""
        self._run_id = run_id

    def slots(self) -> Mapping[Spot, int]:
        """Its workers, as far as it says how many; where they stand is not known."""
        return {Spot(): self._slots}

    def nodes(self) -> tuple[str, ...]:
        """An executor does not say where its workers are."""
        return ()

    def submit(self, group: Group, avoided: frozenset[str]) -> None:
        """Raises PoolError for an executor that is shut down or broken."""
        del avoided  # It is not known where its workers are.
        cores = len(os.sched_getaffinity(0))
        group = replace(group, threads=max(1, cores // self._slots))
        try:
            future = self._executor.submit(work_on_group, group)
        except RuntimeError as error:  # BrokenExecutor is one
            raise PoolError(f"the executor takes no more work: {error}", hint="give one that works") from error
        self._futures[group.number] = future
        future.add_done_callback(partial(self._take, group.number))

    def exclude(self, address: str) -> bool:
        """An executor does not let its workers be chosen."""
        del address
        return False

    def _take(self, number: int, future: Future[GroupResult]) -> None:
        self._done.put((number, future))

    def done(self, timeout_s: float) -> Iterator[Done]:
        """Those of the next moment."""
        try:
            number, future = self._done.get(timeout=timeout_s)
            while True:
                if self._futures.pop(number, None) is not None:
                    yield _done(number, future)
                number, future = self._done.get_nowait()
        except queue.Empty:
            return

    def begun_s(self, number: int) -> float | None:
        """Since it was first seen to run."""
        future = self._futures.get(number)
        if future is None or not future.running():
            return None
        return self._begun_s.setdefault(number, time.monotonic())

    def cancel(self, number: int) -> None:
        """Threads see this, and processes of this machine a file that says so."""
        if (future := self._futures.pop(number, None)) is not None:
            future.cancel()
        cancel_group(self._run_id, number)

    def stop(self) -> None:
        """Threads see this; processes of this machine the file that says so."""
        for future in self._futures.values():
            future.cancel()
        stop_agents(self._run_id)

    def close(self) -> None:
        """The executor stays as it is, but for our processes in it."""
        for future in self._futures.values():
            future.cancel()
        self._futures.clear()
        end_agents(self._run_id)


def _done(number: int, future: Future[GroupResult]) -> Done:
    try:
        return Done(number, future.result(timeout=0))
    except BrokenExecutor as error:
        hint = "a process of it died; what was finished is kept"
        raise PoolError(f"the executor broke: {error}", hint=hint, retry=True) from error
    except (Exception, CancelledError) as error:  # noqa: BLE001 - the executor hands on whatever was raised
        return Done(number, error=error)
