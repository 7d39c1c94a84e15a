"""Curves over time: rates of quantities that only grow, and numbers of concurrent spans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy

from branchline.base.array_types import Floats
from branchline.base.quantities import significant
from branchline.records.charts.axes import number_axis, time_axis
from branchline.records.charts.chart import Chart, Curve

#: Maximum number of time bins in a chart: more bins would only show noise and make the page large.
TIME_BINS_MAX = 120
#: Bounds of the length of a time axis in seconds: records from elsewhere may have numbers that make no sense.
_NS, _END_S = 1e-9, 1e12
#: Name of the time axis of a job.
JOB_TIME = "time since the start of the job"


class GrowingSeries(NamedTuple):
    """A quantity that only grows, at several times; charts show its rate times ``scale``."""

    name: str
    colour: str
    cumulative: Sequence[float]
    scale: float = 1.0


class Spans(NamedTuple):
    """Time spans of one kind of activity, as (begin, end) in seconds. ``weights`` spread an amount evenly over each
    span; without them, the curve is the number of concurrent spans.
    """

    name: str
    colour: str
    spans: Sequence[tuple[float, float]]
    weights: Sequence[float] = ()


def rates_chart(
    title: str,
    unit: str,
    times_s: Sequence[float],
    series: Sequence[GrowingSeries],
    wall_s: float,
    *,
    least: float = 0.0,
    note: str = "",
) -> Chart:
    """Return a chart of the rates of growing quantities, which are 0 at the time 0. The axis ends at ``least`` or
    above, so that small values look small.
    """
    rows = numpy.array([times_s, *(one.cumulative for one in series)], dtype=numpy.float64)
    times, *grown_of = rows[:, numpy.isfinite(rows).all(axis=0)]
    if len(times) < 2 or not _NS <= times[-1] < _END_S:
        empty = "There are too few measurements for a curve over time."
        return Chart(title, time_axis(JOB_TIME, 0, 1), number_axis(unit, 1), empty=empty)
    end_s = max(wall_s if wall_s < _END_S else 0.0, float(times[-1]))
    edges = numpy.linspace(0.0, end_s, min(TIME_BINS_MAX, 2 * len(times)) + 1)
    curves = []
    for one, cumulative in zip(series, grown_of, strict=True):
        grown = numpy.interp(edges, numpy.append(0.0, times), numpy.append(0.0, cumulative))
        rates = numpy.maximum(numpy.diff(grown) / numpy.diff(edges) * one.scale, 0.0)
        mean = float(cumulative[-1]) * one.scale / end_s
        curves.append(_curve(one.name, one.colour, edges, rates, mean))
    return _over_time(title, unit, curves, end_s, note, JOB_TIME, least)


def spans_chart(
    title: str,
    unit: str,
    kinds: Sequence[Spans],
    wall_s: float,
    *,
    axis: str = JOB_TIME,
    note: str = "",
    is_simulated: bool = False,
) -> Chart:
    """Return a chart of the number of concurrent spans of each kind, or of the rate at which they did their work."""
    if not _NS <= wall_s < _END_S or not any(one.spans for one in kinds):
        empty = "No times of its processes were recorded."
        return Chart(title, time_axis(axis, 0, 1), number_axis(unit, 1), empty=empty)
    edges = numpy.linspace(0.0, wall_s, TIME_BINS_MAX + 1)
    curves = []
    for kind in kinds:
        inside = numpy.zeros(len(edges) - 1)
        for number, (begin, end) in enumerate(kind.spans):
            if not (math.isfinite(begin) and math.isfinite(end)):
                continue
            # Spans shorter than the clock's resolution still do their work.
            end = max(end, begin + _NS, begin + abs(begin) * 1e-9)
            seconds = numpy.clip(numpy.minimum(edges[1:], end) - numpy.maximum(edges[:-1], begin), 0.0, None)
            inside += seconds * (kind.weights[number] / (end - begin) if kind.weights else 1.0)
        # The total over all spans within a bin, divided by the bin's width, is a mean number or a rate.
        curves.append(
            _curve(kind.name, kind.colour, edges, inside / numpy.diff(edges), float(numpy.sum(inside)) / wall_s)
        )
    return _over_time(title, unit, curves, wall_s, note, axis, is_simulated=is_simulated)


def _curve(name: str, colour: str, edges: Floats, values: Floats, mean: float) -> Curve:
    return Curve(name, colour, edges.tolist(), values.tolist(), f"mean {significant(mean)}", is_filled=True)


def _over_time(
    title: str,
    unit: str,
    curves: list[Curve],
    end_s: float,
    note: str,
    axis: str,
    least: float = 0.0,
    *,
    is_simulated: bool = False,
) -> Chart:
    highest = max(least, *(value or 0.0 for one in curves for value in one.y))
    return Chart(
        title,
        time_axis(axis, 0.0, end_s),
        number_axis(unit, highest),
        curves,
        note=note,
        is_simulated=is_simulated,
    )
