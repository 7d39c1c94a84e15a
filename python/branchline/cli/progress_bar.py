"""Progress on the terminal. Nothing is shown if the standard error is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from branchline.limits import MB
from branchline.quantities import count

if TYPE_CHECKING:
    from branchline.sensors import TrainStatus

#: Of storage elements in a line.
ELEMENTS_SHOWN_MAX = 4
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

    counted = TextColumn(f"{{task.completed:.0f}}/{{task.total}} {unit}")
    done = counted if unit else TaskProgressColumn()
    columns = (TextColumn(title), BarColumn(), done, TextColumn("{task.fields[text]}"), TimeRemainingColumn())
    with Progress(*columns, TextColumn("left"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None if unit else 1.0, text="")

        def update(completed: float, total: float | None, text: str) -> None:
            bar.update(task, completed=completed, total=total, text=text)

        yield update


@contextmanager
def train_progress_bar() -> Iterator[Callable[[TrainStatus], None] | None]:
    """Shows the state of a train in one line: sub-jobs, events/s, MB/s of each storage element, failures, time left."""
    with progress_bar("train") as update:
        if update is None:
            yield None
            return

        def report(now: TrainStatus) -> None:
            done = now.done / now.subjobs if now.subjobs else 0.0
            update(done if now.fraction_done is None else now.fraction_done, 1.0, progress_text(now))

        yield report


def progress_text(now: TrainStatus) -> str:
    """The state of a train in a few words."""
    seconds = max(now.seconds, 1e-9)
    words = [f"{now.done}/{now.subjobs} sub-jobs"] if now.subjobs else []
    words.append(f"{count(now.events / seconds)} events/s")
    rates = [f"{one.bytes_read / MB / seconds:.1f}" for one in now.elements]
    by_element = f" ({' + '.join(rates[:ELEMENTS_SHOWN_MAX])})" if len(rates) > 1 else ""
    words.append(f"{now.bytes_read / MB / seconds:.1f} MB/s read{by_element}")
    words += [f"{now.failed} failed"] if now.failed else []
    words += [f"{now.workers_lost} workers lost"] if now.workers_lost else []
    words += ["merging"] if now.phase == "merge" else ["writing"] if now.phase == "write" else []
    return "  ".join(words)
