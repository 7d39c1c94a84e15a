"""Geometry of the report's small charts: numbers in, coordinates out. The templates draw them as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy

from branchline.base.quantities import count, significant

#: Charts are drawn in a box of these units and stretched to the width of the page.
WIDTH, HEIGHT = 1000.0, 100.0
#: Bins along the time of a job: more would be noise, and the page must stay small.
TIME_BINS_MAX = 120
#: Width of a letter in per cent of a bar across the page, and the brightness (of 255) from which letters are dark.
LETTER_WIDTH, LIGHT_ABOVE = 1.0, 175.0
#: Columns in a chart of sorted values, one each or several joined.
COLUMNS_MAX = 200


class Slice(NamedTuple):
    """One part of a stacked bar, in per cent of its whole."""

    start: float
    width: float
    colour: str
    label: str

    @property
    def label_fits(self) -> bool:
        """Tell whether the label has room inside the slice of a bar across the page."""
        return self.width > 1.5 + LETTER_WIDTH * len(self.label)

    @property
    def is_light(self) -> bool:
        """Tell whether dark letters are read more easily on the slice than white ones."""
        red, green, blue = (int(self.colour[at : at + 2], 16) for at in (1, 3, 5))
        return 0.299 * red + 0.587 * green + 0.114 * blue > LIGHT_ABOVE


class Tick(NamedTuple):
    """A mark on an axis: where (per cent from the left or from the top) and its text."""

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
    """Curves over a common axis."""

    title: str
    unit: str
    lines: list[Line]
    x_ticks: list[Tick]
    y_ticks: list[Tick]


class Column(NamedTuple):
    """One bar of a chart of sorted values."""

    x: float
    width: float
    height: float


def stack(parts: Sequence[tuple[str, float, str]], whole: float) -> list[Slice]:
    """Place (label, value, colour) one after another in a bar that is ``whole`` long."""
    slices = []
    start = 0.0
    for label, value, colour in parts:
        width = 100.0 * value / whole if whole > 0 else 0.0
        if width > 0:
            slices.append(Slice(round(start, 3), round(width, 3), colour, label))
        start += width
    return slices


def nice_ticks(highest: float, ticks_count: int = 4) -> list[float]:
    """Return round values from zero up to at least ``highest``."""
    if not math.isfinite(highest) or highest <= 0:
        return [0.0, 1.0]
    step = 10.0 ** math.floor(math.log10(highest / ticks_count))
    for factor in (1, 2, 2.5, 5, 10):
        if step * factor * ticks_count >= highest * 0.999:
            step *= factor
            break
    return [index * step for index in range(math.ceil(highest / step - 0.001) + 1)]


class Series(NamedTuple):
    """A quantity that only grows, at the times of its points, to be shown as a rate."""

    label: str
    colour: str
    cumulative: Sequence[float]
    scale: float = 1.0


def rates_chart(
    title: str, unit: str, times_s: Sequence[float], series: Sequence[Series], wall_s: float
) -> Chart | None:
    """Return the rates of cumulative quantities over time, or None when there are too few points to draw."""
    times = numpy.asarray(times_s, dtype=numpy.float64)
    if len(times) < 2 or times[-1] <= 0:
        return None
    edges = numpy.linspace(0.0, max(wall_s, times[-1]), min(TIME_BINS_MAX, 2 * len(times)) + 1)
    rates = [_rates(times, one, edges) for one in series]
    ticks = nice_ticks(max(float(rate.max()) for rate in rates))
    time_ticks = [value for value in nice_ticks(edges[-1], 6) if value <= edges[-1] * 1.0001]
    return Chart(
        title,
        unit,
        [_line(one, rate, edges, ticks[-1]) for one, rate in zip(series, rates, strict=True)],
        [Tick(round(100 * value / edges[-1], 2), tick_text(value)) for value in time_ticks],
        [Tick(round(100 - 100 * value / ticks[-1], 2), tick_text(value)) for value in ticks],
    )


class Spans(NamedTuple):
    """Stretches of time of one kind, as (begin, end) in seconds."""

    label: str
    colour: str
    spans: Sequence[tuple[float, float]]


def at_work_chart(title: str, unit: str, kinds: Sequence[Spans], wall_s: float) -> Chart | None:
    """Return how many spans of each kind there are at a time, or None if the job took no time."""
    if wall_s <= 0 or not kinds:
        return None
    edges = numpy.linspace(0.0, wall_s, TIME_BINS_MAX + 1)
    counts = [_at_work(one, edges) for one in kinds]
    ticks = nice_ticks(max(float(one.max()) for one in counts))
    time_ticks = [value for value in nice_ticks(wall_s, 6) if value <= wall_s * 1.0001]
    lines = []
    for kind, at_work in zip(kinds, counts, strict=True):
        total_s = sum(end - begin for begin, end in kind.spans)
        series = Series(kind.label, kind.colour, [total_s])
        lines.append(_line(series, at_work, edges, ticks[-1]))
    return Chart(
        title,
        unit,
        lines,
        [Tick(round(100 * value / wall_s, 2), tick_text(value)) for value in time_ticks],
        [Tick(round(100 - 100 * value / ticks[-1], 2), tick_text(value)) for value in ticks],
    )


def _at_work(kind: Spans, edges: numpy.ndarray) -> numpy.ndarray:
    """The mean number of spans in each bin."""
    count = numpy.zeros(len(edges) - 1)
    for begin, end in kind.spans:
        count += numpy.clip(numpy.minimum(edges[1:], end) - numpy.maximum(edges[:-1], begin), 0.0, None)
    mean: numpy.ndarray = count / numpy.diff(edges)
    return mean


def _rates(times: numpy.ndarray, series: Series, edges: numpy.ndarray) -> numpy.ndarray:
    grown = numpy.interp(edges, numpy.append(0.0, times), numpy.append(0.0, series.cumulative))
    rates: numpy.ndarray = numpy.maximum(numpy.diff(grown) / numpy.diff(edges) * series.scale, 0.0)
    return rates


def _line(series: Series, rates: numpy.ndarray, edges: numpy.ndarray, top: float) -> Line:
    """Draw rates as steps, each as wide as its bin."""
    x = numpy.round(edges / edges[-1] * WIDTH, 1)
    y = numpy.round(HEIGHT * (1.0 - rates / top), 1)
    steps = [f"M{x[0]:g} {y[0]:g}H{x[1]:g}"]
    steps += [f"V{height:g}H{right:g}" for height, right in zip(y[1:], x[2:], strict=True)]
    path = "".join(steps)
    mean = significant(float(series.cumulative[-1]) * series.scale / float(edges[-1]))
    return Line(series.label, series.colour, path, f"{path}V{HEIGHT:g}H0Z", mean)


def sorted_columns(values: Sequence[float]) -> tuple[list[Column], list[Tick]]:
    """Return a bar for each value, the largest first, and the marks of their axis; many values are joined by mean."""
    ordered = numpy.sort(numpy.asarray(values, dtype=numpy.float64))[::-1]
    if len(ordered) > COLUMNS_MAX:
        ordered = numpy.array([part.mean() for part in numpy.array_split(ordered, COLUMNS_MAX)])
    ticks = nice_ticks(float(ordered[0]) if len(ordered) else 0.0, 3)
    width = WIDTH / max(1, len(ordered))
    gap = min(0.15 * width, 3.0)
    columns = [
        Column(round(index * width, 2), round(width - gap, 2), round(HEIGHT * value / ticks[-1], 2))
        for index, value in enumerate(ordered)
    ]
    return columns, [Tick(round(100 - 100 * value / ticks[-1], 2), tick_text(value)) for value in ticks]


def tick_text(value: float) -> str:
    """Return the value of a mark without digits that say nothing."""
    return count(value) if value == round(value) else f"{value:g}"
