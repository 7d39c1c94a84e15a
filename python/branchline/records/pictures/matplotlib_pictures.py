"""Plots histograms with matplotlib in the usual style of particle physics, as SVG and optionally as PNG.

A histogram with one numeric axis is drawn as steps with error bars, with one line per category if it also has category
axes. A histogram with two numeric axes is drawn as a colour mesh, a histogram with more numeric axes as projections.
"""

from __future__ import annotations

import contextlib
import logging
import math
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypedDict

import boost_histogram
import matplotlib.font_manager
import matplotlib.style
import mplhep
import numpy
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cbook import is_math_text
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.markers import TICKDOWN, TICKLEFT, TICKRIGHT, TICKUP
from matplotlib.mathtext import MathTextParser
from matplotlib.text import Text
from matplotlib.ticker import AutoMinorLocator, FixedLocator, NullLocator, ScalarFormatter

from branchline.base.array_types import Floats, Integers
from branchline.base.palette import COLOURS, NAVY, WARNING
from branchline.base.texts import one_line
from branchline.base.whole_files import whole_file
from branchline.records.pictures.meaning import (
    ERROR_BARS_BINS_MAX,
    Title,
    finite,
    height_words,
    inner_bins,
    is_logarithmic,
    remark_on,
    spans_decades,
)
from branchline.records.result_files.job_files import PICTURES
from branchline.writing.objects.forms import axis_label, category_labels, is_category

#: Maximum number of categories drawn as lines: more lines cannot be distinguished by colour. If some are left out, the
#: legend shows the total number.
LINES_MAX = 8
#: Colours are on a logarithmic scale if the highest bin of a mesh exceeds the median filled bin by more than this
#: factor.
PEAK_OVER_MEDIAN_MAX = 30.0
#: Maximum number of projections, drawn in two columns, for a histogram with more than two axes.
PROJECTIONS_MAX = 6
#: Maximum number of bins of a line, and maximum number of bins along each side of a colour mesh. Finer bins are not
#: visible and take seconds to draw.
LINE_BINS_MAX, MESH_BINS_MAX = 2000, 1000
#: Maximum length of an axis label, and maximum length of a category's name; longer ones would take up the space of the
#: histogram.
_LABEL_LENGTH_MAX, _CATEGORY_LENGTH_MAX = 60, 26
#: Names of categories with more characters in total than _LEVEL_LETTERS_MAX are rotated: slanted if each has more than
#: _SLANTED_POINTS of space, otherwise vertical. The minimum font size is _UPRIGHT_POINTS_MIN.
_LEVEL_LETTERS_MAX, _SLANTED_POINTS, _UPRIGHT_POINTS_MIN = 50, 22.0, 6.5
#: Text that is too long is shrunk down to this fraction of its font size, then truncated.
_SMALLEST = 0.65
#: Fraction of the figure that is left empty along each edge.
_EDGE = 0.012
#: Fonts for characters that the main font lacks; together they cover many scripts.
FALLBACK_FONTS = [
    name
    for name in ("DejaVu Sans", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "IPAGothic", "Noto Sans Symbols2", "Symbola")
    if name in matplotlib.font_manager.get_font_names()
]


class _MarkerStyle(TypedDict):
    linestyle: str
    color: str
    markersize: float
    markeredgewidth: float
    scalex: bool
    scaley: bool


_STYLE: dict[str, object] = {
    **mplhep.style.ROOT,
    "figure.figsize": (8.0, 6.0),
    "figure.subplot.left": 0.15,
    "figure.subplot.right": 0.955,
    "figure.subplot.bottom": 0.13,
    "figure.subplot.top": 0.93,
    # Numbers beyond these powers of ten would extend over the left edge of the picture, so the power is shown
    # separately.
    "axes.formatter.limits": (-3, 5),
    # Matplotlib's minor ticks are off: _draw_minor_ticks is many times as fast.
    "xtick.minor.visible": False,
    "ytick.minor.visible": False,
    "font.size": 18,
    "axes.labelsize": "medium",
    "xtick.labelsize": "small",
    "ytick.labelsize": "small",
    # Padding that separates the first number of the x axis from the first number of the y axis.
    "xtick.major.pad": 10,
    "legend.fontsize": "x-small",
    "lines.linewidth": 1.6,
    "axes.linewidth": 1.2,
    "savefig.dpi": 120,
    "savefig.facecolor": "white",
    "figure.facecolor": "white",
    # A fixed salt makes the IDs in the SVG depend only on the content, so that the same result gives the same file.
    "svg.hashsalt": "branchline",
    "svg.fonttype": "path",
}
_MINOR_TICK: _MarkerStyle = {
    "linestyle": "none",
    "color": "black",
    "markersize": 5,
    "markeredgewidth": 0.8,
    "scalex": False,
    "scaley": False,
}


