"""`branchline status`, `resume` and `cancel`, and the options of `branchline run` for batch systems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from branchline.base.exit_codes import EXIT_INCOMPLETE, EXIT_OK
from branchline.base.limits import BATCH_RETRIES
from branchline.base.quantities import counted
from branchline.base.trust import trust_users
from branchline.cli.commands.report import ReportTo
from branchline.cli.options import TrustUser
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_json, print_out
from branchline.errors import MissingFileError
from branchline.records.sensors.record import RUNNING

if TYPE_CHECKING:
    from branchline.records.sensors.status import TrainStatus
    from branchline.trains.out_folder.live_report import ReportsTo
    from branchline.trains.out_folder.run_settings import BatchSettings
    from branchline.trains.submitted.handle import SubmittedTrain

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
            help="Option that the batch system gets unchanged, as --batch-option=--partition=long; may be repeated.",
            group=_GROUP,
        ),
    ] = None

    retries: Annotated[
        int,
        Option(
            "--retries",
            minimum=0,
            metavar="N",
            help="How often the last batch job submits sub-jobs without a result again.",
            group=_GROUP,
        ),
    ] = BATCH_RETRIES

    report_to: ReportTo = None
    trust_user: TrustUser = None

    @property
    def is_batch_system(self) -> bool:
        """Whether the train is submitted."""
        from branchline.jobs.batch.system import is_batch_system

        return is_batch_system(self.on)

    def settings(self) -> BatchSettings:
        """For a train that is submitted. Raises OptionError."""
        from branchline.trains.out_folder.run_settings import BatchSettings

        return BatchSettings(tasks=self.tasks, options=tuple(self.batch_option or ()), retries=self.retries)

    def reports(self) -> ReportsTo | None:
        """The control room that the train reports to. Raises OptionError."""
        from branchline.trains.out_folder.live_report import ReportsTo

        return ReportsTo.of(self.report_to, log, log)


Out = Annotated[Path, Argument(metavar="OUT", help="Directory into which the train was submitted.")]


def status(
    out: Annotated[Path, Argument(metavar="OUT", help="Directory with the results of a run.")],
    as_json: Annotated[bool, Option("--json", help="Print the state as JSON.")] = False,
    follow: Annotated[bool, Option("--follow", "-f", help="Show the progress until the run ends.")] = False,
) -> int:
    """Prints the state of a run, on any place; the exit code is 3 if sub-jobs failed or results are missing.

    Examples:
        See how many sub-jobs wait, run, are done and failed:
            branchline status out
        Watch a train that runs elsewhere:
            branchline status out --follow

    """
    from branchline.trains.out_folder.state import status_lines

    found = _follow(out) if follow else _status(out)
    if as_json:
        print_json(found.as_dict())
    else:
        for line in status_lines(found, out):
            print_out(line)
    return EXIT_OK if found.is_good else EXIT_INCOMPLETE


def _status(out: Path) -> TrainStatus:
    from branchline.trains.submitted.handle import state_of

    found = state_of(out)
    if found is None:
        hint = "name the directory that was given to branchline run -o"
        raise MissingFileError("there is no record of a run in this directory", path=str(out), hint=hint)
    return found


def _follow(out: Path) -> TrainStatus:
    """Shows the progress until the train ends, or its process writes no state any more, or Ctrl-C; gives the last
    state.
    """
    import time

    from branchline.base.limits import BATCH_LOOK_INTERVAL_S, STATUS_OLD_S
    from branchline.cli.progress_bar import train_progress_bar

    found, changed_s = _status(out), time.monotonic()
    with train_progress_bar() as progress:
        try:
            while found.status == RUNNING and time.monotonic() - changed_s < STATUS_OLD_S:
                if progress is not None:
                    progress(found)
                time.sleep(BATCH_LOOK_INTERVAL_S)
                before, found = found, _status(out)
                # The clock of another machine may differ: only whether it goes on counts.
                changed_s = changed_s if found.updated == before.updated else time.monotonic()
        except KeyboardInterrupt:
            pass
    return found


def resume(out: Out, trust_user: TrustUser = None) -> int:
    """Submits the missing sub-jobs of a train again, and no others. Refuses if its wagons have changed.

    Examples:
        Submit failed sub-jobs again:
            branchline resume out

    """
    trust_users(trust_user or ())
    count = _train(out).resume()
    print_out(f"submitted again: {counted(count, 'sub-job')}" if count else _nothing_missing(out))
    return EXIT_OK


def _nothing_missing(out: Path) -> str:
    from branchline.records.result_files.job_files import read_status
    from branchline.records.sensors.record import FINISHED

    if read_status(out) == FINISHED:
        return "no sub-job is missing, and the results are written"
    return "no sub-job is missing; the job that writes the results was submitted again"


def cancel(out: Out, trust_user: TrustUser = None) -> int:
    """Ends all jobs of a submitted train. Finished sub-jobs are kept, and `branchline resume` submits the others.

    Examples:
        End all jobs of a train:
            branchline cancel out

    """
    trust_users(trust_user or ())
    _train(out).cancel()
    print_out(f"its jobs are cancelled; continue with: branchline resume {out}")
    return EXIT_OK


def _train(out: Path) -> SubmittedTrain:
    from branchline.trains.submitted.handle import SubmittedTrain

    return SubmittedTrain(out)


def print_submitted(train: SubmittedTrain, out: Path) -> None:
    """Prints what was submitted, and the command that shows its state."""
    print_out(f"submitted: {counted(train.subjobs_count, 'sub-job')} in {counted(train.tasks_count, 'task')}")
    print_out(f"see its state with: branchline status {out}")
