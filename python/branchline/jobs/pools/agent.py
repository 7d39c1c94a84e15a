"""The agent on a remote worker, which keeps a worker process that runs groups of sub-jobs one after another.

User code runs only in the worker process. If user code crashes, the Dask worker or executor process survives, and can
read the last step (`branchline.jobs.workers.heartbeat`). A worker process can also be killed, unlike a task of Dask or
of an executor.
"""

from __future__ import annotations

import atexit
import platform
import selectors
import sys
import tempfile
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from branchline.base.limits import AGENT_IDLE_S, AGENT_LOOK_INTERVAL_S, AGENT_RUNS_MAX, POOL_MEMORY_PART, STOP_GRACE_S
from branchline.base.quantities import size
from branchline.jobs.pools.pool import GroupResult, PoolRunSettings, SubJobGroup
from branchline.jobs.program import ModuleFile, Program, Versions, WorkerStart
from branchline.jobs.subjob import WAIT, Held, Pickled, SubJob
from branchline.jobs.workers.messages import (
    DrawRequest,
    Farewell,
    SentError,
    SentFold,
    SentNote,
    SentResult,
    WorkerMessage,
)
from branchline.jobs.workers.worker_process import ErrorOutput, WorkerProcess, end_processes


class Agent:
    """Keeps a worker process that runs the groups of one run."""

    def __init__(self, settings: PoolRunSettings, program: Program, threads: int | None) -> None:
        self.run_id = settings.run
        self.name = uuid.uuid4().hex
        self.idle_since_s = time.monotonic()
        self._settings = settings
        self._threads = threads
        self._folder = tempfile.TemporaryDirectory(prefix="branchline-", ignore_cleanup_errors=True)
        self._program = program
        for source in self._program.sources:
            path = Path(self._folder.name, source.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source.content)
        self._process: WorkerProcess | None = None
        self._errors: ErrorOutput | None = None

    def work_on(self, group: SubJobGroup) -> GroupResult:
        """Run a group in the worker process, until the group is finished, the process is lost or the run is stopped."""
        if self._process is None or self._errors is None:
            errors = self._errors = ErrorOutput()
            process = WorkerProcess(0, self._program.module, errors)
            folder = Path(self._folder.name)
            modules = tuple(ModuleFile(one.name, str(folder / one.path)) for one in self._program.load)
            path = (self._folder.name, *sys.path)
            work, begin_s = self._program.work, time.monotonic()
            directory, packages = self._program.directory, self._program.packages
            process.send(WorkerStart(0, path, modules, work, begin_s, self._threads, directory, packages))
            self._process = process
        return _GroupAtWork(self._process, self._errors, group, self.name).result(self._forget)

    def _forget(self) -> None:
        """Discard the worker process, which is dead or accepts no more groups."""
        if self._process is not None:
            end_processes([self._process])
        if self._errors is not None:
            self._errors.pass_on()
            self._errors.close()
        self._process = self._errors = None

    def close(self) -> None:
        """End the worker process."""
        self._forget()
        self._folder.cleanup()


