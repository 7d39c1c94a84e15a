"""Forks worker processes from a process that has already loaded the modules that workers need.

``main`` is called by a new Python interpreter with one inherited descriptor: the socket to the job
(`branchline.jobs.workers.launcher`). Loading modules takes most of a second of CPU time, which each worker would
otherwise spend again, for each train of a notebook. Only installed modules are loaded: workers load user modules
themselves, from the current files.
"""

from __future__ import annotations

import gc
import importlib
import os
import random
import select
import socket
import struct
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from branchline.base.limits import JOB_WATCH_PAUSE_S, STARTER_IDLE_S
from branchline.base.trust import from_own_process, unpickle
from branchline.jobs.package_versions import remember_versions
from branchline.jobs.program import load_uncached
from branchline.jobs.workers import worker

#: Format of the response to a fork request: the process ID.
ANSWER = struct.Struct("=q")
#: Maximum size of a request. A `Request` contains the search path and a few module names.
REQUEST_BYTES = 2**18
DESCRIPTORS = 6
#: Byte that the job writes to a worker's pipe when it has registered the worker.
KNOWN = b"k"


@dataclass(frozen=True)
class Request:
    """A request to load modules, with the search path, and optionally to fork a worker.

    Without descriptors, modules are only loaded. To fork a worker, the request comes with the DESCRIPTORS: the socket
    to the job, the heartbeat, standard output, standard error, the current folder, and a pipe on which the job confirms
    that it has registered the worker. ``job`` is the job's process ID.
    """

    job: int
    path: tuple[str, ...]
    modules: tuple[str, ...]


def main() -> None:
    """Serve requests until the job has ended or the server has been idle for a while."""
    # `select` accepts no descriptor above 1023, but the job may have many open files: dup returns a low descriptor.
    requests = socket.socket(fileno=os.dup(int(sys.argv[1])))
    os.close(int(sys.argv[1]))
    # Threads of libraries (OpenBLAS, jemalloc) are idle in this process and survive a fork.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    job, counted_s = os.getppid(), 0.0
    while _is_asked(requests, job):
        content, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES, DESCRIPTORS)
        if not content:
            return
        request = unpickle(from_own_process(content), Request)
        _load(request)
        if descriptors:
            cpu_s = time.process_time()
            requests.send(ANSWER.pack(_fork(request.job, requests, descriptors, cpu_s - counted_s)))
            counted_s = cpu_s
        for one in descriptors:
            os.close(one)


def _is_asked(requests: socket.socket, job: int) -> bool:
    """Wait for a request; return False if no more requests will come.

    The parent process is also checked: a process that the user forked may keep the job's end of the socket open.
    """
    idle_until_s = time.monotonic() + STARTER_IDLE_S
    while os.getppid() == job and time.monotonic() < idle_until_s:
        if select.select([requests], [], [], JOB_WATCH_PAUSE_S)[0]:
            return True
    return False


def _load(request: Request) -> None:
    """Load modules. Errors are ignored, because the worker loads the modules again and reports errors to the job."""
    sys.path[:] = request.path
    missing = [name for name in request.modules if name not in sys.modules]
    for name in missing:
        with suppress(Exception):
            importlib.import_module(name)
    if missing:
        remember_versions(missing)
        # Called here to fill the cache of installed package folders; every worker calls load_uncached again.
        load_uncached()
        # Freeze all objects, so that the workers' garbage collectors do not touch, and thus copy, the memory pages.
        gc.collect()
        gc.freeze()


def _fork(job: int, requests: socket.socket, descriptors: Sequence[int], loading_cpu_s: float) -> int:
    """Fork a worker as a child of the job and return the worker's process ID. ``loading_cpu_s`` is charged to the
    worker.

    The worker is forked by an intermediate process that exits immediately. Linux makes the orphaned worker a child of
    the job, which has requested this (PR_SET_CHILD_SUBREAPER). The job can therefore wait for the worker, and workers
    survive the end of the fork server.
    """
    reader, writer = os.pipe()
    between = os.fork()
    if between == 0:
        os.close(reader)
        between = os.getpid()
        number = os.fork()
        if number == 0:
            os.close(writer)
            requests.close()
            *descriptors, known = descriptors
            _wait_until_known(known, (job, between))
            _be_worker(descriptors, loading_cpu_s)
        os.write(writer, ANSWER.pack(number))
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as numbers:
        [number] = ANSWER.unpack(numbers.read(ANSWER.size))
    with suppress(ChildProcessError):
        # Fails if the job, and therefore this process, ignores SIGCHLD: the kernel then reaps the children.
        os.waitpid(between, 0)
    return int(number)


def _wait_until_known(known: int, parents: Sequence[int]) -> None:
    """Wait until the job has registered this process; exit if the job is gone or has started a different worker
    instead.

    The parent process is also checked: a process that the user forked may keep the job's end of the pipe open.
    """
    while not select.select([known], [], [], JOB_WATCH_PAUSE_S)[0]:
        if os.getppid() not in parents:
            os._exit(1)
    if os.read(known, len(KNOWN)) != KNOWN:
        os._exit(1)
    os.close(known)


def _be_worker(descriptors: Sequence[int], loading_cpu_s: float) -> None:
    """Run as a worker in this forked process, then exit."""
    try:
        os.setpgid(0, 0)
        connection, heartbeat, output, errors, folder = descriptors
        os.fchdir(folder)
        os.close(folder)
        for target, source in enumerate((output, errors), 1):
            os.dup2(source, target)
            os.close(source)
        _own_state()
        worker.work_as(connection, heartbeat, loading_cpu_s)
    finally:
        os._exit(1)


def _own_state() -> None:
    """Set up state as in a newly started process: garbage collector, random seeds and output buffering."""
    gc.enable()
    random.seed()
    # NumPy loads this module on demand, which takes 12 ms. A worker that loads the module later gets its own seed
    # anyway.
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    if sys.stdout is not None:
        sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    importlib.invalidate_caches()
