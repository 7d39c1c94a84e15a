"""A picture of each histogram in the style of the field, as SVG and, if wanted, as PNG.

One numeric axis is drawn as steps with errors, categories next to it as several lines, two numeric axes as a colour
mesh, more as their projections.
"""

from __future__ import annotations

import contextlib
import logging
import math
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

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

from branchline.base.texts import one_line
from branchline.base.whole_files import whole_file
from branchline.records.pictures.meaning import (
    ERROR_BARS_BINS_MAX,
    Title,
    finite,
    height_words,
    inner_bins,
    remark_on,
    spans_decades,
)
from branchline.records.result_files.job_files import PICTURES
from branchline.writing.objects.forms import axis_label, category_labels, is_category

#: Categories drawn as lines of their own; more cannot be distinguished by colour, and the legend has their number.
LINES_MAX = 8
#: A colour mesh whose highest bin stands this far above the usual filled one needs logarithmic colours to show it.
PEAK_OVER_MEDIAN_MAX = 30.0
#: Axes of a histogram with more than two that are drawn, in two columns.
PROJECTIONS_MAX = 6
#: Bins of a line, and of each side of a colour mesh; finer ones are no longer seen and cost seconds.
LINE_BINS_MAX, MESH_BINS_MAX = 2000, 1000
#: Length of a label, and of a category's name at the axis; longer ones would take the room of the histogram.
_LABEL_LENGTH_MAX, _CATEGORY_LENGTH_MAX = 60, 26
#: Letters of all categories in a row that fit without being slanted; room for one line when they are.
_LEVEL_LETTERS_MAX, _SLANTED_POINTS, _UPRIGHT_POINTS_MIN = 50, 22.0, 6.5
#: A text that is too long for its place is made smaller down to this part of its size, then cut.
_SMALLEST = 0.65
#: Share of the figure left free at its edges.
_EDGE = 0.012
#: Colours that the colour blind can distinguish (M. Petroff, arXiv:2107.02270), the darker ones first.
_COLOURS = ("#3f90da", "#bd1f01", "#ffa90e", "#832db6", "#94a4a2", "#a96b59", "#e76300", "#92dadd", "#717581")
_LINE = "#1b3a5c"
#: Fonts with many scripts; installed ones draw letters that the style's own font lacks.
_FALLBACK_FONTS = [
    name
    for name in ("DejaVu Sans", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "IPAGothic", "Noto Sans Symbols2", "Symbola")
    if name in matplotlib.font_manager.get_font_names()
]
_STYLE: dict[str, Any] = {
    **mplhep.style.ROOT,
    "figure.figsize": (8.0, 6.0),
    "figure.subplot.left": 0.15,
    "figure.subplot.right": 0.955,
    "figure.subplot.bottom": 0.13,
    "figure.subplot.top": 0.93,
    # Longer numbers than these leave the picture on the left.
    "axes.formatter.limits": (-3, 5),
    # Drawn by _draw_minor_ticks, many times as fast.
    "xtick.minor.visible": False,
    "ytick.minor.visible": False,
    "font.size": 18,
    "axes.labelsize": "medium",
    "xtick.labelsize": "small",
    "ytick.labelsize": "small",
    # The first number of one axis must not touch that of the other.
    "xtick.major.pad": 10,
    "legend.fontsize": "x-small",
    "lines.linewidth": 1.6,
    "axes.linewidth": 1.2,
    "savefig.dpi": 120,
    "savefig.facecolor": "white",
    "figure.facecolor": "white",
    # Ids in the SVG come from the content, so that the same result gives the same picture.
    "svg.hashsalt": "branchline",
    "svg.fonttype": "path",
}
_MINOR_TICK: dict[str, Any] = {
    "linestyle": "none",
    "color": "black",
    "markersize": 5,
    "markeredgewidth": 0.8,
    "scalex": False,
    "scaley": False,
}


# Matplotlib warns for each root that its own name of the sign is not a letter, but draws it.
logging.getLogger("matplotlib.mathtext").addFilter(lambda record: "__radicalbig__" not in str(record.args))


