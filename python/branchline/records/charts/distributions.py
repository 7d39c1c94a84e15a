"""Distributions of values: sorted values, and histograms of several groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from branchline.records.charts.axes import Axis, number_axis
from branchline.records.charts.chart import Chart, Curve

#: Maximum number of steps in a chart of sorted values; more values are averaged in groups.
SORTED_MAX = 200


def sorted_chart(title: str, unit: str, values: Sequence[float], colour: str, note: str = "") -> Chart:
    """Return a chart of values, the largest first; if there are many values, each step is the mean of several."""
    ordered = numpy.sort(numpy.asarray(values, dtype=numpy.float64))[::-1]
    if len(ordered) > SORTED_MAX:
        ordered = numpy.array([part.mean() for part in numpy.array_split(ordered, SORTED_MAX)])
    edges = numpy.linspace(0.0, len(values), len(ordered) + 1)
    curve = Curve(title, colour, edges.tolist(), ordered.tolist(), is_filled=True)
    across = Axis("sorted, the largest first", 0.0, float(len(values)), [])
    highest = float(ordered[0]) if len(ordered) else 0.0
    return Chart(title, across, number_axis(unit, highest, ticks_count=3), [curve], note=note, height=170)