# For each square root, matplotlib warns that the symbol is not a character, although it draws the symbol correctly.
logging.getLogger("matplotlib.mathtext").addFilter(lambda record: "__radicalbig__" not in str(record.args).lower())


def write_picture(
    out_dir: Path, path: tuple[str, ...], histogram: boost_histogram.Histogram, title: Title, *, with_png: bool = False
) -> str | None:
    """Draw a histogram to ``pictures/<path>.svg``, and optionally also to ``.png``, which doubles the time.

    Returns the path of the SVG relative to ``out_dir``, or None if the histogram has an axis without bins. Raises
    StorageError.
    """
    if len(histogram.axes) == 0 or 0 in histogram.axes.size:
        return None
    relative = Path(PICTURES, *path[:-1], f"{path[-1]}.svg")
    texts = [*title, str(getattr(histogram, "label", None) or "")]
    for axis in histogram.axes:
        texts += [axis_label(axis), *(category_labels(axis) if is_category(axis) else ())]
    texts.append(str(getattr(histogram, "__dict__", {}).get("metadata") or ""))
    with styled(has_other_letters=not all(one.isascii() for one in texts)):
        figure = draw(histogram, title)
        with whole_file(out_dir / relative) as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None})
        if not with_png:
            return str(relative)
        with whole_file(out_dir / relative.with_suffix(".png")) as temporary:
            figure.savefig(temporary, format="png", pil_kwargs={"compress_level": 3})
    return str(relative)


@contextlib.contextmanager
def styled(*, has_other_letters: bool = True) -> Iterator[None]:
    """Apply the style of particle physics to figures that are drawn and saved in the ``with`` block.

    ``has_other_letters`` enables fallback fonts for characters that the main font lacks. Searching these fonts takes a
    tenth of the time of a picture.
    """
    fonts: dict[str, object] = {"font.family": ["sans-serif", *FALLBACK_FONTS]} if has_other_letters else {}
    with matplotlib.style.context({**_STYLE, **fonts}), warnings.catch_warnings():
        # The warnings are about characters that no font has and error bars below zero on a logarithmic scale; neither
        # can be fixed.
        warnings.simplefilter("ignore", UserWarning)
        yield


def draw(histogram: boost_histogram.Histogram, title: Title) -> Figure:
    """Return the plot of a histogram that has at least one axis, each with at least one bin."""
    figure = Figure()
    FigureCanvasAgg(figure)
    numeric = [index for index, axis in enumerate(histogram.axes) if not is_category(axis)]
    categories = [index for index, axis in enumerate(histogram.axes) if is_category(axis)]
    # The axes that get the title.
    if len(numeric) == 0:
        axes = _draw_categories(figure, histogram, categories)
    elif len(numeric) == 1:
        axes = _draw_lines(figure, histogram, numeric[0], categories)
    elif len(numeric) == 2:
        axes = _draw_mesh(figure, histogram, numeric, categories)
    else:
        axes = _draw_projections(figure, histogram, numeric)
    remark = remark_on(histogram)
    if remark:
        write_remark(axes, remark)
    for panel in figure.axes:
        for axis in (panel.xaxis, panel.yaxis):
            if type(axis.get_major_formatter()) is ScalarFormatter:
                axis.set_major_formatter(_PowerOnTop())
        # With less padding, the power of ten would touch the last number of the axis.
        panel.yaxis.OFFSETTEXTPAD = 8
        # On the right, the power of ten would overlap with the axis label.
        panel.xaxis.get_offset_text().set(x=0, horizontalalignment="left")
        _draw_minor_ticks(panel)
        fit_labels(panel)
    if categories:
        # Only names of categories may exceed the default margins. Other pictures skip this step, which takes a tenth of
        # their time.
        make_room(figure)
    write_title(figure, axes, title)
    return figure


