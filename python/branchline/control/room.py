"""The control room: a directory with job reports, wagons, datasets, trials, plans and trains."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from branchline.base.limits import FILES_PAGE_MAX
from branchline.control.accounts import Accounts
from branchline.control.cache_monitor import CacheMonitor, monitor_socket, places_of
from branchline.control.database import Database
from branchline.control.findings.finder import Finder
from branchline.control.history.parquet_folder import HistoryFolder
from branchline.control.history.queries import file_groups, files_page
from branchline.control.intake import Intake
from branchline.control.measures import Measures
from branchline.control.plans.plans import Plans
from branchline.control.registry.git_sources import GitSources
from branchline.control.registry.registry import Registry, SourceStore
from branchline.control.reports.jobs import FilesPage, JobDetails, JobQuery, JobsPage, job_details, jobs_page
from branchline.control.reports.readings import (
    CacheHour,
    Cost,
    ElementHour,
    FileGroup,
    JobTime,
    Period,
    SiteElementTable,
)
from branchline.control.reports.reads import (
    cache_hours,
    efficiencies,
    element_days,
    element_hours,
    job_times,
    site_table,
    user_costs,
    wagon_costs,
)
from branchline.control.sandbox.code_rules import CodeRunning
from branchline.control.trains.trains import Trains
from branchline.control.trials.trials import Trials
from branchline.control.upkeep import Retention, Upkeep
from branchline.control.watched_storages import WatchSchedule, schedules
from branchline.jobs.sites import SiteMap
from branchline.records.charts.efficiency import EfficiencySum
from branchline.records.sending.message import ReportBatch


class ControlRoom:
    """An open control room. Thread-safe.

    All methods raise DatabaseError if the directory cannot be read or written.
    """

    def __init__(
        self,
        folder: Path,
        running: CodeRunning | None = None,
        retention: Retention | None = None,
        git: GitSources | None = None,
    ) -> None:
        """Open the directory, or create it if missing.

        ``running`` sets how user code runs; by default, user code runs as the user of this process. ``git`` fetches
        wagon sources from Git repositories. Trials run between ``trials.start()`` and ``close()``. Raises DatabaseError
        if another process has the directory open, and OptionError for an invalid retention.
        """
        retention, running = retention or Retention(), running or CodeRunning()
        retention.check()
        folder = folder.absolute()
        self.folder = folder
        self._database = Database(folder)
        try:
            self._history = HistoryFolder(self._database, folder / "history")
        except BaseException:
            self._database.close()
            raise
        self._intake = Intake(self._database)
        self.sources = SourceStore(folder / "sources")
        self.git = git or GitSources()
        self.accounts = Accounts(self._database)
        self.registry = Registry(self._database, self.sources)
        self.trials = Trials(self._database, self.registry, self.sources, folder / "trials", running)
        self.trains = Trains(
            self._database,
            self.registry,
            self.sources,
            self.trials,
            folder / "trains",
            self._intake.take,
            running,
            self.accounts.unix_user_of,
        )
        self.plans = Plans(self._database, self.registry, self.trials, self.trains, self.accounts)
        self.findings = Finder(self._database, self._history, self.trials.cpu_forecasts, self.watched)
        self.measures = Measures(self._database, self.trains)
        self.upkeep = Upkeep(self._database, self._history, retention)
        #: Receives the monitoring streams of caches; None unless ``watch_caches`` was called.
        self.cache_monitor: CacheMonitor | None = None

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open a read transaction on the database, for queries without a method in this class."""
        return self._database.reading()

    @property
    def version(self) -> int:
        """A version number that grows with each change of the control room."""
        return self._database.version

    def take(self, batch: ReportBatch, reporter: str = "") -> bool:
        """Store a batch and wait until the batch is on disk. Returns False if the batch was stored before.

        ``reporter`` is the person whose token authorized the batch; it is empty if the control room has no accounts.
        Raises ValueError for an invalid batch, or if a person other than ``reporter`` reports this job.
        """
        return self._intake.take(batch, reporter)

    @property
    def intake_trouble(self) -> str:
        """The error that prevented storing the last batches; empty on success."""
        return self._intake.trouble

    def jobs(self, query: JobQuery) -> JobsPage:
        """Return a page of jobs. Raises OptionError for an unknown order or distance."""
        with self._database.reading() as connection:
            return jobs_page(connection, query, datetime.now(UTC))

    def job(self, job: str) -> JobDetails | None:
        """Return a job; None if the job has never sent a report."""
        with self._database.reading() as connection:
            return job_details(connection, job, datetime.now(UTC))

    def files(self, job: str, first: int = 0, count: int = FILES_PAGE_MAX) -> FilesPage:
        """Return a page of the files that a job has read."""
        return files_page(self._history, job, first, count)

    def file_groups(self, by: Sequence[str], period: Period) -> list[FileGroup]:
        """Return sums over the file reads of a period, grouped by columns. Groups with the most bytes come first.

        ``by`` has any of "site", "storage_element", "host", "store" and "codec". Takes seconds for ten million rows.
        Raises OptionError for an unknown column or an invalid period.
        """
        return file_groups(self._history, by, period)

    def site_table(self, period: Period) -> SiteElementTable:
        """Return reads by site and storage element."""
        with self._database.reading() as connection:
            return site_table(connection, period)

    def element_hours(self, period: Period) -> list[ElementHour]:
        """Return reads by hour and storage element."""
        with self._database.reading() as connection:
            return element_hours(connection, period)

    def element_days(self, period: Period) -> list[ElementHour]:
        """Return reads by day and storage element."""
        with self._database.reading() as connection:
            return element_days(connection, period)

    def cache_hours(self, period: Period, *, by_day: bool) -> list[CacheHour]:
        """Return reads through caches by hour or day."""
        with self._database.reading() as connection:
            return cache_hours(connection, period, by_day=by_day)

    def watch_caches(self, address: str) -> str:
        """Receive the monitoring streams of the caches in the site configuration at the address ``HOST:PORT``, and
        return the address. Port 0 selects any free port.

        Raises OptionError for an invalid address, and if no cache is known.
        """
        places = places_of(SiteMap.load().caches)
        self.cache_monitor = CacheMonitor(self._database, monitor_socket(address), places)
        return self.cache_monitor.address

    def costs(self, by: Literal["user", "wagon"], period: Period) -> list[Cost]:
        """Return the costs of all users or all wagons in a period, most expensive first."""
        with self._database.reading() as connection:
            return user_costs(connection, period) if by == "user" else wagon_costs(connection, period)

    def efficiencies(self, period: Period, *, by_month: bool) -> list[EfficiencySum]:
        """Return the CPU and wall times of user jobs and trains by month or day."""
        with self._database.reading() as connection:
            return efficiencies(connection, period, by_month=by_month)

    def job_times(self, period: Period) -> list[JobTime]:
        """Return the times of the last jobs of a period that have ended."""
        with self._database.reading() as connection:
            return job_times(connection, period)

    def watched(self) -> list[WatchSchedule]:
        """Return the schedules of watched storage systems in the control room's directory."""
        return schedules(self.folder)

    def close(self) -> None:
        """Stop the background threads, close the database, and release the lock of the directory."""
        self.findings.stop()
        self.plans.stop()
        self.trains.stop()
        self.trials.stop()
        self.upkeep.close()
        if self.cache_monitor is not None:
            self.cache_monitor.close()
        self._database.close()
