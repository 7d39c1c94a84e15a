"""Make the demo's data: `python -m branchline.demo FOLDER`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar

from branchline.demo.files import CODECS, LIST_NAME, Progress, make_data


def main(
    folder: Annotated[Path, typer.Argument(help="where the files go")] = Path("demo-data"),
    files: Annotated[int, typer.Option(min=1, help="how many files")] = 24,
    events: Annotated[int, typer.Option(min=1, help="events in each file")] = 125,
    seed: Annotated[int, typer.Option(min=0, help="the same seed gives the same events")] = 1,
    compression: Annotated[str, typer.Option(help=f"one of {', '.join(CODECS)}")] = "zlib",
    workers: Annotated[int | None, typer.Option(min=1, help="processes; all cores if not given")] = None,
) -> None:
    """Simulate proton collisions at 14 TeV with Pythia 8 and write them as ROOT files; files made before are kept."""
    console = Console()
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files, {task.fields[events]} events"),
        TimeRemainingColumn(),
    )
    kept = 0
    with ProgressBar(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("simulating", total=files, events=0)

        def show(progress: Progress) -> None:
            nonlocal kept
            kept += progress.kept
            bar.update(task, completed=progress.files_done, events=progress.events_done)

        paths = make_data(folder, files, events, seed, compression, workers, show)
    size_mb = sum(path.stat().st_size for path in paths) / 1e6
    console.print(
        f"{files} files of {events} events, {size_mb:.1f} MB, {kept} of them made before: {folder / LIST_NAME}",
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    typer.run(main)
