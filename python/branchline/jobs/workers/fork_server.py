"""Forks worker processes from a process that has loaded what they need. ``main`` is called by a new Python with one
inherited descriptor: of the socket to the job (`branchline.jobs.workers.launcher`).

Loading takes most of a second of CPU time, which each worker would take again, for each train of a notebook as well.
Only installed modules are loaded: the user's own are loaded by each worker, as their files are then.
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

#: The answer to a request that forks: the number of the process.
ANSWER = struct.Struct("=q")
#: Bytes that a request may have. `Request` has a path and some names.
REQUEST_BYTES = 2**18
DESCRIPTORS = 6
#: What the job writes when it knows of a worker.
KNOWN = b"k"


@dataclass(frozen=True)
class Request:
    """What to load before the next worker, and from where. With it come no descriptors, or the DESCRIPTORS of a worker
    to fork: of the socket to the job, the heartbeat, standard output, standard error, the current folder and a pipe in
    which the job says that it knows of the worker. ``job`` is the process of the job.
    """

    job: int
    path: tuple[str, ...]
    modules: tuple[str, ...]


def main() -> None:
    """Serves until the job has ended or asks for nothing for a while."""
    # The number is the job's, which may have many files open: `select` takes none above 1023.
    requests = socket.socket(fileno=os.dup(int(sys.argv[1])))
    os.close(int(sys.argv[1]))
    # Threads of libraries are idle here, and deal with a fork: those of OpenBLAS and of jemalloc.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    job, counted_s = os.getppid(), 0.0
    while _is_asked(requests, job):
        content, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES, DESCRIPTORS)
        if not content:
            return
        request: Request = unpickle(from_own_process(content))
        _load(request)
        if descriptors:
            cpu_s = time.process_time()
            requests.send(ANSWER.pack(_fork(request.job, requests, descriptors, cpu_s - counted_s)))
            counted_s = cpu_s
        for one in descriptors:
            os.close(one)


def _is_asked(requests: socket.socket, job: int) -> bool:
    """Waits for a request; False if there will be none. A process that the user forked may hold the job's end open."""
    idle_until_s = time.monotonic() + STARTER_IDLE_S
    while os.getppid() == job and time.monotonic() < idle_until_s:
        if select.select([requests], [], [], JOB_WATCH_PAUSE_S)[0]:
            return True
    return False


def _load(request: Request) -> None:
    """Loads modules; one that cannot be loaded is left to the worker, whose error reaches the job."""
    sys.path[:] = request.path
    missing = [name for name in request.modules if name not in sys.modules]
    for name in missing:
        with suppress(Exception):
            importlib.import_module(name)
    if missing:
        remember_versions(missing)
        # Each worker does so; what it has to know of the folders of installed packages it finds here.
        load_uncached()
        # What is here now stays as it is in all workers: their collectors need not touch, and so copy, its pages.
        gc.collect()
        gc.freeze()


def _fork(job: int, requests: socket.socket, descriptors: Sequence[int], loading_cpu_s: float) -> int:
    """Starts a worker as a child of the job, and gives its number. ``loading_cpu_s`` is in its account.

    It is forked by a process that ends at once. Linux gives the orphan to the job, which has asked for that
    (PR_SET_CHILD_SUBREAPER), and so can wait for it; and no worker ends with this process.
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
        # There is nothing to wait for behind its end where the job, and so this process, ignores those of its children.
        os.waitpid(between, 0)
    return int(number)


def _wait_until_known(known: int, parents: Sequence[int]) -> None:
    """Waits until the job knows of this process, which is its child by then, and else ends: the job has another worker
    for the same socket, or is gone. A process that the user forked may hold the job's end of the pipe open.
    """
    while not select.select([known], [], [], JOB_WATCH_PAUSE_S)[0]:
        if os.getppid() not in parents:
            os._exit(1)
    if os.read(known, len(KNOWN)) != KNOWN:
        os._exit(1)
    os.close(known)


def _be_worker(descriptors: Sequence[int], loading_cpu_s: float) -> None:
    """Works in this process as a new one would, and ends it."""
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
    """Makes anew what a new process has for itself: numbers at random, and how it writes."""
    random.seed()
    # NumPy loads this part on demand, in 12 ms; a worker that loads it itself has numbers of its own.
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    if sys.stdout is not None:
        sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    importlib.invalidate_caches()
