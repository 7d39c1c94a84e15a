"""The queue of a train's sub-jobs, in dataset order. A sub-job is sent to a worker together with the branches that are
known by then.

A worker gets nearby files first, and remote files only after a short wait (`NearFirst`).
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from branchline import _core
from branchline.base.checks import instance_of
from branchline.base.limits import (
    FAR_WORK_WAIT_S,
    FOLD_FAN_IN,
    GROUP_S,
    ROUND_TRIPS_SENT_MAX,
    SUBJOB_MAX_BYTES,
    SUBJOBS_PER_STREAM_MAX,
)
from branchline.jobs.sites import Distances, SiteMap, Spot, holding_most, is_near
from branchline.jobs.subjob import NO_WORKERS, WAIT, SubJob, Wait, Workers
from branchline.reading.datasets.data_file import DataFile
from branchline.records.sensors.record import LinkRecord, TroubleRecord
from branchline.trains.subjobs.shares import Share

#: Assumed ratio of the durations of a sub-job far from its data and near to it, if none was measured.
FAR_FACTOR = 2.0


class SubJobQueue:
    """The shares that have not been handed out.

    While branches are being learned, only one share is handed out. All later shares are read with the branches that
    were learned in this share. ``stopped`` are the wagons that do not run in any further sub-job.
    """

    def __init__(
        self,
        shares: Sequence[Share],
        branches: Iterable[str],
        step: int | None,
        *,
        wagons_count: int,
        workers_count: int = 1,
        stopped: Iterable[str] = (),
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a queue. ``now_s`` is the clock of the place where the job runs. Raises OptionError for an invalid
        site file.
        """
        self.shares = shares
        self.branches = list(branches)
        self.step = step
        self.stopped = set(stopped)
        # Index of the first sub-job in which a wagon failed, by wagon. The wagon's sum includes all earlier sub-jobs,
        # so it still runs in them.
        self._failed_at: dict[str, int] = {}
        self._wagons_count = wagons_count
        self.workers_count = workers_count
        self._left = NearFirst(shares, now_s)
        #: The round-trip times from workers' sites to storage elements.
        self.distances = self._left.distances
        # Storage elements that did not answer a worker.
        self._silent: set[str] = set()
        self._learning: int | None = None
        self._first: deque[SubJob] = deque()
        self._indices_count = len(shares)
        # In every run, the first share starts with a small chunk, even if the branches are already known, so that
        # chunks do not depend on earlier runs.
        self._learns_first = step is None

    def new_index(self) -> int:
        """Return a new index for a sub-job that is not one of the shares, such as a trial."""
        self._indices_count += 1
        return self._indices_count - 1

    def put_first(self, subjob: SubJob) -> None:
        """Queue a sub-job before all shares, but after other sub-jobs that were queued with this method."""
        self._first.append(subjob)

    def withdraw(self, index: int) -> bool:
        """Withdraw a sub-job queued with ``put_first``. Returns False if it was already handed out."""
        found = [one for one in self._first if one.index == index]
        for one in found:
            self._first.remove(one)
        return bool(found)

    def draw(self, spot: Spot | None = None, workers: Workers = NO_WORKERS, /) -> SubJob | Wait | None:
        """Return the next sub-job. Returns WAIT while branches are being learned, or if the remaining shares are
        reserved for other workers. Returns None if no shares are left, or if no wagon runs any more.
        """
        if self._first:
            subjob = self._first.popleft()
            share = instance_of(subjob.payload, Share)
            is_known = share.learn and self.step is not None and subjob.index < len(self.shares)
            return replace(subjob, payload=self.with_learned(subjob.index, share)) if is_known else subjob
        while self._left.count:
            if self.step is None and self._learning is not None:
                return WAIT
            drawn = self._draw_near(spot, workers)
            if drawn is WAIT or len(instance_of(drawn.payload, Share).stopped) < self._wagons_count:
                return drawn
        return None

    def _draw_near(self, spot: Spot | None, workers: Workers) -> SubJob | Literal[Wait.WAIT]:
        # Learn branches in the first shares, even if they are near to a different worker, so that chunks are the same
        # in every run.
        learns = self.step is None or (self._learns_first and self._left.has_first)
        index = self._left.take(None if learns else spot, workers)
        if index is None:
            return WAIT
        learn = self.step is None or (self._learns_first and index == 0)
        stopped = self.stopped_at(index)
        if self.step is None and len(stopped) < self._wagons_count:
            self._learning = index
        share = replace(
            self.shares[index],
            branches=tuple(self.branches),
            learn=learn,
            step=self.step or 1,
            learned_step=self.step if learn else None,
            is_provisional=self.is_provisional,
            stopped=stopped,
            together=1 if learn else self._together(index, self._left.count + 1),
            round_trips=() if spot is None else self.distances.from_site(spot.site)[:ROUND_TRIPS_SENT_MAX],
            silent=tuple({*self._silent, *_core.silent_elements()})[:ROUND_TRIPS_SENT_MAX],
        )
        hosts = holding_most(one.hosts for one in share.files)
        return SubJob(index, share.label, share, hosts=hosts, kind=kind_of(share.files[0].elements))

    def learn(self, links: Iterable[LinkRecord], troubles: Iterable[TroubleRecord]) -> None:
        """Add the round-trip times that workers measured, and the storage elements that did not answer them."""
        for link in links:
            self.distances.measured(link.site, link.name, link.round_trip_s)
        self._silent.update(one.name for one in troubles if one.timeouts)

    def wagon_failed(self, name: str, index: int) -> None:
        """Record that a wagon failed in a sub-job. The wagon does not run in later sub-jobs."""
        self._failed_at[name] = min(index, self._failed_at.get(name, index))

    def stopped_at(self, index: int) -> frozenset[str]:
        """Return the wagons that no longer run in a sub-job."""
        return frozenset(self.stopped).union(name for name, failed in self._failed_at.items() if failed < index)

    def _together(self, index: int, left_count: int) -> int:
        """Return the number of consecutive shares that a worker may take at once, starting with this one.

        With several workers, the number is at most ``left_count / (2 * workers_count)``, so that all workers stay busy
        until the end. The shares together are at most as large as the largest possible share.
        """
        own_count = left_count if self.workers_count == 1 else left_count // (2 * self.workers_count)
        count_max = min(own_count, SUBJOBS_PER_STREAM_MAX)
        count, size_bytes = 0, 0
        for share in self.shares[index : index + count_max]:
            size_bytes += sum(one.share_bytes or 0 for one in share.files)
            if share.parts > 1 or size_bytes > SUBJOB_MAX_BYTES:
                break
            count += 1
        return max(1, count)

    @property
    def is_provisional(self) -> bool:
        """Whether files will be split into fewer parts once branches are learned."""
        return self.step is None and any(one.parts > 1 for one in self.shares)

    def is_learned_by(self, index: int) -> bool:
        """Return whether branches that were just learned in a sub-job are used; False if they are already known."""
        return self.step is None and index == self._learning

    def learned(self, branches: Iterable[str], step: int, shares: Sequence[Share]) -> None:
        """Set the branches to read from now on, the number of entries per chunk, and the shares of the dataset. Up to
        the share in which branches were learned, ``shares`` must have the same indices as before.
        """
        self.branches, self.step, self.shares = list(branches), step, shares
        self._left.cut_again(shares)

    def with_learned(self, index: int, share: Share) -> Share:
        """Return a copy of a share in which branches were learned. The copy runs with the same chunk borders."""
        known = self.shares[index]
        return replace(share, parts=known.parts, learned_step=self.step, is_provisional=False)

    def learn_apart(self, known: Mapping[str, Sequence[str]], running: Iterable[str]) -> None:
        """Learn the branches of some wagons before all other sub-jobs. ``known`` has the branches that are already
        known, by wagon. ``running`` are the wagons that run.
        """
        index = self.new_index()
        share = replace(
            self.shares[0],
            branches=tuple(self.branches),
            learn=True,
            step=1,
            stopped=frozenset({*self.stopped, *known} - set(running)),
            is_trial=True,
            only_learns=True,
            known_branches=tuple(sorted({one for names in known.values() for one in names})),
        )
        self._learning = index
        self.put_first(SubJob(index, f"{share.label} (learning its branches)", share))

    def learns_apart(self, index: int) -> bool:
        """Return whether a sub-job is the one created by ``learn_apart``."""
        return index == self._learning and index >= len(self.shares)

    def finished(self, index: int) -> None:
        """Record that a sub-job is done. If no branches were learned in it, the next sub-job learns them."""
        if index == self._learning:
            self._learning = None

    def missed(self, branches: Iterable[str]) -> None:
        """Add branches that wagons used although they were not planned. They are read in all later sub-jobs."""
        self.branches += sorted(set(branches) - set(self.branches))