def write_picture(
    out_dir: Path, path: tuple[str, ...], histogram: Any, title: Title, *, with_png: bool = False
) -> str | None:
    """Draw one histogram to ``pictures/<path>.svg``, and to ``.png``, which takes as long again.

    Returns the SVG's path relative to ``out_dir``, or None when there is nothing to draw (no axis has a bin). Raises
    StorageError.
    """
    if len(histogram.axes) == 0 or 0 in histogram.axes.size:
        return None
    relative = Path(PICTURES, *path[:-1], f"{path[-1]}.svg")
    with styled(has_other_letters=_has_other_letters(histogram, title)):
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
    """Inside the block figures are drawn and saved in the style of the field. Letters that the first font lacks are
    taken from other fonts, if there may be such; looking for them in each text takes a tenth of the time of a picture.
    """
    fonts: dict[str, Any] = {"font.family": ["sans-serif", *_FALLBACK_FONTS]} if has_other_letters else {}
    with matplotlib.style.context({**_STYLE, **fonts}), warnings.catch_warnings():
        # A letter that no font has, errors below zero on a logarithmic scale: the picture is as good as it can be.
        warnings.simplefilter("ignore", UserWarning)
        yield


def _has_other_letters(histogram: Any, title: Title) -> bool:
    texts = [*title, str(getattr(histogram, "label", None) or "")]
    for axis in histogram.axes:
        texts += [axis_label(axis), *(category_labels(axis) if is_category(axis) else ())]
    metadata = getattr(histogram, "__dict__", {}).get("metadata")
    return not all(one.isascii() for one in (*texts, str(metadata or "")))


def draw(histogram: Any, title: Title) -> Figure:
    """Return the picture of a histogram that has at least one axis, and each axis a bin."""
    figure = Figure()
    FigureCanvasAgg(figure)
    axes = _draw(figure, histogram)
    remark = remark_on(histogram)
    if remark:
        write_remark(axes, remark)
    for panel in figure.axes:
        _write_powers(panel)
        _draw_minor_ticks(panel)
        fit_labels(panel)
    if any(is_category(axis) for axis in histogram.axes):
        # Numbers fit by the style's margins; measuring takes a tenth of the time of a picture.
        make_room(figure)
    write_title(figure, axes, title)
    return figure


def _draw(figure: Figure, histogram: Any) -> Axes:
    """Draw by the kinds of the axes; the axes returned are those that the title stands above."""
    numeric = [index for index, axis in enumerate(histogram.axes) if not is_category(axis)]
    categories = [index for index, axis in enumerate(histogram.axes) if is_category(axis)]
    if len(numeric) == 0:
        return _draw_categories(figure, histogram, categories)
    if len(numeric) == 1:
        return _draw_lines(figure, histogram, numeric[0], categories)
    if len(numeric) == 2:
        return _draw_mesh(figure, histogram, numeric, categories)
    return _draw_projections(figure, histogram, numeric)


# --- what is drawn ----------------------------------------------------------------------------------------------------


class _Bins(NamedTuple):
    """Heights of bins and their errors.

    ``errors`` is None where the histogram does not know them; a mean of nothing is not a number.
    """

    values: numpy.ndarray
    errors: numpy.ndarray | None


def _kept(histogram: Any, kept: list[int]) -> _Bins:
    """Return the bins of the axes ``kept``, in their order, summed over everything in the other axes."""
    if issubclass(histogram.storage_type, boost_histogram.storage.Mean | boost_histogram.storage.WeightedMean):
        projected = histogram if kept == list(range(len(histogram.axes))) else histogram.project(*kept)
        means = numpy.where(projected.counts() > 0, finite(projected.values()), numpy.nan)
        return _Bins(means, numpy.sqrt(numpy.maximum(finite(projected.variances()), 0)))
    inner = tuple(inner_bins(axis) if index in kept else slice(None) for index, axis in enumerate(histogram.axes))
    summed = tuple(index for index in range(len(histogram.axes)) if index not in kept)
    values = histogram.values(flow=True)[inner].sum(axis=summed)
    variances = histogram.variances(flow=True)
    if variances is None:
        return _Bins(finite(values), None)
    return _Bins(finite(values), numpy.sqrt(numpy.maximum(finite(variances[inner].sum(axis=summed)), 0)))


