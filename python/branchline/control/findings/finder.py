"""Looks for findings in the background, so that pages show what was found last, and never wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from branchline.base.limits import FINDINGS_PAUSE_S, FINDINGS_TIME_SHARE
from branchline.control.background_errors import trouble_of
from branchline.control.database import Database
from branchline.control.findings.finding import Finding
from branchline.control.findings.job_findings import black_holes, failed_jobs, failing_replicas, missed_forecasts, tails
from branchline.control.findings.reading import large_reads, slow_round_trips, wrong_locality
from branchline.control.findings.speed import drifted, slow_places
from branchline.control.findings.speed_samples import speeds_in
from branchline.control.history.parquet_folder import HistoryFolder
from branchline.control.history.queries import file_groups
from branchline.control.reports.readings import Period

#: Periods that are looked at, in days up to now.
DAYS = {"day": 1, "week": 7, "month": 30}
_WEEK_BEFORE = timedelta(days=7)


@dataclass(frozen=True)
class Findings:
    """The findings of a period, most expensive first. ``since`` is the start of the period and ``made`` the time of the
    search (ISO 8601, UTC; empty before the first search). ``trouble`` is the error of the last search, if any.
    """

    period: str
    since: str = ""
    made: str = ""
    findings: list[Finding] = field(default_factory=list)
    trouble: str = ""


class Finder:
    """A thread that looks for findings when something has changed, and seldom enough to cost little."""

    def __init__(
        self, database: Database, history: HistoryFolder, forecasts: Callable[[], Mapping[str, float]]
    ) -> None:
        """``forecasts`` gives the CPU seconds that wagons were forecast to take for an event, by their names."""
        self._database = database
        self._history = history
        self._forecasts = forecasts
        self._found = {period: Findings(period) for period in DAYS}
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins to look."""
        self._thread = threading.Thread(target=self._keep_looking, name="findings of the control room", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, within one round."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def trouble(self) -> str:
        """In which periods it could not be looked for the last time, and why; empty if in all it could."""
        periods: dict[str, list[str]] = {}
        for period, found in self._found.items():
            if found.trouble:
                periods.setdefault(found.trouble, []).append(period)
        return "; ".join(f"{', '.join(those)}: {why}" for why, those in periods.items())

    def last(self, period: str) -> Findings:
        """Return the latest findings of a period."""
        return self._found[period]

    def look(self, period: str, now: datetime | None = None) -> Findings:
        """Looks now. Raises DatabaseError."""
        now = now or datetime.now(UTC)
        since = now - timedelta(days=DAYS[period])
        span = Period(_text(since), _text(now + timedelta(hours=1)))
        groups = file_groups(self._history, ("site", "storage_element"), span)
        forecasts = self._forecasts()
        with self._database.reading() as connection:
            speeds = speeds_in(connection, span)
            found = [*slow_places(speeds), *wrong_locality(speeds)]
            if DAYS[period] == 1:
                found += drifted(speeds, speeds_in(connection, Period(_text(since - _WEEK_BEFORE), span.since)))
            found += [*failing_replicas(connection, span), *black_holes(connection, span)]
            found += [*tails(connection, span), *failed_jobs(connection, span)]
            found += missed_forecasts(connection, span, forecasts)
        found += [*large_reads(groups), *slow_round_trips(groups)]
        found.sort(key=lambda one: -(one.proposal.gain_s.value if one.proposal else 0.0))
        findings = Findings(period, _text(since), now.isoformat(timespec="seconds"), found)
        self._keep(findings)
        return findings

    def _keep(self, findings: Findings) -> None:
        before, self._found[findings.period] = self._found[findings.period], findings
        if (before.findings, before.trouble, bool(before.made)) != (findings.findings, findings.trouble, True):
            self._database.changed()

    def _keep_looking(self) -> None:
        seen, pause_s = -1, 0.0
        while not self._end.wait(pause_s):
            pause_s = FINDINGS_PAUSE_S
            version = self._database.version
            if version == seen:
                continue
            began_s = time.monotonic()
            for period in DAYS:
                if self._end.is_set():
                    return
                self._try(period)
            # What is told here counts as seen: it would be looked for again and again.
            seen = self._database.version
            pause_s = max(FINDINGS_PAUSE_S, (time.monotonic() - began_s) / FINDINGS_TIME_SHARE)

    def _try(self, period: str) -> None:
        before = self._found[period]
        try:
            self.look(period)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the thread: it is shown
            trouble = trouble_of(error, "findings")
            self._keep(Findings(period, before.since, before.made, before.findings, trouble))


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
