"""Distributions of values: sorted values, and histograms of several groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy

from branchline.base.palette import COLOURS
from branchline.base.quantities import significant
from branchline.records.charts.axes import Axis, log_axis, number_axis, range_axis
from branchline.records.charts.chart import Chart, Curve

#: Maximum number of steps in a chart of sorted values; more values are averaged in groups.
SORTED_MAX = 200
#: Number of bins of a histogram, and maximum number of its groups: more lines could not be distinguished.
BINS, GROUPS_MAX = 40, 9
#: Number of powers of ten that the values of a histogram span if its bins are logarithmic.
LOG_DECADES = 2


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


def histogram_chart(
    title: str, unit: str, groups: Mapping[str, Sequence[float]], *, what: str = "jobs", is_simulated: bool = False
) -> Chart:
    """Return a histogram with a step line for each group of values.

    Bins are logarithmic if all values are positive and span ``LOG_DECADES`` powers of ten or more.
    """
    shown = {name: [one for one in own if math.isfinite(one)] for name, own in list(groups.items())[:GROUPS_MAX]}
    every = numpy.array([one for own in shown.values() for one in own], dtype=numpy.float64)
    if not len(every):
        empty = f"No {what} to show."
        return Chart(title, number_axis(unit, 1), number_axis(what, 1), empty=empty)
    low, high = float(every.min()), float(every.max())
    if low > 0 and high >= low * 10**LOG_DECADES:
        across = log_axis(unit, low, high)
        edges = numpy.geomspace(across.low, across.high, BINS + 1)
    else:
        # Equal values are in the middle of the axis.
        margin = (abs(low) / 10 or 0.5) if high <= low else 0.0
        across = range_axis(unit, low - margin, high + margin)
        edges = numpy.linspace(across.low, across.high, BINS + 1)
    curves = []
    for number, (name, own) in enumerate(shown.items()):
        counts, _ = numpy.histogram(own, edges)
        middle = f"median {significant(float(numpy.median(own)))}" if len(own) else ""
        curves.append(
            Curve(name, COLOURS[number % len(COLOURS)], edges.tolist(), counts.astype(float).tolist(), middle)
        )
    highest = max(value or 0.0 for one in curves for value in one.y)
    note = f"{GROUPS_MAX} of {len(groups)} groups are drawn." if len(groups) > GROUPS_MAX else ""
    return Chart(title, across, number_axis(what, highest), curves, note=note, is_simulated=is_simulated)
