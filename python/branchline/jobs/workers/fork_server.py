"""Imports modules once, and forks the processes that need them: workers, and the jobs of studies.

``main`` is called by a new Python interpreter with one inherited descriptor: the socket to the client
(`branchline.jobs.workers.fork_client`). Importing takes most of a second of CPU time, and more with ROOT. Without the
server, each process would import the modules again, for each train of a notebook and each sample of a study.

This module imports little, because a study compares processes, each of which must have imported only the modules of one
client.
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
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress

from branchline.base.limits import FORK_SERVER_IDLE_S, JOB_WATCH_PAUSE_S
from branchline.base.trust import from_own_process, unpickle

#: Format of the response to a fork request: the process ID.
ANSWER = struct.Struct("=q")
#: Maximum size of a pickled request, for example of a worker: the search path and a few module names.
REQUEST_BYTES = 2**18
DESCRIPTORS_MAX = 6
#: Byte that the client writes to a process's pipe when it has registered the process.
KNOWN = b"k"


class Forkable:
    """The code of a process, pickled and sent to a fork server.

    Without descriptors, the server only imports modules. To fork a process, the request comes with descriptors: a pipe
    on which the client confirms that it has registered the process, the current folder, standard output, standard
    error, and the descriptors for ``run``.
    """

    def prepare(self) -> None:
        """Import, in the server, the modules that the process needs. Exceptions are ignored, because ``run`` imports
        the modules again and reports errors.
        """
        raise NotImplementedError

    def run(self, descriptors: Sequence[int], loading_cpu_s: float) -> None:
        """Run the code of the process, with blocked signals. The method must exit the process: if it returns or raises,
        the exit code is 1.

        ``loading_cpu_s`` is the CPU time that the server spent on importing since it forked the previous process.
        """
        raise NotImplementedError


def main() -> None:
    """Serve requests until the client has ended or the server has been idle for a while."""
    # `select` accepts no descriptor above 1023, but the client may have many open files. `dup` returns the lowest free
    # descriptor.
    requests = socket.socket(fileno=os.dup(int(sys.argv[1])))
    os.close(int(sys.argv[1]))
    # Threads of libraries (OpenBLAS, jemalloc) are idle in this process and survive a fork.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    client, counted_s = os.getppid(), 0.0
    while _is_asked(requests, client):
        content, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES, DESCRIPTORS_MAX)
        if not content:
            return
        request = _prepared(content)
        if descriptors:
            cpu_s = time.process_time()
            requests.send(ANSWER.pack(_fork(request, client, requests, descriptors, cpu_s - counted_s)))
            counted_s = cpu_s
        for one in descriptors:
            os.close(one)


def run_here() -> None:
    """Run the request on standard input in this new process, with the descriptors in the arguments."""
    request = unpickle(from_own_process(sys.stdin.buffer.read()), Forkable)
    request.run([int(one) for one in sys.argv[1:]], 0.0)


def _is_asked(requests: socket.socket, client: int) -> bool:
    """Wait for a request; return False if no more requests will come.

    The parent process is also checked: a process that the user forked may keep the client's end of the socket open.
    """
    idle_until_s = time.monotonic() + FORK_SERVER_IDLE_S
    while os.getppid() == client and time.monotonic() < idle_until_s:
        if select.select([requests], [], [], JOB_WATCH_PAUSE_S)[0]:
            return True
    return False


def _prepared(content: bytes) -> Forkable:
    """Unpickle a request and import its modules."""
    loaded_count = len(sys.modules)
    request = unpickle(from_own_process(content), Forkable)
    with suppress(Exception):
        request.prepare()
    if len(sys.modules) > loaded_count:
        # Freeze all objects, so that garbage collection in the forked processes does not write to, and so copy, their
        # memory pages.
        gc.collect()
        gc.freeze()
    return request


def _fork(
    request: Forkable, client: int, requests: socket.socket, descriptors: Sequence[int], loading_cpu_s: float
) -> int:
    """Fork a process as a child of the client and return its process ID.

    The new process is forked by an intermediate process that exits immediately. Linux makes the orphan a child of the
    client, which has requested this (PR_SET_CHILD_SUBREAPER). The client can therefore wait for the new process, and
    the new process survives the end of the fork server.
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
            known, *descriptors = descriptors
            _wait_until_known(known, (client, between))
            _run(request, descriptors, loading_cpu_s)
        os.write(writer, ANSWER.pack(number))
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as numbers:
        [number] = ANSWER.unpack(numbers.read(ANSWER.size))
    with suppress(ChildProcessError):
        # Fails if the client, and therefore this process, ignores SIGCHLD: the kernel then reaps the children.
        os.waitpid(between, 0)
    return int(number)


def _wait_until_known(known: int, parents: Sequence[int]) -> None:
    """Wait until the client has registered this process; exit if the client is gone, or has given up and started a
    different process.

    The parent process is also checked: a process that the user forked may keep the client's end of the pipe open.
    """
    while not select.select([known], [], [], JOB_WATCH_PAUSE_S)[0]:
        if os.getppid() not in parents:
            os._exit(1)
    if os.read(known, len(KNOWN)) != KNOWN:
        os._exit(1)
    os.close(known)


def _run(request: Forkable, descriptors: Sequence[int], loading_cpu_s: float) -> None:
    """Run a request in this forked process, then exit."""
    try:
        folder, *standard = descriptors[:3]
        os.fchdir(folder)
        os.close(folder)
        for target, source in enumerate(standard, 1):
            os.dup2(source, target)
            os.close(source)
        _own_state()
        request.run(descriptors[3:], loading_cpu_s)
    except BaseException:  # noqa: BLE001 - the exception must not reach the loop of the server
        traceback.print_exc()
    finally:
        os._exit(1)


def _own_state() -> None:
    """Set up state as in a newly started process: garbage collector, random seeds and output buffering."""
    gc.enable()
    random.seed()
    # Seed NumPy only if this module is loaded: loading it takes 12 ms, and a process that loads it later gets a seed of
    # its own.
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    if sys.stdout is not None:
        sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    importlib.invalidate_caches()
