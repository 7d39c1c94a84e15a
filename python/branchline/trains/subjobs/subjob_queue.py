"""The queue of a train's sub-jobs: in the order of the dataset, each with the branches that are known by then.

A worker gets nearby files first, and files far away only after a short wait (`NearFirst`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from branchline.base.limits import FAR_WORK_WAIT_S, ROUND_TRIPS_SENT_MAX, SUBJOB_MAX_BYTES, SUBJOBS_PER_STREAM_MAX
from branchline.jobs.sites import Distances, SiteMap, Spot, is_near
from branchline.jobs.subjob import WAIT, SubJob, Wait
from branchline.reading.datasets.data_file import DataFile
from branchline.trains.subjobs.shares import Share


class SubJobQueue:
    """The shares still to be worked on.

    While the branches have to be learned, only one share is handed out: the others are read with the branches that it
    finds. ``stopped`` are the wagons that do not run in any sub-job to come.
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
        """``now_s`` is the clock of the place. Raises OptionError for a site's file that is wrong."""
        self.shares = shares
        self.branches = list(branches)
        self.step = step
        self.stopped = set(stopped)
        # Where wagons failed first: sums end there, and have all sub-jobs before it.
        self._failed_at: dict[str, int] = {}
        self._wagons_count = wagons_count
        self.workers_count = workers_count
        self._left = NearFirst(shares, now_s)
        self._learning: int | None = None
        self._first: deque[SubJob] = deque()
        self._indices_count = len(shares)
        # The first share begins with a small chunk also where its outcome is known: its chunks are those of every run.
        self._learns_first = step is None

    def new_index(self) -> int:
        """A number for a sub-job that is none of the shares."""
        self._indices_count += 1
        return self._indices_count - 1

    def put_first(self, subjob: SubJob) -> None:
        """The next to be handed out, before all shares and behind those put here before."""
        self._first.append(subjob)

    def withdraw(self, index: int) -> bool:
        """Takes back a sub-job that was put first; False if it was handed out."""
        found = [one for one in self._first if one.index == index]
        for one in found:
            self._first.remove(one)
        return bool(found)

    @property
    def distances(self) -> Distances:
        """The round trips from the sites of workers to storage elements."""
        return self._left.distances

    def draw(self, spot: Spot | None = None, spots: Collection[Spot] = (), /) -> SubJob | Wait | None:
        """The next sub-job, WAIT while the branches are being learned or others should have what is left, None at the
        end, or when no wagon runs on.
        """
        if self._first:
            return self._with_learned(self._first.popleft())
        while self._left.count:
            if self.step is None and self._learning is not None:
                return WAIT
            drawn = self._draw_near(spot, spots)
            if drawn is WAIT or len(drawn.payload.stopped) < self._wagons_count:
                return drawn
        return None

    def _draw_near(self, spot: Spot | None, spots: Collection[Spot]) -> SubJob | Literal[Wait.WAIT]:
        # Branches are learned on the first shares, whoever is near to them: chunks are those of every run.
        learns = self.step is None or (self._learns_first and self._left.has_first)
        index = self._left.take(None if learns else spot, spots)
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
        )
        return SubJob(index, share.label, share, hosts=share.hosts)

    def wagon_failed(self, name: str, index: int) -> None:
        """A wagon failed in a sub-job: it does not run in later ones."""
        self._failed_at[name] = min(index, self._failed_at.get(name, index))

    def stopped_at(self, index: int) -> frozenset[str]:
        """The wagons that do not run in a sub-job any more."""
        return frozenset(self.stopped).union(name for name, failed in self._failed_at.items() if failed < index)

    def _together(self, index: int, left_count: int) -> int:
        """How many shares from this one on a worker may take at a time: of what is left not more than half its part, so
        that all workers have something to do to the end, and not more bytes than the largest share.
        """
        own_count = left_count if self.workers_count == 1 else left_count // (2 * self.workers_count)
        count_max = min(own_count, SUBJOBS_PER_STREAM_MAX)
        count, size_bytes = 0, 0
        for share in self.shares[index : index + count_max]:
            size_bytes += sum(one.size_bytes or 0 for one in share.files)
            if share.parts > 1 or size_bytes > SUBJOB_MAX_BYTES:
                break
            count += 1
        return max(1, count)

    @property
    def is_provisional(self) -> bool:
        """Whether files will be cut into fewer parts when branches are learned."""
        return self.step is None and any(one.parts > 1 for one in self.shares)

    def is_learned_by(self, index: int) -> bool:
        """Whether what a sub-job learned is still wanted."""
        return self.step is None and index == self._learning

    def learned(self, branches: Iterable[str], step: int, shares: Sequence[Share]) -> None:
        """Sets the branches to read from now on, the entries of a chunk, and the shares of the dataset. Those up to the
        one in which branches were learned have the same indices as before.
        """
        self.branches, self.step, self.shares = list(branches), step, shares
        self._left.cut_again(shares)

    def with_learned(self, index: int, share: Share) -> Share:
        """A share in which branches were learned, as it has to be run again: chunks have the same borders then."""
        known = self.shares[index]
        return replace(share, parts=known.parts, learned_step=self.step, is_provisional=False)

    def _with_learned(self, subjob: SubJob) -> SubJob:
        share: Share = subjob.payload
        is_known = share.learn and self.step is not None and subjob.index < len(self.shares)
        return replace(subjob, payload=self.with_learned(subjob.index, share)) if is_known else subjob

    def learn_apart(self, known: Mapping[str, Sequence[str]], running: Iterable[str]) -> None:
        """Has the branches of some wagons learned before anything else; those of the others are ``known``."""
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
        """Whether a sub-job is the one of ``learn_apart``."""
        return index == self._learning and index >= len(self.shares)

    def finished(self, index: int) -> None:
        """A sub-job is back; if nothing could be learned on it, the next one tries."""
        if index == self._learning:
            self._learning = None

    def missed(self, branches: Iterable[str]) -> None:
        """Branches that wagons turned out to need are read at once in all sub-jobs that are still to come."""
        self.branches += sorted(set(branches) - set(self.branches))


