"""Progress on the terminal. Nothing is shown if the standard error is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from branchline.limits import MB
from branchline.quantities import count

if TYPE_CHECKING:
    from branchline.train.progress import TrainProgress

#: Called with the amount done, the total, and a text.
Update = Callable[[float, float | None, str], None]


@contextmanager
def progress_bar(title: str, *, unit: str = "") -> Iterator[Update | None]:
    """Shows a progress bar and gives the function that moves it; None without a terminal. With a ``unit`` it counts."""
    if not sys.stderr.isatty():
        yield None
        return
    # Imported here since it takes some ten ms.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    done: Any = TextColumn(f"{{task.completed:.0f}}/{{task.total}} {unit}") if unit else TaskProgressColumn()
    columns = (TextColumn(title), BarColumn(), done, TextColumn("{task.fields[text]}"), TimeRemainingColumn())
    with Progress(*columns, TextColumn("left"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None if unit else 1.0, text="")

        def update(completed: float, total: float | None, text: str) -> None:
            bar.update(task, completed=completed, total=total, text=text)

        yield update


@contextmanager
def train_progress_bar() -> Iterator[Callable[[TrainProgress], None] | None]:
    """Shows the progress of a train: events/s, MB/s and the time left."""
    with progress_bar("train") as update:
        if update is None:
            yield None
            return

        def report(now: TrainProgress) -> None:
            update(now.fraction_done or 0.0, 1.0, rates(now))

        yield report


def rates(now: TrainProgress) -> str:
    """Events and compressed megabytes per second since the start."""
    seconds = max(now.seconds, 1e-9)
    return f"{count(now.events / seconds)} events/s  {now.bytes_read / MB / seconds:.1f} MB/s read"