def kind_of(elements: Sequence[str]) -> str:
    """Return the kind of the sub-jobs that read from these storage elements."""
    return " ".join(elements)


class NearFirst:
    """The shares that have not been handed out, grouped by the storage elements of their files.

    Without a worker's location (spot), shares are taken in dataset order. With a location, a worker gets a share that
    is near to its own site, or that is not nearer to the site of another worker: from the storage elements whose
    remaining shares take longest, so that a slow storage element does not remain at the end. If all remaining shares
    are nearer to other sites, the worker waits. Once a site has waited for ``FAR_WORK_WAIT_S``, its workers take remote
    shares, until there is a near one again, but only shares that the other sites would finish later.
    """

    def __init__(self, shares: Sequence[Share], now_s: Callable[[], float] = time.monotonic) -> None:
        """Create the groups from all shares. Raises OptionError for an invalid site file."""
        self.distances = Distances(SiteMap.load())
        self._now_s = now_s
        # One file per group is enough, because all files of a share are at the same storage elements.
        self._queues: dict[tuple[str, ...], deque[int]] = {}
        self._files: dict[tuple[str, ...], DataFile] = {}
        self._waits_since_s: dict[str, float] = {}
        # The storage elements from which each site took its last near share.
        self._current: dict[str, tuple[str, ...]] = {}
        # When the last share of each group was taken.
        self._taken_s: dict[tuple[str, ...], float] = {}
        self._taken_count = self.count = 0
        self.cut_again(shares)

    def cut_again(self, shares: Sequence[Share]) -> None:
        """Replace the remaining shares. Only the first shares of the dataset may have been taken before."""
        self._queues.clear()
        for index, share in enumerate(shares[self._taken_count :], self._taken_count):
            elements = share.files[0].elements
            self._queues.setdefault(elements, deque()).append(index)
            self._files.setdefault(elements, share.files[0])
        self.count = len(shares) - self._taken_count

    @property
    def has_first(self) -> bool:
        """Whether the first share has not been taken yet."""
        return any(queue[0] == 0 for queue in self._queues.values())

    def take(self, spot: Spot | None = None, workers: Workers = NO_WORKERS) -> int | None:
        """Return the index of the next share for a worker; None if the worker has to wait."""
        queues = self._queues
        if spot is None or len(queues) == 0:
            return self._taken(min(queues, key=lambda one: queues[one][0]))
        own_s = {one: self._to(one, spot) for one in queues}
        others = [other for site, (other, _) in workers.by_site.items() if site != spot.site]
        shortest_s = {one: min([own_s[one], *(self._to(one, other) for other in others)]) for one in queues}
        near = [one for one in queues if is_near(own_s[one], shortest_s[one])]
        if near:
            self._waits_since_s.pop(spot.site, None)
            return self._taken(self._longest(near, spot.site, workers))
        now_s = self._now_s()
        if now_s - self._waits_since_s.setdefault(spot.site, now_s) < FAR_WORK_WAIT_S:
            return None
        far = [one for one in queues if self._ends_sooner(one, shortest_s[one], spot, workers)]
        if not far:
            return None
        # Take from the nearest storage elements. Among equally near ones, prefer those with the most shares left.
        return self._taken(min(far, key=lambda one: (own_s[one], -len(queues[one]), queues[one][0])))

    def _longest(self, near: Sequence[tuple[str, ...]], site: str, workers: Workers) -> tuple[str, ...]:
        """Return the storage elements whose remaining shares take longest at a site. Elements with unknown durations
        come first. A site changes to other elements only after a whole node of the merge tree, so that a worker can
        fold the results of neighbouring shares.
        """
        current = self._current.get(site)
        if current is not None and current in near and self._queues[current][0] % FOLD_FAN_IN:
            return current

        def left_s(elements: tuple[str, ...]) -> float:
            usual_s = workers.usual_s(kind_of(elements), site)
            return math.inf if usual_s is None else usual_s * len(self._queues[elements])

        found = self._current[site] = max(near, key=lambda one: (left_s(one), -self._queues[one][0]))
        return found

    def _ends_sooner(self, elements: tuple[str, ...], shortest_s: float, spot: Spot, workers: Workers) -> bool:
        """Return whether a remote worker would finish a share before the workers near to it. True if the durations of
        these workers are unknown, or if they have taken no share for much longer than a share takes.
        """
        near = {site for site, (one, _) in workers.by_site.items() if is_near(self._to(elements, one), shortest_s)}
        left_s, near_s = 0.0, math.inf
        for one, queue in self._queues.items():
            known = [workers.usual_s(kind_of(one), site) for site in near]
            usual_s = min((seconds for seconds in known if seconds is not None), default=None)
            if one == elements:
                if usual_s is None:
                    return True
                near_s = usual_s
            if usual_s is not None and any(is_near(self._to(one, workers.by_site[site][0]), 0.0) for site in near):
                left_s += usual_s * len(queue)
        is_stalled = self._now_s() - self._taken_s.get(elements, 0.0) > FAR_WORK_WAIT_S + 2 * max(near_s, GROUP_S)
        count = sum(workers.by_site[site][1] for site in near)
        far_s = workers.usual_s(kind_of(elements), spot.site) or FAR_FACTOR * near_s
        return is_stalled or left_s / max(1, count) + near_s > far_s

    def _to(self, elements: tuple[str, ...], spot: Spot) -> float:
        file = self._files[elements]
        return self.distances.to_nearest_s(spot, file.locations, file.sites)

    def _taken(self, elements: tuple[str, ...]) -> int:
        queue = self._queues[elements]
        index = queue.popleft()
        if not queue:
            del self._queues[elements]
        self._taken_s[elements] = self._now_s()
        self.count -= 1
        self._taken_count += 1
        return index
