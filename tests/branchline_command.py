"""The command `branchline` as tests call it: in a process of its own, with a folder, a standard input and its outputs.

Most of the CPU time of a short command is spent on imports. So the process is forked from a server that has imported
what commands use (`tests.forked_commands`). A command with another environment than the server gets a new Python.
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

#: Only ends commands that hang, also on a busy machine.
TIMEOUT_S = 280
#: Variables that a user's shell does not set: pytest sets the first for each phase of a test, importing ROOT sets the
#: next two, and importing Polars the last.
TEST_VARIABLES = ("PYTEST_CURRENT_TEST", "CPPYY_API_PATH", "CPPYY_NO_ROOT_FILTER", "_RJEM_MALLOC_CONF")
Ended = subprocess.CompletedProcess[str]


def command(*words: object) -> list[str]:
    """The command line for `branchline WORDS`, run by the Python of the tests."""
    return [sys.executable, "-m", "branchline.cli", *map(str, words)]


def run_branchline(
    folder: Path, words: Sequence[object], environment: Mapping[str, str] | None = None, typed: str = ""
) -> Ended:
    """Run `branchline` in a folder until it ends. ``typed`` is its standard input."""
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


#: The environment of the server. The first test that runs a command may have changed that of its process.
_ENVIRONMENT = _own_environment()


class _Server:
    """The process that forks commands."""

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
        # The server ends when its socket has no other end.
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
