"""The place with several processes on this machine, that never hangs when one of them dies or is stuck."""

from __future__ import annotations

import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import cloudpickle

from branchline.errors import BranchlineError
from branchline.jobs.connection import JobConnection
from branchline.jobs.heartbeat import HeartbeatReader, Silence
from branchline.jobs.interruption import signals_blocked
from branchline.jobs.subjob import (
    WAIT,
    AfterDeath,
    Draw,
    Finished,
    FromPlace,
    Lost,
    Message,
    Note,
    SubJob,
    Wait,
    Work,
    WorkerDiedError,
)
from branchline.limits import KILL_GRACE_S, STOP_CHECK_INTERVAL_S, STOP_GRACE_S

# Not `-m`: the package may import the module of the worker by itself, which runpy warns of.
START = "from branchline.jobs.worker import main; main()"


class LocalProcesses:
    """Runs a job in ``workers`` processes, each of which gets a new sub-job when it asks for one.

    ``modules`` are (name, path) of Python files to load in each worker before the callable is unpickled. A worker that
    is silent for ``timeout_s`` is ended, and another takes its place and its sub-jobs; one that reads by the deadlines
    of its storage may take ``reading_timeout_s``. Without a timeout workers have all the time they want.
    ``after_death`` is asked when a worker dies by itself: what it plans is drawn by the worker that takes its place.
    """

    def __init__(
        self,
        workers: int,
        modules: Sequence[tuple[str, str]] = (),
        timeout_s: float | None = None,
        reading_timeout_s: float = 0.0,
        after_death: AfterDeath | None = None,
    ) -> None:
        self._after_death = after_death
        self.workers = workers
        self._modules = tuple(modules)
        self._timeout_s = timeout_s
        self._reading_timeout_s = reading_timeout_s
        self._processes: list[_Process] = []
        self._stop_at: float | None = None
        # Sub-jobs of workers that were ended, still to be given to others, and the indices of all that ever were.
        self._again: deque[SubJob] = deque()
        self._lost: set[int] = set()

    def run(self, work: Work, draw: Draw) -> Iterator[FromPlace]:
        """Yields what the workers say. Raises WorkerDiedError, naming its sub-job, when one of them dies and nothing is
        tried again, or is silent in a sub-job in which another one was silent.
        """
        pickled = cloudpickle.dumps(work)
        try:
            for number in range(self.workers):
                self._processes.append(_Process(number))
            for process in self._processes:
                process.send((process.number, sys.path, self._modules, pickled))
            yield from self._serve(draw, pickled)
        finally:
            _end(self._processes)
            self._processes = []

    def stop(self) -> None:
        """Asks each worker to hand over what it has; those that take too long are left behind."""
        if self._stop_at is None:
            self._stop_at = time.monotonic() + STOP_GRACE_S
            for process in self._processes:
                process.interrupt()

    def _serve(self, draw: Draw, pickled: bytes) -> Iterator[FromPlace]:
        parked: list[_Process] = []
        while alive := [one for one in self._processes if not one.is_done]:
            if self._stop_at is not None and time.monotonic() > self._stop_at:
                return
            for process in _ready(alive, self._look_interval_s()):
                for kind, *content in self._receive(process):
                    if kind == "bye":
                        process.is_done = True
                    elif kind == "draw":
                        self._answer(process, draw, parked if content[0] else None)
                    elif kind == "error":
                        raise _with_traceback(*content)
                    else:
                        yield process.message(kind, content)
            for process in parked[:]:
                parked.remove(process)
                self._answer(process, draw, parked)
            yield from self._replace_dead(pickled)
            yield from self._replace_silent(pickled)

    def _look_interval_s(self) -> float:
        return STOP_CHECK_INTERVAL_S if self._timeout_s is None else min(STOP_CHECK_INTERVAL_S, self._timeout_s / 4)

    def _answer(self, process: _Process, draw: Draw, parked: list[_Process] | None) -> None:
        """Sends the next sub-job; a worker that can wait is parked while there is none."""
        drawn: SubJob | Wait | None = None
        if self._stop_at is None:
            drawn = self._again.popleft() if self._again else draw()
        process.is_parked = drawn is WAIT and parked is not None
        if process.is_parked and parked is not None:
            parked.append(process)
            return
        if isinstance(drawn, SubJob):
            process.holds.append(drawn)
        process.send(drawn)

    def _receive(self, process: _Process) -> Iterator[tuple[Any, ...]]:
        try:
            for message in process.connection.receive():
                process.heartbeat.heard()
                yield message
        except (EOFError, OSError):
            if process.is_done:
                return
            if self._stop_at is None:
                process.is_dead = True
            else:
                yield ("bye",)

    def _replace_dead(self, pickled: bytes) -> Iterator[Lost]:
        """Puts others in the places of workers that died, if something can be tried again."""
        for place, process in enumerate(self._processes):
            if not process.is_dead:
                continue
            error, lost = process.death()
            if self._after_death is None or not self._after_death(lost, tuple(process.holds)):
                raise error
            yield self._replace(place, lost, pickled)

    def _replace(self, place: int, lost: Lost, pickled: bytes) -> Lost:
        process = self._processes[place]
        _end([process])
        self._processes[place] = _Process(process.number)
        self._processes[place].send((process.number, sys.path, self._modules, pickled))
        return lost

    def _replace_silent(self, pickled: bytes) -> Iterator[Lost]:
        """Ends workers that are silent, and puts others in their places."""
        if self._timeout_s is None or self._stop_at is not None:
            return
        for place, process in enumerate(self._processes):
            silence = process.silence(self._timeout_s, self._reading_timeout_s)
            if silence is None:
                continue
            process.process.kill()
            lost = process.lost(silence)
            again = [one for one in process.holds if one.index in self._lost]
            if again:
                raise WorkerDiedError(
                    f"{lost}, as another worker was before it in {again[0].label}",
                    hint="if it only takes long, give it more time with --worker-timeout",
                )
            self._lost |= {one.index for one in process.holds}
            self._again += process.holds
            yield self._replace(place, lost, pickled)


