"""`branchline run` and `branchline test`: runs a train over a dataset, and forecasts its cost."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from branchline.base.exit_codes import EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_OK
from branchline.base.limits import CUTFLOWS_PRINTED_MAX, WORKER_TIMEOUT_S
from branchline.base.quantities import counted
from branchline.base.trust import trust_users
from branchline.cli.commands.submitted import Farm, print_submitted
from branchline.cli.options import FirstOnly, Parameters, ReadingSettings, requests_recorded
from branchline.cli.parameters import GENERAL, Argument, Option
from branchline.cli.printing import log, log_stopping, print_block_out, print_out, print_traceback
from branchline.errors import OptionError

if TYPE_CHECKING:
    from branchline.records.output import Pictures
    from branchline.trains.plan import TrainRequest
    from branchline.trains.running.result import TrainResult

_PACE = "Workers and chunks"

Wagons = Annotated[
    Path,
    Argument(
        metavar="WAGONS.py",
        help="Python file with the wagons: all that have process(events). FILE.py:NAME,NAME are those of these names, "
        "which may be functions of events.",
    ),
]
Data = Annotated[
    list[str],
    Argument(
        metavar="DATA...",
        help="Files, patterns, directories, lists of files (.txt), FILE:TREE, lists of datasets (.toml, .json).",
    ),
]
TreeName = Annotated[str | None, Option("--tree", metavar="NAME", help="Tree of files for which DATA names none.")]
Companions = Annotated[
    list[str] | None,
    Option(
        "--companion",
        metavar="FILE",
        help='A file next to each file: "Kinematics.root", or NAME=FILE:Event{entry}/TREE; may be repeated.',
    ),
]
Workers = Annotated[
    int | None,
    Option("--workers", "-j", minimum=1, help="Number of processes (default: one for each core).", group=_PACE),
]
StepSize = Annotated[
    str | None,
    Option(
        "--step-size",
        metavar="SIZE",
        help='Size of a chunk: a number of entries, or bytes of the branches that are read ("50 MB").',
        group=_PACE,
    ),
]
MemoryLimit = Annotated[
    str, Option("--memory-limit", metavar="SIZE", help="Memory that one worker may use for reading.", group=_PACE)
]
WorkerTimeout = Annotated[
    int,
    Option(
        "--worker-timeout",
        minimum=0,
        metavar="SECONDS",
        help="End a worker that reports nothing for this long; 0: never.",
        group=_PACE,
    ),
]
Branches = Annotated[
    str | None, Option("--branches", metavar="NAMES", help="Branches to read from the start, separated by commas.")
]
Debug = Annotated[bool, Option("--debug", help="Print the traceback of every error.", group=GENERAL)]

NoReuse = Annotated[
    bool,
    Option("--no-reuse", help="Run all sub-jobs, also those with kept results of an earlier run, as --trace does."),
]


class Pace(NamedTuple):
    """The number of workers, and the amount that each reads at a time."""

    workers: Workers = None
    step_size: StepSize = None
    memory_limit: MemoryLimit = "1 GiB"
    worker_timeout: WorkerTimeout = WORKER_TIMEOUT_S


def run(
    wagons: Wagons,
    dataset: Data,
    out: Annotated[Path, Option("--output", "-o", metavar="OUT", help="Directory to write the results to.")],
    reading: ReadingSettings,
    pace: Pace,
    farm: Farm,
    parameters: Parameters,
    first: FirstOnly,
    force: Annotated[bool, Option("--force", help="Replace the results of an earlier run in OUT.")] = False,
    no_reuse: NoReuse = False,
    tree: TreeName = None,
    companion: Companions = None,
    branches: Branches = None,
    skip_bad_files: Annotated[
        bool, Option("--skip-bad-files", help="Skip files that cannot be read, and list them.")
    ] = False,
    allow_missing: Annotated[
        str,
        Option("--allow-missing", metavar="N%", help="Share of the sub-jobs that may end without a result."),
    ] = "0%",
    pictures: Annotated[
        Literal["svg", "both", "none"], Option("--pictures", help="Pictures of histograms: SVG, SVG and PNG, none.")
    ] = "svg",
    no_pictures: Annotated[bool, Option("--no-pictures", help="The same as --pictures none.")] = False,
    seed: Annotated[int, Option("--seed", minimum=0, metavar="N", help="Seed of the random numbers of wagons.")] = 0,
    debug: Debug = False,
) -> int:
    """Runs a train: every wagon over the dataset, which is read once.

    Examples:
        Run the wagons of a file over all files of a folder:
            branchline run wagons.py data/*.root -o out
        Read files of a far server with four processes:
            branchline run wagons.py 'root://server.example//store/data/*.root' -o out -j 4
        Run on the workers of a Dask cluster:
            branchline run wagons.py data/*.root -o out --on dask=tcp://host:8786
        Try another cut on the first 1000 events of each dataset:
            branchline run wagons.py samples.toml -o out --set spectrum.pt_min=20 --max-events 1000
        Submit to Slurm; later, branchline status out shows its state:
            branchline run wagons.py data/*.root -o out --on slurm --batch-option=--partition=long

    """
    # Imported here since it imports awkward, which the workers' starter does meanwhile.
    from branchline.trains.preload import load_ahead

    if farm.on is None and pace.workers != 0:
        load_ahead()
    from branchline.reading.locations import shown_command
    from branchline.trains.plan import TrainRequest, TrainSettings

    settings = TrainSettings.of(
        workers=pace.workers,
        branches=branches.split(",") if branches else None,
        step_size=_step(pace.step_size),
        memory_limit=pace.memory_limit,
        skip_bad_files=skip_bad_files,
        access=reading.access,
        worker_timeout=pace.worker_timeout,
        allow_missing=_part(allow_missing),
        max_events=first.max_events,
        max_files=first.max_files,
        seed=seed,
        on=None if farm.is_batch_system else farm.on,
    )
    command = shown_command(["branchline", *sys.argv[1:]])
    chosen, takes = parameters.checked(), not no_reuse
    request = TrainRequest(str(wagons), dataset, settings, tree, companion, command, takes, reading.is_traced, chosen)
    shown: Pictures = "none" if no_pictures else pictures
    return _carried_out(request, out, reading, farm, force=force, pictures=shown, debug=debug)


def _carried_out(
    request: TrainRequest,
    out: Path,
    reading: ReadingSettings,
    farm: Farm,
    *,
    force: bool,
    pictures: Pictures,
    debug: bool,
) -> int:
    """Submits a train, or runs it with a bar of its progress."""
    # Imported here since it imports awkward.
    from branchline.cli.progress_bar import train_progress_bar
    from branchline.trains.run import run_quietly, submit_train

    trust_users(farm.trust_user or ())
    reports = farm.reports()
    if farm.on is not None and farm.is_batch_system:
        submitted = submit_train(
            request, out, farm.on, farm.settings(), force=force, pictures=pictures, reports=reports
        )
        print_submitted(submitted, out)
        return EXIT_OK
    with requests_recorded(reading.trace_to), train_progress_bar() as progress:
        result = run_quietly(
            request, out, force=force, pictures=pictures, progress=progress, stopping=log_stopping, reports=reports
        )
    _print_result(result, debug=debug)
    return result.exit_code


def _step(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.strip().isdecimal() else text


def _part(text: str) -> float:
    """``"2%"`` as 0.02. Raises OptionError."""
    try:
        part = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        part = -1.0
    if not text.strip().endswith("%") or not 0 <= part <= 1:
        raise OptionError(f"--allow-missing {text!r} is no share of the sub-jobs", hint="give 0% to 100%, such as 2%")
    return part


def _print_result(result: TrainResult, *, debug: bool) -> None:
    """Prints errors, the summary of the job, and the path of its report."""
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
        where = f": the report shows them, and branchline.load({str(result.out)!r}) has all" if result.out else ""
        print_out(f"{more}{where}")
    for line in summary(job, advise_job(job)):
        print_out(line)
    if result.out is not None:
        page = result.out / "report.html"
        print_out(f"look at {page if page in result.written else result.out}")


def try_wagons(
    wagons: Wagons,
    dataset: Data,
    reading: ReadingSettings,
    parameters: Parameters,
    tree: TreeName = None,
    companion: Companions = None,
    workers: Workers = None,
    step_size: StepSize = None,
    memory_limit: MemoryLimit = "1 GiB",
    debug: Debug = False,
) -> int:
    """Tries every wagon alone on a few chunks and forecasts the whole train; the exit code is 3 if a wagon fails.

    Examples:
        See how long a run would take:
            branchline test wagons.py data/*.root

    """
    # Imported here since it imports awkward.
    from branchline.cli.tables.forecast_tables import print_forecast
    from branchline.cli.tables.terminal import console
    from branchline.trains.testing.cost_forecast import forecast

    with requests_recorded(reading.trace_to):
        outcome = forecast(
            str(wagons),
            dataset,
            workers=workers,
            tree=tree,
            companions=companion,
            step_size=_step(step_size),
            memory_limit=memory_limit,
            access=reading.access,
            parameters=parameters.checked(),
        )
    print_forecast(outcome, console())
    if debug:
        print_traceback("\n".join(wagon.error.traceback for wagon in outcome.wagons if wagon.error))
    return EXIT_INCOMPLETE if outcome.failed else EXIT_OK
