"""The command that makes the demo's data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from branchline.cli.failure import say_stopping, tell, told
from branchline.cli.options import Argument, Option
from branchline.limits import MB

if TYPE_CHECKING:
    from branchline.demo.files import Progress

Codec = Literal["zlib", "lzma", "lz4", "zstd", "none"]


def demo_data(
    folder: Annotated[Path, Argument(help="Where the files go.")] = Path("demo-data"),
    files: Annotated[int, Option(min=1, help="How many files.")] = 24,
    events: Annotated[int, Option(min=1, help="Events in each file.")] = 125,
    seed: Annotated[int, Option(min=0, help="The same seed gives the same events.")] = 1,
    compression: Annotated[Codec, Option(help="Codec of the baskets.")] = "zlib",
    workers: Annotated[int | None, Option("--workers", "-j", min=1, help="Processes; all cores by default.")] = None,
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Simulates proton collisions at 14 TeV with Pythia 8, as ROOT files; those made before are kept."""
    # Only who simulates waits for all that it takes to be imported.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as ProgressBar

    from branchline.demo.files import LIST_NAME, make_data

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
        tell(f"{folder / LIST_NAME}: {files} files of {events} events, {size_mb:.1f} MB{before}")
