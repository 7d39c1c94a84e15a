"""Progress bars on the terminal. Nothing is shown if standard error is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from branchline.base.texts import escaped

if TYPE_CHECKING:
    from branchline.records.sensors.status import TrainStatus

#: A function that updates a progress bar: called with the amount done, the total, and a text.
Update = Callable[[float, float | None, str], None]


@contextmanager
def progress_bar(title: str, *, unit: str = "") -> Iterator[Update | None]:
    """Show a progress bar and yield the function that updates it; yield None without a terminal.

    If ``unit`` is given, the progress bar shows counts in this unit instead of a percentage.
    """
    if not sys.stderr.isatty():
        yield None
        return
    # Imported here since the import takes tens of ms.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    counted = TextColumn(f"{{task.completed:.0f}}/{{task.total}} {unit}")
    done = counted if unit else TaskProgressColumn()
    columns = (
        TextColumn(title, markup=False),
        BarColumn(),
        done,
        TextColumn("{task.fields[text]}", markup=False),
        TimeRemainingColumn(),
    )
    with Progress(*columns, TextColumn("left"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None if unit else 1.0, text="")

        def update(completed: float, total: float | None, text: str) -> None:
            bar.update(task, completed=completed, total=total, text=escaped(text))

        yield update


@contextmanager
def train_progress_bar() -> Iterator[Callable[[TrainStatus], None] | None]:
    """Show the state of a train in one line: sub-jobs, events/s, MB/s of each storage element, failures and remaining
    time.
    """
    with progress_bar("train") as update:
        if update is None:
            yield None
            return

        from branchline.reading.datasets.rucio_datasets import reporting_to
        from branchline.records.sensors.status import part_done, progress_text

        def report(now: TrainStatus) -> None:
            update(part_done(now), 1.0, progress_text(now))

        def located(done: int, total: int, name: str) -> None:
            update(0.0, 1.0, f"{done}/{total} files of {name} located")

        with reporting_to(located):
            yield report


@contextmanager
def located_progress_bar() -> Iterator[None]:
    """Show how many files of a dataset Rucio has located; nothing before the first file is located."""
    # Imported here since it imports numpy.
    from branchline.reading.datasets.rucio_datasets import reporting_to

    with ExitStack() as bar:
        updates: list[Update | None] = []

        def located(done: int, total: int, name: str) -> None:
            if not updates:
                updates.append(bar.enter_context(progress_bar("located", unit="files")))
            if updates[0] is not None:
                updates[0](done, total, name)

        with reporting_to(located):
            yield
