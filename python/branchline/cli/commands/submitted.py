"""`branchline status` for all runs, and `resume` and `cancel` for submitted trains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from branchline.base.exit_codes import EXIT_INCOMPLETE, EXIT_OK
from branchline.base.quantities import counted
from branchline.base.trust import trust_users
from branchline.cli.options import TrustUser
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import print_json, print_out
from branchline.errors import MissingFileError
from branchline.records.sensors.record import RUNNING

if TYPE_CHECKING:
    from branchline.records.sensors.status import TrainStatus
    from branchline.trains.submitted.handle import SubmittedTrain

Out = Annotated[Path, Argument(metavar="OUT", help="Results directory of the submitted train.")]


def status(
    out: Annotated[Path, Argument(metavar="OUT", help="Directory with the results of a run.")],
    as_json: Annotated[bool, Option("--json", help="Print the state as JSON.")] = False,
    follow: Annotated[bool, Option("--follow", "-f", help="Show the progress until the run ends.")] = False,
) -> int:
    """Print the state of a run on any machine; the exit code is 3 if sub-jobs failed or results are missing.

    Examples:
        See how many sub-jobs are queued, running, done and failed:
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
        hint = "give the directory that was passed to branchline run -o"
        raise MissingFileError("no record of a run in this directory", path=str(out), hint=hint)
    return found


def _follow(out: Path) -> TrainStatus:
    """Show the progress until the train ends, its process stops updating the state, or the user presses Ctrl-C.

    Returns the last state.
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
                # Times in the state are not compared with this clock, because the clocks of the machines may differ.
                changed_s = changed_s if found.updated == before.updated else time.monotonic()
        except KeyboardInterrupt:
            pass
    return found


def resume(out: Out, trust_user: TrustUser = None) -> int:
    """Resubmit the missing sub-jobs of a train. Refuses if its wagons have changed.

    Examples:
        Resubmit failed sub-jobs:
            branchline resume out

    """
    trust_users(trust_user or ())
    count = _train(out).resume()
    print_out(f"resubmitted: {counted(count, 'sub-job')}" if count else _nothing_missing(out))
    return EXIT_OK


def _nothing_missing(out: Path) -> str:
    from branchline.records.result_files.job_files import read_status
    from branchline.records.sensors.record import FINISHED

    if read_status(out) == FINISHED:
        return "no sub-job is missing, and the results are written"
    return "no sub-job is missing; the job that writes the results was resubmitted"


def cancel(out: Out, trust_user: TrustUser = None) -> int:
    """Cancel all jobs of a submitted train. Finished sub-jobs are kept, and `branchline resume` submits the others.

    Examples:
        Cancel all jobs of a train:
            branchline cancel out

    """
    trust_users(trust_user or ())
    _train(out).cancel()
    print_out(f"cancelled all jobs; continue with: branchline resume {out}")
    return EXIT_OK


def _train(out: Path) -> SubmittedTrain:
    from branchline.trains.submitted.handle import SubmittedTrain

    return SubmittedTrain(out)


def print_submitted(train: SubmittedTrain, out: Path) -> None:
    """Print what was submitted, and the command that shows the state of the train."""
    print_out(f"submitted: {counted(train.subjobs_count, 'sub-job')} in {counted(train.tasks_count, 'task')}")
    print_out(f"see its state with: branchline status {out}")
