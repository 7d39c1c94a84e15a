"""Reports that wait to be sent. They are stored on disk, or in memory if they cannot be written to disk.

An `Outbox` holds the reports of this process. `send_left` sends the left-over reports of jobs that were killed or could
not reach the control room.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from branchline.base.limits import REPORT_FAILURES_IN_A_ROW, SPOOL_MEMORY_BYTES
from branchline.base.quantities import MIB
from branchline.errors import StorageError
from branchline.records.sending.client import Fate, Sender
from branchline.records.sending.spool import Spool, Spooled, SpooledSource, SpoolFullError


class Outbox:
    """Queue of the reports that one source (a process that reports a job) has to send.

    ``source`` is None if reports cannot be stored on disk; ``trouble`` is the reason. One thread adds reports, another
    thread sends them.
    """

    def __init__(self, source: SpooledSource | None, trouble: str = "") -> None:
        self._source = source
        self._trouble = trouble
        self._lock = threading.Lock()
        self._waiting: list[WaitingReport] = []
        self._memory_bytes = 0
        self.losses = Losses()

    def __len__(self) -> int:
        with self._lock:
            return len(self._waiting)

    @property
    def folder(self) -> str:
        """The spool folder; empty if reports are only kept in memory."""
        return "" if self._source is None else str(self._source.folder)

    def put(self, number: int, body: bytes, readings: int, *, is_last: bool) -> bool:
        """Add a report; return False if there was no room for it."""
        report = WaitingReport(number, readings, is_last, in_memory=body)
        self._to_disk(report)
        with self._lock:
            if report.on_disk is None:
                most = 2 * SPOOL_MEMORY_BYTES if is_last else SPOOL_MEMORY_BYTES
                if self._memory_bytes + len(body) > most:
                    self.losses.add(readings, self._trouble)
                    return False
                self._memory_bytes += len(body)
            self._waiting.append(report)
        return True

    def _to_disk(self, report: WaitingReport) -> None:
        if self._source is None:
            return
        try:
            written = self._source.write(report.number, report.in_memory, is_last=report.is_last)
        except SpoolFullError:
            self._trouble = f"the spool {self._source.spool.folder} is full ({self._source.spool.max_bytes // MIB} MiB)"
        except StorageError as error:
            self._trouble = error.what
        else:
            report.on_disk, report.in_memory = written, b""

    def send(self, sender: Sender, goes_on: Callable[[], bool]) -> Tally:
        """Send the waiting reports, oldest first, as long as ``goes_on()`` returns True."""
        with self._lock:
            waiting = list(self._waiting)
        tally = Tally()
        failures = 0
        for report in waiting:
            if not goes_on():
                break
            if report.on_disk is None or self._source is None:
                body = report.in_memory
            else:
                body = self._source.read(report.on_disk)
            if not body:
                tally.damaged += 1
                self.losses.add(report.readings, "their files are missing or unreadable")
                self._forget(report, is_refused=True)
                continue
            outcome = sender.send(body)
            if outcome.fate is Fate.TAKEN:
                tally.taken += 1
                failures = 0
                self._forget(report, is_refused=False)
            elif outcome.fate is Fate.REFUSED:
                tally.refused += 1
                tally.why_refused = outcome.why
                self._forget(report, is_refused=True)
            else:
                tally.why_waiting = outcome.why
                failures += 1
                if outcome.fate is Fate.LATER or failures >= REPORT_FAILURES_IN_A_ROW:
                    break
        return tally

    def _forget(self, report: WaitingReport, *, is_refused: bool) -> None:
        if report.on_disk is None or self._source is None:
            with self._lock:
                self._memory_bytes -= len(report.in_memory)
        elif is_refused:
            self._source.refuse(report.on_disk)
        else:
            self._source.sent(report.on_disk)
        with self._lock:
            self._waiting.remove(report)

    def sync(self) -> None:
        """Flush written reports to disk, for reports that are not sent soon."""
        if self._source is not None:
            self._source.sync()

    def settle(self) -> None:
        """Finish: write reports from memory to disk, count reports that do not fit as lost, and unlock the spool."""
        with self._lock:
            for report in self._waiting:
                if report.on_disk is None:
                    self._to_disk(report)
                if report.on_disk is None:
                    self.losses.add(report.readings, self._trouble or "no folder to store them in")
            self._waiting = [one for one in self._waiting if one.on_disk is not None]
        if self._source is not None:
            self._source.sync()
            self._source.close()


@dataclass(eq=False)
class WaitingReport:
    """A report that waits to be sent.

    ``on_disk`` is its file, or None if its body is ``in_memory``. ``readings`` is the number of file reads that it
    contains.
    """

    number: int
    readings: int = 0
    is_last: bool = False
    on_disk: Spooled | None = None
    in_memory: bytes = b""


@dataclass
class Tally:
    """The outcomes of sending reports.

    ``why_refused`` is the reason for the last rejection, ``why_waiting`` the reason for the current delay. ``damaged``
    counts reports that could not be read back from disk.
    """

    taken: int = 0
    refused: int = 0
    damaged: int = 0
    why_refused: str = ""
    why_waiting: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether no attempt was made to send a report."""
        return not (self.taken or self.refused or self.damaged or self.why_waiting)

    def add(self, later: Tally) -> None:
        """Add the outcomes of a later attempt. If that attempt tried to send reports, its ``why_waiting`` replaces the
        earlier value.
        """
        self.taken += later.taken
        self.refused += later.refused
        self.damaged += later.damaged
        self.why_refused = later.why_refused or self.why_refused
        if not later.is_empty:
            self.why_waiting = later.why_waiting


@dataclass
class Losses:
    """Reports that were lost because they could not be read back, or because neither disk nor memory had room."""

    reports: int = 0
    readings: int = 0
    why: str = ""

    def add(self, readings: int, why: str) -> None:
        """Count a lost report."""
        self.reports += 1
        self.readings += readings
        self.why = why


# --- left-over reports of other processes -----------------------------------------------------------------------------


@dataclass
class SentReports:
    """Outcomes of sending left-over reports.

    ``sent`` has the outcomes for the control room, ``waiting`` counts reports that still wait for it, and ``elsewhere``
    counts reports for other control rooms, by address.
    """

    sent: Tally = field(default_factory=Tally)
    waiting: int = 0
    elsewhere: dict[str, int] = field(default_factory=dict)


def send_left(spool: Spool, sender: Sender, goes_on: Callable[[], bool] = lambda: True) -> SentReports:
    """Send left-over reports to a control room as long as ``goes_on()`` returns True.

    Sources that another process has locked are skipped, because that process sends their reports. Never raises.
    """
    found = SentReports()
    with suppress(OSError):
        spool.clear()
    for source in spool.sources():
        if source.is_own:
            continue
        server = source.server()
        if server != sender.target.url:
            found.elsewhere[server] = found.elsewhere.get(server, 0) + len(source.reports())
        elif found.sent.why_waiting or not goes_on():
            found.waiting += len(source.reports())
        else:
            _send_source(source, sender, goes_on, found)
    return found


def _send_source(source: SpooledSource, sender: Sender, goes_on: Callable[[], bool], found: SentReports) -> None:
    try:
        if not source.lock():
            return
    except OSError as error:
        found.sent.why_waiting = f"cannot lock the folder {source.folder}: {error.strerror}"
        return
    try:
        outbox = Outbox(source)
        outbox._waiting = [WaitingReport(one.number, on_disk=one) for one in source.reports()]
        found.sent.add(outbox.send(sender, goes_on))
        found.waiting += len(source.reports())
    finally:
        source.close()
