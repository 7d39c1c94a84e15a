"""A control room: a directory with all that jobs reported, and with wagons and datasets."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from branchline.base.limits import FILES_PAGE_MAX
from branchline.control.accounts import TABLES as ACCOUNT_TABLES
from branchline.control.accounts import Accounts
from branchline.control.database import Database
from branchline.control.findings.finder import Finder
from branchline.control.history.parquet_folder import HistoryFolder
from branchline.control.history.queries import file_groups, files_page
from branchline.control.intake import Intake
from branchline.control.job_notes import TABLES as NOTE_TABLES
from branchline.control.measures import TABLES as MEASURE_TABLES
from branchline.control.measures import Measures
from branchline.control.plans.plan_store import TABLES as PLAN_TABLES
from branchline.control.plans.plans import Plans
from branchline.control.registry.git_sources import GitSources
from branchline.control.registry.registry import TABLES as REGISTRY_TABLES
from branchline.control.registry.registry import Registry, SourceStore
from branchline.control.reports.jobs import FilesPage, JobDetails, JobQuery, JobsPage, job_details, jobs_page
from branchline.control.reports.readings import Cost, ElementHour, FileGroup, Period, SiteElementTable
from branchline.control.reports.reads import element_days, element_hours, site_table, user_costs, wagon_costs
from branchline.control.reports.tables import JOB_TABLES
from branchline.control.sandbox.code_rules import CodeRunning
from branchline.control.trains.trains import TABLES as TRAIN_TABLES
from branchline.control.trains.trains import Trains
from branchline.control.trials.trials import TABLES as TRIAL_TABLES
from branchline.control.trials.trials import Trials
from branchline.control.upkeep import Retention, Upkeep
from branchline.records.sending.message import ReportBatch


class ControlRoom:
    """An open control room. Its methods may be called by several threads at once.

    They raise DatabaseError where the directory cannot be used.
    """

    def __init__(
        self,
        folder: Path,
        running: CodeRunning | None = None,
        retention: Retention | None = None,
        git: GitSources | None = None,
    ) -> None:
        """Opens the directory, which is made if it is not there. ``running`` says how code of users runs, by default as
        the user of this process, between ``trials.start()`` and ``close()``; ``git`` from where it is fetched.
        Raises DatabaseError if another process has the directory, OptionError for a retention that cannot be.
        """
        retention, running = retention or Retention(), running or CodeRunning()
        retention.check()
        folder = folder.absolute()
        self.folder = folder
        self._database = Database(
            folder,
            (
                JOB_TABLES,
                NOTE_TABLES,
                ACCOUNT_TABLES,
                REGISTRY_TABLES,
                TRIAL_TABLES,
                TRAIN_TABLES,
                PLAN_TABLES,
                MEASURE_TABLES,
            ),
        )
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
        self.findings = Finder(self._database, self._history, self.trials.cpu_forecasts)
        self.measures = Measures(self._database, self.trains)
        self.upkeep = Upkeep(self._database, self._history, retention)

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """A connection that reads one state of the database, for those who ask for more than the room gives."""
        return self._database.reading()

    @property
    def version(self) -> int:
        """A number that grows with every change."""
        return self._database.version

    def take(self, batch: ReportBatch, reporter: str = "") -> bool:
        """Takes a batch, which is on the disk then; False if it was taken before. ``reporter`` is whose token it came
        with, where there are accounts. Raises ValueError for nonsense, and for a job that somebody else reports.
        """
        return self._intake.take(batch, reporter)

    @property
    def intake_trouble(self) -> str:
        """Why the last batches could not be taken; empty if they could."""
        return self._intake.trouble

    def jobs(self, query: JobQuery) -> JobsPage:
        """Some of the jobs. Raises OptionError for an order or a distance that there is not."""
        with self._database.reading() as connection:
            return jobs_page(connection, query, datetime.now(UTC))

    def job(self, job: str) -> JobDetails | None:
        """One job; None if it never reported."""
        with self._database.reading() as connection:
            return job_details(connection, job, datetime.now(UTC))

    def files(self, job: str, first: int = 0, count: int = FILES_PAGE_MAX) -> FilesPage:
        """Some of the files that a job has read."""
        return files_page(self._history, job, first, count)

    def file_groups(self, by: Sequence[str], period: Period) -> list[FileGroup]:
        """Sums over all rows of files of a period, by some of "site", "storage_element", "host", "store" and "codec",
        with most bytes first. Takes seconds for ten millions of rows. Raises OptionError.
        """
        return file_groups(self._history, by, period)

    def site_table(self, period: Period) -> SiteElementTable:
        """Sites by storage elements."""
        with self._database.reading() as connection:
            return site_table(connection, period)

    def element_hours(self, period: Period) -> list[ElementHour]:
        """Storage elements over time."""
        with self._database.reading() as connection:
            return element_hours(connection, period)

    def element_days(self, period: Period) -> list[ElementHour]:
        """Storage elements over time, by days."""
        with self._database.reading() as connection:
            return element_days(connection, period)

    def costs(self, by: Literal["user", "wagon"], period: Period) -> list[Cost]:
        """What users or wagons cost, the dearest first."""
        with self._database.reading() as connection:
            return user_costs(connection, period) if by == "user" else wagon_costs(connection, period)

    def close(self) -> None:
        """Ends what runs, closes it, and lets another process open it."""
        self.findings.stop()
        self.plans.stop()
        self.trains.stop()
        self.trials.stop()
        self.upkeep.close()
        self._database.close()
