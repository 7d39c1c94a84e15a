"""Search for findings in the background, so that pages can show the latest findings without waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from branchline.base.limits import FINDINGS_PAUSE_S, FINDINGS_TIME_SHARE
from branchline.control.background_errors import trouble_of
from branchline.control.database import Database
from branchline.control.findings.alarm_findings import alarms_of
from branchline.control.findings.finding import Finding
from branchline.control.findings.job_findings import OF_JOBS, missed_forecasts
from branchline.control.findings.reading import large_reads, slow_round_trips, wrong_locality
from branchline.control.findings.speed import drifted, slow_places
from branchline.control.findings.speed_samples import speeds_in
from branchline.control.history.parquet_folder import HistoryFolder
from branchline.control.history.queries import file_groups
from branchline.control.reports.readings import Period
from branchline.control.watched_storages import WatchSchedule
from branchline.lab.studies.alarms import WRONG_VALUES

#: Names of the periods that are searched, with their lengths in days. Each period ends now.
DAYS = {"day": 1, "week": 7, "month": 30}
_WEEK_BEFORE = timedelta(days=7)


@dataclass(frozen=True)
class Findings:
    """The findings of a period: wrong values first, then the most expensive ones.

    ``since`` is the start of the period and ``made`` the search time (ISO 8601, UTC; both empty before the first
    search). ``trouble`` is the error of the last search; empty on success.
    """

    period: str
    since: str = ""
    made: str = ""
    findings: list[Finding] = field(default_factory=list)
    trouble: str = ""


class Finder:
    """A thread that searches for findings whenever the database or a history of watched storage systems has changed.

    The thread pauses between searches, so that it works only for a limited fraction of the time.
    """

    def __init__(
        self,
        database: Database,
        history: HistoryFolder,
        forecasts: Callable[[], Mapping[str, float]],
        watched: Callable[[], list[WatchSchedule]],
    ) -> None:
        """``forecasts`` is a function that returns the predicted CPU seconds per event for each wagon name, ``watched``
        one that returns the schedules of watched storage systems.
        """
        self._database = database
        self._history = history
        self._forecasts = forecasts
        self._watched = watched
        self._found = {period: Findings(period) for period in DAYS}
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the search thread."""
        self._thread = threading.Thread(target=self._keep_looking, name="findings of the control room", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for its end. A running search of one period is completed first."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def trouble(self) -> str:
        """The errors of the last searches, each with the affected periods; empty if all searches succeeded."""
        periods: dict[str, list[str]] = {}
        for period, found in self._found.items():
            if found.trouble:
                periods.setdefault(found.trouble, []).append(period)
        return "; ".join(f"{', '.join(those)}: {why}" for why, those in periods.items())

    def last(self, period: str) -> Findings:
        """Return the latest findings of a period."""
        return self._found[period]

    def look(self, period: str, now: datetime | None = None) -> Findings:
        """Search a period now. Store and return the findings. Raises DatabaseError."""
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
            for find in OF_JOBS:
                found += find(connection, span)
            found += missed_forecasts(connection, span, forecasts)
        found += [*large_reads(groups), *slow_round_trips(groups), *alarms_of(self._watched())]
        found.sort(key=lambda one: (one.kind != WRONG_VALUES, -(one.proposal.gain_s.value if one.proposal else 0.0)))
        findings = Findings(period, _text(since), now.isoformat(timespec="seconds"), found)
        self._keep(findings)
        return findings

    def _keep(self, findings: Findings) -> None:
        before, self._found[findings.period] = self._found[findings.period], findings
        if (before.findings, before.trouble, bool(before.made)) != (findings.findings, findings.trouble, True):
            self._database.changed()

    def _keep_looking(self) -> None:
        seen, pause_s = -1, 0.0
        watched: list[WatchSchedule] | None = []
        seen_watched = watched
        while not self._end.wait(pause_s):
            pause_s = FINDINGS_PAUSE_S
            try:
                watched = self._watched()
            except Exception:  # noqa: BLE001 - the search raises the same error, and shows it
                watched = None
            if (self._database.version, watched) == (seen, seen_watched):
                continue
            began_s = time.monotonic()
            for period in DAYS:
                if self._end.is_set():
                    return
                before = self._found[period]
                try:
                    self.look(period)
                except Exception as error:  # noqa: BLE001 - an internal error is shown and must not end the thread
                    trouble = trouble_of(error, "findings")
                    self._keep(Findings(period, before.since, before.made, before.findings, trouble))
            # Read the version after the search, because storing findings increases the version and must not cause
            # another search.
            seen, seen_watched = self._database.version, watched
            pause_s = max(FINDINGS_PAUSE_S, (time.monotonic() - began_s) / FINDINGS_TIME_SHARE)


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
