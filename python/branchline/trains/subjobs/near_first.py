"""The order in which shares are handed out: to each worker what is near to it first, far work after a short wait."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence

from branchline.base.limits import FAR_WORK_WAIT_S
from branchline.jobs.sites.nearness import Distances, is_near
from branchline.jobs.sites.site_map import SiteMap
from branchline.jobs.sites.spot import Spot
from branchline.reading.datasets.data_file import DataFile
from branchline.trains.subjobs.shares import Share


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
