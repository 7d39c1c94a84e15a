"""The user's interface to a submitted train: status, resume and cancel. Also returns the state of any train, given its
directory.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from branchline.base.checks import folder_path
from branchline.base.limits import BATCH_LOOK_INTERVAL_S, BATCH_STATUS_TIMEOUT_S
from branchline.base.trust import user_text
from branchline.errors import BatchError, BranchlineError
from branchline.jobs.batch.system import TaskState, batch_system
from branchline.jobs.fold_tree import FoldNode
from branchline.records.report.troubles import errors_of
from branchline.records.sensors.record import RUNNING
from branchline.records.sensors.status import STOPPED, ElementReads, TrainStatus
from branchline.trains.out_folder.claim import JOBS, SUBMISSION
from branchline.trains.out_folder.state import job_of, status_of
from branchline.trains.subjobs.folding import MergeCosts
from branchline.trains.submitted.submission import JobsRecord, Submission, TrainOutline
from branchline.trains.submitted.submission_folder import BatchFolder
from branchline.trains.submitted.unit_failures import NOT_STARTED, causes_of, failures_of, last_task_of
from branchline.trains.submitted.units import DoneUnits


class SubmittedTrain:
    """A train that was submitted into the output directory ``out``, possibly by another process.

    Raises MissingFileError if no train was submitted into the directory, BadFileError if its files are damaged, and
    OptionError if ``out`` is not a path.

    ::

        train = branchline.run("wagons.py", "data/*.root", "out", on="slurm")
        print(train.status())
        train.wait(timeout_s=3600)
    """

    def __init__(self, out: Path) -> None:
        """Open a submitted train. Raises MissingFileError if no train was submitted into the directory, BadFileError if
        its files are damaged, and OptionError if ``out`` is not a path.
        """
        self.out = Path(folder_path("the directory of a submitted train", out)).absolute()
        self._folder = BatchFolder(self.out)
        self._outline = TrainOutline.read_outline(self._folder)

    def __repr__(self) -> str:
        return f"<SubmittedTrain {self.out}: {self.subjobs_count} sub-jobs>"

    @property
    def tasks_count(self) -> int:
        """Number of tasks in the last submission, including tasks that fold and write results."""
        records = JobsRecord.read_all(self._folder)
        return sum(len(step.tasks) for step in records[-1].steps) if records else 0

    @property
    def subjobs_count(self) -> int:
        """Number of sub-jobs of the train."""
        return self._outline.subjobs_count

    def status(self) -> TrainStatus:
        """Return the status, according to the files in the directory and the batch system.

        If the batch system does not answer within ``BATCH_STATUS_TIMEOUT_S``, ``silence`` has the reason. ``seconds``
        is the time since the submission or, for a finished train, its wall time. Raises BadFileError.

            status = branchline.SubmittedTrain("out").status()
            print(f"{status.done} of {status.subjobs} sub-jobs, {status.events} events")
        """
        end_s = time.monotonic() + BATCH_STATUS_TIMEOUT_S
        tasks, silence = self._tasks(end_s)
        done = DoneUnits.of(self._folder, self._outline)
        units = list(self._outline.tree.nodes(self._outline.unit_stage))
        missing = [unit for unit in units if unit not in done.units]
        at_work = self._units_of(tasks, "running")
        waiting = self._units_of(tasks, "queued", "held")
        for jobs in {id(jobs): jobs for jobs, one in tasks if one.step < 0}.values():
            # The batch system does not list these tasks yet, so the units of all tasks without an exit code count as
            # waiting.
            first = jobs.steps[0]
            waiting |= {
                unit
                for task, units in enumerate(first.tasks)
                if not (self._folder.accounts / f"{first.label}.{task}.exit").exists()
                for unit in units
            }
        at_work |= self._taken({one for one in missing if one not in at_work | waiting}, tasks)
        failed = [] if silence else [one for one in missing if one not in at_work | waiting]
        causes = causes_of(self._folder, self._outline, dict.fromkeys(failed, ""), _left_s(end_s))
        failures = failures_of(self._folder, self._outline, causes, done.subjobs)
        begun = [one for one in failures.values() if one.message not in NOT_STARTED]
        reads = ElementReads()
        for element in (one for summary in done.summaries for one in summary.elements):
            reads.add_element(element)
        elements = reads.all()
        merge_costs = MergeCosts(cost for summary in done.summaries for cost in summary.merge_stages)
        job = job_of(self.out)
        is_at_work = bool(tasks or silence)
        ended = None if is_at_work or job is None or job.status == RUNNING else job.status
        return TrainStatus(
            seconds=job.wall_s if job and ended else time.time() - self._outline.submitted_s,
            events=sum(one.events for one in done.summaries),
            bytes_read=sum(one.bytes_read for one in elements),
            status=RUNNING if is_at_work else ended or STOPPED,
            phase="run" if missing else "merge" if is_at_work else "write",
            subjobs=self.subjobs_count,
            done=len(done.subjobs),
            running=self._count([one for one in missing if one in at_work], done),
            queued=self._count([one for one in missing if one in waiting - at_work], done),
            failed=len(begun),
            not_started=len(failures) - len(begun),
            workers=sum(one.state == "running" for _, one in tasks),
            merge_stages=job.merge_stages if job and ended else merge_costs.stages(),
            causes=dict(Counter(one.cause for one in begun)),
            elements=elements,
            errors=errors_of(job) if job and ended else [],
            started=self._outline.started,
            updated=datetime.now(UTC).isoformat(timespec="seconds"),
            tasks=len(tasks),
            waiting=dict(Counter(one.reason for _, one in tasks if one.state != "running" and one.reason)),
            release=self._release(tasks),
            excluded_nodes=next((list(one.excluded) for one in JobsRecord.read_all(self._folder)[-1:]), []),
            silence=silence,
        )

    def wait(self, timeout_s: float) -> TrainStatus:
        """Wait until no task is waiting or running, and return the status. Raises BranchlineError if this takes longer
        than ``timeout_s`` seconds.
        """
        end_s = time.monotonic() + timeout_s
        while True:
            status = self.status()
            if status.is_over:
                return status
            if time.monotonic() > end_s:
                what = f"the train has not ended after {timeout_s:.0f} s"
                raise BranchlineError(what, path=str(self.out), hint=status.silence or None, retry=True)
            time.sleep(min(BATCH_LOOK_INTERVAL_S, max(0.0, end_s - time.monotonic())))

    def cancel(self) -> None:
        """Cancel all tasks. Finished units are kept, and ``resume`` submits the remaining units.

        Raises BatchError, and UntrustedFileError if another user could have written the list of jobs.
        """
        for jobs in JobsRecord.read_all(self._folder, trusted=True):
            batch_system(self._outline.system).cancel(jobs.submitted)

    def resume(self) -> int:
        """Submit the missing sub-jobs again and return their number. Returns 0 if the results are complete and written.

        Raises WagonError if the wagons' files have changed, BranchlineError while tasks are waiting or running,
        BatchError, and UntrustedFileError if another user submitted the train.
        """
        from branchline.trains.submitted.resume import resume

        return resume(self._folder, Submission.read(self._folder))

    def _tasks(self, end_s: float) -> tuple[list[tuple[JobsRecord, TaskState]], str]:
        """Return the tasks that have not ended, and an empty text. If the tasks are unknown, the text is the reason:
        the batch system does not answer, or the train belongs to a different user.
        """
        owner, job = self._folder.outline.stat().st_uid, job_of(self.out)
        if owner != os.geteuid():
            has_ended = job is not None and job.status != RUNNING
            return [], "" if has_ended else f"the state of its jobs is only known to {user_text(owner)}"
        system = batch_system(self._outline.system)
        try:
            return [
                (jobs, one)
                for jobs in JobsRecord.read_all(self._folder)
                for one in system.states(jobs.submitted, _left_s(end_s))
            ], ""
        except BatchError as error:
            return [], f"the batch system did not answer: {error}"

    def _release(self, tasks: list[tuple[JobsRecord, TaskState]]) -> str:
        """Return the command that releases the held tasks; empty if there are none."""
        held: dict[int, tuple[JobsRecord, list[TaskState]]] = {}
        for jobs, one in tasks:
            if one.state == "held":
                held.setdefault(jobs.number, (jobs, []))[1].append(one)
        system = batch_system(self._outline.system)
        return "; ".join(system.release_command(jobs.submitted, some) for jobs, some in held.values())

    def _units_of(self, tasks: list[tuple[JobsRecord, TaskState]], *states: str) -> set[FoldNode]:
        found: set[FoldNode] = set()
        for jobs, one in tasks:
            if one.state in states and 0 <= one.step < len(jobs.steps) and one.task < len(jobs.steps[one.step].tasks):
                found.update(jobs.steps[one.step].tasks[one.task])
        return found

    def _taken(self, units: set[FoldNode], tasks: list[tuple[JobsRecord, TaskState]]) -> set[FoldNode]:
        """Return the units that running tasks have taken from other tasks."""
        found: set[FoldNode] = set()
        for jobs in {id(jobs): jobs for jobs, _ in tasks}.values():
            running = {one.task for other, one in tasks if other is jobs and (one.step, one.state) == (0, "running")}
            step = jobs.steps[0]
            for owner, nodes in enumerate(step.tasks):
                own = units.intersection(nodes)
                found |= {unit for unit in own if last_task_of(self._folder, step, unit, owner) in running}
        return found

    def _count(self, units: list[FoldNode], done: DoneUnits) -> int:
        tree = self._outline.tree
        return sum(index not in done.subjobs for unit in units for index in tree.shares_of(unit))


def _left_s(end_s: float) -> float:
    return max(0.1, end_s - time.monotonic())


def state_of(out: Path) -> TrainStatus | None:
    """Return the state of the train in a directory; None if the directory has no train. Raises BadFileError if the
    files of a submitted train are damaged.
    """
    if (out / JOBS / SUBMISSION).is_file():
        return SubmittedTrain(out).status()
    return status_of(out)
