"""Submits the missing units of a train again."""

from __future__ import annotations

from branchline.batch import batch_system
from branchline.errors import BranchlineError, WagonError
from branchline.report.job_files import read_status
from branchline.running.submitted.done import DoneUnits
from branchline.running.submitted.folder import BatchFolder
from branchline.running.submitted.retrying import bad_nodes, save_memory
from branchline.running.submitted.submission import JobsRecord, Submission
from branchline.running.submitted.submitting import send
from branchline.sensors import FINISHED


def resume(folder: BatchFolder, submission: Submission) -> int:
    """As `SubmittedTrain.resume`."""
    changed = submission.sources.changed()
    if changed:
        raise WagonError(
            f"{', '.join(changed)} changed since the train was submitted, and its results are of the code before",
            path=changed[0],
            hint="bring the file back as it was, or submit a new train",
        )
    system = batch_system(submission.system)
    alive = [one for jobs in JobsRecord.read_all(folder) for one in system.states(jobs.submitted)]
    if alive:
        what = f"{len(alive)} tasks of this train wait or run"
        raise BranchlineError(what, path=str(folder.out), hint="wait for them, or branchline cancel", retry=True)
    done = DoneUnits.of(folder, submission).units
    missing = [unit for unit in submission.tree.nodes(submission.unit_stage) if unit not in done]
    if not missing and read_status(folder.out) == FINISHED:
        return 0
    save_memory(folder, submission, missing)
    for unit in missing:
        # No task is alive. A damaged result would keep a new one from being written.
        for path in (folder.failed(unit), folder.lease(unit), folder.result(unit)):
            path.unlink(missing_ok=True)
    send(folder, submission, bad_nodes(folder))
    return sum(len(submission.tree.shares_of(unit)) for unit in missing)
