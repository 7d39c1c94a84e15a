"""The progress of a train, summed over all workers: its current state and its timeline."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from branchline.base.limits import PROGRESS_INTERVAL_S, TIMELINE_MAX_POINTS
from branchline.records.sensors.record import TimePoint
from branchline.records.sensors.status import ElementReads, TrainStatus
from branchline.records.sensors.this_process import MachineCounters
from branchline.trains.subjobs.folding import FoldedResult, MergeCosts
from branchline.trains.subjobs.share_result import Progress, ShareResult

#: A callback that is called with the new state after each change.
OnProgress = Callable[[TrainStatus], None]
#: A callback that is called with the number of finished queries for sizes of files, and the number of all queries.
OnQueried = Callable[[int, int], None]


def planning_reports(report: OnProgress) -> OnQueried:
    """Return a callback that reports the queries for sizes of files as the state of a train."""
    begin_s = time.monotonic()
    return lambda done, total: report(
        TrainStatus(seconds=time.monotonic() - begin_s, fraction_done=done / total, phase="plan")
    )


class ProgressLog:
    """Collects the reports of workers and of the job, and adds at most one point per second to the timeline."""

    def __init__(
        self,
        begin_s: float,
        size_bytes: int,
        subjobs: int = 0,
        on_progress: OnProgress | None = None,
        merge_costs: MergeCosts | None = None,
        machine: MachineCounters | None = None,
    ) -> None:
        """Create a log. ``machine`` are the counters of this machine at the start of the job, if its workers run
        here.
        """
        self._begin_s = begin_s
        self._size_bytes = size_bytes
        self._on_progress = on_progress
        self._merge_costs = merge_costs or MergeCosts()
        self._machine = machine
        self._workers: dict[int, Progress] = {}
        self._sum = Progress(0, 0, 0, 0)
        self._points: list[TimePoint] = []
        self._interval_s = 1.0
        self._reused_bytes = 0
        self._reads = ElementReads()
        self._counts = TrainStatus(subjobs=subjobs)
        # Running sub-jobs by index, oldest first: label and start time.
        self._at_work: dict[int, tuple[str, float]] = {}
        self._merge_since_s: float | None = None
        self._reported_s = 0.0

    def take(self, worker: int, progress: Progress) -> None:
        """Record a worker's progress, cumulated since the worker started."""
        before = self._workers.get(worker, Progress(0, 0, 0, 0))
        self._workers[worker] = progress
        # Update the sum incrementally, because reports are frequent with a thousand workers.
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
        """Set the number of sub-jobs as soon as it is known."""
        self._counts = replace(self._counts, subjobs=count)

    def reused(self, size_bytes: int) -> None:
        """Add the size of files that need not be read because their results are reused."""
        self._reused_bytes += size_bytes

    def handed_out(self, index: int, label: str) -> None:
        """Record that a sub-job was given to a worker, possibly as a retry."""
        # Sub-jobs with higher indices are trials, which only search for the cause of a crash and are not counted.
        if index < self._counts.subjobs:
            self._at_work.setdefault(index, (label, time.monotonic()))
            self._changed()

    def finished(self, index: int, result: ShareResult) -> None:
        """Record the result of a sub-job."""
        self._at_work.pop(index, None)
        if not result.is_reused:
            self._reads.add(result.sites)
        counts = self._counts
        self._counts = replace(counts, done=counts.done + 1, reused=counts.reused + result.is_reused)
        self._changed()

    def folded(self, indices: range, result: FoldedResult) -> None:
        """Record the combined result of neighbouring sub-jobs."""
        for index in indices:
            self._at_work.pop(index, None)
        self._reads.add(result.sites)
        counts = self._counts
        reused = counts.reused + result.subjobs_reused
        self._counts = replace(counts, done=counts.done + len(indices), reused=reused)
        self._changed()

    def left_out(self, index: int, cause: str) -> None:
        """Record that a sub-job will not be retried."""
        self._at_work.pop(index, None)
        counts = self._counts
        causes = {**counts.causes, cause: counts.causes.get(cause, 0) + 1}
        self._counts = replace(counts, failed=counts.failed + 1, causes=causes)
        self._changed()

    def repeated(self) -> None:
        """Count a sub-job that ran on two workers."""
        self._counts = replace(self._counts, repeated=self._counts.repeated + 1)

    def worker_lost(self) -> None:
        """Count a worker that died or stopped responding."""
        self._counts = replace(self._counts, workers_lost=self._counts.workers_lost + 1)

    def workers(self, count: int) -> None:
        """Set the current number of workers."""
        if count != self._counts.workers:
            self._counts = replace(self._counts, workers=count)

    def phase(self, name: str) -> None:
        """Record the start of the phase "merge" or "write"."""
        now_s = time.monotonic()
        if name == "merge":
            self._merge_since_s = now_s
        elif self._merge_since_s is not None:
            self._counts = replace(self._counts, merge_s=now_s - self._merge_since_s)
            self._merge_since_s = None
        self._counts = replace(self._counts, phase=name)
        self._changed()

    def now(self) -> TrainStatus:
        """Return the current state of the train."""
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
        """Return all points of the timeline, ending with the current state."""
        self._add_point()
        return self._points

    def _changed(self) -> None:
        self._reported_s = time.monotonic() - self._begin_s
        if self._on_progress is not None:
            self._on_progress(self.now())

    def _add_point(self) -> None:
        now = self.now()
        point = TimePoint(now.seconds, now.events, now.bytes_read, now.plain_bytes)
        if self._machine is not None:
            machine = MachineCounters.now().since(self._machine)
            point.machine_cpu_s = machine.cpu_s
            point.machine_iowait_s = machine.iowait_s
            point.machine_received_bytes = machine.received_bytes
        self._points.append(point)
        if len(self._points) > TIMELINE_MAX_POINTS:
            self._points = self._points[::2]
            self._interval_s *= 2
