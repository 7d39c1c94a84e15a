"""A worker process: forked by the starter of its job (`branchline.jobs.workers.fork_server`), or a new Python that
calls ``main``. It has two descriptors: of the socket to the job, and of the page of shared memory for its heartbeat.

It never imports the caller's main script, so a script needs no ``if __name__ == "__main__"`` and a notebook works.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib.machinery
import importlib.util
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

from branchline.base.limits import JOB_WATCH_PAUSE_S
from branchline.base.trust import from_own_process, unpickle
from branchline.jobs.interruption import SIGNALS, Interruption
from branchline.jobs.package_versions import require_versions
from branchline.jobs.program import ModuleFile, UncachedLoader, WorkerStart, load_uncached
from branchline.jobs.subjob import Context, Finished, Folded, Pickled, SubJob, Wait, Work
from branchline.jobs.workers.heartbeat import HeartbeatWriter
from branchline.jobs.workers.memory import EXIT_OUT_OF_MEMORY, keep_freed_memory
from branchline.jobs.workers.messages import DrawRequest, Farewell, SentError, WorkerConnection, sent


def load_module(name: str, path: str) -> Any:
    """Loads a Python file as the module ``name``; what is pickled by reference to that name is then found.

    Neither this file nor the modules of the user that it imports come from Python's cache of bytecode.
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
    """Works until there are no more sub-jobs or the other side is gone."""
    keep_freed_memory()
    start: WorkerStart = connection.receive()
    sys.path[:] = start.path
    if start.directory:
        with contextlib.suppress(OSError):
            os.chdir(start.directory)
    # Before the modules of the user, whose imports may fail with other packages.
    require_versions(start.packages, platform.node() or "localhost")
    load_uncached()
    heartbeat.at("loading the wagons")
    _load_all(start.modules)
    work: Work = unpickle(from_own_process(start.work))

    def draw(wait: bool) -> SubJob | Wait | None:
        heartbeat.at("waiting for a sub-job")
        connection.send(DrawRequest(wait))
        drawn: SubJob | Wait | None = connection.receive()
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
                heartbeat.at("handing over a result")
            elif isinstance(message, Folded):
                heartbeat.at("handing over the result of neighbours")
            connection.send(sent(message))
        connection.send(Farewell())


def _load_all(modules: Sequence[ModuleFile]) -> None:
    for one in modules:
        load_module(one.name, one.path)


def end_with_the_job() -> None:
    """Watches the job's process in a thread, and ends this one soon after it, whatever a wagon is at.

    A job that is killed cannot end its workers, which would go on writing to its terminal and holding its files.
    """
    job = os.getppid()

    def watch() -> None:
        while os.getppid() == job:
            time.sleep(JOB_WATCH_PAUSE_S)
        os._exit(1)

    threading.Thread(target=watch, name="branchline-job-watch", daemon=True).start()


def main() -> None:
    """Entry point of a new process."""
    work_as(int(sys.argv[1]), int(sys.argv[2]))


def work_as(connection_descriptor: int, heartbeat_descriptor: int, loading_cpu_s: float = 0.0) -> NoReturn:
    """Makes this process a worker, and ends it. ``loading_cpu_s`` are CPU seconds that it took to load what it has."""
    # Where the code of a wagon or a package crashes, the log names its line. A job may be started without a log.
    if sys.stderr is not None:
        faulthandler.enable()
    end_with_the_job()
    connection, heartbeat = WorkerConnection(connection_descriptor), HeartbeatWriter(heartbeat_descriptor)
    try:
        serve(connection, heartbeat, loading_cpu_s)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(1)  # The job is gone: nobody is left to report to.
    except MemoryError:
        _end_out_of_memory()
    except BaseException as error:  # noqa: BLE001 - whatever ends a worker is reported
        _report(connection, error)
        os._exit(1)
    # The results are delivered; taking the interpreter apart would only keep the job waiting.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _end_out_of_memory() -> None:
    """At once: its sub-job is tried again in a new process, with less, and this one may not even raise any more."""
    os._exit(EXIT_OUT_OF_MEMORY)


def _report(connection: WorkerConnection, error: BaseException) -> None:
    failure = SentError.of(error)
    with contextlib.suppress(OSError):
        connection.send(failure)


if __name__ == "__main__":
    main()
