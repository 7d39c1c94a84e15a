"""What runs on a worker of Dask, and what it says to the scheduler."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from distributed import Status, Worker, get_worker
from distributed.comm.addressing import get_address_host

from branchline.jobs.agent import cancel_group, stop_agents, work_on_group
from branchline.jobs.groups import Group, GroupResult
from branchline.limits import AGENT_LOOK_INTERVAL_S

LEAVING = (Status.closing_gracefully, Status.closing)


def topic_of(run_id: str) -> str:
    """The topic of Dask's events under which the workers of a run say what they begin."""
    return f"branchline-{run_id}"


def work_on_dask_group(group: Group) -> GroupResult:
    """Works on a group with all threads of this worker, and says first that it does: Dask gives the group to another
    worker by itself when this one ends, which nobody would know of.
    """
    worker = get_worker()
    topic, said = topic_of(group.settings.run), {"number": group.number, "worker": worker.address}
    worker.log_event(topic, said)
    with _leaving_reported(worker, topic, said):
        result = work_on_group(
            replace(group, threads=worker.state.nthreads, memory_limit_bytes=worker.memory_manager.memory_limit or None)
        )
    return replace(result, node=host_of(worker.address))


@contextmanager
def _leaving_reported(worker: Worker, topic: str, said: dict[str, Any]) -> Iterator[None]:
    """Says to the job when this worker is about to end in good order: at the end of its time, or preempted, or since
    there are too many. The group is given to another one then, and that is nobody's fault.
    """
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(AGENT_LOOK_INTERVAL_S):
            if worker.status in LEAVING:
                worker.loop.add_callback(worker.log_event, topic, {**said, "leaves": True})
                return

    threading.Thread(target=watch, name="branchline-leaving", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def host_of(address: str) -> str:
    """The machine in the address of a worker."""
    return str(get_address_host(address))


def cancel_on_worker(run_id: str, number: int) -> None:
    """Has the work on a group ended."""
    cancel_group(run_id, number)


def stop_on_worker(run_id: str) -> None:
    """Has the groups of a run handed over as they are."""
    stop_agents(run_id)
