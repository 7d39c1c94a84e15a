"""Geometry of the report's small charts: converts values to coordinates, which the templates draw as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy

from branchline.base.array_types import Floats
from branchline.base.quantities import count, significant

#: Size of the box in which charts are drawn before they are stretched to the width of the page.
WIDTH, HEIGHT = 1000.0, 100.0
#: Maximum number of time bins in a chart: more bins would only show noise and make the page large.
TIME_BINS_MAX = 120
#: Width of a letter in per cent of a full-width bar, and the background brightness (0 to 255) above which text is dark.
LETTER_WIDTH, LIGHT_ABOVE = 1.0, 175.0
#: Maximum number of columns in a chart of sorted values; more values are averaged in groups.
COLUMNS_MAX = 200


class Slice(NamedTuple):
    """One segment of a stacked bar; start and width are in per cent of the whole bar."""

    start: float
    width: float
    colour: str
    label: str

    @property
    def label_fits(self) -> bool:
        """Whether the label fits into the slice, if the bar is as wide as the page."""
        return self.width > 1.5 + LETTER_WIDTH * len(self.label)

    @property
    def is_light(self) -> bool:
        """Whether dark letters are easier to read on the slice than white ones."""
        red, green, blue = bytes.fromhex(self.colour.removeprefix("#"))
        return 0.299 * red + 0.587 * green + 0.114 * blue > LIGHT_ABOVE


class Tick(NamedTuple):
    """A tick on an axis: its position (in per cent from the left or from the top) and its label."""

    at: float
    text: str


class Line(NamedTuple):
    """One curve of a chart."""

    label: str
    colour: str
    path: str
    area: str
    mean: str


class Chart(NamedTuple):
    """Curves with common axes."""

    title: str
    unit: str
    lines: list[Line]
    x_ticks: list[Tick]
    y_ticks: list[Tick]


class ChartBar(NamedTuple):
    """One bar of a chart of sorted values."""

    x: float
    width: float
    height: float


def stack(parts: Sequence[tuple[str, float, str]], whole: float) -> list[Slice]:
    """Return the slices of a bar of length ``whole`` for consecutive parts, given as (label, value, colour)."""
    slices = []
    start = 0.0
    for label, value, colour in parts:
        width = 100.0 * value / whole if whole > 0 else 0.0
        if width > 0:
            slices.append(Slice(round(start, 3), round(width, 3), colour, label))
        start += width
    return slices


def nice_ticks(highest: float, ticks_count: int = 4) -> list[float]:
    """Return ticks at round values, from zero up to at least ``highest``."""
    if not math.isfinite(highest) or highest <= 0:
        return [0.0, 1.0]
    step = 10.0 ** math.floor(math.log10(highest / ticks_count))
    for factor in (1, 2, 2.5, 5, 10):
        if step * factor * ticks_count >= highest * 0.999:
            step *= factor
            break
    return [index * step for index in range(math.ceil(highest / step - 0.001) + 1)]


class CumulativeSeries(NamedTuple):
    """A quantity that only grows, sampled over time; charts show its rate."""

    label: str
    colour: str
    cumulative: Sequence[float]
    scale: float = 1.0


def rates_chart(
    title: str, unit: str, times_s: Sequence[float], series: Sequence[CumulativeSeries], wall_s: float
) -> Chart | None:
    """Return a chart of the rates of cumulative quantities over time, or None if there are too few points to draw."""
    times = numpy.asarray(times_s, dtype=numpy.float64)
    if len(times) < 2 or times[-1] <= 0:
        return None
    edges = numpy.linspace(0.0, max(wall_s, times[-1]), min(TIME_BINS_MAX, 2 * len(times)) + 1)
    rates = []
    for one in series:
        grown = numpy.interp(edges, numpy.append(0.0, times), numpy.append(0.0, one.cumulative))
        rates.append(numpy.maximum(numpy.diff(grown) / numpy.diff(edges) * one.scale, 0.0))
    return _chart(title, unit, series, rates, edges)


class Spans(NamedTuple):
    """Time spans of one kind of activity, as (begin, end) in seconds."""

    label: str
    colour: str
    spans: Sequence[tuple[float, float]]


def at_work_chart(title: str, unit: str, kinds: Sequence[Spans], wall_s: float) -> Chart | None:
    """Return a chart of the number of concurrent spans of each kind over time, or None if the job took no time."""
    if wall_s <= 0 or not kinds:
        return None
    edges = numpy.linspace(0.0, wall_s, TIME_BINS_MAX + 1)
    series, counts = [], []
    for kind in kinds:
        inside_s = numpy.zeros(len(edges) - 1)
        for begin, end in kind.spans:
            inside_s += numpy.clip(numpy.minimum(edges[1:], end) - numpy.maximum(edges[:-1], begin), 0.0, None)
        # The total time of all spans within a bin, divided by the bin's width, is the mean number of concurrent spans.
        counts.append(inside_s / numpy.diff(edges))
        total_s = sum(end - begin for begin, end in kind.spans)
        series.append(CumulativeSeries(kind.label, kind.colour, [total_s]))
    return _chart(title, unit, series, counts, edges)


def _chart(title: str, unit: str, series: Sequence[CumulativeSeries], rates: Sequence[Floats], edges: Floats) -> Chart:
    """Return the chart of the rates of several series in the time bins between ``edges``."""
    end_s = float(edges[-1])
    ticks = nice_ticks(float(numpy.max(rates)))
    time_ticks = [value for value in nice_ticks(end_s, 6) if value <= end_s * 1.0001]
    return Chart(
        title,
        unit,
        [_line(one, rate, edges, ticks[-1]) for one, rate in zip(series, rates, strict=True)],
        [Tick(round(100 * value / end_s, 2), tick_text(value)) for value in time_ticks],
        [Tick(round(100 - 100 * value / ticks[-1], 2), tick_text(value)) for value in ticks],
    )


def _line(series: CumulativeSeries, rates: Floats, edges: Floats, top: float) -> Line:
    """Return a line that shows rates as steps, each as wide as its bin."""
    x = numpy.round(edges / edges[-1] * WIDTH, 1)
    y = numpy.round(HEIGHT * (1.0 - rates / top), 1)
    steps = [f"M{x[0]:g} {y[0]:g}H{x[1]:g}"]
    steps += [f"V{height:g}H{right:g}" for height, right in zip(y[1:], x[2:], strict=True)]
    path = "".join(steps)
    mean = significant(float(series.cumulative[-1]) * series.scale / float(edges[-1]))
    return Line(series.label, series.colour, path, f"{path}V{HEIGHT:g}H0Z", mean)


def sorted_columns(values: Sequence[float]) -> tuple[list[ChartBar], list[Tick]]:
    """Return a bar for each value, the largest first, and the ticks of the axis; if there are many values, each bar is
    the mean of several.
    """
    ordered = numpy.sort(numpy.asarray(values, dtype=numpy.float64))[::-1]
    if len(ordered) > COLUMNS_MAX:
        ordered = numpy.array([part.mean() for part in numpy.array_split(ordered, COLUMNS_MAX)])
    ticks = nice_ticks(float(ordered[0]) if len(ordered) else 0.0, 3)
    width = WIDTH / max(1, len(ordered))
    gap = min(0.15 * width, 3.0)
    columns = [
        ChartBar(round(index * width, 2), round(width - gap, 2), round(HEIGHT * value / ticks[-1], 2))
        for index, value in enumerate(ordered)
    ]
    return columns, [Tick(round(100 - 100 * value / ticks[-1], 2), tick_text(value)) for value in ticks]


def tick_text(value: float) -> str:
    """Return a tick's label without redundant digits."""
    return count(value) if value == round(value) else f"{value:g}"