# --- lines, meshes and projections ------------------------------------------------------------------------------------


class _Bins(NamedTuple):
    """Heights and errors of bins.

    ``errors`` is None if the histogram does not store errors. The mean of a bin without entries is NaN.
    """

    values: Floats
    errors: Floats | None


def _kept(histogram: boost_histogram.Histogram, kept: list[int]) -> _Bins:
    """Return the bins of the axes ``kept``, in that order, summed over all bins of the remaining axes."""
    if issubclass(histogram.storage_type, boost_histogram.storage.Mean | boost_histogram.storage.WeightedMean):
        projected = histogram if kept == list(range(len(histogram.axes))) else histogram.project(*kept)
        means = numpy.where(projected.counts() > 0, finite(projected.values()), numpy.nan)
        variances = projected.variances()
        assert variances is not None
        return _Bins(means, numpy.sqrt(numpy.maximum(finite(variances), 0)))
    inner = tuple(inner_bins(axis) if index in kept else slice(None) for index, axis in enumerate(histogram.axes))
    summed = tuple(index for index in range(len(histogram.axes)) if index not in kept)
    values = histogram.values(flow=True)[inner].sum(axis=summed)
    variances = histogram.variances(flow=True)
    if variances is None:
        return _Bins(finite(values), None)
    return _Bins(finite(values), numpy.sqrt(numpy.maximum(finite(variances[inner].sum(axis=summed)), 0)))


def _draw_lines(figure: Figure, histogram: boost_histogram.Histogram, numeric: int, categories: list[int]) -> Axes:
    """Draw one numeric axis as steps, with one line for each combination of categories."""
    axes = figure.add_subplot()
    axis = histogram.axes[numeric]
    is_mean = histogram.kind == boost_histogram.Kind.MEAN
    lines = _lines(histogram, numeric, categories)
    edges = numpy.asarray(axis.edges)
    if not is_mean and len(axis) > LINE_BINS_MAX:
        lines = [(label, _joined(bins, _starts(len(axis), LINE_BINS_MAX))) for label, bins in lines]
        edges = numpy.append(edges[_starts(len(axis), LINE_BINS_MAX)], edges[-1])
    for index, (label, bins) in enumerate(lines):
        colour = COLOURS[index % len(COLOURS)] if label else NAVY
        errors = bins.errors if len(axis) <= ERROR_BARS_BINS_MAX else None
        mplhep.histplot(
            bins.values,
            bins=edges,
            yerr=errors,
            ax=axes,
            histtype="errorbar" if is_mean else "step",
            color=colour,
            linewidth=1.6,
            label=text(label) if label else None,
            edges=False,
            flow="none",
        )
    _scale_axis(axes, axis)
    if not is_mean:
        _scale_heights(axes, [bins for _, bins in lines], headroom=1.15 if len(lines) == 1 else 1.4)
    if categories:
        names = ", ".join(filter(None, (axis_label(histogram.axes[index]) for index in categories)))
        combinations = math.prod(len(histogram.axes[index]) for index in categories)
        if combinations > len(lines):
            names = f"{names} ({len(lines)} of {combinations} shown)".strip()
        axes.legend(title=text(names) or None, ncols=1 if len(lines) <= 5 else 2, loc="upper right")
    axes.set_xlabel(text(axis_label(axis)))
    axes.set_ylabel(height_label(histogram, axis, edges))
    return axes


def _lines(histogram: boost_histogram.Histogram, numeric: int, categories: list[int]) -> list[tuple[str, _Bins]]:
    """Return (label, bins) for each combination of categories. Of more than LINES_MAX combinations, return only the
    largest or, for a histogram of means, only the first.
    """
    if not categories:
        return [("", _kept(histogram, [numeric]))]
    together = _kept(histogram, [*sorted([numeric, *categories])])
    position = sorted([numeric, *categories]).index(numeric)
    labels = [category_labels(histogram.axes[index]) for index in categories]
    heights = numpy.moveaxis(together.values, position, -1).reshape(-1, len(histogram.axes[numeric]))
    errors = together.errors
    if errors is not None:
        errors = numpy.moveaxis(errors, position, -1).reshape(heights.shape)
    shape = tuple(len(texts) for texts in labels)
    names = [", ".join(labels[i][at] for i, at in enumerate(where)) for where in numpy.ndindex(shape)]
    lines = [(name, _Bins(heights[i], None if errors is None else errors[i])) for i, name in enumerate(names)]
    if len(lines) <= LINES_MAX:
        return lines
    # Omitted lines are not summed into an "other" line: categories may be variations of the same events.
    by_height = sorted(range(len(lines)), key=lambda i: -heights[i].sum())
    kept = range(LINES_MAX) if histogram.kind == boost_histogram.Kind.MEAN else sorted(by_height[:LINES_MAX])
    return [lines[i] for i in kept]


