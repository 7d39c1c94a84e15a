"""The progress of a train on the terminal: events/s, MB/s and the time left. Nothing where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from branchline.limits import MB
from branchline.train.progress import TrainProgress

Report = Callable[[TrainProgress], None]


@contextmanager
def progress_bar() -> Iterator[Report | None]:
    """Gives the function to call with the progress so far, None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rates]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("train", total=1.0, rates="")

        def report(now: TrainProgress) -> None:
            bar.update(task, completed=now.fraction_done or 0.0, rates=rates(now))

        yield report


def rates(now: TrainProgress) -> str:
    """Events and compressed megabytes per second since the start."""
    seconds = max(now.seconds, 1e-9)
    return f"{now.events / seconds:,.0f} events/s  {now.bytes_read / MB / seconds:,.1f} MB/s read"
