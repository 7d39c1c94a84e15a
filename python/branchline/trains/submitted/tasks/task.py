"""Runs a task, as ``python -m branchline.trains.submitted.tasks.task OUT STEP TASK``.

A task that has finished its units takes units of other tasks of its step. The exit code is 0 if no unit failed.
Otherwise it is an exit code of `branchline run`.
"""

from __future__ import annotations

import os
import sys
import uuid
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from branchline.base.exit_codes import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_OK, exit_with
from branchline.errors import BranchlineError
from branchline.jobs.batch.system import batch_system
from branchline.jobs.interruption import Interruption
from branchline.jobs.package_versions import require_versions
from branchline.records.sensors.this_process import host
from branchline.trains.submitted.finish import finish, is_good, merge
from branchline.trains.submitted.reports import reports_of_job
from branchline.trains.submitted.resume import retry, to_retry
from branchline.trains.submitted.submission import StepRecord, Submission
from branchline.trains.submitted.submission_folder import BatchFolder, log
from branchline.trains.submitted.tasks.leases import Holder, Leases
from branchline.trains.submitted.tasks.other_units import OtherUnits
from branchline.trains.submitted.tasks.task_work import UnitWorker


def main(words: list[str]) -> int:
    """Run a task, and return the exit code."""
    out, label, task = words
    folder = BatchFolder(Path(out))
    name = f"{label}.{task}"
    log(f"task {name} on {host()}, process {os.getpid()}")
    try:
        submission = folder.retried(lambda: Submission.read(folder))
        # Paths in the dataset may be relative to the directory from which the train was submitted.
        with suppress(OSError):
            os.chdir(submission.directory)
        step = StepRecord.read(folder, label)
        nodes = step.tasks[int(task)]
        if not nodes:
            return _finish(folder, submission, label)
        if nodes[0].stage > submission.unit_stage:
            # Check versions here too, because sums may depend on them. A later task folds the nodes that this task
            # cannot fold.
            require_versions(submission.code.packages, host())
            for node in nodes:
                is_folded = folder.retried(partial(merge, folder, submission, node))
                log(f"{node}: {'folded' if is_folded else 'not folded'}")
            return EXIT_OK
        holder = Holder(name, uuid.uuid4().hex, host(), os.getpid())
        clock = folder.accounts / f"{name}.{holder.attempt}"
        folder.retried(lambda: clock.write_text(f"{holder.host} {holder.process}\n"))
        interruption = Interruption()
        reports = reports_of_job(submission.reports, folder, f"{name}.{holder.attempt}")
        with interruption.installed(), reports as train, closing(Leases(holder, clock)) as leases:
            log_file = folder.logs / f"{name}.log"
            others = OtherUnits(folder, step, leases.attempt)
            worker = UnitWorker(folder, submission, leases, name, log_file, train.read, train.told, others)
            worker.work(nodes, interruption)
            if not worker.done and not worker.failed:
                with suppress(OSError):  # otherwise, this node counts as good
                    folder.idle(name).touch()
    except BranchlineError as error:
        log(f"error: {error}")
        return EXIT_ERROR
    if interruption.asked:
        log("interrupted by a signal")
        return EXIT_INTERRUPTED
    return EXIT_ERROR if worker.failed else EXIT_OK


def _finish(folder: BatchFolder, submission: Submission, label: str) -> int:
    if _is_sent_again(folder, submission, label):
        return EXIT_OK
    with reports_of_job(submission.reports, folder, f"{label}.{uuid.uuid4().hex}") as train:
        result = folder.retried(lambda: finish(folder, submission))
        train.end(result.record)
    for sentence in result.errors:
        log(sentence)
    log(f"{result.record.status}: {result.record.events} events")
    return EXIT_OK if is_good(result) else result.exit_code or EXIT_ERROR


def _is_sent_again(folder: BatchFolder, submission: Submission, label: str) -> bool:
    """Return whether missing units are retried. In this case, the jobs of the retry write the results."""
    units = to_retry(folder, submission)
    if not units:
        return False
    try:
        if batch_system(submission.system).can_submit_from_nodes:
            log(f"submitted again: {retry(folder, submission, units)} sub-jobs; the last new job writes the results")
            return True
    except BranchlineError as error:
        log(f"missing sub-jobs cannot be submitted again: {error}")
        return False
    with suppress(OSError):
        refused = folder.retry_refused(label).read_text(encoding="utf-8")
        log(f"missing sub-jobs could not be submitted again: {refused}")
        return False
    log("missing sub-jobs will be submitted again from the machine that submitted the train")
    return True


if __name__ == "__main__":
    exit_with(main(sys.argv[1:]))