def _draw_categories(figure: Figure, histogram: boost_histogram.Histogram, categories: list[int]) -> Axes:
    """Draw a histogram without numeric axes: one category axis as labelled bins, several axes as a mesh."""
    if len(categories) > 1:
        return _draw_mesh(figure, histogram, categories[:2], categories[2:])
    axes = figure.add_subplot()
    axis = histogram.axes[categories[0]]
    bins = _kept(histogram, categories)
    edges = numpy.arange(len(axis) + 1)
    mplhep.histplot(
        bins.values, bins=edges, yerr=bins.errors, ax=axes, color=NAVY, linewidth=1.6, edges=True, flow="none"
    )
    _scale_heights(axes, [bins], headroom=1.15)
    axes.set_xlim(0, len(axis))
    label_bins(axes, axis, "x")
    axes.set_xlabel(text(axis_label(axis)))
    axes.set_ylabel(height_label(histogram))
    return axes


def _draw_mesh(figure: Figure, histogram: boost_histogram.Histogram, shown: list[int], summed: list[int]) -> Axes:
    """Draw two axes as a colour mesh with a colour bar; bins are summed over the axes ``summed``."""
    axes = figure.add_subplot()
    first, second = (histogram.axes[index] for index in shown)
    values = numpy.nan_to_num(_kept(histogram, shown).values)
    edges = []
    for position, axis in enumerate((first, second)):
        axis_edges = numpy.arange(len(axis) + 1) if is_category(axis) else numpy.asarray(axis.edges)
        starts = _starts(len(axis), MESH_BINS_MAX)
        values = numpy.add.reduceat(values, starts, axis=position)
        edges.append(numpy.append(axis_edges[starts], axis_edges[-1]))
    positive = values[values > 0]
    norm: Normalize
    if positive.size > 2 and not (values < 0).any() and positive.max() > PEAK_OVER_MEDIAN_MAX * numpy.median(positive):
        norm = LogNorm(positive.min(), positive.max())
    else:
        low, high = min(0.0, values.min()), values.max()
        norm = Normalize(low, high if high > low else low + 1)
    filled = numpy.where(values == 0, numpy.nan, values)
    mesh = axes.pcolormesh(*edges, filled.T, norm=norm, cmap="viridis", rasterized=True)
    figure.subplots_adjust(right=0.9)
    bar = figure.colorbar(mesh, ax=axes, pad=0.02, fraction=0.06)
    # At its default position, the power of ten would overlap with the note above the mesh.
    bar.ax.yaxis.get_offset_text().set_x(1.5)
    bar.set_label(height_label(histogram), fontsize="medium")
    for name, axis in (("x", first), ("y", second)):
        if is_category(axis):
            label_bins(axes, axis, name)
        elif is_logarithmic(axis):
            getattr(axes, f"set_{name}scale")("log")
    axes.set_xlabel(text(axis_label(first)))
    names = ", ".join(axis_label(histogram.axes[index]) for index in summed)
    axes.set_ylabel(text(axis_label(second)))
    if summed:
        axes.text(0.98, 0.97, text(f"sum over {names}"), transform=axes.transAxes, ha="right", va="top", fontsize=14)
    return axes


