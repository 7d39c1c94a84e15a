"""`branchline run` runs a train over a dataset; `branchline test` forecasts the cost of a train."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from branchline.base.exit_codes import EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_OK
from branchline.base.limits import CUTFLOWS_PRINTED_MAX
from branchline.base.quantities import counted
from branchline.base.trust import trust_users
from branchline.cli.commands.submitted import print_submitted
from branchline.cli.options import ReadingSettings, TrustUser, WagonValues, requests_recorded
from branchline.cli.parameters import GENERAL, Argument, Option, option_like
from branchline.cli.printing import log, log_stopping, print_block_out, print_out, print_traceback
from branchline.trains.run_options import BatchSettings, RunOptions, entries_or_bytes

if TYPE_CHECKING:
    from branchline.trains.plan import TrainRequest
    from branchline.trains.running.result import TrainResult

Wagons = Annotated[
    Path,
    Argument(
        metavar="WAGONS.py",
        help="Python file with the wagons: all classes with process(events). FILE.py:NAME,NAME selects some by name, "
        "which may also be functions of events.",
    ),
]
Data = Annotated[
    list[str],
    Argument(
        metavar="DATA...",
        help="Files, patterns, directories, lists of files (.txt, .meta4), FILE:TREE, lists of datasets (.toml, "
        ".json), names in Rucio (rucio:SCOPE:NAME[:TREE]).",
    ),
]
Companions = Annotated[list[str] | None, option_like(RunOptions, "companions")]
Joins = Annotated[list[str] | None, option_like(RunOptions, "join")]
Debug = Annotated[bool, Option("--debug", help="Print the traceback of every error.", group=GENERAL)]


def run(
    wagons: Wagons,
    dataset: Data,
    out: Annotated[Path, Option("--output", "-o", metavar="OUT", help="Directory to write the results to.")],
    options: RunOptions,
    batch: BatchSettings,
    reading: ReadingSettings,
    parameters: WagonValues,
    trust_user: TrustUser = None,
    debug: Debug = False,
) -> int:
    """Run a train: every wagon over the dataset, which is read once.

    Examples:
        Run the wagons of a file over all files of a folder:
            branchline run wagons.py data/*.root -o out
        Read files of a remote server with four processes:
            branchline run wagons.py 'root://server.example//store/data/*.root' -o out -j 4
        Run on the workers of a Dask cluster:
            branchline run wagons.py data/*.root -o out --on dask=tcp://host:8786
        Try another cut on the first 1000 events of each dataset:
            branchline run wagons.py samples.toml -o out --set spectrum.pt_min=20 --max-events 1000
        Read the collisions in all folders of an AO2D file, each with its tracks:
            branchline run wagons.py "AO2D.root:DF_*/O2collision" -o out --join "Tracks=O2track_iu by fIndexCollisions"
        Submit to Slurm; later, branchline status out shows its state:
            branchline run wagons.py data/*.root -o out --on slurm --batch-option=--partition=long

    """
    # Imported here since it imports awkward. The fork server loads awkward at the same time.
    from branchline.trains.preload import load_ahead

    if options.starts_processes:
        load_ahead()
    from branchline.reading.locations import shown_command
    from branchline.trains.plan import TrainRequest

    chosen = replace(
        options,
        access=reading.access,
        parameters=parameters.checked(),
        command=shown_command(["branchline", *sys.argv[1:]]),
    )
    trust_users(trust_user or ())
    request = TrainRequest(str(wagons), dataset, chosen, reading.is_traced)
    return _carried_out(request, out, batch, reading, debug=debug)


def _carried_out(
    request: TrainRequest, out: Path, batch: BatchSettings, reading: ReadingSettings, *, debug: bool
) -> int:
    """Submit a train, or run it with a progress bar; return the exit code."""
    # Imported here since it imports awkward.
    from branchline.cli.progress_bar import located_progress_bar, train_progress_bar
    from branchline.trains.out_folder.live_report import ReportsTo
    from branchline.trains.run import run_quietly, submit_train

    reports = ReportsTo.of(request.options.report_to, log, log)
    if request.options.is_submitted:
        with located_progress_bar():
            submitted = submit_train(request, out, batch, reports=reports)
        print_submitted(submitted, out)
        return EXIT_OK
    with requests_recorded(reading.trace_to), train_progress_bar() as progress:
        result = run_quietly(request, out, progress=progress, stopping=log_stopping, reports=reports)
    _print_result(result, debug=debug)
    return result.exit_code


def _print_result(result: TrainResult, *, debug: bool) -> None:
    """Print a train's errors, the job summary, and the path of the report."""
    from branchline.records.diagnosis.job_advice import advise_job
    from branchline.records.report.job_summary import summary
    from branchline.trains.sums.cutflow import cutflows_in

    job = result.record
    if debug:
        tracebacks = [error.traceback or "" for error in job.errors]
        tracebacks += [wagon.error.traceback for wagon in job.wagons if wagon.error]
        print_traceback("\n".join(tracebacks))
    for sentence in result.errors:
        log(sentence)
    if result.exit_code == EXIT_INTERRUPTED:
        log("interrupted; results of finished parts are kept and marked as partial")
    flows = list(cutflows_in(result.outputs, "cutflow"))
    for name, flow in flows[:CUTFLOWS_PRINTED_MAX]:
        print_out(f"{name}: events, weights")
        print_block_out(textwrap.indent(str(flow), "  "))
    if len(flows) > CUTFLOWS_PRINTED_MAX:
        more = counted(len(flows) - CUTFLOWS_PRINTED_MAX, "more cutflow")
        where = f": see the report or branchline.load({str(result.out)!r})" if result.out else ""
        print_out(f"{more}{where}")
    for line in summary(job, advise_job(job)):
        print_out(line)
    if result.out is not None:
        page = result.out / "report.html"
        print_out(f"results: {page if page in result.written else result.out}")


def try_wagons(
    wagons: Wagons,
    dataset: Data,
    reading: ReadingSettings,
    parameters: WagonValues,
    tree: Annotated[str | None, option_like(RunOptions, "tree")] = None,
    companion: Companions = None,
    join: Joins = None,
    workers: Annotated[int | None, option_like(RunOptions, "workers")] = None,
    step_size: Annotated[str | None, option_like(RunOptions, "step_size")] = None,
    memory_limit: Annotated[str, option_like(RunOptions, "memory_limit")] = "1 GiB",
    debug: Debug = False,
) -> int:
    """Try every wagon separately on a few chunks and forecast the whole train; the exit code is 3 if a wagon fails.

    Examples:
        See how long a run would take:
            branchline test wagons.py data/*.root

    """
    # Imported here since it imports awkward.
    from branchline.cli.progress_bar import located_progress_bar
    from branchline.cli.tables.forecast_tables import print_forecast
    from branchline.cli.tables.terminal import console
    from branchline.trains.testing.cost_forecast import forecast

    with requests_recorded(reading.trace_to), located_progress_bar():
        outcome = forecast(
            str(wagons),
            dataset,
            workers=workers,
            tree=tree,
            companions=companion,
            join=join,
            step_size=entries_or_bytes(step_size),
            memory_limit=memory_limit,
            access=reading.access,
            parameters=parameters.checked(),
        )
    print_forecast(outcome, console())
    if debug:
        print_traceback("\n".join(wagon.error.traceback for wagon in outcome.wagons if wagon.error))
    return EXIT_INCOMPLETE if outcome.failed else EXIT_OK
