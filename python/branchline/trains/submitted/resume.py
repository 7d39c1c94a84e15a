"""Submits the missing units of a train again, at the request of the user or of the train's last job.

On batch systems whose machines cannot submit jobs, ``python -m branchline.trains.submitted.resume OUT STEP`` runs after
the last step, on the machine from which the train was submitted. If it cannot submit, it exits with 1; the last step
then runs once more and writes the available results.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

from branchline.base.exit_codes import EXIT_ERROR, EXIT_OK, exit_with
from branchline.errors import BranchlineError, WagonError
from branchline.jobs.batch.system import batch_system
from branchline.jobs.fold_tree import FoldNode
from branchline.records.result_files.job_files import read_status
from branchline.records.sensors.record import FINISHED
from branchline.trains.submitted.submission import JobsRecord, Submission
from branchline.trains.submitted.submission_folder import BatchFolder, log
from branchline.trains.submitted.submit import send
from branchline.trains.submitted.unit_failures import (
    bad_nodes,
    causes_of,
    deaths_of,
    failures_of,
    memory_to_request,
    save_memory,
)
from branchline.trains.submitted.units import DoneUnits, UnitFailure, subjob_nodes


def resume(folder: BatchFolder, submission: Submission) -> int:
    """Submit missing sub-jobs again. For details and errors, see `SubmittedTrain.resume`."""
    changed = submission.sources.changed()
    if changed:
        raise WagonError(
            f"{', '.join(changed)} changed since the train was submitted, and its results are from the old code",
            path=changed[0],
            hint="restore the file, or submit a new train",
        )
    system = batch_system(submission.system)
    alive = [one for jobs in JobsRecord.read_all(folder) for one in system.states(jobs.submitted)]
    if alive:
        what = f"{len(alive)} tasks of this train are waiting or running"
        raise BranchlineError(what, path=str(folder.out), hint="wait for them, or run branchline cancel", retry=True)
    done = DoneUnits.of(folder, submission).units
    missing = [unit for unit in submission.tree.nodes(submission.unit_stage) if unit not in done]
    if not missing and read_status(folder.out) == FINISHED:
        return 0
    return _send_again(folder, submission, missing, retry=0)


def to_retry(folder: BatchFolder, submission: Submission) -> list[FoldNode]:
    """Return the units to retry automatically after all other tasks have ended.

    Empty if all retries of the submission have been used. From the second retry on, and if no unit has a result, units
    that failed with an error are left out, because they would fail on any machine. Units whose task died are still
    retried.
    """
    before = _retries_so_far(folder)
    if before >= submission.retries:
        return []
    done = DoneUnits.of(folder, submission).units
    missing = [unit for unit in submission.tree.nodes(submission.unit_stage) if unit not in done]
    if before or not done:
        missing = [unit for unit in missing if UnitFailure.read(folder.failed(unit)) is None]
    return missing


def retry(folder: BatchFolder, submission: Submission, units: list[FoldNode]) -> int:
    """Submit the units returned by ``to_retry`` again, and return the number of their sub-jobs.

    Raises StorageError, and BatchError if this machine cannot submit.
    """
    return _send_again(folder, submission, units, retry=_retries_so_far(folder) + 1)


def _retries_so_far(folder: BatchFolder) -> int:
    return max((one.retry for one in JobsRecord.read_all(folder)[-1:]), default=0)


def _send_again(folder: BatchFolder, submission: Submission, missing: list[FoldNode], *, retry: int) -> int:
    causes = causes_of(folder, submission, dict.fromkeys(missing, ""))
    done = DoneUnits.of(folder, submission).subjobs
    counts = Counter(one.message for one in failures_of(folder, submission, causes, done).values())
    deaths = deaths_of(folder, submission, missing)
    memory = memory_to_request(folder, submission, deaths)
    save_memory(folder, deaths)
    for unit in missing:
        # No task is running, so these files are stale. A damaged result would prevent a new result from being written.
        stale = (folder.failed(unit), folder.lease(unit), folder.taken(unit))
        for path in (*stale, folder.result(unit)):
            path.unlink(missing_ok=True)
        for node in subjob_nodes(submission.tree, unit):
            folder.failed(node).unlink(missing_ok=True)
    send(folder, submission, bad_nodes(folder), retry, counts, memory)
    return counts.total()


def main(words: list[str]) -> int:
    """Submit missing units again, and return the exit code. Does nothing if this failed before after the same step."""
    out, label = words
    folder = BatchFolder(Path(out))
    if folder.retry_refused(label).exists():
        return EXIT_OK  # This failed before, so the step has run again and has written the available results.
    try:
        submission = Submission.read(folder)
        units = to_retry(folder, submission)
        if units:
            log(f"submitted again: {retry(folder, submission, units)} sub-jobs")
    except BranchlineError as error:
        log(f"error: {error}")
        with suppress(OSError):
            folder.retry_refused(label).write_text(f"{error}\n", encoding="utf-8")
        return EXIT_ERROR
    return EXIT_OK


if __name__ == "__main__":
    exit_with(main(sys.argv[1:]))