def _draw_lines(figure: Figure, histogram: Any, numeric: int, categories: list[int]) -> Axes:
    """Draw one numeric axis as steps, a line for each combination of categories."""
    axes = figure.add_subplot()
    axis = histogram.axes[numeric]
    is_mean = histogram.kind == boost_histogram.Kind.MEAN
    lines = _lines(histogram, numeric, categories)
    edges = numpy.asarray(axis.edges)
    if not is_mean and len(axis) > LINE_BINS_MAX:
        lines = [(label, _joined(bins, _starts(len(axis), LINE_BINS_MAX))) for label, bins in lines]
        edges = numpy.append(edges[_starts(len(axis), LINE_BINS_MAX)], edges[-1])
    for index, (label, bins) in enumerate(lines):
        colour = _COLOURS[index % len(_COLOURS)] if label else _LINE
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


def _lines(histogram: Any, numeric: int, categories: list[int]) -> list[tuple[str, _Bins]]:
    """Return (label, bins) of each combination of categories, the largest first where not all can be shown."""
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
    # What is left out is not added up to one line: categories may be variations of the same events.
    by_height = sorted(range(len(lines)), key=lambda i: -heights[i].sum())
    kept = range(LINES_MAX) if histogram.kind == boost_histogram.Kind.MEAN else sorted(by_height[:LINES_MAX])
    return [lines[i] for i in kept]


def _draw_categories(figure: Figure, histogram: Any, categories: list[int]) -> Axes:
    """Draw categories alone: as labelled bins, or as a mesh of labels when there are two axes of them."""
    if len(categories) > 1:
        return _draw_mesh(figure, histogram, categories[:2], categories[2:])
    axes = figure.add_subplot()
    axis = histogram.axes[categories[0]]
    bins = _kept(histogram, categories)
    edges = numpy.arange(len(axis) + 1)
    mplhep.histplot(
        bins.values, bins=edges, yerr=bins.errors, ax=axes, color=_LINE, linewidth=1.6, edges=True, flow="none"
    )
    _scale_heights(axes, [bins], headroom=1.15)
    axes.set_xlim(0, len(axis))
    label_bins(axes, axis, "x")
    axes.set_xlabel(text(axis_label(axis)))
    axes.set_ylabel(height_label(histogram))
    return axes


def _draw_mesh(figure: Figure, histogram: Any, shown: list[int], summed: list[int]) -> Axes:
    """Draw two axes as a colour mesh with its colour bar, summed over the axes ``summed``."""
    axes = figure.add_subplot()
    first, second = (histogram.axes[index] for index in shown)
    values = numpy.nan_to_num(_kept(histogram, shown).values)
    edges = []
    for position, axis in enumerate((first, second)):
        axis_edges = numpy.arange(len(axis) + 1) if is_category(axis) else numpy.asarray(axis.edges)
        starts = _starts(len(axis), MESH_BINS_MAX)
        values = numpy.add.reduceat(values, starts, axis=position)
        edges.append(numpy.append(axis_edges[starts], axis_edges[-1]))
    filled = numpy.where(values == 0, numpy.nan, values)
    mesh = axes.pcolormesh(*edges, filled.T, norm=_norm(values), cmap="viridis", rasterized=True)
    figure.subplots_adjust(right=0.9)
    bar = figure.colorbar(mesh, ax=axes, pad=0.02, fraction=0.06)
    # Its power of ten would run into the note above the mesh.
    bar.ax.yaxis.get_offset_text().set_x(1.5)
    bar.set_label(height_label(histogram), fontsize="medium")
    for name, axis in (("x", first), ("y", second)):
        if is_category(axis):
            label_bins(axes, axis, name)
        elif _is_logarithmic(axis):
            getattr(axes, f"set_{name}scale")("log")
    axes.set_xlabel(text(axis_label(first)))
    names = ", ".join(axis_label(histogram.axes[index]) for index in summed)
    axes.set_ylabel(text(axis_label(second)))
    if summed:
        axes.text(0.98, 0.97, text(f"sum over {names}"), transform=axes.transAxes, ha="right", va="top", fontsize=14)
    return axes


