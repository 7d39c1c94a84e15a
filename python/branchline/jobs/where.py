"""Converts the option that says where a job runs (``on=...``, ``--on``) to an object of a specific class."""

from __future__ import annotations

import concurrent.futures
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from branchline.base.imports import require
from branchline.errors import OptionError
from branchline.jobs.pools.pool import Pool
from branchline.jobs.pools.pooled_workers import PooledWorkers
from branchline.jobs.program import ModuleFile, SourceFile
from branchline.jobs.subjob import AfterLoss

if TYPE_CHECKING:
    from distributed import Client
    from distributed.deploy.cluster import Cluster

WAYS = "write dask=tcp://host:8786, slurm or htcondor; in Python also a Dask client or cluster, or an executor"


@dataclass(frozen=True)
class OnDask:
    """A Dask scheduler, given by its address, a client or a cluster."""

    target: Client | Cluster | str = field(repr=False)


@dataclass(frozen=True)
class OnExecutor:
    """The workers of an executor."""

    executor: concurrent.futures.Executor


@dataclass(frozen=True)
class OnPool:
    """The workers of a pool. ``now_s`` is the pool's clock, which is used for waits, timeouts and detecting slow
    sub-jobs.
    """

    pool: Pool = field(repr=False)
    now_s: Callable[[], float] = field(default=time.monotonic, repr=False)


Where = OnDask | OnExecutor | OnPool

#: A place, a place's name, an executor, or a Dask client or cluster. The types are strings, so that ``distributed`` is
#: not imported unless the caller has imported it.
WhereLike: TypeAlias = "WhereObject | str"
WhereObject: TypeAlias = "Where | concurrent.futures.Executor | Client | Cluster"


def clock_of(where: Where | None) -> Callable[[], float]:
    """Return the clock that a job at the given place uses for timeouts and for detecting slow sub-jobs."""
    return where.now_s if isinstance(where, OnPool) else time.monotonic


def where_of(on: object) -> Where:
    """Convert a value of the option ``on`` to a place. Raises OptionError for an unknown place, and MissingPackageError
    if Dask is not installed.
    """
    if isinstance(on, OnDask | OnExecutor | OnPool):
        return on
    if isinstance(on, str):
        name, _, address = on.partition("=")
        if name != "dask":
            raise OptionError(f"unknown place {on!r}", hint=WAYS)
        if "://" not in address:
            raise OptionError(f"{on!r} has no address of a Dask scheduler", hint="write it like dask=tcp://host:8786")
        require("distributed")
        return OnDask(address)
    if isinstance(on, concurrent.futures.Executor):
        return OnExecutor(on)
    # If ``on`` is a client or a cluster, the caller has imported distributed.
    distributed = sys.modules.get("distributed")
    if distributed is not None and isinstance(on, distributed.Client | distributed.deploy.Cluster):
        return OnDask(on)
    raise OptionError(f"a job cannot run on {on!r}", hint=WAYS)


@dataclass(frozen=True)
class Terms:
    """The parameters of a job that do not depend on where it runs."""

    load: Sequence[ModuleFile]
    sources: Sequence[SourceFile]
    timeout_s: float | None
    reading_timeout_s: float
    after_loss: AfterLoss
    #: A function that returns whether a result is a failure; the sub-job is then retried on another machine.
    failed: Callable[[object], bool]


def place_on(where: Where, terms: Terms) -> PooledWorkers:
    """Return the workers of a place. They are not connected until the job runs."""
    pool: Pool
    if isinstance(where, OnPool):
        pool = where.pool
    elif isinstance(where, OnExecutor):
        from branchline.jobs.pools.executor_pool import ExecutorPool

        pool = ExecutorPool(where.executor)
    else:
        from branchline.jobs.pools.dask_pool import DaskPool

        pool = DaskPool(where.target)
    return PooledWorkers(
        pool,
        terms.load,
        terms.sources,
        terms.timeout_s,
        terms.reading_timeout_s,
        terms.after_loss,
        terms.failed,
        clock_of(where),
    )
