"""Forks jobs of a study from a process that has loaded what their client needs: `python -m
branchline.lab.sampling.job_starter CLIENT`.

ROOT alone takes more than a second of CPU time to load; a forked job has it at once, and what it measures begins later
anyway. The input is a Unix socket. Each message has the size of MESSAGE, a letter and a number, and so has each answer:
START comes with three descriptors, the job's input, answers and errors, and is answered with its process number; CODE
asks how a process ended.

Workers of jobs have a starter of another kind (`branchline.jobs.workers.fork_server`): that one is kept alone for the
environment of its process, has the libraries of all workers and gives its children away, which only Linux can, whereas
a study has one starter for each client and environment at a time, with nothing loaded but what its arm measures.
"""

from __future__ import annotations

import os
import random
import socket
import struct
import sys
import traceback
from collections.abc import Sequence

from branchline.lab.sampling import job_process
from branchline.lab.sampling.clients import prepare

MESSAGE = struct.Struct("<cq")
START, CODE = b"s", b"c"
#: The answer to CODE while the process lives; no process ends with it.
LIVES = 1 << 20


def main() -> None:
    """Serves until the other side of the socket is closed."""
    requests = socket.socket(fileno=0)
    prepare(sys.argv[1])
    codes: dict[int, int] = {}
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, MESSAGE.size, 3)
        if len(message) < MESSAGE.size:
            return
        kind, number = MESSAGE.unpack(message)
        if kind == START:
            number = os.fork()
            if number == 0:
                _be_job(descriptors)
            for one in descriptors:
                os.close(one)
        else:
            number = _code(number, codes)
        requests.sendall(MESSAGE.pack(kind, number))


def _code(process: int, codes: dict[int, int]) -> int:
    """How a process ended, as `subprocess` says it."""
    if process not in codes:
        ended, status = os.waitpid(process, os.WNOHANG)
        if not ended:
            return LIVES
        codes[process] = os.waitstatus_to_exitcode(status)
    return codes[process]


def _be_job(descriptors: Sequence[int]) -> None:
    """Does one job in this process, and ends it."""
    try:
        os.setsid()
        # The first one takes the place of the socket.
        for target, source in enumerate(descriptors):
            os.dup2(source, target)
            os.close(source)
        random.seed()
        job_process.main()
    except BaseException:  # noqa: BLE001 - its errors go to the study; nothing of the starter may run here
        traceback.print_exc()
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
