"""The commands of `branchline` and their arguments."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

import branchline
from branchline.cli.converting import convert
from branchline.cli.demo_data import demo_data
from branchline.cli.failure import ended, say, say_stopping, told
from branchline.cli.inspecting import inspect
from branchline.cli.merging import merge
from branchline.cli.progress_bar import progress_bar
from branchline.cli.proxying import proxy
from branchline.cli.reading_options import Reading, with_reading_options
from branchline.cli.rewriting import recompress, reorder, skim, slim
from branchline.cli.tables import print_forecast
from branchline.cli.terminal import output
from branchline.cli.tracing import trace
from branchline.cli.verifying import verify
from branchline.dataset import DataFile
from branchline.locations import split_location
from branchline.report.summary import summary
from branchline.running import run_quietly
from branchline.train import TrainResult, forecast
from branchline.train.exit_codes import EXIT_INCOMPLETE, EXIT_INTERRUPTED
from branchline.train.plan import open_tree

app = typer.Typer(
    name="branchline",
    epilog="Exit codes: 0 all is well; 1 an error; 2 wrong usage; 3 finished, but a wagon failed or files were "
    "skipped; 130 interrupted, what was finished is kept.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Wagons = Annotated[Path, typer.Argument(help="Python file with the wagons.")]
Data = Annotated[
    list[str], typer.Argument(help="Files, patterns, directories, lists of files (.txt), FILE:TREE, filesets (.json).")
]
TreeName = Annotated[str | None, typer.Option("--tree", help="Tree of the files that do not name one.")]
Companions = Annotated[
    list[str] | None,
    typer.Option("--companion", help='File beside each file: "Kinematics.root", or NAME=FILE:Event{entry}/TREE.'),
]
Workers = Annotated[int | None, typer.Option("--workers", "-j", min=1, help="Processes; all cores by default.")]
StepSize = Annotated[str, typer.Option("--step-size", help='Size of a chunk: "100 MB" or a number of entries.')]
MemoryLimit = Annotated[str, typer.Option("--memory-limit", help="What the reading of one worker may hold.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@app.command()
@with_reading_options
def run(
    wagons: Wagons,
    dataset: Data,
    out: Annotated[Path, typer.Option("--output", "-o", help="Directory for results, made by this run.")],
    workers: Workers = None,
    tree: TreeName = None,
    companion: Companions = None,
    branches: Annotated[
        str | None, typer.Option("--branches", help="Branches to read at once, with commas between them.")
    ] = None,
    step_size: StepSize = "100 MB",
    memory_limit: MemoryLimit = "1 GiB",
    *,
    access: Reading,
    skip_bad_files: Annotated[
        bool, typer.Option("--skip-bad-files", help="Go on without files that cannot be read, and list them.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the results of an earlier run in the directory.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Runs a train: every wagon over the dataset, which is read once."""
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
                force=force,
                progress=progress,
                command=shlex.join(["branchline", *sys.argv[1:]]),
                stopping=say_stopping,
            )
        with told(debug=debug):
            _summarise(result, debug=debug)
        raise typer.Exit(result.exit_code)


def _step(text: str) -> int | str:
    return int(text) if text.strip().isdigit() else text


def _summarise(result: TrainResult, *, debug: bool) -> None:
    """What went wrong, what was done, why it took so long, where to look."""
    job = result.job
    if debug:
        tracebacks = [error["traceback"] for error in job["errors"]]
        tracebacks += [wagon["error"]["traceback"] for wagon in job["wagons"] if wagon["error"]]
        typer.echo("\n".join(tracebacks), err=True)
    for sentence in result.errors:
        say(sentence)
    if result.exit_code == EXIT_INTERRUPTED:
        say("interrupted; what was finished is kept and marked as partial")
    for line in summary(job):
        typer.echo(line)
    if result.out is not None:
        typer.echo(f"look at {result.out / 'report.html'}")


@app.command("test")
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
            typer.echo("\n".join(wagon.error.traceback for wagon in outcome.wagons if wagon.error), err=True)
        raise typer.Exit(EXIT_INCOMPLETE if outcome.failed else 0)


@app.command()
@with_reading_options
def show(
    location: Annotated[str, typer.Argument(metavar="FILE[:TREE]", help="A ROOT file, with the name of a tree.")],
    *,
    access: Reading,
    debug: Debug = False,
) -> None:
    """Prints the branches of a tree: type, entries, baskets, sizes."""
    with told(debug=debug):
        path, tree = split_location(location)
        open_tree(DataFile(path, tree), access()).show()


app.command()(inspect)
app.command()(merge)
app.command()(verify)
for command in (reorder, recompress, skim, slim):
    app.command()(command)
app.command()(convert)
app.command()(proxy)
app.add_typer(trace)
app.command("demo-data")(demo_data)


@app.command()
def version() -> None:
    """Prints the version."""
    typer.echo(branchline.__version__)


def _version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Reads ROOT files of collision events once, for every analysis step, and says where the time went."""


def main() -> None:
    """Entry point of the command line."""
    ended(app)
