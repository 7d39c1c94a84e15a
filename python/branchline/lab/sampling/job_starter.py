"""Fork jobs of a study from a process that has already imported the modules that their client needs: `python -m
branchline.lab.sampling.job_starter CLIENT`.

Importing ROOT alone takes more than a second of CPU time. Standard input is a Unix socket. Messages and responses have
the format MESSAGE, a letter and a number. START comes with three file descriptors for the job (input, answers and
errors); the response has the process ID. CODE has a process ID; the response has the exit code of that process.

The workers of jobs are forked by another kind of process (`branchline.jobs.workers.fork_server`), which is kept for
later runs, imports the libraries of all workers, and passes its child processes to another parent, which only Linux
supports. A study has one starter per client and environment, which imports only the modules that its arm measures.
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
#: The response to CODE while the process is running. No process has this exit code.
LIVES = 1 << 20


def main() -> None:
    """Serve requests until the other end of the socket is closed."""
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
    """Return the exit code of a process, negative for a signal, or LIVES while the process is running."""
    if process not in codes:
        ended, status = os.waitpid(process, os.WNOHANG)
        if not ended:
            return LIVES
        codes[process] = os.waitstatus_to_exitcode(status)
    return codes[process]


def _be_job(descriptors: Sequence[int]) -> None:
    """Run one job in this process, and exit."""
    try:
        os.setsid()
        # The first descriptor replaces the socket.
        for target, source in enumerate(descriptors):
            os.dup2(source, target)
            os.close(source)
        random.seed()
        job_process.main()
    except BaseException:  # noqa: BLE001 - the study gets the traceback; the starter's loop must not continue here
        traceback.print_exc()
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
