"""Starts worker processes, forked from a fork server that keeps running for later trains."""

from __future__ import annotations

import subprocess
import sys

from branchline.base.limits import FORK_SERVER_ANSWER_S
from branchline.jobs.program import LIBRARY_THREADS, own_path
from branchline.jobs.user_modules import is_cached
from branchline.jobs.workers.fork_client import ForkServer, Process
from branchline.jobs.workers.worker import ForkableWorker

#: Libraries of users that the fork server loads in advance. They are slow to import, and importing them starts no busy
#: threads and opens no resources.
_LIBRARIES = ("awkward", "boost_histogram", "hist", "vector", "numba", "scipy", "coffea.nanoevents", "coffea.processor")

_server = ForkServer({}, FORK_SERVER_ANSWER_S, subprocess.DEVNULL, LIBRARY_THREADS)


def load_for_workers(module: str) -> None:
    """Make the fork server load the modules that workers will need, in the background.

    ``module`` is as for `start_worker`.
    """
    _server.prepare(_worker_for(module))


def start_worker(connection: int, heartbeat: int, errors: int, module: str) -> Process:
    """Start a worker that inherits the given descriptors.

    ``errors`` is the worker's standard error. ``module`` is the module of the callable that the worker will run.
    Signals are blocked in the worker until it unblocks them. Raises InstallationChangedError if the worker would load
    other code than this process.
    """
    return _server.start(_worker_for(module), [connection, heartbeat], errors=errors)


def _worker_for(module: str) -> ForkableWorker:
    loaded = [name for name in _LIBRARIES if name in sys.modules]
    installed = [one for one in (module, *loaded) if _is_installed(one)]
    return ForkableWorker(tuple(one for one in own_path() if is_cached(one)), tuple(installed))


def _is_installed(name: str) -> bool:
    """Return True unless this process has loaded the module from a user's file. The fork server does not load user
    modules, because each worker loads them from their current files.
    """
    module = sys.modules.get(name)
    return module is None or is_cached(getattr(module, "__file__", None) or "")
