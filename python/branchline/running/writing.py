"""Writes what a train gives back into its directory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from branchline.errors import StorageError
from branchline.jobs import Interruption
from branchline.running.claim import Claim
from branchline.sensors import FINISHED, PARTIAL
from branchline.train import JobError, TrainResult

if TYPE_CHECKING:
    from branchline.report.writing import Pictures


def write(result: TrainResult, claim: Claim, pictures: Pictures = "svg") -> None:
    """Writes results, pictures and records into a directory.

    What cannot be written, as on a full disk, is an error of the job: the rest is there, the results still in memory.
    Ctrl-C keeps what is written and goes on to the records, a second one ends at once.
    """
    result.out = claim.out
    interruption = Interruption()
    try:
        with interruption.installed():
            with interruption.held():
                # Workers import this package too, and are at work a second earlier without Arrow, uproot and Jinja.
                from branchline.report.job_files import write_job
                from branchline.report.writing import write_out

                # As it stands should this process be killed, or interrupted again, before it has written everything.
                status = result.record.status
                write_job(claim.out, replace(result.record, status=PARTIAL if status == FINISHED else status))
            with interruption.allowed():
                result.written = list(write_out(claim.out, result, lambda: interruption.asked, pictures))
    except StorageError as error:
        result.stopped_by = result.stopped_by or JobError.of(error)
    except KeyboardInterrupt:
        result.record.interrupted = True
    if result.record.interrupted and result.record.status == FINISHED:
        result.record.status = PARTIAL
    _mark(result, claim)


def _mark(result: TrainResult, claim: Claim) -> None:
    sentences = [] if result.record.status == FINISHED else result.errors or ["The run was interrupted."]
    try:
        claim.mark(sentences)
    except StorageError as error:
        result.stopped_by = result.stopped_by or JobError.of(error)
