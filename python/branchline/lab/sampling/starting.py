"""Processes of jobs on this machine, forked from others that have loaded what their clients need."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress

from branchline.base.processes import own_python, process_lives
from branchline.errors import OptionError
from branchline.lab.limits import STUDY_ENDING_S, STUDY_START_S
from branchline.lab.sampling.job_starter import CODE, LIVES, MESSAGE, START

_LOOK_S = 0.002


class StartedJob:
    """The process of a job, in a session of its own."""

    def __init__(self, starter: _Starter, process: int) -> None:
        self._starter, self.process = starter, process

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._look() == LIVES

    def wait(self, seconds: float) -> int | None:
        """How it ended, negative by a signal; None where it does not in time, or where nobody knows."""
        end_s = time.monotonic() + seconds
        while (code := self._look()) == LIVES and time.monotonic() < end_s:
            time.sleep(_LOOK_S)
        return None if code == LIVES else code

    def _look(self) -> int | None:
        try:
            return self._starter.ask(CODE, self.process)
        except OSError:
            # Whoever has the process then takes its end, too.
            return LIVES if process_lives(self.process) else None

    def end(self) -> None:
        """Ends it with what it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process, signal.SIGKILL)
        self.wait(STUDY_ENDING_S)


class JobStarters:
    """Starts jobs. Each client and environment has a process that loads it once; these end with this object."""

    def __init__(self) -> None:
        self._starters: dict[tuple[str, frozenset[tuple[str, str]]], _Starter] = {}

    def start(self, client: str, environment: Mapping[str, str], descriptors: Sequence[int]) -> StartedJob:
        """A job whose input, answers and errors are these descriptors. Raises OptionError."""
        key = client, frozenset(environment.items())
        if key not in self._starters:
            self._starters[key] = _Starter(client, environment)
        try:
            return StartedJob(self._starters[key], self._starters[key].ask(START, 0, descriptors))
        except OSError as error:
            # The next job gets a new one.
            self._starters.pop(key).end()
            raise OptionError(f"a job of the study cannot be started: {error.strerror or error}") from None


class _Starter:
    """A process from which jobs are forked."""

    def __init__(self, client: str, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(STUDY_START_S)
        try:
            process = subprocess.Popen(  # noqa: S603 - our own module
                [*own_python(), "-m", "branchline.lab.sampling.job_starter", client],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        except OSError as error:
            self._socket.close()
            raise OptionError(f"a job of the study cannot be started: {error.strerror}") from None
        finally:
            theirs.close()
        self.end = weakref.finalize(self, _end, process, self._socket)

    def ask(self, kind: bytes, number: int, descriptors: Sequence[int] = ()) -> int:
        """The number that it answers. Raises OSError where it is gone."""
        socket.send_fds(self._socket, [MESSAGE.pack(kind, number)], list(descriptors))
        answer = b""
        while len(answer) < MESSAGE.size:
            some = self._socket.recv(MESSAGE.size - len(answer))
            if not some:
                raise ConnectionError("the process that starts jobs died")
            answer += some
        return int(MESSAGE.unpack(answer)[1])


def _end(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    connection.close()
    process.kill()
    process.wait()