@dataclass
class _GroupAtWork:
    """A group that is running in the worker process."""

    process: WorkerProcess
    errors: ErrorOutput
    group: SubJobGroup
    name: str
    left: deque[SubJob] = field(default_factory=deque)
    notes: dict[str, Pickled] = field(default_factory=dict)
    #: Sub-jobs whose results exist only in the worker process; the results are lost if the process dies.
    held: list[int] = field(default_factory=list)
    stop_at: float | None = None

    def result(self, forget: Callable[[], None]) -> GroupResult:
        """Run the group to the end and return its result."""
        begin_s = time.monotonic()
        self.left.extend(self.group.subjobs)
        self.process.holds.clear()
        result = GroupResult(self.name, _host())
        if self.process.is_parked:
            self._answer(waits=True)
        while result.done_count < len(self.group.subjobs) and self._goes_on(result):
            for message in self._messages():
                self._take(message, result)
        # Unfinished are, in this order: sub-jobs in progress, pending sub-jobs, and sub-jobs whose results were lost
        # with the process.
        done = {one.index for one in result.finished}.union(*(one.indices for one in result.folded))
        at_work = [one.index for one in self.process.holds]
        known = done.union(at_work, self.held)
        rest = [one.index for one in self.group.subjobs if one.index not in known]
        result.unfinished = [*at_work, *rest, *self.held]
        result.notes = list(self.notes.values())
        result.seconds = time.monotonic() - begin_s
        if result.lost is not None:
            result.lost = replace(result.lost, log=self.errors.end())
        if self.process.is_done or self.process.is_dead or result.lost is not None or self.stop_at is not None:
            forget()
        return result

    def _take(self, message: WorkerMessage, result: GroupResult) -> None:
        """Handle a message from the worker process."""
        match message:
            case SentResult():
                result.finished.append(message)
                self.process.let_go(message.index)
            case Held():
                self.held.append(message.index)
                self.process.let_go(message.index)
            case SentFold():
                result.folded.append(message)
                self.held = [one for one in self.held if one not in message.indices]
                for index in message.indices:
                    self.process.let_go(index)
            case DrawRequest():
                self._answer(waits=message.waits)
            case SentNote():
                self.notes[message.kind] = message.value
            case SentError():
                result.error = message
                self.process.is_done = True
            case Farewell():
                self.process.is_done = True

    def _goes_on(self, result: GroupResult) -> bool:
        """Return whether the worker process may still send messages. If the process was lost, write the reason to the
        result.
        """
        if self.process.is_done:
            return False
        if _AGENTS.is_cancelled(self.group):
            self.process.is_dead = True
            return False
        self._keep_below_memory_limit()
        if self.process.is_dead:
            error, result.lost = self.process.death()
            result.lost_hint = error.hint
            return False
        settings = self.group.settings
        if self.stop_at is None and _AGENTS.is_stopped(settings):
            self.stop_at = time.monotonic() + STOP_GRACE_S
            self.left.clear()
            self.process.interrupt()
        if self.stop_at is not None:
            return time.monotonic() < self.stop_at
        if settings.timeout_s is not None:
            silence = self.process.silence(settings.timeout_s, settings.reading_timeout_s)
            if silence is not None:
                self.process.process.kill()
                result.lost = self.process.lost(silence)
                return False
        return True

    def _keep_below_memory_limit(self) -> None:
        """Kill the worker process before it exceeds the memory limit of the pool's worker, as Dask does with its own
        workers.
        """
        limit_bytes, process = self.group.memory_limit_bytes, self.process
        if limit_bytes is None or process.ended_for_memory:
            return
        taken_bytes = process.memory_bytes()
        if taken_bytes > POOL_MEMORY_PART * limit_bytes:
            allowed = f"{size(taken_bytes)} of memory; the limit of its worker is {size(limit_bytes)}"
            process.ended_for_memory = f"was killed because it used {allowed}"
            process.process.kill()

    def _messages(self) -> Iterator[WorkerMessage]:
        with selectors.PollSelector() as selector:
            more = selectors.EVENT_WRITE if self.process.connection.has_more_to_send else 0
            selector.register(self.process, selectors.EVENT_READ | more)
            if self.errors.is_open:
                selector.register(self.errors, selectors.EVENT_READ)
            selected = selector.select(AGENT_LOOK_INTERVAL_S)
            ready = [events for key, events in selected if key.fileobj is self.process]
        self.errors.pass_on()
        if any(events & selectors.EVENT_WRITE for events in ready):
            self.process.connection.send_more()
        if not any(events & selectors.EVENT_READ for events in ready):
            return
        try:
            for message in self.process.connection.receive():
                self.process.heartbeat.heard()
                yield message
        except (EOFError, OSError):
            self.process.is_dead = not self.process.is_done

    def _answer(self, *, waits: bool) -> None:
        """Send the next sub-job of the group. If none is left, park a process that can wait until the next group."""
        self.process.is_parked = not self.left and waits and self.stop_at is None
        if self.left:
            subjob = self.left.popleft()
            self.process.hold(subjob)
            self.process.send(subjob)
        elif self.stop_at is not None:
            self.process.send(None)
        elif not waits:
            self.process.send(WAIT)


@dataclass
class _Calls:
    """The state of a run: the groups to cancel, whether this process must stop, and whether the run has ended.

    ``sees_job`` is whether the folder of the stop file has been on this machine. If so, the job has ended when the
    folder is deleted.
    """

    cancelled: set[int] = field(default_factory=set)
    is_stopped: bool = False
    has_ended: bool = False
    sees_job: bool = False


_NONE = _Calls()


