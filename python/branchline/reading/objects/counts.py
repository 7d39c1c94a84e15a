"""Makes the Histogram of a TH1, TH2 or TH3, and what making a histogram of any other class needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import boost_histogram
import numpy as np

from branchline.errors import BranchlineWarning, UnsupportedBranchError, warn
from branchline.reading.objects.axes import RootAxis, binnings_of
from branchline.reading.objects.buffer import Buffered, buffered
from branchline.reading.objects.histogram import Histogram, RootFacts
from branchline.reading.objects.object_record import Record

AXES = ("fXaxis", "fYaxis", "fZaxis")


def histogram_of(record: Record, dimensions: int) -> Histogram:
    """The histogram of a TH1, TH2 or TH3. Raises UnsupportedBranchError for one that hist cannot hold."""
    axes = root_axes(record, dimensions)
    contents, squares = np.asarray(record.raw("fArray")), record.raw("fSumw2")
    waiting = buffered(record, axes)
    if waiting is None:
        return counts_of(record, axes, contents, squares)
    filled = waiting.sums(waiting.weights).astype(contents.dtype)
    has_squares = len(squares) == len(contents) or not waiting.is_not_weighted
    new_squares = waiting.sums(waiting.weights**2) if has_squares else squares
    return counts_of(record, waiting.axes, filled, new_squares, waiting)


def root_axes(record: Record, dimensions: int) -> list[RootAxis]:
    """The axes of a histogram."""
    return [RootAxis.of(record.raw(name)) for name in AXES[:dimensions]]


def counts_of(
    record: Record, axes: Sequence[RootAxis], contents: Any, squares: Any, waiting: Buffered | None = None
) -> Histogram:
    """A histogram of cells in ROOT's order, with sums of squared weights if there are as many."""
    values = shaped(record, axes, contents)
    storage = storage_for(values, has_squares=len(squares) == len(contents))
    empty = EmptyHistogram(record, axes, values == 0, storage, waiting)
    view = empty.view
    if view.dtype.names is None:
        view[...] = empty.chosen(values)
    else:
        view["value"] = empty.chosen(values)
        view["variance"] = empty.chosen(shaped(record, axes, squares))
    return empty.filled(values != 0)


def storage_for(values: Any, *, has_squares: bool) -> Any:
    """The storage that holds contents of this type exactly, and squared weights if there are any."""
    if has_squares:
        return boost_histogram.storage.Weight()
    return boost_histogram.storage.Int64() if values.dtype.kind in "iu" else boost_histogram.storage.Double()


def shaped(record: Record, axes: Sequence[RootAxis], cells: Any) -> Any:
    """Numbers of all cells with an axis of NumPy for each axis: in ROOT x runs fastest (TH1::GetBin)."""
    shape = tuple(axis.cells_count for axis in axes)
    wanted = 1
    for extent in shape:
        wanted *= max(extent, 0)
    if wanted != len(cells):
        raise refused(record, f"it has {len(cells)} cells, and axes for {wanted}")
    return np.asarray(cells).reshape(shape[::-1]).T


class EmptyHistogram:
    """A histogram with the axes, names and titles of a record, whose bins are not filled yet.

    ``is_empty`` has True for each of ROOT's cells that holds nothing, ``waiting`` are entries that ROOT had in its
    buffer. Raises UnsupportedBranchError.
    """

    def __init__(
        self,
        record: Record,
        axes: Sequence[RootAxis],
        is_empty: Any,
        storage: Any,
        waiting: Buffered | None = None,
        error_mode: str = "",
    ) -> None:
        self._record = record
        try:
            binnings = binnings_of(axes, is_empty)
            self.histogram = Histogram(*[one.axis for one in binnings], storage=storage, name=record.raw("fName"))
        except (ValueError, TypeError, KeyError) as error:
            raise refused(record, str(error)) from error
        #: The bins, flow bins included.
        self.view: Any = self.histogram.view(flow=True)
        # hist puts something of its own in place of an empty label.
        self.histogram.label = record.raw("fTitle")
        for place, axis in enumerate(axes):
            if axis.labels and binnings[place].has_numbers:
                _warn_of_labels(record, axis, place)
        sums = {} if waiting is None else waiting.statistics()
        members = record.singles() | sums
        self._facts = RootFacts(record.classname, tuple(axes), members, error_mode, record.origin.key_place)
        # An array of the numbers of all cells takes as much memory as the histogram.
        if all(one.cells is None for one in binnings):
            self._where: Any = ...
        else:
            cells = zip(binnings, is_empty.shape, strict=True)
            self._where = np.ix_(*[np.arange(count) if one.cells is None else one.cells for one, count in cells])

    def chosen(self, cells: Any) -> Any:
        """Those of ROOT's cells that the bins of the histogram stand for."""
        return cells[self._where]

    def filled(self, has_content: Any) -> Histogram:
        """The histogram, when its bins are filled. Warns of cells that have content and no bin: the underflow of an
        axis with categories.
        """
        is_whole = self._where is ...
        lost = 0 if is_whole else np.count_nonzero(has_content) - np.count_nonzero(self.chosen(has_content))
        if lost:
            place, path = self._record.origin.place, self._record.origin.file_path
            text = f"{path}: {lost} cells of {place} below its labels are left out, for categories have no underflow"
            warn(text, BranchlineWarning)
        self.histogram.remember(self._facts, self.view)
        return self.histogram


def _warn_of_labels(record: Record, axis: RootAxis, place: int) -> None:
    """Warns of labels that are no categories: of some bins only, or the same of several."""
    text = (
        f"{record.origin.file_path}: {len(axis.labels)} of {axis.bins_count} bins of {axis.name} of "
        f"{record.origin.place} have labels, {len(set(axis.labels.values()))} different ones: the axis keeps its "
        f"numbers, and bin_labels({place}) has the labels"
    )
    warn(text, BranchlineWarning)


def refused(record: Record, why: str) -> UnsupportedBranchError:
    """The error for an object that hist cannot hold."""
    what = f"{record.origin.place} is a {record.classname} that hist has no histogram for: {why}"
    return UnsupportedBranchError(what, path=record.origin.file_path)
