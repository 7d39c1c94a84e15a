"""An executor that runs calls as tasks of Ray, which has no executor of ``concurrent.futures``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from concurrent.futures import Executor, Future
from importlib import import_module
from types import ModuleType
from typing import ParamSpec, TypeVar

from branchline.errors import MissingPackageError
from branchline.jobs.pools.pool import PoolError

T = TypeVar("T")
P = ParamSpec("P")


class RayExecutor(Executor):
    """Uses the Ray cluster to which this process is connected.

    If it is not connected, ``ray.init`` connects it to ``address`` or, without an address, to a running cluster, or
    starts one on this machine. The process then stays connected.

    Raises MissingPackageError if Ray is not installed. ``submit`` raises PoolError if Ray cannot be reached.
    """

    def __init__(self, address: str = "") -> None:
        if importlib.util.find_spec("ray") is None:
            raise MissingPackageError("the package ray is required but not installed", hint="pip install ray")
        self._address = address

    @property
    def _max_workers(self) -> int:
        """The number of tasks that run at the same time; it has this name in the standard library."""
        return max(1, int(self._connected().cluster_resources().get("CPU", 0)))

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call as a task that takes one core and is not retried, since jobs retry sub-jobs themselves."""
        ray = self._connected()
        task = ray.remote(max_retries=0)(fn).remote(*args, **kwargs)
        future: Future[T] = task.future()
        future.add_done_callback(lambda done: ray.cancel(task) if done.cancelled() else None)
        return future

    def _connected(self) -> ModuleType:
        ray = import_module("ray")
        if not ray.is_initialized():
            try:
                ray.init(self._address or None)
            except (OSError, RuntimeError, ValueError) as error:
                what = f"cannot connect to Ray{' at ' if self._address else ''}{self._address}: {error}"
                raise PoolError(what, hint="start it, or correct the address", retry=True) from error
        return ray
