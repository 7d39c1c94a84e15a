"""What runs on a worker of Dask, and what it says to the scheduler."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from distributed import Worker, get_worker
from distributed.comm.addressing import get_address_host
from distributed.utils import sync

from branchline.jobs.pools.agent import cancel_group, stop_agents, work_on_group
from branchline.jobs.pools.groups import Group, GroupResult


def topic_of(run_id: str) -> str:
    """The topic of Dask's events under which the workers of a run say what they begin."""
    return f"branchline-{run_id}"


def work_on_dask_group(group: Group) -> GroupResult:
    """Works on a group with all threads of this worker, and says first that it does: Dask gives the group to another
    worker by itself when this one ends, which nobody would know of.
    """
    worker = get_worker()
    _say_begun(worker, group)
    memory_limit_bytes = worker.memory_manager.memory_limit or None
    result = work_on_group(replace(group, threads=worker.state.nthreads, memory_limit_bytes=memory_limit_bytes))
    return replace(result, node=host_of(worker.address), address=worker.address)


def _say_begun(worker: Worker, group: Group) -> None:
    """Returns when the scheduler has it, so that it is known of a worker that dies at once, too."""
    message = {"number": group.number, "worker": worker.address}
    with suppress(OSError):  # A scheduler that is gone is noticed by the job itself.
        sync(worker.loop, worker.scheduler.log_event, topic=topic_of(group.settings.run), msg=message)


def host_of(address: str) -> str:
    """The machine in the address of a worker."""
    return str(get_address_host(address))


def cancel_on_worker(run_id: str, number: int) -> None:
    """Has the work on a group ended."""
    cancel_group(run_id, number)


def stop_on_worker(run_id: str) -> None:
    """Has the groups of a run handed over as they are."""
    stop_agents(run_id)