def _draw_projections(figure: Figure, histogram: Any, numeric: list[int]) -> Axes:
    """Draw each numeric axis on its own, summed over all the others; as many as there is room for."""
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
            color=_LINE,
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


def _is_logarithmic(axis: Any) -> bool:
    return getattr(axis, "transform", None) == boost_histogram.axis.transform.log and axis.edges[0] > 0


def _scale_axis(axes: Axes, axis: Any) -> None:
    axes.set_xlim(axis.edges[0], axis.edges[-1])
    if _is_logarithmic(axis):
        axes.set_xscale("log")


class _PowerOnTop(ScalarFormatter):
    """Writes plain numbers at the ticks and their common power of ten as a formula.

    Matplotlib's own way makes a formula of every number, and parsing those takes longer than drawing the picture.
    """

    def get_offset(self) -> str:
        """Return ``1e5`` as a power of ten."""
        power = re.fullmatch("1e(.+)", super().get_offset())
        return rf"$\times 10^{{{power.group(1)}}}$".replace("\N{MINUS SIGN}", "-") if power else super().get_offset()


def _write_powers(axes: Axes) -> None:
    for axis in (axes.xaxis, axes.yaxis):
        if type(axis.get_major_formatter()) is ScalarFormatter:
            axis.set_major_formatter(_PowerOnTop())
    # Nearer it touches the last number of the axis.
    axes.yaxis.OFFSETTEXTPAD = 8
    # On the right it would stand in the axis' label.
    axes.xaxis.get_offset_text().set(x=0, horizontalalignment="left")


def _draw_minor_ticks(axes: Axes) -> None:
    """Draw the minor ticks of each side as the markers of one line.

    As ticks each of them is an object with lines and labels of its own, and takes half the time of a picture.
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
    """Start the heights at zero, or use a logarithmic scale where they span decades."""
    values = numpy.concatenate([bins.values for bins in lines])
    highest = max(float((b.values + (0 if b.errors is None else b.errors)).max()) for b in lines)
    if spans_decades(values):
        lowest = values[values > 0].min()
        axes.set_yscale("log")
        axes.set_ylim(lowest * 0.5, highest * (highest / lowest) ** (headroom - 1.0))
    elif values.min() >= 0:
        axes.set_ylim(0, highest * headroom or 1)


def _norm(values: numpy.ndarray) -> Normalize:
    filled = values[values > 0]
    if filled.size > 2 and not (values < 0).any() and filled.max() > PEAK_OVER_MEDIAN_MAX * numpy.median(filled):
        return LogNorm(filled.min(), filled.max())
    low, high = min(0.0, values.min()), values.max()
    return Normalize(low, high if high > low else low + 1)


def _starts(bins_count: int, bins_max: int) -> numpy.ndarray:
    """Return the first bin of each group when neighbours are joined until there are at most ``bins_max`` groups."""
    return numpy.arange(0, bins_count, -(-bins_count // bins_max))


def _joined(bins: _Bins, starts: numpy.ndarray) -> _Bins:
    errors = None if bins.errors is None else numpy.sqrt(numpy.add.reduceat(bins.errors**2, starts))
    return _Bins(numpy.add.reduceat(bins.values, starts), errors)


# --- labels, titles, remarks ------------------------------------------------------------------------------------------


def text(written: str) -> str:
    """Return a user's text as matplotlib can draw it: formulas stay formulas, a lone ``$`` is a dollar."""
    # A formula is never cut: half of one cannot be drawn.
    shown = one_line(written, 10 * _LABEL_LENGTH_MAX if "$" in written else _LABEL_LENGTH_MAX)
    if not is_math_text(shown):
        return shown
    try:
        MathTextParser("agg").parse(shown)
    except ValueError:
        return shown.replace("$", r"\$")
    return shown


