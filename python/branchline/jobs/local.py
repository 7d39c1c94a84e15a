"""Local places to run a job: this process, or several worker processes.

If a worker process dies or hangs, the job replaces it instead of waiting for it.
"""

from __future__ import annotations

import selectors
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import cloudpickle

from branchline.base.limits import STOP_CHECK_INTERVAL_S, STOP_GRACE_S
from branchline.errors import InternalError
from branchline.jobs.interruption import Interruption
from branchline.jobs.program import ModuleFile, WorkerStart, own_path
from branchline.jobs.stragglers import Durations, why_twice
from branchline.jobs.subjob import (
    WAIT,
    AfterLoss,
    Context,
    Draw,
    Finished,
    Folded,
    FromPlace,
    Held,
    Lost,
    Note,
    Repeated,
    SubJob,
    Wait,
    Work,
    WorkerDiedError,
    packages_of,
)
from branchline.jobs.workers.memory import keep_freed_memory
from branchline.jobs.workers.messages import DrawRequest, Farewell, SentError, SentNote, SentResult, WorkerMessage
from branchline.jobs.workers.worker_process import WorkerProcess, end_processes


class InThisProcess:
    """Runs a job in the calling process, one sub-job at a time."""

    workers = 1
    workers_seen = 1

    def __init__(self, interruption: Interruption | None = None) -> None:
        self._interruption = interruption or Interruption()

    def prepare(self) -> None:
        """Do nothing: this place needs no preparation."""

    def close(self) -> None:
        """Do nothing: a run leaves nothing open."""

    def run(self, work: Work, draw: Draw) -> Iterator[Finished | Folded | Note]:
        """Yield the callable's messages.

        If the callable returns before all sub-jobs are done, for example after a failed sub-job, it is called again.
        """
        keep_freed_memory()
        again: deque[SubJob] = deque()
        held: dict[int, SubJob] = {}

        def from_here(_wait: bool) -> SubJob | Wait | None:
            drawn = again.popleft() if again else draw()
            if isinstance(drawn, SubJob):
                held[drawn.index] = drawn
            return drawn

        while True:
            has_finished = False
            for message in work(Context(0, from_here, self._interruption)):
                if isinstance(message, Finished):
                    held.pop(message.index, None)
                    has_finished = True
                if not isinstance(message, Held):
                    yield message
            if self._interruption.asked or not has_finished:
                return
            again.extendleft(reversed(held.values()))
            held.clear()
            if not again and isinstance(drawn := draw(), SubJob):
                again.append(drawn)
            if not again:
                return

    def stop(self) -> None:
        """Ask the callable to stop after the current step."""
        self._interruption.asked = True


