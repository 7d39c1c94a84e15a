"""Where a job runs, as the caller writes it (``on=...``, ``--on``): read in one spot into one typed value."""

from __future__ import annotations

import concurrent.futures
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from branchline.base.imports import require
from branchline.errors import OptionError
from branchline.jobs.pools.pool import Pool
from branchline.jobs.pools.pooled_workers import PooledWorkers
from branchline.jobs.program import ModuleFile, Source
from branchline.jobs.subjob import AfterLoss

WAYS = "write dask=tcp://host:8786, slurm or htcondor; in Python also a Dask client or cluster, or an executor"


@dataclass(frozen=True)
class OnDask:
    """A Dask scheduler, given by address, client or cluster."""

    target: Any = field(repr=False)


@dataclass(frozen=True)
class OnExecutor:
    """In the workers of an executor."""

    executor: concurrent.futures.Executor


@dataclass(frozen=True)
class OnPool:
    """In the workers of a pool. ``now_s`` is its clock: waits, deadlines and the tail of the job go by it."""

    pool: Pool = field(repr=False)
    now_s: Callable[[], float] = field(default=time.monotonic, repr=False)


Where = OnDask | OnExecutor | OnPool

#: A name, an executor, or a Dask client or cluster. It is not typed more precisely because ``distributed`` has no type
#: hints and is only imported by callers who use it; ``where_of`` checks the value.
WhereLike = Any


def clock_of(where: Where | None) -> Callable[[], float]:
    """Return the clock for timeouts and stragglers of a job at this place."""
    return where.now_s if isinstance(where, OnPool) else time.monotonic


def where_of(on: WhereLike) -> Where:
    """Return the typed place. Raises OptionError for an unknown place, MissingPackageError if Dask is not installed."""
    if isinstance(on, OnDask | OnExecutor | OnPool):
        return on
    if isinstance(on, str):
        return _named(on)
    if isinstance(on, concurrent.futures.Executor):
        return OnExecutor(on)
    # Who has a client or a cluster has imported it.
    distributed = sys.modules.get("distributed")
    if distributed is not None and isinstance(on, distributed.Client | distributed.deploy.Cluster):
        return OnDask(on)
    raise OptionError(f"a job cannot run on {on!r}", hint=WAYS)


def _named(text: str) -> Where:
    name, _, address = text.partition("=")
    if name != "dask":
        raise OptionError(f"there is no place {text!r} to run on", hint=WAYS)
    if "://" not in address:
        raise OptionError(f"{text!r} has no address of a Dask scheduler", hint="write it like dask=tcp://host:8786")
    require("distributed")
    return OnDask(address)


@dataclass(frozen=True)
class Terms:
    """The parameters of a job that every kind of place needs."""

    load: Sequence[ModuleFile]
    sources: Sequence[Source]
    timeout_s: float | None
    reading_timeout_s: float
    after_loss: AfterLoss
    #: Whether a result is a failure that another machine may not have.
    failed: Callable[[Any], bool]


def place_on(where: Where, terms: Terms) -> PooledWorkers:
    """The place itself; it connects when the job runs."""
    return PooledWorkers(
        _pool(where),
        terms.load,
        terms.sources,
        terms.timeout_s,
        terms.reading_timeout_s,
        terms.after_loss,
        terms.failed,
        clock_of(where),
    )


def _pool(where: Where) -> Pool:
    if isinstance(where, OnPool):
        return where.pool
    if isinstance(where, OnExecutor):
        from branchline.jobs.pools.executor_pool import ExecutorPool

        return ExecutorPool(where.executor)
    from branchline.jobs.pools.dask_pool import DaskPool

    return DaskPool(where.target)
