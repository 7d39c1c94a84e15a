"""`branchline run` and `branchline test`: a train over a dataset, and what it would take."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from branchline.cli.failure import say, say_stopping, tell, told
from branchline.cli.options import Argument, Option
from branchline.cli.reading_options import Reading, with_reading_options
from branchline.limits import WORKER_TIMEOUT_S

if TYPE_CHECKING:
    from branchline.train import TrainResult

Wagons = Annotated[Path, Argument(help="Python file with the wagons.")]
Data = Annotated[
    list[str], Argument(help="Files, patterns, directories, lists of files (.txt), FILE:TREE, filesets (.json).")
]
TreeName = Annotated[str | None, Option("--tree", help="Tree of the files that do not name one.")]
Companions = Annotated[
    list[str] | None,
    Option("--companion", help='File beside each file: "Kinematics.root", or NAME=FILE:Event{entry}/TREE.'),
]
Workers = Annotated[int | None, Option("--workers", "-j", min=1, help="Processes; all cores by default.")]
StepSize = Annotated[str, Option("--step-size", help='Size of a chunk: "100 MB" or a number of entries.')]
MemoryLimit = Annotated[str, Option("--memory-limit", help="What the reading of one worker may hold.")]
Debug = Annotated[bool, Option("--debug", help="Show the traceback of an error.")]


@with_reading_options
def run(
    wagons: Wagons,
    dataset: Data,
    out: Annotated[Path, Option("--output", "-o", help="Directory for results, made by this run.")],
    workers: Workers = None,
    tree: TreeName = None,
    companion: Companions = None,
    branches: Annotated[
        str | None, Option("--branches", help="Branches to read at once, with commas between them.")
    ] = None,
    step_size: StepSize = "100 MB",
    memory_limit: MemoryLimit = "1 GiB",
    *,
    access: Reading,
    skip_bad_files: Annotated[
        bool, Option("--skip-bad-files", help="Go on without files that cannot be read, and list them.")
    ] = False,
    worker_timeout: Annotated[
        int, Option("--worker-timeout", min=0, help="Seconds after which a silent worker is ended; 0: never.")
    ] = WORKER_TIMEOUT_S,
    force: Annotated[bool, Option("--force", help="Replace the results of an earlier run in the directory.")] = False,
    debug: Debug = False,
) -> None:
    """Runs a train: every wagon over the dataset, which is read once."""
    # Only who runs a train waits for all that it takes to be imported.
    from branchline.cli.progress_bar import progress_bar
    from branchline.locations import shown_command
    from branchline.running import run_quietly

    with told(debug=debug):
        with progress_bar() as progress:
            result = run_quietly(
                str(wagons),
                dataset,
                out,
                workers=workers,
                tree=tree,
                companions=companion,
                branches=branches.split(",") if branches else None,
                step_size=_step(step_size),
                memory_limit=memory_limit,
                access=access(),
                skip_bad_files=skip_bad_files,
                worker_timeout=worker_timeout,
                force=force,
                progress=progress,
                command=shown_command(["branchline", *sys.argv[1:]]),
                stopping=say_stopping,
            )
        with told(debug=debug):
            _summarise(result, debug=debug)
        raise SystemExit(result.exit_code)


def _step(text: str) -> int | str:
    return int(text) if text.strip().isdigit() else text


def _summarise(result: TrainResult, *, debug: bool) -> None:
    """What went wrong, what was done, why it took so long, where to look."""
    from branchline.report.summary import summary
    from branchline.train.exit_codes import EXIT_INTERRUPTED

    job = result.job
    if debug:
        tracebacks = [error["traceback"] for error in job["errors"]]
        tracebacks += [wagon["error"]["traceback"] for wagon in job["wagons"] if wagon["error"]]
        tell("\n".join(tracebacks), err=True)
    for sentence in result.errors:
        say(sentence)
    if result.exit_code == EXIT_INTERRUPTED:
        say("interrupted; what was finished is kept and marked as partial")
    for line in summary(job):
        tell(line)
    if result.out is not None:
        tell(f"look at {result.out / 'report.html'}")


@with_reading_options
def try_wagons(
    wagons: Wagons,
    dataset: Data,
    workers: Workers = None,
    tree: TreeName = None,
    companion: Companions = None,
    step_size: StepSize = "100 MB",
    memory_limit: MemoryLimit = "1 GiB",
    *,
    access: Reading,
    debug: Debug = False,
) -> None:
    """Tries every wagon alone on a few chunks and forecasts the whole train; exit code 3 if a wagon fails."""
    from branchline.cli.tables import print_forecast
    from branchline.cli.terminal import output
    from branchline.train import forecast
    from branchline.train.exit_codes import EXIT_INCOMPLETE

    with told(debug=debug):
        outcome = forecast(
            str(wagons),
            dataset,
            workers=workers,
            tree=tree,
            companions=companion,
            step_size=_step(step_size),
            memory_limit=memory_limit,
            access=access(),
        )
        print_forecast(outcome, output())
        if debug:
            tell("\n".join(wagon.error.traceback for wagon in outcome.wagons if wagon.error), err=True)
        raise SystemExit(EXIT_INCOMPLETE if outcome.failed else 0)