class _Process:
    """One worker process, the socket to it, and the sub-jobs that it holds."""

    def __init__(self, number: int) -> None:
        ours, theirs = socket.socketpair()
        self.heartbeat = HeartbeatReader()
        inherited = [theirs.fileno(), self.heartbeat.descriptor]
        with theirs, signals_blocked():
            self.process = subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter
                [sys.executable, "-c", START, *map(str, inherited)],
                pass_fds=inherited,
                stdin=subprocess.DEVNULL,
                # A group of its own: Ctrl-C on the terminal reaches only the job, which passes it on in good order.
                process_group=0,
            )
        self.heartbeat.handed_over()
        self.connection = JobConnection(ours)
        self.number = number
        self.holds: deque[SubJob] = deque()
        self.is_parked = False
        self.is_done = False
        self.is_dead = False

    def fileno(self) -> int:
        return self.connection.fileno()

    def send(self, content: Any) -> None:
        self.heartbeat.heard()
        self.connection.send(content)

    def silence(self, timeout_s: float, reading_timeout_s: float) -> Silence | None:
        if self.is_done or self.is_parked:
            self.heartbeat.heard()
            return None
        return self.heartbeat.silence(self.process.pid, time.monotonic(), timeout_s, reading_timeout_s)

    def lost(self, silence: Silence) -> Lost:
        subjobs = tuple(one.label for one in self.holds)
        return Lost(self.number, self.process.pid, silence.doing, silence.seconds, silence.how, subjobs)

    def message(self, kind: str, content: list[Any]) -> Message:
        if kind == "note":
            return Note(content[0], self.number)
        index, pickled = content
        self.holds = deque(one for one in self.holds if one.index != index)
        return Finished(index, cloudpickle.loads(pickled), self.number)

    def interrupt(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def death(self) -> tuple[WorkerDiedError, Lost]:
        """How a process that is gone ended: as an error, and for the record."""
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
        subjobs = tuple(one.label for one in self.holds)
        lost = Lost(self.number, self.process.pid, self.heartbeat.doing(), 0.0, how, subjobs, is_dead=True)
        return WorkerDiedError(what, hint=hint, retry=True), lost


def _ready(processes: list[_Process], timeout_s: float) -> list[_Process]:
    """Those from which something has come; what they can take is sent on the way."""
    with selectors.PollSelector() as selector:
        for one in processes:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if one.connection.has_more_to_send else 0)
            selector.register(one, wanted)
        found = [(key.fileobj, events) for key, events in selector.select(timeout_s)]
    ready = []
    for process, events in found:
        assert isinstance(process, _Process)
        if events & selectors.EVENT_WRITE:
            process.connection.send_more()
        if events & selectors.EVENT_READ:
            ready.append(process)
    return ready


def _end(processes: list[_Process]) -> None:
    """Waits for the processes that are done, ends the others; none is left but what a dead file system holds."""
    for process in processes:
        process.connection.close()
        if not process.is_done:
            process.process.kill()
    for process in processes:
        try:
            process.process.wait(KILL_GRACE_S)
        except subprocess.TimeoutExpired:
            process.process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.process.wait(KILL_GRACE_S)


def _with_traceback(error: BaseException, text: str) -> BaseException:
    """The error of a worker, with its traceback there as a note; not a Branchline error if it was none."""
    if not isinstance(error, BranchlineError):
        error.add_note(f"In the worker:\n{text}")
    return error
