"""Writes the results of a train to its output directory."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import TYPE_CHECKING

from branchline.base.whole_files import retried
from branchline.errors import BranchlineError, StorageError
from branchline.jobs.interruption import Interruption
from branchline.jobs.ledger import LEDGER_NAME, LedgerError, remove_ledger
from branchline.records.sensors.record import FINISHED, PARTIAL, JobRecord
from branchline.trains.out_folder.claim import Claim
from branchline.trains.running.result import TrainResult
from branchline.trains.subjobs.share_result import JobError

if TYPE_CHECKING:
    from branchline.records.output import Pictures


def write(result: TrainResult, claim: Claim, pictures: Pictures = "svg", *, wait_s: float = 0.0) -> None:
    """Write results, pictures and records to a directory.

    If a file cannot be written, for example because the disk is full, an error is added to the job. The other files are
    still written, and the results stay in memory.

    Results are more important than the ledger: if the disk is full, the ledger is removed and the results are written
    again. A ledger written by a later version is not removed, and causes another error. If writing still fails for a
    reason that may pass, it is repeated for at most ``wait_s``.

    The first Ctrl-C keeps the files written so far and continues with the records. A second Ctrl-C stops immediately.
    """
    result.out = claim.out
    record = result.record
    status, errors = record.status, list(record.errors)
    error = _write(result, claim, pictures)
    cause = None if error is None else error.__cause__
    # The disk is full, or the user's quota is exhausted.
    is_full = isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)
    if is_full and _removed_ledger(claim, record):
        record.status, record.errors = status, errors
        record.reuse_notes.append("the ledger was removed to make room for the results on a full disk")
        error = _write(result, claim, pictures)
    if error is not None and wait_s:

        def write_again() -> None:
            record.status, record.errors = status, list(errors)
            if (failure := _write(result, claim, pictures)) is not None:
                raise failure

        try:
            retried(claim.out, write_again, wait_s, lambda: record.interrupted)
            error = None
        except BranchlineError as failure:
            error = failure
    if error is not None:
        result.stopped_by = result.stopped_by or JobError.of(error)
    if record.interrupted and record.status == FINISHED:
        record.status = PARTIAL
    sentences = [] if record.status == FINISHED else result.errors or ["The run was interrupted."]
    try:
        claim.mark(sentences)
    except StorageError as failure:
        result.stopped_by = result.stopped_by or JobError.of(failure)


def _write(result: TrainResult, claim: Claim, pictures: Pictures) -> BranchlineError | None:
    """Write all files. Returns the first error, which is also added to the record."""
    record = result.record
    errors_count = len(record.errors)
    interruption = Interruption()
    try:
        with interruption.installed():
            with interruption.held():
                # Imported late, because workers also import this package. Without Arrow, uproot and Jinja, they start a
                # second earlier.
                from branchline.records.diagnosis.job_advice import advise_job
                from branchline.records.output import write_out
                from branchline.records.result_files.job_files import write_job

                # Write a preliminary record. It remains if this process is killed, or interrupted again, before all
                # files are written.
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


def _removed_ledger(claim: Claim, record: JobRecord) -> bool:
    """Remove the ledger. Returns whether it was removed. If it must be kept, an error is added to the record."""
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