def height_label(histogram: Any, axis: Any = None, edges: numpy.ndarray | None = None) -> str:
    """Return what a bin's height means, as matplotlib can draw it."""
    return text(height_words(histogram, axis, edges))


def write_title(figure: Figure, axes: Axes, title: Title) -> None:
    """Write wagon and histogram above the frame on the left, and the note on the right."""
    # The power of ten of the axis would stand where the title begins.
    axes.yaxis.get_offset_text().set_x(-0.14)
    # The second of several panels stands on the right; a second one next to a mesh is its colour bar.
    last = figure.axes[1] if len(figure.axes) > 2 else axes
    above: dict[str, Any] = {"va": "bottom", "fontsize": 14}
    right = last.text(1, 1.015, text(title.right), transform=last.transAxes, ha="right", **above)
    room = _right_of(last) - _left_of(axes) - _width(right) - 12
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
    """Write the notes on a histogram into its picture."""
    axes.text(0.03, 0.95, remark, transform=axes.transAxes, va="top", fontsize=14, color="#a01f18")


def label_bins(axes: Axes, axis: Any, name: str) -> None:
    """Write the categories at the middles of their bins: slanted when they would touch, upright when they are many."""
    labels = [text(one_line(label, _CATEGORY_LENGTH_MAX)) for label in category_labels(axis)]
    which = getattr(axes, f"{name}axis")
    box = axes.get_window_extent()
    room = (box.width if name == "x" else box.height) * 72 / axes.figure.dpi / len(labels)
    every = max(1, int(numpy.ceil(_UPRIGHT_POINTS_MIN / room)))
    which.set_ticks(numpy.arange(0, len(labels), every) + 0.5, labels[::every])
    which.set_tick_params(which="both", length=0)
    which.set_tick_params(labelsize=min(14.0, max(_UPRIGHT_POINTS_MIN, 0.9 * room)))
    if name == "x" and sum(map(len, labels)) > _LEVEL_LETTERS_MAX:
        slanted = room > _SLANTED_POINTS
        axes.tick_params(axis="x", rotation=35 if slanted else 90)
        for label in axes.get_xticklabels():
            label.set(ha="right" if slanted else "center", rotation_mode="anchor" if slanted else "default")


# --- room for them ----------------------------------------------------------------------------------------------------


def fit_labels(axes: Axes) -> None:
    """Make the labels of both axes fit along them."""
    box = axes.get_window_extent()
    _fit(axes.xaxis.label, box.width)
    _fit(axes.yaxis.label, box.height)


def make_room(figure: Figure) -> None:
    """Move the edges of the panels inwards until nothing that is written leaves the picture."""
    box = figure.get_tightbbox()
    margins = figure.subplotpars
    width, height = figure.get_size_inches()
    left = margins.left + max(0.0, _EDGE - box.x0 / width)
    bottom = margins.bottom + max(0.0, _EDGE - box.y0 / height)
    right = margins.right - max(0.0, box.x1 / width - 1 + _EDGE)
    figure.subplots_adjust(left=min(left, 0.5), bottom=min(bottom, 0.6), right=max(right, 0.6))


def _fit(artist: Text, room: float) -> None:
    """Make a text smaller, and cut it if need be, until it is at most ``room`` pixels long."""
    long, written = _width(artist), artist.get_text()
    if long <= room or not written:
        return
    artist.set_fontsize(float(artist.get_fontsize()) * max(_SMALLEST, room / long))
    if _width(artist) > room and is_math_text(written):
        # Half of a formula cannot be drawn, so it is written as its author typed it.
        written = written.replace("$", "")
        artist.set_text(written)
    if _width(artist) > room:
        artist.set_text(one_line(written, max(4, int(len(written) * room / _width(artist)))))


def _width(artist: Text) -> float:
    """Return the length of a text in pixels, along its line."""
    box = artist.get_window_extent()
    return float(box.height if artist.get_rotation() == 90 else box.width)


def _left_of(axes: Axes) -> float:
    return float(axes.get_window_extent().x0)


def _right_of(axes: Axes) -> float:
    return float(axes.get_window_extent().x1)
