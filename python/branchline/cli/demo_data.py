"""The command that makes the demo's data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar

from branchline.cli.failure import say_stopping, told
from branchline.demo.files import LIST_NAME, Progress, make_data
from branchline.limits import MB

Codec = Literal["zlib", "lzma", "lz4", "zstd", "none"]


def demo_data(
    folder: Annotated[Path, typer.Argument(help="Where the files go.")] = Path("demo-data"),
    files: Annotated[int, typer.Option(min=1, help="How many files.")] = 24,
    events: Annotated[int, typer.Option(min=1, help="Events in each file.")] = 125,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same events.")] = 1,
    compression: Annotated[Codec, typer.Option(help="Codec of the baskets.")] = "zlib",
    workers: Annotated[
        int | None, typer.Option("--workers", "-j", min=1, help="Processes; all cores by default.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Simulates proton collisions at 14 TeV with Pythia 8, as ROOT files; those made before are kept."""
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files, {task.fields[events]:,} events in"),
        TimeElapsedColumn(),
        TextColumn("with"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    kept = 0
    with told(debug=debug):
        with ProgressBar(
            *columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
        ) as bar:
            task = bar.add_task("simulating", total=files, events=0)

            def show(progress: Progress) -> None:
                nonlocal kept
                kept += progress.kept
                bar.update(task, completed=progress.files_done, events=progress.events_done)

            paths = make_data(folder, files, events, seed, compression, workers, show, say_stopping)
        size_mb = sum(path.stat().st_size for path in paths) / MB
        before = f", {kept} of them made before" if kept else ""
        typer.echo(f"{folder / LIST_NAME}: {files} files of {events} events, {size_mb:.1f} MB{before}")
