"""Collects a job's activity and reports it to a control room, in background threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from branchline.base.limits import (
    REPORT_END_AWAY_S,
    REPORT_END_S,
    REPORT_HEARTBEAT_S,
    REPORT_INTERVAL_S,
    REPORT_PAUSE_MAX_S,
)
from branchline.base.quantities import counted
from branchline.errors import StorageError
from branchline.records.sending.address import ReportTarget
from branchline.records.sending.client import Sender
from branchline.records.sending.message import JobIdentity, ReportBatch, split
from branchline.records.sending.outbox import Outbox, Tally, send_left
from branchline.records.sending.spool import Spool, SpooledSource
from branchline.records.sensors.job_measures import JobMeasures, measures_in
from branchline.records.sensors.record import FileRecord, JobRecord, SiteReading
from branchline.records.sensors.status import TrainStatus


class Reporter:
    """Reports a job to a control room between ``begin`` and ``end``.

    ``source`` identifies this process among all processes that report the job. ``spool`` stores reports until they are
    sent; if None, reports are kept in memory. Background threads call ``say`` with a message when the server becomes
    unreachable, and ``tell`` with the control room's measures. Only ``end`` blocks, and no method raises.
    """

    def __init__(
        self,
        identity: JobIdentity,
        target: ReportTarget,
        spool: Spool | None,
        *,
        source: str = "job",
        say: Callable[[str], None] | None = None,
        tell: Callable[[JobMeasures], None] | None = None,
    ) -> None:
        self.identity = identity
        self.target = target
        self._spool = spool
        self._source = source
        self._say = say
        self._tell = tell
        self._lock = threading.Lock()
        self._status: tuple[TrainStatus, float] | None = None
        self._files: list[Sequence[FileRecord]] = []
        self._sites: list[Sequence[SiteReading]] = []
        self._record: JobRecord | None = None
        self._number = 0
        self._made_s = float("-inf")
        self._made_of: TrainStatus | None = None
        self._outbox = Outbox(None)
        self._sender = Sender(target, self._answered)
        self._tally = Tally()
        self._has_said = False
        self._fault = ""
        self._is_ending = threading.Event()
        self._is_complete = threading.Event()
        self._wake = threading.Event()
        self._end_s = float("inf")
        self._threads = [
            threading.Thread(target=run, name=f"branchline-report-{name}", daemon=True)
            for name, run in (("make", self._keep_making), ("send", self._keep_sending))
        ]

    def begin(self) -> None:
        """Start reporting; the first report is created at once."""
        if self._spool is None:
            self._outbox = Outbox(None, "no home directory to store them in")
        else:
            try:
                source: SpooledSource = self._spool.source(self.identity.job, self._source)
                source.begin(self.target.url)
            except StorageError as error:
                self._outbox = Outbox(None, error.what)
            else:
                self._outbox = Outbox(source)
        for thread in self._threads:
            thread.start()

    @property
    def has_begun(self) -> bool:
        """Whether reporting has started."""
        return self._threads[0].ident is not None

    def note(self, now: TrainStatus) -> None:
        """Set the job's current state."""
        self._status = (now, time.monotonic())

    def read(self, files: Sequence[FileRecord], sites: Sequence[SiteReading]) -> None:
        """Add file reads. The records must not change afterwards."""
        if files or sites:
            with self._lock:
                self._files.append(files)
                self._sites.append(sites)

    def end(self, record: JobRecord | None = None, status: TrainStatus | None = None) -> list[str]:
        """End reporting; add the job's record if this process knows it.

        Waits for a few seconds at most. Returns sentences about reports that were not sent.
        """
        if status is not None:
            self.note(status)
        self._record = None if record is None else replace(record, files=[])
        is_away = bool(self._tally.why_waiting)
        self._end_s = time.monotonic() + (REPORT_END_AWAY_S if is_away else REPORT_END_S)
        self._is_ending.set()
        self._wake.set()
        self._sender.end_by(self._end_s)
        # Writing to disk has a separate deadline, because reports on disk are not lost.
        until_s = time.monotonic() + REPORT_END_S
        self._threads[0].join(max(0.0, until_s - time.monotonic()))
        self._threads[1].join(max(0.0, until_s - time.monotonic()))
        sentences = []
        url, losses = self.target.url, self._outbox.losses
        waiting = len(self._outbox)
        if self._fault:
            why = f"of an internal error in Branchline, please report it: {self._fault}"
            sentences.append(f"reports to {url} are incomplete because {why}")
        if self._threads[0].is_alive():
            sentences.append(f"the last report to {url} was not written in time to {self._outbox.folder or 'memory'}")
        if waiting:
            why = self._tally.why_waiting or "it did not answer in time"
            how = f"send them with: branchline report send --to {url}"
            sentences.append(f"{counted(waiting, 'report')} could not be sent to {url}: {why}; {how}")
        if self._tally.refused:
            sentences.append(f"{url} refused {counted(self._tally.refused, 'report')}: {self._tally.why_refused}")
        if losses.reports:
            readings = f" with {counted(losses.readings, 'reading')} of files" if losses.readings else ""
            sentences.append(f"{counted(losses.reports, 'report')}{readings} to {url} are lost: {losses.why}")
        return sentences

    def _keep_making(self) -> None:
        """Create reports until the job ends, and then the last report."""
        try:
            self._make(is_last=False)
            while not self._is_ending.wait(REPORT_INTERVAL_S):
                if self._is_due():
                    self._make(is_last=False)
            self._make(is_last=True)
        except Exception as error:  # noqa: BLE001 - reporting must never stop the job
            self._fault = f"{type(error).__name__}: {error}"
        finally:
            self._is_complete.set()
            self._wake.set()

    def _is_due(self) -> bool:
        """Return whether a report is due.

        While the server is unreachable, a changed status alone does not cause a report: such reports would fill the
        disk.
        """
        if self._files or time.monotonic() - self._made_s > REPORT_HEARTBEAT_S:
            return True
        is_new = self._status is not None and self._status[0] is not self._made_of
        return is_new and not self._tally.why_waiting

    def _make(self, *, is_last: bool) -> None:
        """Create a report of everything since the previous report, and add it to the outbox."""
        with self._lock:
            files, self._files = self._files, []
            sites, self._sites = self._sites, []
        noted, self._made_s = self._status, time.monotonic()
        self._made_of = None if noted is None else noted[0]
        status: TrainStatus | None = None
        if noted is not None:
            status, noted_s = noted
            since_s = time.monotonic() - noted_s if status.ended is None else 0.0
            # The state was recorded some time ago, so its durations are extended to the time of the report.
            status = replace(
                status,
                seconds=status.seconds + since_s,
                slowest_s=status.slowest_s + since_s if status.slowest else 0.0,
                started=status.started or self.identity.started,
                host=status.host or self.identity.host,
                process=status.process or os.getpid(),
                updated=datetime.now(UTC).isoformat(timespec="seconds"),
            )
        batch = ReportBatch(
            identity=self.identity,
            source=self._source,
            number=self._number,
            made=datetime.now(UTC).isoformat(),
            status=status,
            files=[one for some in files for one in some],
            sites=_added(one for some in sites for one in some),
            record=self._record if is_last else None,
        )
        for part, body in split(batch):
            # The next report reuses the number of a lost report: if the numbers have no gaps, a server only has to
            # store the next number that it expects.
            if self._outbox.put(part.number, body, len(part.files), is_last=part.record is not None):
                self._number = part.number + 1
        self._wake.set()

    def _keep_sending(self) -> None:
        """Send reports until the job has ended; unsent reports stay on disk."""
        try:
            has_swept = False
            while True:
                is_over = self._is_complete.is_set()
                if len(self._outbox):
                    self._send()
                if is_over and (not len(self._outbox) or self._tally.why_waiting or time.monotonic() >= self._end_s):
                    break
                # Reports of earlier jobs are only sent while no report of this job is waiting.
                if not (has_swept or is_over) and self._tally.taken and not self._tally.why_waiting:
                    has_swept = self._sweep()
                self._pause()
        except Exception as error:  # noqa: BLE001 - reporting must never stop the job
            self._fault = f"{type(error).__name__}: {error}"
        finally:
            self._sender.close()
            self._outbox.settle()

    def _send(self) -> None:
        tally = self._outbox.send(self._sender, lambda: time.monotonic() < self._end_s)
        self._tally.add(tally)
        if tally.why_waiting:
            self._outbox.sync()
            self._say_once(f"reports cannot be sent to {self.target.url} now: {tally.why_waiting}; the job continues")
        elif tally.refused:
            self._say_once(f"{self.target.url} rejects a report: {tally.why_refused}; the job continues")

    def _answered(self, answer: bytes) -> None:
        """Pass on the measures in the response to a report of this job; responses to reports of other jobs are
        ignored.
        """
        told = None if self._tell is None else measures_in(answer, self.identity.job)
        if told is not None and self._tell is not None:
            self._tell(told)

    def _sweep(self) -> bool:
        """Send left-over reports of earlier jobs; return False if sending stopped because this job had reports to
        send.
        """
        if self._spool is None:
            return True
        has_time = lambda: not len(self._outbox) and not self._is_ending.is_set()  # noqa: E731
        left = send_left(self._spool, self._sender, has_time)
        return not left.waiting or bool(left.sent.why_waiting)

    def _pause(self) -> None:
        """Wait until there is a report to send; after a failure, wait for the retry delay."""
        if self._tally.why_waiting:
            end_s = time.monotonic() + min(self._sender.pause_s, REPORT_PAUSE_MAX_S)
            while not self._is_ending.is_set() and time.monotonic() < end_s:
                self._is_ending.wait(end_s - time.monotonic())
            if not self._is_ending.is_set():
                return
        self._wake.wait()
        self._wake.clear()

    def _say_once(self, sentence: str) -> None:
        if self._say is not None and not self._has_said:
            self._has_said = True
            self._say(sentence)


def _added(readings: Iterable[SiteReading]) -> list[SiteReading]:
    """Return the sums of reads by site, storage element and nearness."""
    sums: dict[tuple[str, str, str], SiteReading] = {}
    for one in readings:
        known = sums.setdefault(
            (one.site, one.storage_element, one.nearness), SiteReading(one.site, one.storage_element, one.nearness)
        )
        known.files += one.files
        known.bytes_read += one.bytes_read
        known.failures += one.failures
        known.wall_s += one.wall_s
        known.fetch_s += one.fetch_s
    return list(sums.values())
