"""Server of `tests.branchline_command`: imports the modules that commands use, and forks a process for each command.

`python -m tests.forked_commands DESCRIPTOR` receives requests over an inherited socket until the other end is closed. A
request is JSON with the folder and the arguments of a command. Four file descriptors come with it: the three standard
streams, and a socket for two answers, the process ID and the exit code (negative for a signal, as in `subprocess`).
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import random
import runpy
import socket
import sys
import threading
from contextlib import suppress
from typing import Any

#: Modules that commands import lazily. Other modules are imported by the commands that need them.
MODULES = (
    "branchline.cli.command_list",
    "branchline.cli.tables.forecast_tables",
    "branchline.lab.advice.advise",
    "branchline.lab.what_if",
    "branchline.records.output",
    "branchline.records.pictures.matplotlib_pictures",
    "branchline.records.report.report_page",
    "branchline.trains.rerun",
    "branchline.trains.run",
    "branchline.trains.submitted.handle",
    "branchline.trains.testing.wagon_trial",
)


def main() -> None:
    """Serve requests. In a process forked for a request, run its command."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    for name in MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    command = next_command(requests)
    if command is not None:
        run(command)


def next_command(requests: socket.socket) -> dict[str, Any] | None:
    """Return the command that this forked process must run. In the server, return None after the last request."""
    while True:
        content, descriptors, _, _ = socket.recv_fds(requests, 2**18, 4)
        if not content:
            return None
        if os.fork() == 0:
            requests.close()
            *streams, answers = descriptors
            supervise(socket.socket(fileno=answers))
            for target, source in enumerate(streams):
                os.dup2(source, target)
                os.close(source)
            return dict(json.loads(content))
        for one in descriptors:
            os.close(one)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def supervise(answers: socket.socket) -> None:
    """Fork, and return only in the child. The parent waits for the child, reports its exit code and exits."""
    pid = os.fork()
    if pid == 0:
        answers.close()
        return
    answers.send(str(pid).encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(OSError):
        answers.send(str(code).encode())
    os._exit(0)


def run(command: dict[str, Any]) -> None:
    """Run `python -m branchline.cli WORDS` in the folder of the command, and exit this process.

    The interpreter is not finalized: freeing everything that the server has imported takes 70 ms of CPU time.
    """
    os.chdir(command["folder"])
    # The first item is the folder in which Python is started.
    sys.path[0] = command["folder"]
    sys.argv[1:] = command["words"]
    random.seed()
    sys.modules["numpy.random"].seed()
    try:
        runpy.run_module("branchline.cli", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        # Dropping the exception frees objects in the frames of the command, such as database connections.
        code = ended.code if isinstance(ended.code, int) else 1
        ended.__traceback__ = ended.__context__ = None
        gc.collect()
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