def _draw_projections(figure: Figure, histogram: boost_histogram.Histogram, numeric: list[int]) -> Axes:
    """Draw a projection onto each numeric axis, up to PROJECTIONS_MAX of them."""
    shown = numeric[:PROJECTIONS_MAX]
    figure.subplots_adjust(hspace=0.35, wspace=0.3)
    panels = [figure.add_subplot(-(-len(shown) // 2), 2, position + 1) for position in range(len(shown))]
    for axes, index in zip(panels, shown, strict=True):
        axis = histogram.axes[index]
        bins = _kept(histogram, [index])
        mplhep.histplot(
            bins.values,
            bins=axis.edges,
            yerr=bins.errors,
            ax=axes,
            color=NAVY,
            linewidth=1.6,
            edges=False,
            flow="none",
        )
        _scale_axis(axes, axis)
        _scale_heights(axes, [bins], headroom=1.15)
        axes.set_xlabel(text(axis_label(axis)))
        axes.set_ylabel(height_label(histogram))
    return panels[0]


# --- scales -----------------------------------------------------------------------------------------------------------


def _scale_axis(axes: Axes, axis: boost_histogram.axis.Axis) -> None:
    axes.set_xlim(axis.edges[0], axis.edges[-1])
    if is_logarithmic(axis):
        axes.set_xscale("log")


class _PowerOnTop(ScalarFormatter):
    """Formats ticks as plain text, and only their common power of ten as a formula.

    Matplotlib's default formats every tick label as a formula, which takes longer to parse than the plot takes to draw.
    """

    def get_offset(self) -> str:
        """Return the axis' power of ten, such as ``1e5``, as a formula."""
        power = re.fullmatch("1e(.+)", super().get_offset())
        return rf"$\times 10^{{{power.group(1)}}}$".replace("\N{MINUS SIGN}", "-") if power else super().get_offset()


def _draw_minor_ticks(axes: Axes) -> None:
    """Draw the minor ticks of each side as the markers of a single line.

    Matplotlib would create an object with its own lines and labels for each tick, which takes half the time of a
    picture.
    """
    for which, low, high, transform in (
        ("x", TICKUP, TICKDOWN, axes.get_xaxis_transform()),
        ("y", TICKRIGHT, TICKLEFT, axes.get_yaxis_transform()),
    ):
        axis = getattr(axes, f"{which}axis")
        limits = sorted(axis.get_view_interval())
        if axis.get_scale() == "linear" and not isinstance(axis.get_major_locator(), FixedLocator):
            axis.set_minor_locator(AutoMinorLocator())
        at = [place for place in axis.get_minorticklocs() if limits[0] < place < limits[1]]
        axis.set_minor_locator(NullLocator())
        for side, marker in ((0, low), (1, high)):
            sides = [side] * len(at)
            points = (at, sides) if which == "x" else (sides, at)
            axes.plot(*points, transform=transform, marker=marker, **_MINOR_TICK)


def _scale_heights(axes: Axes, lines: list[_Bins], headroom: float) -> None:
    """Set the limits of the height axis: from zero, or on a logarithmic scale if the heights span decades."""
    values = numpy.concatenate([bins.values for bins in lines])
    highest = max(float((b.values + (0 if b.errors is None else b.errors)).max()) for b in lines)
    if spans_decades(values):
        lowest = values[values > 0].min()
        axes.set_yscale("log")
        axes.set_ylim(lowest * 0.5, highest * (highest / lowest) ** (headroom - 1.0))
    elif values.min() >= 0:
        axes.set_ylim(0, highest * headroom or 1)


def _starts(bins_count: int, bins_max: int) -> Integers:
    """Return the index of the first bin in each group if neighbouring bins are joined into at most ``bins_max``
    groups.
    """
    return numpy.arange(0, bins_count, -(-bins_count // bins_max))


def _joined(bins: _Bins, starts: Integers) -> _Bins:
    errors = None if bins.errors is None else numpy.sqrt(numpy.add.reduceat(bins.errors**2, starts))
    return _Bins(numpy.add.reduceat(bins.values, starts), errors)


# --- labels, titles, remarks ------------------------------------------------------------------------------------------


def text(written: str) -> str:
    """Return a user's text in a form that matplotlib can draw: formulas are kept, a lone ``$`` becomes a dollar
    sign.
    """
    # Formulas are not truncated, because part of a formula cannot be drawn.
    shown = one_line(written, 10 * _LABEL_LENGTH_MAX if "$" in written else _LABEL_LENGTH_MAX)
    if not is_math_text(shown):
        return shown
    try:
        MathTextParser("agg").parse(shown)
    except ValueError:
        return shown.replace("$", r"\$")
    return shown


def height_label(
    histogram: boost_histogram.Histogram, axis: boost_histogram.axis.Axis | None = None, edges: Floats | None = None
) -> str:
    """Return the label for the heights of bins, in a form that matplotlib can draw."""
    return text(height_words(histogram, axis, edges))


def write_title(figure: Figure, axes: Axes, title: Title) -> None:
    """Write the wagon and the histogram's name above the frame on the left, and the note on the right."""
    # At its default position, the axis' power of ten would overlap with the start of the title.
    axes.yaxis.get_offset_text().set_x(-0.14)
    # With several panels, the second one is at the top right. If a figure has only two axes, the second is a colour
    # bar.
    last = figure.axes[1] if len(figure.axes) > 2 else axes
    right = last.text(1, 1.015, text(title.right), transform=last.transAxes, ha="right", va="bottom", fontsize=14)
    room = float(last.get_window_extent().x1) - float(axes.get_window_extent().x0) - _width(right) - 12
    left = axes.text(0, 1.015, text(title.wagon), transform=axes.transAxes, fontweight="bold", fontsize=18, va="bottom")
    _fit(left, 0.6 * room if title.name else room)
    name = axes.annotate(
        text(title.name),
        (1, 0),
        xycoords=left,
        xytext=(6, 0),
        textcoords="offset points",
        fontstyle="italic",
        fontsize=15,
        va="bottom",
    )
    _fit(name, room - _width(left) - 12)


def write_remark(axes: Axes, remark: str) -> None:
    """Write the notes on a histogram into its plot."""
    axes.text(0.03, 0.95, remark, transform=axes.transAxes, va="top", fontsize=14, color=WARNING)


def label_bins(axes: Axes, axis: boost_histogram.axis.Axis, name: str, points_max: float = 14.0) -> None:
    """Write the category names at the bin centres: slanted if they would touch, vertical if there are many."""
    labels = [text(one_line(label, _CATEGORY_LENGTH_MAX)) for label in category_labels(axis)]
    which = getattr(axes, f"{name}axis")
    box = axes.get_window_extent()
    room = (box.width if name == "x" else box.height) * 72 / axes.figure.dpi / len(labels)
    every = max(1, int(numpy.ceil(_UPRIGHT_POINTS_MIN / room)))
    which.set_ticks(numpy.arange(0, len(labels), every) + 0.5, labels[::every])
    which.set_tick_params(which="both", length=0)
    which.set_tick_params(labelsize=min(points_max, max(_UPRIGHT_POINTS_MIN, 0.9 * room)))
    if name == "x" and sum(map(len, labels)) > _LEVEL_LETTERS_MAX:
        slanted = room > _SLANTED_POINTS
        axes.tick_params(axis="x", rotation=35 if slanted else 90)
        for label in axes.get_xticklabels():
            label.set(ha="right" if slanted else "center", rotation_mode="anchor" if slanted else "default")


# --- room for text ----------------------------------------------------------------------------------------------------


def fit_labels(axes: Axes) -> None:
    """Shrink or truncate the labels of both axes to fit along them."""
    box = axes.get_window_extent()
    _fit(axes.xaxis.label, box.width)
    _fit(axes.yaxis.label, box.height)


def make_room(figure: Figure) -> None:
    """Move the edges of the panels inwards until all text fits into the picture."""
    box = figure.get_tightbbox()
    margins = figure.subplotpars
    width, height = figure.get_size_inches()
    left = margins.left + max(0.0, _EDGE - box.x0 / width)
    bottom = margins.bottom + max(0.0, _EDGE - box.y0 / height)
    right = margins.right - max(0.0, box.x1 / width - 1 + _EDGE)
    figure.subplots_adjust(left=min(left, 0.5), bottom=min(bottom, 0.6), right=max(right, 0.6))


def _fit(artist: Text, room: float) -> None:
    """Shrink a text, and truncate it if necessary, so that it is at most ``room`` pixels long."""
    long, written = _width(artist), artist.get_text()
    if long <= room or not written:
        return
    artist.set_fontsize(float(artist.get_fontsize()) * max(_SMALLEST, room / long))
    if _width(artist) > room and is_math_text(written):
        # A truncated formula cannot be typeset, so its source text is shown without ``$``.
        written = written.replace("$", "")
        artist.set_text(written)
    if _width(artist) > room:
        artist.set_text(one_line(written, max(4, int(len(written) * room / _width(artist)))))


def _width(artist: Text) -> float:
    """Return the length of a text in pixels, along its writing direction."""
    box = artist.get_window_extent()
    return float(box.height if artist.get_rotation() == 90 else box.width)
