"""The progress of a train over all its workers: its state at any moment, and the points of its timeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime

from branchline.base.limits import PROGRESS_INTERVAL_S, TIMELINE_MAX_POINTS
from branchline.records.sensors.record import SiteReading, TimePoint
from branchline.records.sensors.status import ElementStatus, TrainStatus
from branchline.trains.subjobs.folding import FoldedResult, MergeCosts
from branchline.trains.subjobs.share_result import Progress, ShareResult

#: Gets the state whenever it has changed.
OnProgress = Callable[[TrainStatus], None]


class ElementReads:
    """Adds up what was read from each storage element."""

    def __init__(self) -> None:
        self._elements: dict[str, ElementStatus] = {}

    def add(self, readings: Iterable[SiteReading]) -> None:
        """Adds what workers read."""
        for one in readings:
            near = 0 if one.nearness == "elsewhere" else one.bytes_read
            self.add_element(ElementStatus(one.storage_element, one.files, one.bytes_read, near, one.failures))

    def add_element(self, other: ElementStatus) -> None:
        """Adds what is known already of an element."""
        known = self._elements.get(other.storage_element, ElementStatus(other.storage_element))
        self._elements[other.storage_element] = ElementStatus(
            other.storage_element,
            known.files + other.files,
            known.bytes_read + other.bytes_read,
            known.bytes_near + other.bytes_near,
            known.failures + other.failures,
        )

    def all(self) -> list[ElementStatus]:
        """One value for each storage element; the one with most bytes first."""
        return sorted(self._elements.values(), key=lambda one: (-one.bytes_read, one.storage_element))


class ProgressLog:
    """Takes what workers and the job report, and keeps a point a second. ``on_progress`` gets every change."""

    def __init__(
        self,
        begin_s: float,
        size_bytes: int,
        subjobs: int = 0,
        on_progress: OnProgress | None = None,
        merge_costs: MergeCosts | None = None,
    ) -> None:
        self._begin_s = begin_s
        self._size_bytes = size_bytes
        self._on_progress = on_progress
        self._merge_costs = merge_costs or MergeCosts()
        self._workers: dict[int, Progress] = {}
        self._sum = Progress(0, 0, 0, 0)
        self._points: list[TimePoint] = []
        self._interval_s = 1.0
        self._reused_bytes = 0
        self._reads = ElementReads()
        self._counts = TrainStatus(subjobs=subjobs)
        # The sub-jobs that workers have: label and begin, the oldest first.
        self._at_work: dict[int, tuple[str, float]] = {}
        self._merge_since_s: float | None = None
        self._reported_s = 0.0

    def take(self, worker: int, progress: Progress) -> None:
        """Records what a worker has done so far."""
        before = self._workers.get(worker, Progress(0, 0, 0, 0))
        self._workers[worker] = progress
        # Sums are kept: a thousand workers report often.
        self._sum = Progress(
            events=self._sum.events + progress.events - before.events,
            bytes_read=self._sum.bytes_read + progress.bytes_read - before.bytes_read,
            plain_bytes=self._sum.plain_bytes + progress.plain_bytes - before.plain_bytes,
            size_bytes_done=self._sum.size_bytes_done + progress.size_bytes_done - before.size_bytes_done,
        )
        now_s = time.monotonic() - self._begin_s
        if not self._points or now_s - self._points[-1].t_s >= self._interval_s:
            self._add_point()
        if now_s - self._reported_s >= PROGRESS_INTERVAL_S:
            self._changed()

    def subjobs_are(self, count: int) -> None:
        """Sets the number of sub-jobs, once it is known."""
        self._counts = replace(self._counts, subjobs=count)

    def reused(self, size_bytes: int) -> None:
        """The bytes of files that need not be read again."""
        self._reused_bytes += size_bytes

    def handed_out(self, index: int, label: str) -> None:
        """A worker gets a sub-job, or gets it again."""
        # A trial, which finds out what went wrong, is none of the sub-jobs that are counted.
        if index < self._counts.subjobs:
            self._at_work.setdefault(index, (label, time.monotonic()))
            self._changed()

    def finished(self, index: int, result: ShareResult) -> None:
        """A sub-job has a result."""
        self._at_work.pop(index, None)
        if not result.is_reused:
            self._reads.add(result.sites)
        counts = self._counts
        self._counts = replace(counts, done=counts.done + 1, reused=counts.reused + result.is_reused)
        self._changed()

    def folded(self, indices: range, result: FoldedResult) -> None:
        """Neighbouring sub-jobs have a result as one."""
        for index in indices:
            self._at_work.pop(index, None)
        self._reads.add(result.sites)
        counts = self._counts
        reused = counts.reused + result.subjobs_reused
        self._counts = replace(counts, done=counts.done + len(indices), reused=reused)
        self._changed()

    def left_out(self, index: int, cause: str) -> None:
        """A sub-job is not tried again."""
        self._at_work.pop(index, None)
        counts = self._counts
        causes = {**counts.causes, cause: counts.causes.get(cause, 0) + 1}
        self._counts = replace(counts, failed=counts.failed + 1, causes=causes)
        self._changed()

    def repeated(self) -> None:
        """A sub-job ran twice."""
        self._counts = replace(self._counts, repeated=self._counts.repeated + 1)

    def worker_lost(self) -> None:
        """A worker died or was silent."""
        self._counts = replace(self._counts, workers_lost=self._counts.workers_lost + 1)

    def workers(self, count: int) -> None:
        """The number of workers that there are now."""
        if count != self._counts.workers:
            self._counts = replace(self._counts, workers=count)

    def phase(self, name: str) -> None:
        """The train begins with "merge" or "write"."""
        now_s = time.monotonic()
        if name == "merge":
            self._merge_since_s = now_s
        elif self._merge_since_s is not None:
            self._counts = replace(self._counts, merge_s=now_s - self._merge_since_s)
            self._merge_since_s = None
        self._counts = replace(self._counts, phase=name)
        self._changed()

    def now(self) -> TrainStatus:
        """The sum over the workers, and the sub-jobs."""
        counts, total, now_s = self._counts, self._sum, time.monotonic()
        size_bytes = self._reused_bytes + total.size_bytes_done
        slowest, since_s = next(iter(self._at_work.values()), ("", now_s))
        return replace(
            counts,
            seconds=now_s - self._begin_s,
            events=total.events,
            bytes_read=total.bytes_read,
            plain_bytes=total.plain_bytes,
            fraction_done=min(1.0, size_bytes / self._size_bytes) if self._size_bytes else None,
            running=len(self._at_work),
            queued=max(0, counts.subjobs - counts.done - counts.failed - len(self._at_work)),
            slowest=slowest,
            slowest_s=now_s - since_s,
            merge_s=counts.merge_s if self._merge_since_s is None else now_s - self._merge_since_s,
            merge_stages=self._merge_costs.stages(),
            elements=self._reads.all(),
            updated=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def timeline(self) -> list[TimePoint]:
        """All points, the last one of now."""
        self._add_point()
        return self._points

    def _changed(self) -> None:
        self._reported_s = time.monotonic() - self._begin_s
        if self._on_progress is not None:
            self._on_progress(self.now())

    def _add_point(self) -> None:
        now = self.now()
        self._points.append(TimePoint(now.seconds, now.events, now.bytes_read, now.plain_bytes))
        if len(self._points) > TIMELINE_MAX_POINTS:
            self._points = self._points[::2]
            self._interval_s *= 2
