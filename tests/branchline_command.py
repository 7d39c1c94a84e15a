"""Run the command `branchline` in a separate process, with a given working directory, standard input and environment.

A short command spends most of its CPU time on imports. The process is therefore forked from a server that has already
imported the modules that commands use (`tests.forked_commands`). If the environment differs from the environment of the
server, the command runs in a new Python process.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

#: Timeout of a command. Long enough that only commands that hang reach it, even on a busy machine.
TIMEOUT_S = 280
#: Environment variables that only exist in test processes: pytest sets the first in each phase of a test, importing
#: ROOT sets the next two, and importing Polars sets the last.
TEST_VARIABLES = ("PYTEST_CURRENT_TEST", "CPPYY_API_PATH", "CPPYY_NO_ROOT_FILTER", "_RJEM_MALLOC_CONF")
Ended = subprocess.CompletedProcess[str]


def command(*words: object) -> list[str]:
    """Return the command line of `branchline WORDS`, with the Python interpreter that runs the tests."""
    return [sys.executable, "-m", "branchline.cli", *map(str, words)]


def run_branchline(
    folder: Path, words: Sequence[object], environment: Mapping[str, str] | None = None, typed: str = ""
) -> Ended:
    """Run `branchline` in a folder and wait until it ends. ``typed`` is its standard input."""
    wanted = {**_own_environment(), **(environment or {})}
    if wanted == _ENVIRONMENT:
        return _server().run(folder, [str(one) for one in words], typed)
    return subprocess.run(
        command(*words),
        cwd=folder,
        env=wanted,
        input=typed,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def _own_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in TEST_VARIABLES}


#: The environment of the server. Copied at import, because tests may change the environment of this process before the
#: first command runs.
_ENVIRONMENT = _own_environment()


class _Server:
    """The server process, which forks a process for each command."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked_commands", str(theirs.fileno())],
                cwd=Path(__file__).resolve().parents[1],
                env=_ENVIRONMENT,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self._close)

    def _close(self) -> None:
        # The server exits when the other end of its socket is closed.
        self._requests.close()
        self._process.wait()

    def run(self, folder: Path, words: list[str], typed: str) -> Ended:
        answers, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with (
            answers,
            theirs,
            tempfile.TemporaryFile("w+") as stdin,
            tempfile.TemporaryFile("w+") as stdout,
            tempfile.TemporaryFile("w+") as stderr,
        ):
            stdin.write(typed)
            stdin.seek(0)
            request = json.dumps({"folder": str(folder), "words": words}).encode()
            descriptors = [one.fileno() for one in (stdin, stdout, stderr, theirs)]
            socket.send_fds(self._requests, [request], descriptors)
            theirs.close()
            answers.settimeout(TIMEOUT_S)
            pid = int(answers.recv(100))
            try:
                code = int(answers.recv(100))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(command(*words), TIMEOUT_S) from None
            stdout.seek(0)
            stderr.seek(0)
            return Ended(command(*words), code, stdout.read(), stderr.read())


@cache
def _server() -> _Server:
    return _Server()
