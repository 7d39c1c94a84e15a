"""The place with several processes on this machine, that never hangs when one of them dies."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import cloudpickle

from branchline.errors import BranchlineError
from branchline.jobs.interruption import signals_blocked
from branchline.jobs.subjob import WAIT, Draw, Finished, Message, Note, SubJob, Work, WorkerDiedError
from branchline.limits import KILL_GRACE_S, STOP_CHECK_INTERVAL_S, STOP_GRACE_S

# Not `-m`: the package may import the module of the worker by itself, which runpy warns of.
START = "from branchline.jobs.worker import main; main()"


class LocalProcesses:
    """Runs a job in ``workers`` processes, each of which gets a new sub-job when it asks for one.

    ``modules`` are (name, path) of Python files to load in each worker before the callable is unpickled.
    """

    def __init__(self, workers: int, modules: Sequence[tuple[str, str]] = ()) -> None:
        self.workers = workers
        self._modules = tuple(modules)
        self._processes: list[_Process] = []
        self._stop_at: float | None = None

    def run(self, work: Work, draw: Draw) -> Iterator[Message]:
        """Yields what the workers say. Raises WorkerDiedError, naming its sub-job, when one of them dies."""
        pickled = cloudpickle.dumps(work)
        try:
            for number in range(self.workers):
                self._processes.append(_Process(number))
            for process in self._processes:
                process.send((process.number, sys.path, self._modules, pickled))
            yield from self._serve(draw)
        finally:
            _end(self._processes)
            self._processes = []

    def stop(self) -> None:
        """Asks each worker to hand over what it has; those that take too long are left behind."""
        if self._stop_at is None:
            self._stop_at = time.monotonic() + STOP_GRACE_S
            for process in self._processes:
                process.interrupt()

    def _serve(self, draw: Draw) -> Iterator[Message]:
        alive = list(self._processes)
        parked: list[_Process] = []
        while alive:
            if self._stop_at is not None and time.monotonic() > self._stop_at:
                return
            ready = wait([one.connection for one in alive], STOP_CHECK_INTERVAL_S)
            for process in [one for one in alive if one.connection in ready]:
                kind, *content = self._receive(process)
                if kind == "bye":
                    process.is_done = True
                    alive.remove(process)
                elif kind == "draw":
                    self._answer(process, draw, parked if content[0] else None)
                elif kind == "error":
                    raise _with_traceback(*content)
                else:
                    yield process.message(kind, content)
            for process in parked[:]:
                parked.remove(process)
                self._answer(process, draw, parked)

    def _answer(self, process: _Process, draw: Draw, parked: list[_Process] | None) -> None:
        """Sends the next sub-job; a worker that can wait is parked while there is none."""
        drawn = None if self._stop_at is not None else draw()
        if drawn is WAIT and parked is not None:
            parked.append(process)
            return
        if isinstance(drawn, SubJob):
            process.holds.append(drawn)
        process.send(drawn)

    def _receive(self, process: _Process) -> tuple[Any, ...]:
        try:
            received: tuple[Any, ...] = cloudpickle.loads(process.connection.recv_bytes())
            return received
        except (EOFError, OSError):
            if self._stop_at is not None:
                return ("bye",)
            raise process.death() from None


class _Process:
    """One worker process, the socket to it, and the sub-jobs that it holds."""

    def __init__(self, number: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs, signals_blocked():
            self.process = subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter
                [sys.executable, "-c", START, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                # A group of its own: Ctrl-C on the terminal reaches only the job, which passes it on in good order.
                process_group=0,
            )
        self.connection = Connection(ours.detach())
        self.number = number
        self.holds: deque[SubJob] = deque()
        self.is_done = False

    def send(self, content: Any) -> None:
        with suppress(OSError):  # It has died; the next receive says so with all that is known.
            self.connection.send_bytes(cloudpickle.dumps(content))

    def message(self, kind: str, content: list[Any]) -> Message:
        if kind == "note":
            return Note(content[0], self.number)
        index, pickled = content
        self.holds = deque(one for one in self.holds if one.index != index)
        return Finished(index, cloudpickle.loads(pickled), self.number)

    def interrupt(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def death(self) -> WorkerDiedError:
        code = self.process.wait()
        how = f"ended with exit code {code}"
        hint = "the lines above may say why"
        if code < 0:
            how = f"was killed by signal {-code} ({signal.Signals(-code).name})"
        if code == -signal.SIGKILL:
            hint = (
                "the kernel does so when memory is short: try fewer --workers, a smaller --step-size or --memory-limit"
            )
        what = f"worker {self.number} (process {self.process.pid}) {how} before it had a sub-job"
        if self.holds:
            what = f"worker {self.number} (process {self.process.pid}) {how} in {self.holds[0].label}"
        return WorkerDiedError(what, hint=hint, retry=True)


def _end(processes: list[_Process]) -> None:
    """Waits for the processes that are done, ends the others; none is left."""
    for process in processes:
        process.connection.close()
        if not process.is_done:
            process.process.kill()
    for process in processes:
        try:
            process.process.wait(KILL_GRACE_S)
        except subprocess.TimeoutExpired:
            process.process.kill()
            process.process.wait()


def _with_traceback(error: BaseException, text: str) -> BaseException:
    """The error of a worker, with its traceback there as a note; not a Branchline error if it was none."""
    if not isinstance(error, BranchlineError):
        error.add_note(f"In the worker:\n{text}")
    return error