class NearFirst:
    """The shares that nobody has yet, by the storage elements that have their files.

    Without a spot they are taken in the order of the dataset. A worker at a spot gets the first one that is near to it,
    or to no other worker. Where all that is left is near to others, its site waits for ``FAR_WORK_WAIT_S``, and takes
    far work from then on, until there is near work again.
    """

    def __init__(self, shares: Sequence[Share], now_s: Callable[[], float] = time.monotonic) -> None:
        """Raises OptionError for a site's file that is wrong."""
        self.distances = Distances(SiteMap.load())
        self._now_s = now_s
        # Files of a share are at the same elements: the first stands for all.
        self._queues: dict[tuple[str, ...], deque[int]] = {}
        self._files: dict[tuple[str, ...], DataFile] = {}
        self._waits_since_s: dict[str, float] = {}
        self._taken_count = self.count = 0
        self.cut_again(shares)

    def cut_again(self, shares: Sequence[Share]) -> None:
        """Replaces the shares that nobody has yet, where only the first ones of the dataset were taken."""
        self._queues.clear()
        for index, share in enumerate(shares[self._taken_count :], self._taken_count):
            elements = share.files[0].elements
            self._queues.setdefault(elements, deque()).append(index)
            self._files.setdefault(elements, share.files[0])
        self.count = len(shares) - self._taken_count

    @property
    def has_first(self) -> bool:
        """Whether nobody has the first share of all yet."""
        return any(queue[0] == 0 for queue in self._queues.values())

    def take(self, spot: Spot | None = None, spots: Collection[Spot] = ()) -> int | None:
        """The index of the next share for a worker; None if it is to wait. ``spots`` are those of all workers."""
        queues = self._queues
        if spot is None or len(queues) == 0:
            return self._taken(min(queues, key=lambda one: queues[one][0]))
        own_s = {one: self._to(one, spot) for one in queues}
        others = {one.site: one for one in spots if one.site != spot.site}.values()
        shortest_s = {one: min([own_s[one], *(self._to(one, other) for other in others)]) for one in queues}
        near = [one for one in queues if is_near(own_s[one], shortest_s[one])]
        if near:
            self._waits_since_s.pop(spot.site, None)
            return self._taken(min(near, key=lambda one: queues[one][0]))
        now_s = self._now_s()
        if now_s - self._waits_since_s.setdefault(spot.site, now_s) < FAR_WORK_WAIT_S:
            return None
        # The nearest of it; of several where most is left.
        return self._taken(min(queues, key=lambda one: (own_s[one], -len(queues[one]), queues[one][0])))

    def _to(self, elements: tuple[str, ...], spot: Spot) -> float:
        file = self._files[elements]
        return self.distances.to_nearest_s(spot, file.locations, file.sites)

    def _taken(self, elements: tuple[str, ...]) -> int:
        queue = self._queues[elements]
        index = queue.popleft()
        if not queue:
            del self._queues[elements]
        self.count -= 1
        self._taken_count += 1
        return index
