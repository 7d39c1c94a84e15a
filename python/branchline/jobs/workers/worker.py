"""The main module of a worker process.

A worker has two descriptors: the socket to the job and the shared memory page of its heartbeat. A worker never imports
the caller's main script, so scripts need no ``if __name__ == "__main__"``, and notebooks work.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import importlib.machinery
import importlib.util
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import NoReturn

from branchline.base.limits import JOB_WATCH_PAUSE_S
from branchline.base.trust import from_own_process, unpickle
from branchline.jobs.interruption import SIGNALS, Interruption
from branchline.jobs.package_versions import remember_versions, require_versions
from branchline.jobs.program import WorkerStart
from branchline.jobs.subjob import Context, Finished, Folded, Pickled, SubJob, Wait, Work
from branchline.jobs.user_modules import UncachedLoader, load_uncached
from branchline.jobs.workers.fork_server import Forkable
from branchline.jobs.workers.heartbeat import HeartbeatWriter
from branchline.jobs.workers.memory import EXIT_OUT_OF_MEMORY, keep_freed_memory
from branchline.jobs.workers.messages import DrawRequest, Farewell, SentError, WorkerConnection, sent


def load_module(name: str, path: str) -> ModuleType:
    """Load a Python file as the module ``name``. Objects that were pickled by reference refer to the module by this
    name.

    Python's bytecode cache is used neither for this file nor for the user modules that it imports.
    """
    load_uncached()
    spec = importlib.util.spec_from_file_location(name, path, loader=UncachedLoader(name, path))
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def serve(connection: WorkerConnection, heartbeat: HeartbeatWriter, loading_cpu_s: float) -> None:
    """Run sub-jobs until there are no more sub-jobs or the job is gone."""
    keep_freed_memory()
    start = connection.receive()
    assert isinstance(start, WorkerStart)
    sys.path[:] = start.path
    if start.directory:
        with contextlib.suppress(OSError):
            os.chdir(start.directory)
    # Check versions before importing user modules, because the import may fail with different versions.
    require_versions(start.packages, platform.node() or "localhost")
    load_uncached()
    heartbeat.at("loading the wagons")
    for one in start.modules:
        load_module(one.name, one.path)
    work = unpickle(from_own_process(start.work), object)
    assert isinstance(work, Work)

    def draw(wait: bool) -> SubJob | Wait | None:
        heartbeat.at("waiting for a sub-job")
        connection.send(DrawRequest(wait))
        drawn = connection.receive()
        assert drawn is None or isinstance(drawn, SubJob | Wait)
        if isinstance(drawn, SubJob) and isinstance(drawn.payload, Pickled):
            drawn = replace(drawn, payload=drawn.payload.value())
        heartbeat.at(f"beginning {drawn.label}" if isinstance(drawn, SubJob) else "between two sub-jobs")
        return drawn

    interruption = Interruption()
    with interruption.installed():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        context = Context(
            start.number,
            draw,
            interruption,
            heartbeat.at,
            start.begin_s,
            start.threads,
            _end_out_of_memory,
            loading_cpu_s,
        )
        for message in work(context):
            if isinstance(message, Finished):
                heartbeat.at("sending a result")
            elif isinstance(message, Folded):
                heartbeat.at("sending a folded result")
            connection.send(sent(message))
        connection.send(Farewell())


def end_with_the_job() -> None:
    """Start a thread that exits this process soon after the job's process has ended, even while a wagon is running.

    A job that is killed cannot end its workers. Without the thread, they would continue to write to the job's terminal
    and keep its files open.
    """
    job = os.getppid()

    def watch() -> None:
        while os.getppid() == job:
            time.sleep(JOB_WATCH_PAUSE_S)
        os._exit(1)

    threading.Thread(target=watch, name="branchline-job-watch", daemon=True).start()


@dataclass(frozen=True)
class ForkableWorker(Forkable):
    """A worker that a fork server forks after importing ``modules`` from the search path ``path``.

    Only installed modules are imported by the server: workers load user modules themselves, from the current files.
    """

    path: tuple[str, ...]
    modules: tuple[str, ...]

    def prepare(self) -> None:
        sys.path[:] = self.path
        missing = [name for name in self.modules if name not in sys.modules]
        for name in missing:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        if missing:
            remember_versions(missing)
            # Called here to fill the cache of installed package folders; every worker calls load_uncached again.
            load_uncached()

    def run(self, descriptors: Sequence[int], loading_cpu_s: float) -> None:
        # A separate process group, so that Ctrl-C in the terminal reaches only the job, which then shuts the worker
        # down gracefully.
        os.setpgid(0, 0)
        connection, heartbeat = descriptors
        _work(WorkerConnection(connection), HeartbeatWriter(heartbeat), loading_cpu_s)


def _work(connection: WorkerConnection, heartbeat: HeartbeatWriter, loading_cpu_s: float) -> NoReturn:
    """Run as a worker, then exit."""
    # Print a traceback if the native code of a wagon or a package crashes. A job may have no standard error.
    if sys.stderr is not None:
        faulthandler.enable()
    end_with_the_job()
    try:
        serve(connection, heartbeat, loading_cpu_s)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(1)  # the job is gone, so the error cannot be reported
    except MemoryError:
        _end_out_of_memory()
    except BaseException as error:  # noqa: BLE001 - every exception that ends a worker is reported
        failure = SentError.of(error)
        with contextlib.suppress(OSError):
            connection.send(failure)
        os._exit(1)
    # All results are sent. Exit without finalizing the interpreter, which would only delay the job.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _end_out_of_memory() -> None:
    """Exit immediately: the job retries the sub-job in a new process, and this process may lack the memory to raise an
    error.
    """
    os._exit(EXIT_OUT_OF_MEMORY)
