"""The reports of a submitted train: each of its jobs is a source, and the last one sends the record.

The address travels with the submission, and the path of the file with the token, but never a token.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from branchline.errors import OptionError, ReportWarning, StorageError, warn
from branchline.records.sending.address import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, ReportTarget
from branchline.records.sending.message import JobIdentity
from branchline.records.sending.spool import Spool, move_reports
from branchline.records.sensors.status import TrainStatus
from branchline.trains.out_folder.live_report import ReportedTrain, ReportsTo, identity_of_train
from branchline.trains.subjobs.locality import MeasuresTold
from branchline.trains.submitted.submission_folder import BatchFolder, log

if TYPE_CHECKING:
    from branchline.records.sending.reporter import Reporter
    from branchline.trains.plan import TrainPlan

_HTCONDOR = "htcondor"


@dataclass(frozen=True)
class SubmittedReports:
    """The control room of a submitted train: its address, the file with the token (empty where the environment of the
    jobs has it), who the train is, and whether it obeys measures.
    """

    url: str
    token_file: str
    identity: JobIdentity
    is_obeyed: bool = True

    @classmethod
    def of(
        cls, to: ReportsTo | None, plan: TrainPlan, command: str, out: Path, *, system: str, job: str
    ) -> SubmittedReports | None:
        """That of a train which is submitted now; None without a control room."""
        if to is None:
            return None
        path = str(Path(to.target.token_file).absolute()) if to.target.token_file else ""
        identity = identity_of_train(plan, command, out, place=system, job=job)
        return cls(to.target.url, path, identity, to.target.is_obeyed)

    def report_submission(self, folder: BatchFolder, to: ReportsTo, plan: TrainPlan) -> None:
        """Reports that the train waits. Takes some seconds at most."""
        reporter = to.reporter(self.identity, Spool(folder.reports), "submission")
        reporter.note(TrainStatus(subjobs=len(plan.shares), queued=len(plan.shares)))
        reporter.read(plan.looked_at, [])
        reporter.begin()
        for sentence in reporter.end():
            to.say_at_end(sentence)

    def reporter(self, folder: BatchFolder, source: str, told: MeasuresTold) -> Reporter:
        """The reporter of a job of the train. ``told`` gets the measures of the control room."""
        to = ReportsTo(self.target, say_at_once=log)
        return to.reporter(self.identity, Spool(folder.reports), source, told)

    @property
    def target(self) -> ReportTarget:
        """The control room, as jobs reach it."""
        return ReportTarget(self.url, token_file=self.token_file, is_obeyed=self.is_obeyed)


def check_token_travels(to: ReportsTo | None, system: str) -> None:
    """Raises OptionError where the jobs of a train would not have the token, or everybody would see it."""
    if to is None:
        return
    hint = f"put it into a file that all nodes see, and name that in {TOKEN_FILE_VARIABLE}"
    if to.target.token:
        what = "a token in the address of the control room does not travel with a submitted train"
        raise OptionError(what, hint=hint)
    if system == _HTCONDOR and os.environ.get(TOKEN_VARIABLE, "").strip() and not to.target.token_file:
        what = "HTCondor shows the environment of jobs to everybody, so the token does not travel in it"
        raise OptionError(what, hint=hint)


@contextmanager
def reports_of_job(reports: SubmittedReports | None, folder: BatchFolder, source: str) -> Iterator[ReportedTrain]:
    """The reports of a job of a submitted train, which works in the block. What is not sent is said in its log."""
    if reports is None:
        yield ReportedTrain(None)
        return
    told = MeasuresTold(reports.target.why_refused)
    reporter = reports.reporter(folder, source, told)
    reporter.begin()
    train = ReportedTrain(ReportsTo(reporter.target, say_at_end=log), reporter, told)
    try:
        yield train
    finally:
        train.leave()


def keep_reports(out: Path) -> None:
    """Moves what jobs of an earlier train here did not send to the spool of the user: their folder is to be removed."""
    folder = BatchFolder(out).reports
    spool = Spool.of_user()
    try:
        if spool is not None:
            move_reports(folder, spool)
    except StorageError as error:
        warn(f"reports of an earlier train in {out} are lost: {error}", ReportWarning)
