"""The place with several processes on this machine, that never hangs when one of them dies or is stuck."""

from __future__ import annotations

import selectors
import time
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import cloudpickle

from branchline.jobs.process import WorkerProcess, end_processes, with_traceback
from branchline.jobs.program import WorkerStart, own_path
from branchline.jobs.subjob import (
    WAIT,
    AfterDeath,
    Draw,
    FromPlace,
    Lost,
    SubJob,
    Wait,
    Work,
    WorkerDiedError,
)
from branchline.limits import STOP_CHECK_INTERVAL_S, STOP_GRACE_S


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
        self.workers_seen = workers
        self._modules = tuple(modules)
        self._timeout_s = timeout_s
        self._reading_timeout_s = reading_timeout_s
        self._processes: list[WorkerProcess] = []
        self._stop_at: float | None = None
        # Sub-jobs of workers that were ended, still to be given to others, and the indices of all that ever were.
        self._again: deque[SubJob] = deque()
        self._lost: set[int] = set()

    def prepare(self) -> None:
        """Nothing has to be there before the run."""

    def close(self) -> None:
        """Nothing is left behind the run."""

    def run(self, work: Work, draw: Draw) -> Iterator[FromPlace]:
        """Yields what the workers say. Raises WorkerDiedError, naming its sub-job, when one of them dies and nothing is
        tried again, or is silent in a sub-job in which another one was silent.
        """
        self._start = partial(_start, modules=self._modules, work=cloudpickle.dumps(work), begin_s=time.monotonic())
        try:
            for number in range(self.workers):
                self._processes.append(WorkerProcess(number))
            for process in self._processes:
                process.send(self._start(process.number))
            yield from self._serve(draw)
        finally:
            end_processes(self._processes)
            self._processes = []

    def stop(self) -> None:
        """Asks each worker to hand over what it has; those that take too long are left behind."""
        if self._stop_at is None:
            self._stop_at = time.monotonic() + STOP_GRACE_S
            for process in self._processes:
                process.interrupt()

    def _serve(self, draw: Draw) -> Iterator[FromPlace]:
        parked: list[WorkerProcess] = []
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
                        raise with_traceback(*content)
                    else:
                        yield process.message(kind, content)
            for process in parked[:]:
                parked.remove(process)
                self._answer(process, draw, parked)
            yield from self._replace_dead()
            yield from self._replace_silent()

    def _look_interval_s(self) -> float:
        return STOP_CHECK_INTERVAL_S if self._timeout_s is None else min(STOP_CHECK_INTERVAL_S, self._timeout_s / 4)

    def _answer(self, process: WorkerProcess, draw: Draw, parked: list[WorkerProcess] | None) -> None:
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
        process.send(drawn.packed() if isinstance(drawn, SubJob) else drawn)

    def _receive(self, process: WorkerProcess) -> Iterator[tuple[Any, ...]]:
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

    def _replace_dead(self) -> Iterator[Lost]:
        """Puts others in the places of workers that died, if something can be tried again."""
        for place, process in enumerate(self._processes):
            if not process.is_dead:
                continue
            error, lost = process.death()
            if self._after_death is None or not self._after_death(lost, tuple(process.holds)):
                raise error
            yield self._replace(place, lost)

    def _replace(self, place: int, lost: Lost) -> Lost:
        process = self._processes[place]
        end_processes([process])
        self._processes[place] = WorkerProcess(process.number)
        self._processes[place].send(self._start(process.number))
        return lost

    def _replace_silent(self) -> Iterator[Lost]:
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
            yield self._replace(place, lost)


def _start(number: int, *, modules: tuple[tuple[str, str], ...], work: bytes, begin_s: float) -> WorkerStart:
    return WorkerStart(number, own_path(), modules, work, begin_s)


def _ready(processes: list[WorkerProcess], timeout_s: float) -> list[WorkerProcess]:
    """Those from which something has come; what they can take is sent on the way."""
    with selectors.PollSelector() as selector:
        for one in processes:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if one.connection.has_more_to_send else 0)
            selector.register(one, wanted)
        found = [(key.fileobj, events) for key, events in selector.select(timeout_s)]
    ready = []
    for process, events in found:
        assert isinstance(process, WorkerProcess)
        if events & selectors.EVENT_WRITE:
            process.connection.send_more()
        if events & selectors.EVENT_READ:
            ready.append(process)
    return ready
