"""`branchline status`, `resume` and `cancel`, and the options of `branchline run` for batch systems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import print_out
from branchline.quantities import counted
from branchline.train.exit_codes import EXIT_INCOMPLETE, EXIT_OK

if TYPE_CHECKING:
    from branchline.running.batch_settings import BatchSettings
    from branchline.running.submitted import SubmittedTrain
    from branchline.running.submitted.handle import TrainStatus

_GROUP = "Where to run"


class Farm(NamedTuple):
    """The place of a train that does not run on this machine."""

    on: Annotated[
        str | None,
        Option(
            "--on",
            metavar="WHERE",
            help="dask=tcp://host:8786: on these workers; slurm, htcondor: submit, and return at once.",
            group=_GROUP,
        ),
    ] = None
    tasks: Annotated[
        int | None,
        Option("--tasks", minimum=1, help="Number of batch jobs that read (default: by the size).", group=_GROUP),
    ] = None
    batch_option: Annotated[
        list[str] | None,
        Option(
            "--batch-option",
            metavar="OPTION",
            help="For the batch system as it is, as --batch-option=--partition=long; may be repeated.",
            group=_GROUP,
        ),
    ] = None

    @property
    def is_batch_system(self) -> bool:
        """Whether the train is submitted."""
        from branchline.batch import is_batch_system

        return is_batch_system(self.on)

    def settings(self) -> BatchSettings:
        """For a train that is submitted. Raises OptionError."""
        from branchline.running.batch_settings import BatchSettings

        return BatchSettings(tasks=self.tasks, options=tuple(self.batch_option or ()))


Out = Annotated[Path, Argument(metavar="OUT", help="Directory into which the train was submitted.")]


def status(out: Annotated[Path, Argument(metavar="OUT", help="Directory with the results of a run.")]) -> int:
    """Prints the state of a run, on any place; the exit code is 3 if sub-jobs failed or results are missing.

    Examples:
        See how many sub-jobs wait, run, are done and failed:
            branchline status out

    """
    from branchline.running.claim import JOBS, SUBMISSION
    from branchline.running.standing import standing_of

    if not (out / JOBS / SUBMISSION).is_file() and (standing := standing_of(out)) is not None:
        for line in standing.lines:
            print_out(line)
        return EXIT_OK if standing.is_good else EXIT_INCOMPLETE
    found = _train(out).status()
    for line in _lines(found, out):
        print_out(line)
    return EXIT_INCOMPLETE if found.failed or found.ended not in (None, "finished") else EXIT_OK


def resume(out: Out) -> int:
    """Submits the missing sub-jobs of a train again, and no others. Refuses if its wagons have changed.

    Examples:
        Submit failed sub-jobs again:
            branchline resume out

    """
    count = _train(out).resume()
    print_out(f"submitted again: {counted(count, 'sub-job')}" if count else _nothing_missing(out))
    return EXIT_OK


def _nothing_missing(out: Path) -> str:
    from branchline.report.job_files import read_status
    from branchline.sensors import FINISHED

    if read_status(out) == FINISHED:
        return "no sub-job is missing, and the results are written"
    return "no sub-job is missing; the job that writes the results was submitted again"


def cancel(out: Out) -> int:
    """Ends all jobs of a submitted train. Finished sub-jobs are kept, and `branchline resume` submits the others.

    Examples:
        End all jobs of a train:
            branchline cancel out

    """
    _train(out).cancel()
    print_out(f"its jobs are cancelled; continue with: branchline resume {out}")
    return EXIT_OK


def _train(out: Path) -> SubmittedTrain:
    from branchline.running.submitted import SubmittedTrain

    return SubmittedTrain(out)


def print_submitted(train: SubmittedTrain, out: Path) -> None:
    """Prints what was submitted, and the command that shows its state."""
    print_out(f"submitted: {counted(train.subjobs_count, 'sub-job')} in {counted(train.tasks_count, 'task')}")
    print_out(f"see its state with: branchline status {out}")


def _lines(found: TrainStatus, out: Path) -> list[str]:
    counts = {"done": found.done, "running": found.running, "queued": found.queued, "failed": found.failed}
    if found.silence:
        del counts["failed"]
        counts["unknown"] = found.subjobs - found.done
    shown = ", ".join(f"{count} {name}" for name, count in counts.items())
    lines = [f"{counted(found.subjobs, 'sub-job')}: {shown}; {counted(found.events, 'event')} done"]
    lines += [f"the batch system did not answer: {found.silence}"] if found.silence else []
    lines += [f"waiting ({counted(count, 'task')}): {reason}" for reason, count in found.waiting.items()]
    lines += [f"no more tasks run on {node}: every one failed there" for node in found.excluded_nodes]
    lines += [f"failed ({counted(count, 'sub-job')}): {cause}" for cause, count in found.causes.items()]
    if found.ended:
        lines.append(f"the last job ended: {found.ended}, look at {out}")
    elif found.is_over:
        lines.append(f"no job of it waits or runs, and its results were not written: branchline resume {out}")
    return lines