class _Agents:
    """All agents in one process of the pool, busy and idle."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._waiting: list[Agent] = []
        self._watch: threading.Thread | None = None
        # Requests by run ID. Only the most recent runs are kept, because a worker may serve runs for months, and not
        # every run reports its end.
        self._calls: OrderedDict[str, _Calls] = OrderedDict()

    def stop(self, run_id: str) -> None:
        """Stop a run's groups. They return their partial results."""
        with self._lock:
            self._calls_of(run_id).is_stopped = True

    def cancel(self, run_id: str, number: int) -> None:
        """Cancel a group."""
        with self._lock:
            self._calls_of(run_id).cancelled.add(number)

    def _calls_of(self, run_id: str) -> _Calls:
        found = self._calls.setdefault(run_id, _Calls())
        self._calls.move_to_end(run_id)
        while len(self._calls) > AGENT_RUNS_MAX:
            self._calls.popitem(last=False)
        return found

    def is_cancelled(self, group: SubJobGroup) -> bool:
        """Return whether a group was cancelled or its run has ended."""
        with self._lock:
            calls = self._calls_of(group.settings.run)
        if Path(group.settings.stop_file).parent.exists():
            calls.sees_job = True
        elif calls.sees_job:
            return True
        is_unwanted = calls.has_ended or group.number in calls.cancelled
        return is_unwanted or Path(group.settings.stop_file_of(group.number)).exists()

    def is_stopped(self, settings: PoolRunSettings) -> bool:
        """Return whether a run was stopped, so that its groups return their partial results."""
        calls = self._calls.get(settings.run, _NONE)
        return calls.is_stopped or calls.has_ended or Path(settings.stop_file).exists()

    @contextmanager
    def turn(self, group: SubJobGroup) -> Iterator[bool]:
        """Wait until a group may run in the ``with`` block. Yields False if the group was cancelled or the run was
        stopped during the wait.
        """
        if not group.settings.one_at_a_time:
            yield not self.is_cancelled(group)
            return
        while not self._turn.acquire(timeout=AGENT_LOOK_INTERVAL_S):
            if self.is_stopped(group.settings) or self.is_cancelled(group):
                yield False
                return
        try:
            yield not self.is_cancelled(group)
        finally:
            self._turn.release()

    def take(self, group: SubJobGroup) -> Agent | None:
        """Return an idle agent of the run, or a new agent.

        Returns None if a new agent is needed but the group was sent without the program.
        """
        with self._lock:
            for agent in self._waiting:
                if agent.run_id == group.settings.run:
                    self._waiting.remove(agent)
                    return agent
        if group.program is None:
            return None
        return Agent(group.settings, group.program, group.threads)

    def put_back(self, agent: Agent) -> None:
        """Keep an agent for the next group; the agent is closed when it has been idle for ``AGENT_IDLE_S``."""
        agent.idle_since_s = time.monotonic()
        with self._lock:
            self._waiting.append(agent)
            if self._watch is None:
                self._watch = threading.Thread(target=self._close_idle, name="branchline-agents", daemon=True)
                self._watch.start()

    def end(self, run_id: str) -> None:
        """End a run: close its idle agents, and cancel the groups of its busy agents, because their results are not
        needed any more.
        """
        with self._lock:
            calls = self._calls_of(run_id)
            calls.has_ended = True
            calls.cancelled.clear()
        self.close(run_id)

    def close(self, run_id: str | None = None, idle_s: float = 0.0) -> None:
        """Close the agents of one run, or of all runs, that have been idle for at least ``idle_s``."""
        before_s = time.monotonic() - idle_s
        with self._lock:
            ended = [one for one in self._waiting if run_id in (None, one.run_id) and one.idle_since_s <= before_s]
            self._waiting = [one for one in self._waiting if one not in ended]
        for agent in ended:
            agent.close()

    def _close_idle(self) -> None:
        while True:
            time.sleep(AGENT_IDLE_S / 4)
            self.close(idle_s=AGENT_IDLE_S)
            with self._lock:
                if not self._waiting:
                    self._watch = None
                    return


def _host() -> str:
    return platform.node() or "localhost"


_AGENTS = _Agents()
atexit.register(_AGENTS.close)


def work_on_group(group: SubJobGroup) -> GroupResult:
    """Run a group on an agent in this process. This function is the task that a pool executes."""
    unfinished = [one.index for one in group.subjobs]
    nothing = GroupResult("", _host(), unfinished=unfinished)
    nothing.refused = Versions().difference_from(group.settings.versions)
    if nothing.refused:
        return nothing
    with _AGENTS.turn(group) as is_ours:
        if not is_ours:
            return nothing
        agent = _AGENTS.take(group)
        if agent is None:
            nothing.needs_program = True
            return nothing
        try:
            result = agent.work_on(group)
        except BaseException:
            agent.close()
            raise
        _AGENTS.put_back(agent)
        return result


def stop_agents(run_id: str) -> None:
    """Stop a run's groups in this process; they return their partial results."""
    _AGENTS.stop(run_id)


def cancel_group(run_id: str, number: int) -> None:
    """Cancel a group if this process runs it."""
    _AGENTS.cancel(run_id, number)


def end_agents(run_id: str) -> None:
    """End a run's agents in this process, because their results are not needed any more."""
    _AGENTS.end(run_id)
