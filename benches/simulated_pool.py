"""A pool of simulated workers with its own clock. Dispatching and merging are real code.

It behaves like a Dask cluster in `branchline.jobs.pools.pooled_workers.PooledWorkers`: groups wait at the scheduler, or
for the workers of their site; a group whose worker ends is restarted on another one; if a process dies in a worker, its
group ends early.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Protocol

from benches.simulated_field import Durations, Field
from branchline.base.limits import AGENT_LOOK_INTERVAL_S
from branchline.jobs.pools.pool import Begun, Done, GroupResult, SubJobGroup
from branchline.jobs.sites import Spot
from branchline.jobs.subjob import Finished, Folded, Held, Lost, Pickled, SubJob
from branchline.jobs.workers.messages import SentFold, SentResult
from branchline.trains.subjobs.folding import NeighbourFolding
from branchline.trains.subjobs.share_result import ShareResult
from branchline.trains.subjobs.shares import Share

#: Seconds until a sub-job fails on a black-hole node.
FAILS_S = 0.05
#: Dask raises KilledWorker for a group after this many of its workers have died.
DEATHS_ALLOWED = 3


class Outcomes(Protocol):
    """Creates the outcomes of sub-jobs."""

    def finished(self, subjob: SubJob, share: Share, worker: str, seconds: float) -> ShareResult: ...
    def failed(self, share: Share, worker: str) -> ShareResult: ...


@dataclass
class Worker:
    """A worker of the pool. ``turn`` counts its starts: events from before the latest start are ignored."""

    number: int
    node: str
    site: str
    factor: float
    is_black_hole: bool
    ends_s: float
    is_up: bool = True
    has_process: bool = False
    turn: int = 0
    group: int | None = None

    @property
    def name(self) -> str:
        return f"worker-{self.number}"


@dataclass
class _Waiting:
    """A submitted group that has not returned. ``began`` is its current worker."""

    group: SubJobGroup
    avoided: frozenset[str]
    site: str | None
    worker: int | None = None
    begun_s: float | None = None
    deaths: int = 0
    lost_at: str = ""


@dataclass
class Counts:
    """Counts of events, for the report."""

    attempts: int = 0
    far_attempts: int = 0
    worker_deaths: int = 0
    crashes: int = 0
    failed: int = 0
    #: Sub-jobs whose results were merged with neighbouring results on a worker.
    folded_afar: int = 0
    cancelled_groups: int = 0
    groups: int = 0
    flying_max: int = 0
    flying_subjobs_max: int = 0
    submit_s: float = 0.0
    fold_s: float = 0.0
    #: Times of changes in the number of busy workers, with the new number.
    busy: list[tuple[float, int]] = field(default_factory=list)


class SimulatedPool:
    """The workers of a ``Field``. ``now_s`` is its clock, which advances while the job waits for groups."""

    one_at_a_time = True

    def __init__(self, field: Field, durations: Durations, outcomes: Outcomes) -> None:
        self.counts = Counts()
        self._field, self._durations, self._outcomes = field, durations, outcomes
        self._clock_s = 1.0
        self._numbers = count()
        self._events: list[tuple[float, int, str, int, int]] = []
        self._groups: dict[int, _Waiting] = {}
        self._queues: dict[str | None, deque[int]] = {}
        self._idle: dict[str, dict[int, None]] = {}
        self._done: deque[Done] = deque()
        self._attempts: dict[int, int] = {}
        self._results: dict[int, GroupResult] = {}
        self._busy = 0
        self._flying = 0
        self._workers = [self._made(number) for number in range(field.workers)]
        for worker in self._workers:
            self._idle.setdefault(worker.site, {})[worker.number] = None
            self._at(worker.ends_s, "ends", worker)
        self._slots: dict[Spot, int] = {}
        self._count_slots()

    def now_s(self) -> float:
        """The simulated time in seconds."""
        return self._clock_s

    def open(self, run_id: str) -> None:
        """Return immediately: all workers are available."""

    def slots(self) -> Mapping[Spot, int]:
        return self._slots

    def nodes(self) -> set[str]:
        return {one.node for one in self._workers if one.is_up}

    def submit(self, group: SubJobGroup, avoided: frozenset[str]) -> None:
        """Submit a group, which takes some time in the submitting process."""
        self._goes_on(self._field.submit_s)
        self.counts.submit_s += self._field.submit_s
        self.counts.groups += 1
        self._flying += len(group.subjobs)
        waiting = self._groups[group.number] = _Waiting(group, avoided, group.site)
        self.counts.flying_max = max(self.counts.flying_max, len(self._groups))
        self.counts.flying_subjobs_max = max(self.counts.flying_subjobs_max, self._flying)
        self._give(group.number, waiting)

    def exclude(self, address: str) -> bool:
        """Return False: no worker is excluded."""
        del address
        return False

    def begun(self, number: int) -> Begun | None:
        waiting = self._groups.get(number)
        if waiting is None or waiting.begun_s is None:
            return None
        return Begun(waiting.begun_s, "" if waiting.worker is None else self._workers[waiting.worker].node)

    def done(self, timeout_s: float) -> Iterator[Done]:
        """Return the groups of the next event. Merging their results takes some time in the job."""
        until_s = self._clock_s + timeout_s
        while not self._done and self._events and self._events[0][0] <= until_s:
            self._clock_s = max(self._clock_s, self._events[0][0])
            self._happens()
        if not self._done:
            self._clock_s = until_s
        for _ in range(len(self._done)):
            done = self._done.popleft()
            results = 0 if done.result is None else len(done.result.finished) + len(done.result.folded)
            folded_s = self._field.fold_s * results
            self.counts.fold_s += folded_s
            yield done
            self._goes_on(folded_s)

    def cancel(self, number: int) -> None:
        """Cancel a group. Its worker becomes free once its agent has noticed."""
        waiting = self._groups.pop(number, None)
        self._results.pop(number, None)
        self.counts.cancelled_groups += 1
        if waiting is None:
            return
        self._flying -= len(waiting.group.subjobs)
        if waiting.worker is not None:
            worker = self._workers[waiting.worker]
            worker.turn += 1
            worker.has_process = False
            self._at(self._clock_s + AGENT_LOOK_INTERVAL_S, "free", worker)

    def stop(self) -> None:
        """Do nothing: groups return when they are done."""

    def close(self) -> None:
        """Do nothing."""

    # Workers and sites.

    def _made(self, number: int) -> Worker:
        field, faults = self._field, self._field.faults
        node = number // field.workers_per_node
        ends_s = self._clock_s + Random(f"{field.seed}-life-{number}").expovariate(1 / faults.worker_life_s)
        site = field.worker_site(node) if field.knows_sites else ""
        factor = faults.slow_node_factor if node in field.slow_nodes else 1.0
        return Worker(number, f"node{node:03}", site, factor, node in field.black_holes, ends_s)

    def _true_site(self, worker: Worker) -> str:
        """Return the site of a worker, known or not."""
        return self._field.worker_site(worker.number // self._field.workers_per_node)

    def _count_slots(self) -> None:
        slots: dict[Spot, int] = {}
        for one in self._workers:
            if one.is_up:
                spot = Spot(one.node, one.site)
                slots[spot] = slots.get(spot, 0) + 1
        self._slots = slots

    # Events.

    def _at(self, at_s: float, kind: str, worker: Worker) -> None:
        heapq.heappush(self._events, (at_s, next(self._numbers), kind, worker.number, worker.turn))

    def _goes_on(self, seconds: float) -> None:
        """Advance the clock while the submitting process works."""
        until_s = self._clock_s + seconds
        while self._events and self._events[0][0] <= until_s:
            self._clock_s = max(self._clock_s, self._events[0][0])
            self._happens()
        self._clock_s = until_s

    def _happens(self) -> None:
        _, _, kind, number, turn = heapq.heappop(self._events)
        worker = self._workers[number]
        if kind == "ends":
            self._ends(worker)
        elif kind == "back":
            worker.is_up, worker.has_process = True, False
            chance = Random(f"{self._field.seed}-life-{number}-{self._clock_s}")
            worker.ends_s = self._clock_s + chance.expovariate(1 / self._field.faults.worker_life_s)
            self._at(worker.ends_s, "ends", worker)
            self._count_slots()
            self._is_free(worker)
        elif kind in ("free", "finishes") and turn == worker.turn and worker.is_up:
            if kind != "free":
                self._comes_back(worker)
            self._note_busy(worker, None)
            self._is_free(worker)

    def _ends(self, worker: Worker) -> None:
        """End a worker of the pool. Its group waits for another one."""
        worker.is_up = False
        worker.turn += 1
        self._idle.setdefault(worker.site, {}).pop(worker.number, None)
        self.counts.worker_deaths += 1
        number = worker.group
        self._note_busy(worker, None)
        self._at(self._clock_s + self._field.faults.restart_s, "back", worker)
        self._count_slots()
        waiting = None if number is None else self._groups.get(number)
        if number is None or waiting is None or waiting.worker != worker.number:
            return
        waiting.worker, waiting.lost_at, waiting.deaths = None, worker.node, waiting.deaths + 1
        if waiting.deaths > DEATHS_ALLOWED:
            self._has_left(number)
            self._done.append(Done(number, error=RuntimeError("KilledWorker"), worker_died=True, node=worker.node))
        else:
            self._give(number, waiting)

    def _note_busy(self, worker: Worker, group: int | None) -> None:
        self._busy += (group is not None) - (worker.group is not None)
        worker.group = group
        self.counts.busy.append((self._clock_s, self._busy))

    # Assignment of groups.

    def _give(self, number: int, waiting: _Waiting) -> None:
        """Start a group on a suitable idle worker, or let it wait. If all workers at the group's site are on nodes to
        avoid, the group may run at any site.
        """
        if waiting.site is not None:
            near = (one.host for one in self._slots if one.site == waiting.site)
            waiting.site = waiting.site if any(one not in waiting.avoided for one in near) else None
        sites = list(self._idle) if waiting.site is None else [waiting.site]
        for site in sites:
            for idle in self._idle.get(site, ()):
                if self._workers[idle].node not in waiting.avoided:
                    del self._idle[site][idle]
                    self._begins(self._workers[idle], number, waiting)
                    return
        self._queues.setdefault(waiting.site, deque()).append(number)

    def _is_free(self, worker: Worker) -> None:
        """Start the longest-waiting group for this worker, if any."""
        for site in (worker.site, None):
            queue = self._queues.get(site, deque())
            for number in [one for one in queue if one not in self._groups]:
                queue.remove(number)
            for number in queue:
                if worker.node not in self._groups[number].avoided:
                    queue.remove(number)
                    self._begins(worker, number, self._groups[number])
                    return
        self._idle.setdefault(worker.site, {})[worker.number] = None

    def _begins(self, worker: Worker, number: int, waiting: _Waiting) -> None:
        waiting.worker, waiting.begun_s = worker.number, self._clock_s
        worker.turn += 1
        self._note_busy(worker, number)
        if waiting.lost_at:
            self._done.append(Done(number, begun_again_at=worker.name, node=waiting.lost_at))
            waiting.lost_at = ""
        result, seconds = self._worked(worker, waiting.group)
        self._results[number] = result
        self._at(self._clock_s + seconds, "finishes", worker)

    def _has_left(self, number: int) -> None:
        self._flying -= len(self._groups.pop(number).group.subjobs)
        self._results.pop(number, None)

    def _comes_back(self, worker: Worker) -> None:
        number = worker.group
        if number is not None and number in self._groups:
            result = self._results.pop(number)
            worker.has_process = result.lost is None
            self._has_left(number)
            self._done.append(Done(number, result))

    def _worked(self, worker: Worker, group: SubJobGroup) -> tuple[GroupResult, float]:
        """Return the messages of a group and their times, if nothing happens to the worker."""
        field, faults = self._field, self._field.faults
        seconds = field.group_start_s + (0.0 if worker.has_process else field.process_start_s)
        result = GroupResult(worker.name, worker.node, node=worker.node)
        begun_s = seconds
        handed_over = _HandedOver(result)
        for position, subjob in enumerate(group.subjobs):
            share: Share = subjob.payload.value()
            attempt = self._attempts[subjob.index] = self._attempts.get(subjob.index, 0) + 1
            chance = Random(f"{field.seed}-{subjob.index}-{attempt}")
            site = self._true_site(worker)
            self.counts.attempts += 1
            self.counts.far_attempts += share.files[0].sites.site_of(share.files[0].path) != site
            if worker.is_black_hole:
                seconds += FAILS_S
                self.counts.failed += 1
                handed_over.take(subjob, share, self._outcomes.failed(share, worker.name))
                continue
            took_s = worker.factor * self._durations.attempt_s(share.files, share.parts, site, chance)
            if chance.random() < faults.crashes_part:
                seconds += took_s * chance.random()
                self.counts.crashes += 1
                how = "was killed by signal 9 (SIGKILL)"
                result.lost = Lost(0, 1, "", 0.0, how, (subjob.label,), is_dead=True)
                result.unfinished = [one.index for one in group.subjobs[position:]] + handed_over.held
                break
            seconds += took_s
            handed_over.take(subjob, share, self._outcomes.finished(subjob, share, worker.name, took_s))
        self.counts.folded_afar += sum(len(one.indices) for one in result.folded)
        result.seconds = seconds - begun_s
        return result, seconds


class _HandedOver:
    """Merges neighbouring results and returns them like a real worker. ``held`` results are lost with its process."""

    def __init__(self, result: GroupResult) -> None:
        self._result = result
        self._folding = NeighbourFolding({}, 0)
        self.held: list[int] = []

    def take(self, subjob: SubJob, share: Share, result: ShareResult) -> None:
        for message in self._folding.take(replace(subjob, payload=share), result):
            if isinstance(message, Finished):
                self._result.finished.append(SentResult(message.index, Pickled.of(message.value)))
            elif isinstance(message, Folded):
                self._result.folded.append(SentFold(message.indices, Pickled.of(message.value)))
                self.held = []
            elif isinstance(message, Held):
                self.held.append(message.index)
