"""What runs on a worker of Dask, and what it says to the scheduler."""

from __future__ import annotations

from dataclasses import replace

from distributed import get_worker

from branchline.jobs.agent import stop_agents, work_on_group
from branchline.jobs.groups import Group, GroupResult


def topic_of(run_id: str) -> str:
    """The topic of Dask's events under which the workers of a run say what they begin."""
    return f"branchline-{run_id}"


def work_on_dask_group(group: Group) -> GroupResult:
    """Works on a group with all threads of this worker, and says first that it does: Dask gives the group to another
    worker by itself when this one ends, which nobody would know of.
    """
    worker = get_worker()
    worker.log_event(topic_of(group.settings.run), {"number": group.number, "worker": worker.address})
    return work_on_group(replace(group, threads=worker.state.nthreads))


def stop_on_worker(run_id: str) -> None:
    """Has the groups of a run handed over as they are."""
    stop_agents(run_id)
