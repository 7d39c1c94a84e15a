"""Writes what a train gives back into its directory."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import TYPE_CHECKING

from branchline.errors import BranchlineError, StorageError
from branchline.jobs.interruption import Interruption
from branchline.jobs.ledger import LEDGER_NAME, LedgerError, remove_ledger
from branchline.records.sensors.record import FINISHED, PARTIAL, JobRecord
from branchline.trains.out_folder.lock import Claim
from branchline.trains.running.result import TrainResult
from branchline.trains.subjobs.share_result import JobError

if TYPE_CHECKING:
    from branchline.records.output import Pictures


def write(result: TrainResult, claim: Claim, pictures: Pictures = "svg") -> None:
    """Writes results, pictures and records into a directory.

    What cannot be written, as on a full disk, is an error of the job: the rest is there, the results still in memory.
    Results come before the ledger: if the disk is full, it is removed, and they are written once more; one of a later
    version stays, which is an error, too. Ctrl-C keeps what is written and goes on to the records, a second one ends at
    once.
    """
    result.out = claim.out
    record = result.record
    status, errors = record.status, list(record.errors)
    error = _write(result, claim, pictures)
    if error is not None and _is_full(error) and _removed_ledger(claim, record):
        record.status, record.errors = status, errors
        record.reuse_notes.append("the ledger was removed, since the disk had no room for the results beside it")
        error = _write(result, claim, pictures)
    if error is not None:
        result.stopped_by = result.stopped_by or JobError.of(error)
    if record.interrupted and record.status == FINISHED:
        record.status = PARTIAL
    _mark(result, claim)


def _write(result: TrainResult, claim: Claim, pictures: Pictures) -> BranchlineError | None:
    """Writes everything, and gives the first error; the record has it, too."""
    record = result.record
    errors_count = len(record.errors)
    interruption = Interruption()
    try:
        with interruption.installed():
            with interruption.held():
                # Workers import this package too, and are at work a second earlier without Arrow, uproot and Jinja.
                from branchline.records.diagnosis.job_advice import advise_job
                from branchline.records.output import write_out
                from branchline.records.result_files.job_files import write_job

                # As it stands should this process be killed, or interrupted again, before it has written everything.
                write_job(claim.out, replace(record, status=PARTIAL if record.status == FINISHED else record.status))
            with interruption.allowed():
                result.written = list(write_out(claim.out, result, lambda: interruption.asked, pictures, advise_job))
    except BranchlineError as error:
        if len(record.errors) == errors_count:
            record.errors.append(JobError.of(error).fault())
            record.status = PARTIAL if record.status == FINISHED else record.status
        result.written = [claim.out / name for name in record.written if (claim.out / name).exists()]
        return error
    except KeyboardInterrupt:
        record.interrupted = True
    return None


def _is_full(error: BranchlineError) -> bool:
    """Whether the disk, or what the user may have of it, is full."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOSPC, errno.EDQUOT)


def _removed_ledger(claim: Claim, record: JobRecord) -> bool:
    """Removes the ledger, if there is one; whether that made room. Where it has to stay, an error says what to do."""
    if not (claim.out / LEDGER_NAME).exists():
        return False
    try:
        remove_ledger(claim.out)
    except LedgerError as kept:
        record.errors.append(JobError.of(kept).fault())
        return False
    except OSError:
        return False
    return True


def _mark(result: TrainResult, claim: Claim) -> None:
    sentences = [] if result.record.status == FINISHED else result.errors or ["The run was interrupted."]
    try:
        claim.mark(sentences)
    except StorageError as error:
        result.stopped_by = result.stopped_by or JobError.of(error)
