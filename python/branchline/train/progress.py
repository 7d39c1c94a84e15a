"""How far a train is, over all its workers, and the points of its timeline."""

from __future__ import annotations

import time
from dataclasses import dataclass

from branchline.limits import TIMELINE_MAX_POINTS
from branchline.sensors.record import TimePoint
from branchline.train.share_result import Progress


@dataclass(frozen=True)
class TrainProgress:
    """Cumulative counts of a train; ``fraction_done`` is that of the dataset's bytes, or None if nobody knows them."""

    seconds: float
    events: int
    bytes_read: int
    plain_bytes: int
    fraction_done: float | None


class ProgressLog:
    """Takes the progress of the workers and keeps a point a second."""

    def __init__(self, begin_s: float, size_bytes: int) -> None:
        self._begin_s = begin_s
        self._size_bytes = size_bytes
        self._workers: dict[int, Progress] = {}
        self._points: list[TimePoint] = []
        self._interval_s = 1.0
        self._reused_bytes = 0

    def take(self, worker: int, progress: Progress) -> TrainProgress:
        """Records what a worker has done so far."""
        self._workers[worker] = progress
        now = self.now()
        if not self._points or now.seconds - self._points[-1].t_s >= self._interval_s:
            self._add_point(now)
        return now

    def reused(self, size_bytes: int) -> None:
        """Files of so many bytes need not be read again."""
        self._reused_bytes += size_bytes

    def now(self) -> TrainProgress:
        """The sum over the workers."""
        counts = self._workers.values()
        done = self._reused_bytes + sum(one.size_bytes_done for one in counts)
        return TrainProgress(
            seconds=time.monotonic() - self._begin_s,
            events=sum(one.events for one in counts),
            bytes_read=sum(one.bytes_read for one in counts),
            plain_bytes=sum(one.plain_bytes for one in counts),
            fraction_done=min(1.0, done / self._size_bytes) if self._size_bytes else None,
        )

    def timeline(self) -> list[TimePoint]:
        """All points, the last one of now."""
        self._add_point(self.now())
        return self._points

    def _add_point(self, now: TrainProgress) -> None:
        self._points.append(TimePoint(now.seconds, now.events, now.bytes_read, now.plain_bytes))
        if len(self._points) > TIMELINE_MAX_POINTS:
            self._points = self._points[::2]
            self._interval_s *= 2
