"""Charts of read patterns, as drawn by seekwatcher: offset against time, and seeks per second."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from branchline.base.array_types import Floats, Integers
from branchline.base.palette import BLUE, RED
from branchline.base.quantities import MB, count, counted
from branchline.records.charts.axes import number_axis, time_axis
from branchline.records.charts.chart import Chart, Curve, Points
from branchline.records.charts.over_time import TIME_BINS_MAX

_TIME = "time since the first read"
_EMPTY = "No reads were recorded."


def offset_charts(name: str, files: Sequence[tuple[Floats, Integers, Integers]]) -> list[Chart]:
    """Return a chart of the offsets of reads and one of the seeks per second.

    ``files`` has the times in seconds, the offsets and the sizes in bytes of the reads of each file, in the order of
    the reads. Files are stacked. A seek is a read that does not begin where the previous read of its file ended.
    """
    begin, borders, low, high, times, seeks = 0, [], [], [], [], []
    for seconds, offsets, sizes in files:
        ends = offsets + sizes
        low.append((begin + offsets) / MB)
        high.append((begin + ends) / MB)
        times.append(seconds)
        seeks.append(seconds[1:][offsets[1:] != ends[:-1]])
        begin += int(ends.max(initial=0))
        borders.append(begin / MB)
    reads_count = sum(map(len, times))
    if not reads_count:
        return [Chart(f"Offset: {name}", time_axis(_TIME, 0, 1), number_axis("MB", 1), empty=_EMPTY)]
    every_s, seeks_s = numpy.concatenate(times), numpy.concatenate(seeks)
    end_s = float(every_s.max()) or 1.0
    across = time_axis(_TIME, 0.0, end_s)
    points = Points("reads", BLUE, every_s.tolist(), numpy.concatenate(low).tolist(), numpy.concatenate(high).tolist())
    parted = "; a line separates two files" if len(files) > 1 else ""
    note = f"{counted(reads_count, 'read')} of {counted(len(files), 'file')}{parted}."
    counts, edges = numpy.histogram(seeks_s, TIME_BINS_MAX, (0.0, end_s))
    rates = counts / numpy.diff(edges)
    said = f"{counted(len(seeks_s), 'seek')}, {count(_backward(files))} backwards"
    curve = Curve("", RED, edges.tolist(), rates.tolist(), said, is_filled=True)
    return [
        Chart(f"Offset: {name}", across, number_axis("MB", begin / MB), points=[points], borders=borders, note=note),
        Chart(f"Seeks: {name}", across, number_axis("seeks/s", float(rates.max())), [curve], height=160),
    ]


def _backward(files: Sequence[tuple[Floats, Integers, Integers]]) -> int:
    return sum(int((offsets[1:] < (offsets + sizes)[:-1]).sum()) for _, offsets, sizes in files)
