"""Reports that wait to be sent, on disk, or in memory where the disk does not take them.

An `Outbox` holds the reports of this process; `send_left` sends the reports of jobs that have ended without sending
them, because they were killed or the control room was away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from branchline.base.limits import REPORT_FAILURES_IN_A_ROW, SPOOL_MEMORY_BYTES
from branchline.errors import StorageError
from branchline.records.sending.client import Fate, Sender
from branchline.records.sending.spool import Spool, Spooled, SpooledSource, SpoolFullError


class Outbox:
    """The reports of one source of a job, which this process makes. ``source`` is None where there is no disk for them,
    which ``trouble`` says why. One thread puts reports into it, another one sends them.
    """

    def __init__(self, source: SpooledSource | None, trouble: str = "") -> None:
        self._source = source
        self._trouble = trouble
        self._lock = threading.Lock()
        self._waiting: list[Waiting] = []
        self._memory_bytes = 0
        self.losses = Losses()

    def __len__(self) -> int:
        with self._lock:
            return len(self._waiting)

    @property
    def folder(self) -> str:
        """Where reports wait; empty for in memory."""
        return "" if self._source is None else str(self._source.folder)

    def put(self, number: int, body: bytes, readings: int, *, is_last: bool) -> bool:
        """Keeps a report; False if it is lost."""
        report = Waiting(number, readings, is_last, in_memory=body)
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

    def _to_disk(self, report: Waiting) -> None:
        if self._source is None:
            return
        try:
            written = self._source.write(report.number, report.in_memory, is_last=report.is_last)
        except SpoolFullError:
            self._trouble = f"the spool {self._source.spool.folder} has its {self._source.spool.max_bytes // 2**20} MiB"
        except StorageError as error:
            self._trouble = error.what
        else:
            report.on_disk, report.in_memory = written, b""

    def send(self, sender: Sender, goes_on: Callable[[], bool]) -> Tally:
        """Sends what waits, the oldest first, while it ``goes_on``."""
        with self._lock:
            waiting = list(self._waiting)
        tally = Tally()
        failures = 0
        for report in waiting:
            if not goes_on():
                break
            body = self._body(report)
            if not body:
                tally.damaged += 1
                self.losses.add(report.readings, "their files are gone, or cannot be read")
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

    def _body(self, report: Waiting) -> bytes:
        if report.on_disk is None or self._source is None:
            return report.in_memory
        return self._source.read(report.on_disk)

    def _forget(self, report: Waiting, *, is_refused: bool) -> None:
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
        """Brings to the disk what stays there for a while."""
        if self._source is not None:
            self._source.sync()

    def settle(self) -> None:
        """At the end: what is in memory goes to the disk if that has room now, else it is lost. Lets go of the rest."""
        with self._lock:
            for report in self._waiting:
                if report.on_disk is None:
                    self._to_disk(report)
                if report.on_disk is None:
                    self.losses.add(report.readings, self._trouble or "there is no folder to keep them in")
            self._waiting = [one for one in self._waiting if one.on_disk is not None]
        if self._source is not None:
            self._source.sync()
            self._source.close()


@dataclass(eq=False)
class Waiting:
    """A report that is to be sent, with the readings of files in it: on disk, or as its body."""

    number: int
    readings: int = 0
    is_last: bool = False
    on_disk: Spooled | None = None
    in_memory: bytes = b""


@dataclass
class Tally:
    """What became of reports. ``why_refused`` and ``why_waiting`` are the reasons of the server, or for it;
    ``damaged`` counts those that the disk gave back no more.
    """

    taken: int = 0
    refused: int = 0
    damaged: int = 0
    why_refused: str = ""
    why_waiting: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was tried."""
        return not (self.taken or self.refused or self.damaged or self.why_waiting)

    def add(self, later: Tally) -> None:
        """Adds what was tried later; whether reports wait is as it was then."""
        self.taken += later.taken
        self.refused += later.refused
        self.damaged += later.damaged
        self.why_refused = later.why_refused or self.why_refused
        if not later.is_empty:
            self.why_waiting = later.why_waiting


@dataclass
class Losses:
    """What neither the disk nor the memory took."""

    reports: int = 0
    readings: int = 0
    why: str = ""

    def add(self, readings: int, why: str) -> None:
        """One more."""
        self.reports += 1
        self.readings += readings
        self.why = why


# --- what other processes left ----------------------------------------------------------------------------------------


@dataclass
class SentReports:
    """What became of the reports that were left, in ``sent``. ``waiting`` counts those for the same control room that
    still are, ``elsewhere`` those for others, by address.
    """

    sent: Tally = field(default_factory=Tally)
    waiting: int = 0
    elsewhere: dict[str, int] = field(default_factory=dict)


def send_left(spool: Spool, sender: Sender, goes_on: Callable[[], bool] = lambda: True) -> SentReports:
    """Sends what is left for a control room, while it ``goes_on``. A source at which another process is at work is left
    alone: that one sends. Raises nothing.
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
        found.sent.why_waiting = f"the folder {source.folder} cannot be locked: {error.strerror}"
        return
    try:
        found.sent.add(_send_spooled(source, source.reports(), sender, goes_on))
        found.waiting += len(source.reports())
    finally:
        source.close()


def _send_spooled(
    source: SpooledSource, reports: Iterable[Spooled], sender: Sender, goes_on: Callable[[], bool]
) -> Tally:
    """Sends reports that another process left, the oldest first; the source is locked."""
    outbox = Outbox(source)
    outbox._waiting = [Waiting(one.number, on_disk=one) for one in reports]
    return outbox.send(sender, goes_on)
