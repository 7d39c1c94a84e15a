"""Shows the progress of a train in a notebook: a bar, and pictures of the histograms of the finished part."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

import boost_histogram

from branchline.base.notebook import html_bar, notebook_area
from branchline.base.quantities import counted
from branchline.records.sensors.status import TrainStatus, part_done, progress_text

#: Minimum time between two drawings of partial histograms, and the maximum fraction of the time that drawing takes.
PARTIAL_INTERVAL_S = 2.0
PARTIAL_PART_MAX = 0.02

#: A function that returns the sums of wagons over parts of the dataset, by wagon. They must not be changed.
PartialSums = Callable[[], Iterable[Mapping[str, object]]]


class NotebookView:
    """Updates the output of a running cell. It is called with the status of the train."""

    def __init__(self, show_bar: Callable[[str], None], show_pictures: Callable[[str], None]) -> None:
        self._show_bar = show_bar
        self._show_pictures = show_pictures
        self._sums: PartialSums | None = None
        self._done = 0
        self._next_s = time.monotonic() + PARTIAL_INTERVAL_S

    def follow(self, sums: PartialSums) -> None:
        """Show pictures of these sums from now on."""
        self._sums = sums

    def __call__(self, now: TrainStatus) -> None:
        """Show the status and, after a while, pictures of the partial histograms."""
        self._show_bar(html_bar(part_done(now), progress_text(now)))
        begin_s = time.monotonic()
        if self._sums is None or now.done == self._done or now.phase != "run" or begin_s < self._next_s:
            return
        self._done = now.done
        self._show_pictures(_pictures(self._sums(), f"{counted(now.events, 'event')} so far"))
        end_s = time.monotonic()
        self._next_s = end_s + max(PARTIAL_INTERVAL_S, (end_s - begin_s) / PARTIAL_PART_MAX)


@contextmanager
def notebook_view() -> Iterator[NotebookView]:
    """Show a train below the running cell, and remove the bar and the pictures at the end."""
    with notebook_area() as bar, notebook_area() as pictures:
        yield NotebookView(bar, pictures)


def _pictures(parts: Iterable[Mapping[str, object]], note: str) -> str:
    """Return the pictures of the sums of all parts, with a note in their titles."""
    # Imported late, because most trains do not run in a notebook.
    from branchline.records.pictures.inline_pictures import histograms_in, pictures_html
    from branchline.records.pictures.meaning import Title

    total: dict[tuple[str, str], boost_histogram.Histogram] = {}
    # Outputs are of the user and may raise anything, which must not end the train.
    with suppress(Exception):
        for part in parts:
            for wagon, output in part.items():
                for path, histogram in histograms_in(output):
                    key = wagon, "/".join(path)
                    total[key] = total[key] + histogram if key in total else histogram
    return pictures_html((Title(*key, note), one) for key, one in total.items())
