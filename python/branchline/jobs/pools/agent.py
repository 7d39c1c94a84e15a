"""What runs on a far worker: an agent that keeps a worker process of ours and has it work on one group after the other.

The code of users runs in that process only. So its crash ends neither Dask's worker nor an executor's, its last step is
known (`branchline.jobs.workers.heartbeat`), and it can be stopped, which tasks of these cannot.
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from branchline.base.limits import AGENT_IDLE_S, AGENT_LOOK_INTERVAL_S, AGENT_RUNS_MAX, POOL_MEMORY_PART, STOP_GRACE_S
from branchline.base.quantities import size
from branchline.jobs.pools.pool import Group, GroupResult, PoolRunSettings
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
    """Keeps a worker process for the groups of one run."""

    def __init__(self, settings: PoolRunSettings, program: Program, threads: int | None) -> None:
        self.run_id = settings.run
        self.name = uuid.uuid4().hex
        self.idle_since_s = time.monotonic()
        self._settings = settings
        self._threads = threads
        self._folder = tempfile.TemporaryDirectory(prefix="branchline-", ignore_cleanup_errors=True)
        self._program = program
        self._unpack()
        self._process: WorkerProcess | None = None
        self._errors: ErrorOutput | None = None

    def _unpack(self) -> None:
        for source in self._program.sources:
            path = Path(self._folder.name, source.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source.content)

    def work_on(self, group: Group) -> GroupResult:
        """Has the worker process work on a group, until all of it is done, or the process is lost or told to stop."""
        if self._process is None or self._errors is None:
            self._errors = ErrorOutput()
            self._process = self._started(self._errors)
        return _GroupAtWork(self._process, self._errors, group, self.name).result(self._forget)

    def _started(self, errors: ErrorOutput) -> WorkerProcess:
        process = WorkerProcess(0, self._program.module, errors)
        folder = Path(self._folder.name)
        modules = tuple(ModuleFile(one.name, str(folder / one.path)) for one in self._program.load)
        path = (self._folder.name, *sys.path)
        work, begin_s = self._program.work, time.monotonic()
        directory, packages = self._program.directory, self._program.packages
        process.send(WorkerStart(0, path, modules, work, begin_s, self._threads, directory, packages))
        return process

    def _forget(self) -> None:
        """The process is gone or does not take another group."""
        if self._process is not None:
            end_processes([self._process])
        if self._errors is not None:
            self._errors.pass_on()
            self._errors.close()
        self._process = self._errors = None

    def close(self) -> None:
        """Ends the process."""
        self._forget()
        self._folder.cleanup()


@dataclass
class _GroupAtWork:
    """One group, while its process works on it."""

    process: WorkerProcess
    errors: ErrorOutput
    group: Group
    name: str
    left: deque[SubJob] = field(default_factory=deque)
    notes: dict[str, Pickled] = field(default_factory=dict)
    #: Sub-jobs whose results the process holds: they are lost with it.
    held: list[int] = field(default_factory=list)
    stop_at: float | None = None

    def __post_init__(self) -> None:
        # On the machine of the job the folder of the stop file goes with it.
        self._job_folder = Path(self.group.settings.stop_file).parent
        self._sees_job = self._job_folder.exists()

    def result(self, forget: Any) -> GroupResult:
        """Works to the end of the group."""
        begin_s = time.monotonic()
        self.left.extend(self.group.subjobs)
        self.process.holds.clear()
        result = GroupResult(self.name, _host())
        if self.process.is_parked:
            self._answer(waits=True)
        while result.done_count < len(self.group.subjobs) and self._goes_on(result):
            for message in self._messages():
                self._take(message, result)
        result.unfinished = self._unfinished(result)
        result.notes = list(self.notes.values())
        result.seconds = time.monotonic() - begin_s
        if result.lost is not None:
            result.lost = replace(result.lost, log=self.errors.end())
        if self.process.is_done or self.process.is_dead or result.lost is not None or self.stop_at is not None:
            forget()
        return result

    def _take(self, message: WorkerMessage, result: GroupResult) -> None:
        """Takes a message of the process."""
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

    def _unfinished(self, result: GroupResult) -> list[int]:
        """The sub-jobs without a result: first that at which the process is, last those whose results went with it."""
        done = {one.index for one in result.finished}.union(*(one.indices for one in result.folded))
        at_work = [one.index for one in self.process.holds]
        known = done.union(at_work, self.held)
        rest = [one.index for one in self.group.subjobs if one.index not in known]
        return [*at_work, *rest, *self.held]

    def _goes_on(self, result: GroupResult) -> bool:
        """Whether more can come of the process; notes in the result how it was lost."""
        if self.process.is_done:
            return False
        if _AGENTS.is_cancelled(self.group) or (self._sees_job and not self._job_folder.exists()):
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
        """Ends the process before it takes more than the worker of the pool may have, as Dask does with its own."""
        limit_bytes, process = self.group.memory_limit_bytes, self.process
        if limit_bytes is None or process.ended_for_memory:
            return
        taken_bytes = process.memory_bytes()
        if taken_bytes > POOL_MEMORY_PART * limit_bytes:
            allowed = f"{size(taken_bytes)} of memory, where its worker may have {size(limit_bytes)}"
            process.ended_for_memory = f"was ended since it took {allowed}"
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
        """Sends the next sub-job of the group. Behind the last one the process waits for the next group."""
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
    """What a run has asked for in this process: that groups are cancelled, that all stop, or that nothing goes on."""

    cancelled: set[int] = field(default_factory=set)
    is_stopped: bool = False
    has_ended: bool = False


_NONE = _Calls()


class _Agents:
    """The agents of this process of a pool: those that work, and those that wait for the next group."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._waiting: list[Agent] = []
        self._watch: threading.Thread | None = None
        # Runs with the numbers of groups that are cancelled, and whether all are to stop: of those of the last time. A
        # worker serves runs for months, and not each says that it has ended.
        self._calls: OrderedDict[str, _Calls] = OrderedDict()

    def stop(self, run_id: str) -> None:
        """Has the groups of a run handed over as they are."""
        with self._lock:
            self._calls_of(run_id).is_stopped = True

    def cancel(self, run_id: str, number: int) -> None:
        """Has the work on a group ended."""
        with self._lock:
            self._calls_of(run_id).cancelled.add(number)

    def _calls_of(self, run_id: str) -> _Calls:
        found = self._calls.setdefault(run_id, _Calls())
        self._calls.move_to_end(run_id)
        while len(self._calls) > AGENT_RUNS_MAX:
            self._calls.popitem(last=False)
        return found

    def is_cancelled(self, group: Group) -> bool:
        """Whether nobody waits for a group any more."""
        calls = self._calls.get(group.settings.run, _NONE)
        is_unwanted = calls.has_ended or group.number in calls.cancelled
        return is_unwanted or Path(group.settings.stop_file_of(group.number)).exists()

    def is_stopped(self, settings: PoolRunSettings) -> bool:
        """Whether a run is to hand over what it has."""
        calls = self._calls.get(settings.run, _NONE)
        return calls.is_stopped or calls.has_ended or Path(settings.stop_file).exists()

    @contextmanager
    def turn(self, settings: PoolRunSettings) -> Iterator[bool]:
        """Inside the block it is this group's turn; False if the run was stopped before it was."""
        if not settings.one_at_a_time:
            yield True
            return
        while not self._turn.acquire(timeout=AGENT_LOOK_INTERVAL_S):
            if _AGENTS.is_stopped(settings):
                yield False
                return
        try:
            yield True
        finally:
            self._turn.release()

    def take(self, group: Group) -> Agent | None:
        """An agent that waits, or a new one; None if it takes a program that is not here."""
        with self._lock:
            for agent in self._waiting:
                if agent.run_id == group.settings.run:
                    self._waiting.remove(agent)
                    return agent
        if group.program is None:
            return None
        return Agent(group.settings, group.program, group.threads)

    def put_back(self, agent: Agent) -> None:
        """It waits for the next group, for a while."""
        agent.idle_since_s = time.monotonic()
        with self._lock:
            self._waiting.append(agent)
            if self._watch is None:
                self._watch = threading.Thread(target=self._close_idle, name="branchline-agents", daemon=True)
                self._watch.start()

    def end(self, run_id: str) -> None:
        """A run has ended: its agents that wait do, and those that work, for nobody takes what they make."""
        with self._lock:
            calls = self._calls_of(run_id)
            calls.has_ended = True
            calls.cancelled.clear()
        self.close(run_id)

    def close(self, run_id: str | None = None, idle_s: float = 0.0) -> None:
        """Ends the agents that wait: those of a run, or all, and only if they have waited for this long."""
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


def work_on_group(group: Group) -> GroupResult:
    """The task that a pool runs: has an agent of this process work on a group."""
    unfinished = [one.index for one in group.subjobs]
    nothing = GroupResult("", _host(), unfinished=unfinished)
    nothing.refused = Versions().difference_from(group.settings.versions)
    if nothing.refused:
        return nothing
    with _AGENTS.turn(group.settings) as is_ours:
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
    """Has the groups of a run that are worked on in this process handed over as they are."""
    _AGENTS.stop(run_id)


def cancel_group(run_id: str, number: int) -> None:
    """Has the work on a group ended, if it is in this process."""
    _AGENTS.cancel(run_id, number)


def end_agents(run_id: str) -> None:
    """Ends the agents of a run in this process: nobody takes what they make any more."""
    _AGENTS.end(run_id)