class LocalProcesses:
    """Runs a job in ``workers`` processes, which request sub-jobs one at a time.

    ``modules`` are Python files to load in each worker before the callable is unpickled. A worker that makes no
    progress for ``timeout_s`` is killed and replaced, and its sub-jobs are reassigned. While a worker reads from
    storage, which has timeouts of its own, the limit is ``reading_timeout_s``. If ``timeout_s`` is None, workers are
    never killed. ``after_loss`` is called when a worker dies or times out, and plans the retries of its sub-jobs. When
    no further sub-jobs are available, idle workers run slow sub-jobs a second time.
    """

    def __init__(
        self,
        workers: int,
        modules: Sequence[ModuleFile] = (),
        timeout_s: float | None = None,
        reading_timeout_s: float = 0.0,
        after_loss: AfterLoss | None = None,
    ) -> None:
        self._after_loss = after_loss
        self.workers = workers
        self.workers_seen = workers
        self._modules = tuple(modules)
        self._timeout_s = timeout_s
        self._reading_timeout_s = reading_timeout_s
        self._processes: list[WorkerProcess] = []
        self._stop_at: float | None = None
        # Earliest time of the next check for hung workers. A check takes longer than receiving a result, so workers are
        # not checked after each result.
        self._look_again_at = 0.0
        # _again are sub-jobs of lost workers that have to be reassigned. _lost are the indices of all sub-jobs that
        # were ever lost.
        self._again: deque[SubJob] = deque()
        self._lost: set[int] = set()
        self._durations = Durations()
        # Why a sub-job also runs on a second worker, by index of the sub-job.
        self._twice: dict[int, str] = {}

    def prepare(self) -> None:
        """Do nothing: this place needs no preparation."""

    def close(self) -> None:
        """Do nothing: a run leaves nothing open."""

    def run(self, work: Work, draw: Draw) -> Iterator[FromPlace]:
        """Run the job and yield the workers' messages.

        Raises WorkerDiedError with the sub-job's name if a worker dies and no retries are left, or if two workers time
        out in the same sub-job.
        """
        self._start = partial(_start, modules=self._modules, work=cloudpickle.dumps(work), packages=packages_of(work))
        begin_s = time.monotonic()
        self._module = type(work).__module__
        try:
            for number in range(self.workers):
                self._processes.append(WorkerProcess(number, self._module))
                # Sent immediately, so that this worker loads the wagons while the next worker starts.
                self._processes[-1].send(self._start(number, begin_s=begin_s))
            yield from self._serve(draw)
        finally:
            end_processes(self._processes)
            self._processes = []

    def stop(self) -> None:
        """Ask each worker to return its partial result; workers that exceed the grace period are abandoned."""
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
                for message in self._receive(process):
                    if process.is_done:
                        break  # killed, because another worker finished its sub-job
                    if isinstance(message, DrawRequest):
                        self._answer(process, draw, parked if message.waits else None)
                    elif isinstance(message, Farewell):
                        self._left(process, draw)
                    else:
                        yield from self._take(process, message)
            for process in parked[:]:
                parked.remove(process)
                if process in self._processes and not process.is_dead:
                    self._answer(process, draw, parked)
            yield from self._replace_dead()
            yield from self._replace_silent()

    def _look_interval_s(self) -> float:
        return STOP_CHECK_INTERVAL_S if self._timeout_s is None else min(STOP_CHECK_INTERVAL_S, self._timeout_s / 4)

    def _answer(self, process: WorkerProcess, draw: Draw, parked: list[WorkerProcess] | None) -> None:
        """Send the next sub-job to a worker. If no sub-job is available yet and ``parked`` is given, add the worker to
        ``parked``; it gets a sub-job later.
        """
        drawn: SubJob | Wait | None = None
        if self._stop_at is None:
            drawn = self._again.popleft() if self._again else draw()
            if drawn is None and parked is not None and self._holders(but=process):
                drawn = self._slow_one(process) or WAIT
        process.is_parked = drawn is WAIT and parked is not None
        if process.is_parked and parked is not None:
            parked.append(process)
            return
        if isinstance(drawn, SubJob):
            process.hold(drawn)
        process.is_dismissed = drawn is None and parked is not None
        process.send(drawn.packed() if isinstance(drawn, SubJob) else drawn)

    def _take(self, process: WorkerProcess, message: WorkerMessage) -> Iterator[FromPlace]:
        """Process a worker's message, and yield messages for the job. Raises the error that a worker sent."""
        if isinstance(message, SentError):
            raise message.in_job()
        if isinstance(message, SentNote):
            yield Note(message.value.value(), process.number)
            return
        if not isinstance(message, SentResult):
            # Workers send other messages only for sub-jobs with neighbours, and local sub-jobs have no neighbours.
            raise InternalError(f"{process.name} sent a {type(message).__name__}, which was not requested")
        elapsed_s, subjobs = time.monotonic() - process.first_since_s, {one.index: one for one in process.holds}
        yield process.finished(message)
        self._durations.finished(elapsed_s)
        for other in self._holders(but=process):
            if message.index not in {one.index for one in other.holds}:
                continue
            # The first result is used. The other worker is killed, and its remaining sub-jobs are reassigned.
            other.let_go(message.index)
            self._again += [one for one in other.holds if not self._is_held_by_another(one, other)]
            other.process.kill()
            other.is_done = True
            label = subjobs[message.index].label
            yield Repeated(label, self._twice[message.index], process.name, other.name)

    def _holders(self, but: WorkerProcess) -> list[WorkerProcess]:
        """Return all workers except ``but`` that have sub-jobs."""
        return [one for one in self._processes if one is not but and one.holds and not (one.is_done or one.is_dead)]

    def _is_held_by_another(self, subjob: SubJob, process: WorkerProcess) -> bool:
        return any(subjob.index == one.index for other in self._holders(but=process) for one in other.holds)

    def _slow_one(self, process: WorkerProcess) -> SubJob | None:
        """Return a slow sub-job of another worker, for this worker to run a second time; None if no sub-job is slow."""
        others = self._holders(but=process)
        usual_s = self._durations.usual_s()
        limit_s = self._durations.limit_s(sum(len(one.holds) for one in others), usual_s)
        if limit_s is None:
            return None
        now_s = time.monotonic()
        left = [
            (now_s - other.first_since_s, one)
            for other in others
            for one in other.holds
            if one.may_run_twice and one.index not in self._twice
        ]
        seconds, found = max(left, key=lambda one: one[0], default=(0.0, None))
        if found is None or seconds <= limit_s:
            return None
        self._twice[found.index] = why_twice(seconds, usual_s)
        return found

    def _left(self, process: WorkerProcess, draw: Draw) -> None:
        """Process the normal exit of a worker.

        If a worker exits without being dismissed, for example after a failed sub-job, and sub-jobs are left, it is
        replaced.
        """
        process.is_done = True
        if self._stop_at is not None or process.is_dismissed:
            return
        self._again += process.holds
        if not self._again and isinstance(drawn := draw(), SubJob):
            self._again.append(drawn)
        if self._again:
            self._restart(self._processes.index(process))

    def _receive(self, process: WorkerProcess) -> Iterator[WorkerMessage]:
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
                yield Farewell()

    def _replace_dead(self) -> Iterator[Lost]:
        """Replace workers that died. Raises WorkerDiedError if their sub-jobs cannot be retried."""
        for place, process in enumerate(self._processes):
            if not process.is_dead:
                continue
            error, lost = process.death()
            if not self._goes_on_after(lost, process):
                raise error
            self._restart(place)
            yield lost

    def _goes_on_after(self, lost: Lost, process: WorkerProcess) -> bool:
        """Reassign the sub-jobs of a lost worker. Returns False if the job must stop because they cannot be retried."""
        held = tuple(process.holds)
        left = tuple(one for one in held if not self._is_held_by_another(one, process))
        # Sub-jobs that another worker also runs stay in _twice, so that they are not started a third time. Otherwise a
        # sub-job that kills its workers could be started again forever.
        for one in left:
            self._twice.pop(one.index, None)
        if held and left[:1] != held[:1]:
            # Another worker also runs the sub-job in progress, so the sub-job is not lost.
            self._again += left
            return True
        return self._after_loss is not None and self._after_loss(lost, left)

    def _restart(self, place: int) -> None:
        process = self._processes[place]
        end_processes([process])
        self._processes[place] = WorkerProcess(process.number, self._module)
        # The startup time of the replacement does not include the lost worker's time.
        self._processes[place].send(self._start(process.number, begin_s=time.monotonic()))

    def _replace_silent(self) -> Iterator[Lost]:
        """Kill and replace workers that have exceeded the timeout."""
        now_s = time.monotonic()
        if self._timeout_s is None or self._stop_at is not None or now_s < self._look_again_at:
            return
        self._look_again_at = now_s + self._look_interval_s()
        for place, process in enumerate(self._processes):
            silence = process.silence(self._timeout_s, self._reading_timeout_s)
            if silence is None:
                continue
            process.process.kill()
            lost = process.lost(silence)
            if self._after_loss is not None:
                goes_on, what = self._goes_on_after(lost, process), str(lost)
            else:
                again = [one for one in process.holds if one.index in self._lost]
                before = f"; an earlier worker was lost in {again[0].label}, too" if again else ""
                goes_on, what = not again, f"{lost}{before}"
                self._lost |= {one.index for one in process.holds}
                self._again += process.holds
            if not goes_on:
                hint = "if it is only slow, increase --worker-timeout"
                raise WorkerDiedError(what, hint=hint)
            self._restart(place)
            yield lost


def _start(
    number: int, *, modules: tuple[ModuleFile, ...], work: bytes, begin_s: float, packages: Mapping[str, str]
) -> WorkerStart:
    return WorkerStart(number, own_path(), modules, work, begin_s, packages=packages)


def _ready(processes: list[WorkerProcess], timeout_s: float) -> list[WorkerProcess]:
    """Send queued data to the processes that accept it, and return the processes that have sent messages."""
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
