"""Converts the option that says where a job runs (``on=...``, ``--on``) to an object of a specific class."""

from __future__ import annotations

import concurrent.futures
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from branchline.base.imports import require
from branchline.errors import OptionError
from branchline.jobs.pools.pool import DaskCluster, Pool
from branchline.jobs.pools.pooled_workers import PooledWorkers
from branchline.jobs.program import ModuleFile, SourceFile
from branchline.jobs.subjob import AfterLoss

if TYPE_CHECKING:
    from distributed import Client

WAYS = "write dask=tcp://host:8786, ray, slurm or htcondor; in Python also a Dask client or cluster, or an executor"
#: What to pass for packages whose objects are no executors of ``concurrent.futures``.
_INSTEAD = {
    "parsl": "pass parsl.concurrent.ParslPoolExecutor(parsl.Config(executors=[...])) with the executor in the list",
    "ray": 'write on="ray", which uses the cluster that ray.init() has connected',
}


@dataclass(frozen=True)
class OnDask:
    """A Dask scheduler, given by its address, a client or a cluster."""

    target: Client | DaskCluster | str = field(repr=False)


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
WhereObject: TypeAlias = "Where | concurrent.futures.Executor | Client | DaskCluster"


def clock_of(where: Where | None) -> Callable[[], float]:
    """Return the clock that a job at the given place uses for timeouts and for detecting slow sub-jobs."""
    return where.now_s if isinstance(where, OnPool) else time.monotonic


def where_of(on: object) -> Where:
    """Convert a value of the option ``on`` to a place. Raises OptionError for an unknown place, and MissingPackageError
    if Dask or Ray is needed and not installed.
    """
    if isinstance(on, OnDask | OnExecutor | OnPool):
        return on
    if isinstance(on, str):
        return _where_named(on)
    if isinstance(on, concurrent.futures.Executor):
        return OnExecutor(on)
    # If ``on`` is a client, the caller has imported distributed.
    distributed = sys.modules.get("distributed")
    if distributed is not None and isinstance(on, distributed.Client):
        return OnDask(on)
    if callable(getattr(on, "get_client", None)) and not isinstance(on, type | ModuleType):
        require("distributed")
        return OnDask(on)  # type: ignore[arg-type]  # DaskPool checks what the method returns
    kind = on if isinstance(on, type) else type(on)
    package = (on.__name__ if isinstance(on, ModuleType) else kind.__module__).partition(".")[0]
    what = f"the module {on.__name__}" if isinstance(on, ModuleType) else f"a {kind.__qualname__}"
    raise OptionError(f"a job cannot run on {what}", hint=_INSTEAD.get(package, WAYS))


def _where_named(on: str) -> Where:
    name, _, address = on.partition("=")
    if name == "ray":
        # Imported late, because most runs do not use Ray.
        from branchline.jobs.pools.ray_executor import RayExecutor

        return OnExecutor(RayExecutor(address))
    if name != "dask":
        raise OptionError(f"unknown place {on!r}", hint=WAYS)
    if "://" not in address:
        raise OptionError(f"{on!r} has no address of a Dask scheduler", hint="write it like dask=tcp://host:8786")
    if address.startswith("gateway://"):
        what = f"{on!r} needs the certificate that dask-gateway gives to its client"
        raise OptionError(what, hint="in Python, pass the cluster: on=dask_gateway.Gateway().connect(NAME)")
    require("distributed")
    return OnDask(address)


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
