"""Reports of a submitted train to a control room: each job reports separately, and the last job sends the job record.

The submission contains the address of the control room and the path of the token file, but never a token.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from branchline.errors import OptionError, ReportWarning, StorageError, warn
from branchline.jobs.batch.system import batch_system
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


@dataclass(frozen=True)
class SubmittedReports:
    """The control room of a submitted train.

    - ``url`` is its address.
    - ``token_file`` is the path of the token file; empty if the token is in the environment of the jobs.
    - ``identity`` is the identity of the train.
    - ``is_obeyed`` says whether jobs follow the control room's measures.
    """

    url: str
    token_file: str
    identity: JobIdentity
    is_obeyed: bool = True

    @classmethod
    def of(
        cls, to: ReportsTo | None, plan: TrainPlan, command: str, out: Path, *, system: str, job: str
    ) -> SubmittedReports | None:
        """Return the control room for a train that is being submitted; None if there is none."""
        if to is None:
            return None
        path = str(Path(to.target.token_file).absolute()) if to.target.token_file else ""
        identity = identity_of_train(plan, command, out, place=system, job=job)
        return cls(to.target.url, path, identity, to.target.is_obeyed)

    def report_submission(self, folder: BatchFolder, to: ReportsTo, plan: TrainPlan) -> None:
        """Report that the train is queued. Takes at most a few seconds."""
        reporter = to.reporter(self.identity, Spool(folder.reports), "submission")
        reporter.note(TrainStatus(subjobs=len(plan.shares), queued=len(plan.shares)))
        reporter.read(plan.looked_at, [])
        reporter.begin()
        for sentence in reporter.end():
            to.say_at_end(sentence)

    def reporter(self, folder: BatchFolder, source: str, told: MeasuresTold) -> Reporter:
        """Create the reporter for a job of the train. Measures sent by the control room are passed to ``told``."""
        to = ReportsTo(self.target, say_at_once=log)
        return to.reporter(self.identity, Spool(folder.reports), source, told)

    @property
    def target(self) -> ReportTarget:
        """The control room, with the address and token file that jobs use."""
        return ReportTarget(self.url, token_file=self.token_file, is_obeyed=self.is_obeyed)


def check_token_travels(to: ReportsTo | None, system: str) -> None:
    """Raise OptionError if the jobs would not receive the token, or if other users could see it."""
    if to is None:
        return
    hint = f"put it into a file that all nodes can read, and set {TOKEN_FILE_VARIABLE} to its path"
    if to.target.token:
        what = "a token in the control room's address is not passed on to the jobs of a submitted train"
        raise OptionError(what, hint=hint)
    has_variable = bool(os.environ.get(TOKEN_VARIABLE, "").strip()) and not to.target.token_file
    if has_variable and not batch_system(system).passes_environment:
        what = f"{system} does not pass the environment of the submitting user to jobs, so they would not get the token"
        raise OptionError(what, hint=hint)


@contextmanager
def reports_of_job(reports: SubmittedReports | None, folder: BatchFolder, source: str) -> Iterator[ReportedTrain]:
    """Report a job of a submitted train while the block runs. If reports cannot be sent, this is logged."""
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
    """Move unsent reports of an earlier train in this directory to the user's spool, because the folder is about to be
    removed.
    """
    folder = BatchFolder(out).reports
    spool = Spool.of_user()
    try:
        if spool is not None:
            move_reports(folder, spool)
    except StorageError as error:
        warn(f"reports of an earlier train in {out} are lost: {error}", ReportWarning)
