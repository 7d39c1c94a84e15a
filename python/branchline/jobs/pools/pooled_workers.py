"""Runs a job on the workers of a pool. Sub-jobs are sent in groups of neighbours; the number of groups in flight is
limited.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import cloudpickle

from branchline.base.limits import (
    FOLD_AFAR_MIN_BYTES,
    GROUP_DEATHS_MAX,
    GROUP_GROWTH,
    GROUP_S,
    GROUP_SUBJOBS_MAX,
    GROUPS_MIN,
    GROUPS_PER_SLOT,
    NO_WORKERS_S,
    POOL_LOOK_INTERVAL_S,
    PROGRAM_INLINE_BYTES,
    STOP_GRACE_S,
)
from branchline.jobs.pools.pool import Done, GroupResult, Pool, PoolError, PoolRunSettings, SubJobGroup
from branchline.jobs.program import ModuleFile, Program, SourceFile, Versions
from branchline.jobs.sites import Spot, holding_most
from branchline.jobs.stragglers import Durations, NodeFailures, why_twice
from branchline.jobs.subjob import (
    WAIT,
    AfterLoss,
    Draw,
    Finished,
    Folded,
    FromPlace,
    Lost,
    Note,
    Pickled,
    Repeated,
    SubJob,
    Work,
    WorkerDiedError,
    Workers,
    packages_of,
)


class PooledWorkers:
    """Runs a job on the workers of a pool.

    ``load`` and ``sources`` are the user's files that are sent with the job, as in ``Program``. Timeouts and
    ``after_loss`` are as in ``LocalProcesses``. ``failed`` is a function that returns whether a result is a failure, so
    that the sub-job is retried on another machine. ``now_s`` is the pool's clock.
    """

    def __init__(
        self,
        pool: Pool,
        load: Sequence[ModuleFile] = (),
        sources: Sequence[SourceFile] = (),
        timeout_s: float | None = None,
        reading_timeout_s: float = 0.0,
        after_loss: AfterLoss | None = None,
        failed: Callable[[object], bool] | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._now_s = now_s
        self._failed_by = failed
        self._nodes = NodeFailures()
        self._durations = Durations()
        # _done are the indices of finished sub-jobs. _twice has the groups that run speculatively on two workers, by
        # number: the number of the other copy, and the reason.
        self._done: set[int] = set()
        self._twice: dict[int, tuple[int, str]] = {}
        self._is_drained = False
        # Whether ``draw`` has returned WAIT: more sub-jobs will be available later.
        self._waits = False
        self._heard_s = self._now_s()
        self._load = tuple(load)
        self._sources = tuple(sources)
        self._timeouts = (timeout_s, reading_timeout_s)
        self._after_loss = after_loss
        self._stop_at: float | None = None
        self._is_stopping = False
        self._live: dict[int, tuple[SubJob, ...]] = {}
        self._again: deque[SubJob] = deque()
        # Sub-jobs that are retried individually, because they failed, or because the pool lost the worker that ran
        # their group.
        self._alone: deque[SubJob] = deque()
        self._deaths: dict[int, int] = {}
        self._departures: dict[int, int] = {}
        self._silent: set[int] = set()
        self._numbers: dict[str, int] = {}
        self._groups_count = 0
        self._slots: Mapping[Spot, int] = {}
        self._workers_now = Workers(self._slots)
        # Site of each group that is restricted to a site, by group number.
        self._sites: dict[int, str] = {}
        self._live_at: Counter[str] = Counter()
        self._run_id = uuid.uuid4().hex
        self._is_open = False
        self._subjob_s: float | None = None
        self._result_bytes = 0.0
        self._size = 1
        # Indices of sub-jobs that were rerun or may have to be rerun. Their results are not folded with results of
        # neighbours.
        self._single: set[int] = set()

    @property
    def workers(self) -> int:
        """The number of current workers or, if larger, the number of workers that have run a sub-job."""
        return max(1, len(self._numbers), sum(self._slots.values()))

    @property
    def workers_seen(self) -> int:
        """The number of workers that have run a sub-job; worker numbers are less than this."""
        return max(1, len(self._numbers))

    def prepare(self) -> None:
        """Connect to the pool. Raises PoolError."""
        if not self._is_open:
            self._is_open = True
            self._pool.open(self._run_id)

    def close(self) -> None:
        """Release the workers."""
        if self._is_open:
            self._is_open = False
            self._pool.close()
            # Workers ignore groups with the ID of a run that has ended, so the next run needs a new ID.
            self._run_id = uuid.uuid4().hex
        self._live.clear()

    def run(self, work: Work, draw: Draw) -> Iterator[FromPlace]:
        """Run the job and yield the workers' messages whenever a group finishes.

        Raises PoolError if the pool is gone or cannot run the job, and WorkerDiedError as in ``LocalProcesses``.
        """
        program = Program(
            cloudpickle.dumps(work),
            self._load,
            self._sources,
            os.getcwd(),
            type(work).__module__,
            packages_of(work),
        )
        with tempfile.TemporaryDirectory(prefix="branchline-", ignore_cleanup_errors=True) as folder:
            stop_file = Path(folder, "stop")
            timeout_s, reading_timeout_s = self._timeouts
            settings = PoolRunSettings(
                self._run_id, Versions(), timeout_s, reading_timeout_s, str(stop_file), self._pool.one_at_a_time
            )
            try:
                self.prepare()
                self._slots = self._pool.slots()
                yield from self._serve(draw, program, settings, stop_file)
            finally:
                stop_file.touch()
                self.close()

    def stop(self) -> None:
        """Ask the workers to return partial results; workers that exceed the grace period are abandoned."""
        if self._stop_at is None:
            self._stop_at = self._now_s() + STOP_GRACE_S

    def _serve(self, draw: Draw, program: Program, settings: PoolRunSettings, stop_file: Path) -> Iterator[FromPlace]:
        had_workers_s = self._now_s()
        while True:
            if self._stop_at is None:
                self._fill(draw, program, settings)
            elif not self._is_stopping:
                self._is_stopping, self._waits = True, False
                stop_file.touch()
                self._pool.stop()
            self._slots = self._pool.slots()
            slots = sum(self._slots.values())
            now_s = self._now_s()
            if slots:
                had_workers_s = now_s
            elif now_s - had_workers_s > NO_WORKERS_S:
                raise PoolError(
                    f"no worker joined for {NO_WORKERS_S / 3600:.0f} h", hint="start workers and rerun", retry=True
                )
            is_over = self._stop_at is not None and (now_s > self._stop_at or not slots)
            if is_over or (not self._live and not self._waits):
                return
            for done in self._pool.done(POOL_LOOK_INTERVAL_S):
                self._heard_s = self._now_s()
                yield from self._take(done, program, settings)

    def _fill(self, draw: Draw, program: Program, settings: PoolRunSettings) -> None:
        """Submit groups until the windows are full or no more groups can be formed.

        Sites are served round-robin. Otherwise, the first site could take all remaining groups.
        """
        inline = program.size_bytes <= PROGRAM_INLINE_BYTES
        self._waits = False
        windows = self._windows()
        while windows:
            with_room = []
            for site, window in windows:
                live_count = len(self._live) if site is None else self._live_at[site]
                subjobs = self._next_group(draw, site) if live_count < window else ()
                if subjobs:
                    hosts = holding_most(one.hosts for one in subjobs)
                    self._submit(subjobs, program, settings, with_program=inline, site=site, hosts=hosts)
                    with_room.append((site, window))
            windows = with_room
        while self._is_drained and (slow := self._slow_group()) is not None:
            number, why = slow
            subjobs = self._live[number]
            begun = self._pool.begun(number)
            avoided = self._durations.slow_nodes() | ({begun.node} if begun is not None and begun.node else set())
            site = self._fastest_site(subjobs)
            copy = self._submit(subjobs, program, settings, with_program=True, site=site, avoided=frozenset(avoided))
            self._twice[number], self._twice[copy] = (copy, why), (number, why)

    def _workers(self) -> Workers:
        if self._workers_now.slots is not self._slots:
            self._workers_now = Workers(self._slots, self._durations.known_s)
        return self._workers_now

    def _fastest_site(self, subjobs: Sequence[SubJob]) -> str | None:
        """Return the site with idle workers where sub-jobs usually take the least time; None if this is unknown, or if
        all workers are at the same site.
        """
        sites = self._workers().by_site
        usual_s = {}
        for site, (_, count) in sites.items() if len(sites) > 1 else ():
            known = [self._durations.known_s(one.kind, site) for one in subjobs]
            if self._live_at[site] < count and None not in known:
                usual_s[site] = sum(one or 0.0 for one in known)
        return min(usual_s, key=lambda one: usual_s[one]) if usual_s else None

    def _windows(self) -> list[tuple[str | None, int]]:
        """Return (site, maximum number of groups in flight) pairs; a single pair with the site None if all workers are
        at the same site.
        """
        by_site: dict[str, int] = {}
        for spot, slots in self._slots.items():
            by_site[spot.site] = by_site.get(spot.site, 0) + slots
        if len(by_site) < 2:
            return [(None, max(GROUPS_MIN, math.ceil(GROUPS_PER_SLOT * sum(by_site.values()))))]
        return [(site, math.ceil(GROUPS_PER_SLOT * slots)) for site, slots in by_site.items()]

    def _forget(self, number: int) -> str | None:
        """Remove a group that is no longer in flight; return the site that the group was restricted to, or None."""
        del self._live[number]
        site = self._sites.pop(number, None)
        if site is not None:
            self._live_at[site] -= 1
        return site

    def _slow_group(self) -> tuple[int, str] | None:
        """Return a group that takes much longer than the median, and the reason to run it speculatively; None if there
        is no such group or no idle worker.

        This may be a queued group: if workers are idle, the group may be in the queue of a hung worker.
        """
        begun = {number: self._pool.begun(number) for number in self._live}
        copies_waiting = [one for one in self._live if begun[one] is None and one in self._twice]
        if sum(self._slots.values()) <= sum(one is not None for one in begun.values()) + len(copies_waiting):
            return None
        now_s = self._now_s()
        late: list[tuple[float, int]] = []
        for number, subjobs in self._live.items():
            start = begun[number]
            elapsed_s = now_s - (self._heard_s if start is None else start.at_s)
            limit_s = self._durations.limit_s(len(self._live), self._usual_s(number))
            may_run_twice = number not in self._twice and all(one.may_run_twice for one in subjobs)
            if limit_s is not None and may_run_twice and elapsed_s > limit_s:
                late.append((elapsed_s, number))
        if not late:
            return None
        elapsed_s, number = max(late)
        return number, why_twice(elapsed_s, self._usual_s(number))

    def _usual_s(self, number: int) -> float:
        """Return how long a group usually takes at its site."""
        site = self._sites.get(number, "")
        return sum(self._durations.usual_s(one.kind, site) for one in self._live[number])

    def _next_group(self, draw: Draw, site: str | None) -> tuple[SubJob, ...]:
        self._is_drained = False
        if self._alone:
            return (self._alone.popleft(),)
        spot = None if site is None else Spot(site=site)
        workers = self._workers()
        subjobs: list[SubJob] = []
        folds = self._result_bytes >= FOLD_AFAR_MIN_BYTES
        while len(subjobs) < self._size or (folds and self._begins_neighbours(subjobs)):
            drawn = self._again.popleft() if self._again else draw(spot, workers)
            self._is_drained = drawn is None
            self._waits = self._waits or drawn is WAIT
            if not isinstance(drawn, SubJob):
                break
            if folds and subjobs and not self._is_next(drawn, subjobs[-1]):
                self._again.appendleft(drawn)
                break
            subjobs.append(drawn)
        return tuple(subjobs)

    def _begins_neighbours(self, subjobs: Sequence[SubJob]) -> bool:
        """Return whether the sub-jobs are the first part of a range of neighbours that one worker could fold."""
        if not subjobs or self._are_single(subjobs):
            return False
        neighbours = subjobs[0].neighbours
        return neighbours is not None and subjobs[0].index == neighbours.start and len(subjobs) < len(neighbours)

    def _is_next(self, subjob: SubJob, before: SubJob) -> bool:
        """Return whether a sub-job directly follows ``before`` in the same range of neighbours."""
        return subjob.index == before.index + 1 and subjob.neighbours == before.neighbours

    def _are_single(self, subjobs: Iterable[SubJob]) -> bool:
        """Return whether the result of at least one of the sub-jobs must not be folded."""
        return any(one.neighbours is None or one.index in self._single for one in subjobs)

    def _run_again(self, subjobs: Sequence[SubJob]) -> None:
        """Queue sub-jobs to run again, ahead of other sub-jobs."""
        self._single.update(one.index for one in subjobs)
        self._again.extend(subjobs)

    def _submit(
        self,
        subjobs: tuple[SubJob, ...],
        program: Program,
        settings: PoolRunSettings,
        *,
        with_program: bool,
        site: str | None = None,
        hosts: tuple[str, ...] = (),
        avoided: frozenset[str] = frozenset(),
    ) -> int:
        number = self._groups_count
        self._groups_count += 1
        # A worker folds the results of a group only if the group consists of the whole range of neighbours.
        neighbours = subjobs[0].neighbours
        folds = (
            self._result_bytes >= FOLD_AFAR_MIN_BYTES
            and neighbours is not None
            and not self._are_single(subjobs)
            and [one.index for one in subjobs] == list(neighbours)
        )
        sent = tuple((one if folds else replace(one, neighbours=None)).packed() for one in subjobs)
        self._live[number] = subjobs
        avoided = avoided.union(*(self._nodes.avoided(one.index) for one in subjobs))
        if not set(self._pool.nodes()) - avoided:
            avoided = frozenset(self._nodes.excluded)
        if site is not None:
            self._sites[number] = site
            self._live_at[site] += 1
        sent_program = program if with_program else None
        group = SubJobGroup(number, settings, sent, program.key, sent_program, site=site, hosts=hosts)
        self._pool.submit(group, avoided)
        return number

    def _take(self, done: Done, program: Program, settings: PoolRunSettings) -> Iterator[FromPlace]:
        subjobs = self._live.get(done.number)
        if subjobs is None:
            return
        result = done.result
        if done.begun_again_at:
            yield from self._begun_again(done, subjobs)
            return
        site = self._forget(done.number)
        if result is None:
            yield from self._failed(subjobs, done)
        elif result.refusal:
            yield self._refused(done.number, subjobs, result)
        elif result.needs_program:
            self._submit(subjobs, program, settings, with_program=True, site=site)
        else:
            yield from self._take_result(subjobs, result)
            yield from self._end_other(done.number, subjobs, result, settings)

    def _refused(self, number: int, subjobs: Sequence[SubJob], result: GroupResult) -> Lost:
        """Reassign a group whose worker cannot run this job. Raises PoolError if no worker is left."""
        if not self._pool.exclude(result.address):
            raise PoolError(result.refusal, hint="install the same versions on the workers")
        self._twice.pop(self._twice.pop(number, (-1, ""))[0], None)
        self._run_again([one for one in subjobs if not self._is_elsewhere(one.index)])
        how = f"gets no more sub-jobs: {result.refusal}"
        return Lost(-1, 0, "", 0.0, how, tuple(one.label for one in subjobs), is_dead=True, host=result.host)

    def _take_result(self, subjobs: tuple[SubJob, ...], result: GroupResult) -> Iterator[FromPlace]:
        by_index = {one.index: one for one in subjobs}
        unfinished = [by_index[index] for index in result.unfinished if not self._is_elsewhere(index)]
        if result.worker:
            number = self._numbers.setdefault(result.worker, len(self._numbers))
            for note in result.notes:
                yield Note(note.value(), number)
            has_failed = False
            for one in result.finished:
                if one.index not in self._done:
                    value = one.value.value()
                    has_failed |= self._is_failed(value)
                    yield from self._take_finished(by_index[one.index], value, number, result)
            # Failed sub-jobs may have taken no time at all.
            if not has_failed:
                self._learn_size(subjobs, result)
            for fold in result.folded:
                yield from self._take_folded([by_index[one] for one in fold.indices], fold.value, number, result)
            if result.error is not None:
                raise result.error.in_job()
            if result.lost is not None and self._stop_at is None:
                lost = replace(result.lost, worker=number, host=result.host)
                if unfinished and unfinished[0].index in result.unfinished[:1]:
                    yield from self._failed_at(result.node, unfinished[0], result.host)
                    yield self._lost(lost, unfinished, result.lost_hint)
                else:
                    # The sub-job in progress also runs or ran elsewhere, so it is not lost.
                    self._run_again(unfinished)
                    yield lost
                return
        if self._stop_at is None:
            self._run_again(unfinished)

    def _take_finished(self, subjob: SubJob, value: object, worker: int, result: GroupResult) -> Iterator[FromPlace]:
        """Process the result of a sub-job. A failed sub-job is retried on another machine, if there is one where it has
        not failed.
        """
        if not self._is_failed(value):
            self._nodes.finished(result.node)
        elif result.node and self._stop_at is None:
            yield from self._failed_at(result.node, subjob, result.host)
            if self._nodes.untried(subjob.index, self._pool.nodes()):
                self._single.add(subjob.index)
                self._alone.append(subjob)
                how = f"failed in it on {result.node}; retrying on another machine"
                yield Lost(-1, 0, "", 0.0, how, (subjob.label,), is_dead=True, host=result.host)
                return
        self._done.add(subjob.index)
        yield Finished(subjob.index, value, worker)

    def _take_folded(
        self, subjobs: Sequence[SubJob], pickled: Pickled, worker: int, result: GroupResult
    ) -> Iterator[FromPlace]:
        """Process the folded result of a range of neighbours.

        The result is discarded if one of the sub-jobs already has a result or is retried individually. Sub-jobs without
        a result are then rerun.
        """
        if all(one.index not in self._done and one.index not in self._single for one in subjobs):
            self._nodes.finished(result.node)
            self._done.update(one.index for one in subjobs)
            yield Folded(range(subjobs[0].index, subjobs[-1].index + 1), pickled.value(), worker)
        elif self._stop_at is None:
            left = [one for one in subjobs if one.index not in self._single]
            self._run_again([one for one in left if not self._is_elsewhere(one.index)])

    def _is_failed(self, value: object) -> bool:
        return self._failed_by is not None and self._failed_by(value)

    def _failed_at(self, node: str, subjob: SubJob, host: str) -> Iterator[Lost]:
        """Count a failed sub-job on a machine. If the machine is excluded because of it, yield a message."""
        if node and self._nodes.failed(node, subjob.index, self._pool.nodes()):
            count = self._nodes.failures_count(node)
            how = f"is on {node}, where {count} sub-jobs in a row failed; {node} is excluded"
            yield Lost(-1, 0, "", 0.0, how, (), is_dead=True, host=host)

    def _is_elsewhere(self, index: int) -> bool:
        """Return whether a sub-job is done or belongs to a group in flight."""
        return index in self._done or any(index == one.index for subjobs in self._live.values() for one in subjobs)

    def _end_other(
        self, number: int, subjobs: tuple[SubJob, ...], result: GroupResult, settings: PoolRunSettings
    ) -> Iterator[Repeated]:
        """Cancel the other copy of a group once all sub-jobs of the group are done."""
        other, why = self._twice.pop(number, (-1, ""))
        if result.lost is None or result.lost.is_dead:
            # If the process hung, the other copy stays in _twice, so that the group is not started a third time.
            # Otherwise a group that hangs could be started again forever.
            self._twice.pop(other, None)
        if other not in self._live or any(one.index not in self._done for one in subjobs):
            return
        self._forget(other)
        Path(settings.stop_file_of(other)).touch()
        self._pool.cancel(other)
        kept, dropped = ("the first", "the second") if number < other else ("the second", "the first")
        for one in subjobs:
            yield Repeated(one.label, why, f"{kept} worker (on {result.host})", f"{dropped} one")

    def _learn_size(self, subjobs: Sequence[SubJob], result: GroupResult) -> None:
        """Adjust the group size gradually so that a group takes about ``GROUP_S`` seconds."""
        count = result.done_count
        if not count:
            return
        self._result_bytes = (self._result_bytes + (result.result_bytes or 0.0)) / (2 if self._result_bytes else 1)
        seconds = result.seconds / count
        site = next((spot.site for spot in self._slots if spot.host == result.node), "")
        for one in subjobs[:count]:
            self._durations.finished(seconds, one.kind, site, result.node)
        self._subjob_s = seconds if self._subjob_s is None else (self._subjob_s + seconds) / 2
        wanted = int(GROUP_S / max(self._subjob_s, GROUP_S / GROUP_SUBJOBS_MAX))
        self._size = max(1, min(wanted, self._size * GROUP_GROWTH))

    def _lost(self, lost: Lost, subjobs: Sequence[SubJob], hint: str | None) -> Lost:
        """Retry the sub-jobs that a lost worker process left unfinished.

        Raises WorkerDiedError if no retries are left.
        """
        self._single.update(one.index for one in subjobs)
        if lost.is_dead or self._after_loss is not None:
            if self._after_loss is None or not self._after_loss(lost, subjobs):
                where = f" in {subjobs[0].label}" if subjobs else ""
                what = f"{lost.name} {lost.how}{where}"
                raise WorkerDiedError(what, hint=hint, retry=True)
            return lost
        again = [one for one in subjobs[:1] if one.index in self._silent]
        if again:
            raise WorkerDiedError(
                f"{lost}; an earlier worker was lost in {again[0].label}, too",
                hint="if it is only slow, increase --worker-timeout",
            )
        self._silent |= {one.index for one in subjobs[:1]}
        self._run_again(subjobs)
        return lost

    def _failed(self, subjobs: tuple[SubJob, ...], done: Done) -> Iterator[FromPlace]:
        """Retry a group whose worker the pool lost. Raises PoolError if the worker cannot run the job."""
        if self._stop_at is not None:
            return
        if not done.worker_died:
            error = done.error
            what = f"a worker of the pool cannot run this job: {type(error).__name__}: {error}"
            hint = "install the same version of branchline[cluster] and the same packages as in this process"
            raise PoolError(what, hint=hint) from error
        left = tuple(one for one in subjobs if not self._is_elsewhere(one.index))
        if left:
            yield from self._failed_at(done.node, left[0], done.node)
            yield self._set_aside(left, f"died with the worker of the pool: {done.error}")

    def _begun_again(self, done: Done, subjobs: tuple[SubJob, ...]) -> Iterator[FromPlace]:
        """Process the restart of a group on another worker. A group that is restarted too often is split."""
        losses = self._departures if done.has_left else self._deaths
        count = losses[done.number] = losses.get(done.number, 0) + 1
        how = "shut down gracefully" if done.has_left else "was lost with the worker of the pool"
        how += f"; its group was restarted on {done.begun_again_at}"
        if not done.has_left:
            yield from self._failed_at(done.node, subjobs[0], done.node)
        # If the workers left gracefully, the sub-jobs are not the cause, and a single sub-job cannot be split.
        if count < GROUP_DEATHS_MAX or (done.has_left and len(subjobs) == 1):
            yield _of_pool(subjobs, how)
            return
        self._forget(done.number)
        self._pool.cancel(done.number)
        self._twice.pop(self._twice.pop(done.number, (-1, ""))[0], None)
        left = tuple(one for one in subjobs if not self._is_elsewhere(one.index))
        if left:
            yield self._set_aside(left, how)

    def _set_aside(self, subjobs: tuple[SubJob, ...], how: str) -> Lost:
        """Retry each sub-job of a group individually after the pool lost the group's worker, to find the sub-job that
        causes the loss.
        """
        lost = _of_pool(subjobs, how)
        if len(subjobs) > 1:
            self._single.update(one.index for one in subjobs)
            self._alone.extend(subjobs)
            return lost
        return self._lost(lost, subjobs, "its worker died repeatedly, even with this sub-job alone")


def _of_pool(subjobs: Sequence[SubJob], how: str) -> Lost:
    """Return the message that the pool lost a worker. Such a worker has no number."""
    return Lost(-1, 0, "", 0.0, how, tuple(one.label for one in subjobs), is_dead=True)
