"""Draws a stack of samples with matplotlib, in the styles of mplhep."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import boost_histogram
import mplhep
import numpy as np
from matplotlib.axes import Axes
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.ticker import NullLocator

from branchline.base.palette import SIGNALS, STACKED
from branchline.records.pictures.matplotlib_pictures import label_bins, make_room, text
from branchline.records.pictures.meaning import is_logarithmic
from branchline.records.pictures.poisson import garwood
from branchline.trains.results.comparison_panels import BAND, POINTS, bin_centres, draw_panel
from branchline.trains.results.experiments import StyledFigure, new_figure, write_label
from branchline.trains.results.plot_options import PlotOptions
from branchline.trains.results.stacks import Axis, Contents, SampleHistogram, SampleStack, total
from branchline.trains.results.systematics import Uncertainty, band
from branchline.writing.objects.forms import axis_label, is_category

# Part of the height above the highest bin that stays free, without text.
_HEADROOM, _LOG_HEADROOM = 1.12, 3.0
# Minimum distance between bins and texts, and the lowest position of a text, as fractions of the height.
_DISTANCE, _TEXT_LOWEST = 0.03, 0.35
#: How the label of the uncertainty band begins.
BAND_LABEL = "stat."
# Height of a note below the frame, as a fraction of the figure.
_NOTE_HEIGHT = 0.03
# Maximum part of the height of the frame that a legend covers.
_LEGEND_MAX = 0.6
# Number of entries of a legend in one column.
_COLUMN_MAX = 5
# Size of the labels of categories.
_LABEL_POINTS = 20.0
# Above this count, floats do not represent all integers.
_COUNT_MAX = 2**53
_FLOW_NOTE = "Outer bins include underflow and overflow"
_CATEGORY_NOTE = "Entries in other categories are left out"


@dataclass(frozen=True)
class Layers:
    """What is drawn of a stack: data with its intervals, simulation with its uncertainties, and signals as lines."""

    edges: np.ndarray
    data: Contents | None
    simulated: list[SampleHistogram]
    lines: list[SampleHistogram]
    uncertainties: list[Uncertainty]

    @classmethod
    def of(cls, stack: SampleStack, options: PlotOptions) -> Layers:
        """Return the layers of a stack with one axis."""
        data = [one for one in stack.samples if one.sample.is_data and not options.blind]
        lines = [one for one in stack.samples if one.sample.name in options.signal and not one.sample.is_data]
        simulated = [one for one in stack.samples if not one.sample.is_data and one not in lines]
        # Draw signals on top of the stack.
        simulated.sort(key=lambda one: one.sample.kind == "signal")
        samples = [one.sample for one in stack.samples if not one.sample.is_data]
        uncertainties = options.systematics.uncertainties(stack.variations(), samples)
        return cls(edges_of(stack.axis), total(data), simulated, lines, uncertainties)

    def data_errors(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the errors of data below and above: Poisson intervals of counts, or the errors of weights."""
        assert self.data is not None
        values, variances = self.data.values, self.data.variances
        are_counts = np.array_equal(values, variances) and np.array_equal(values, np.round(values))
        if are_counts and np.all((values >= 0) & (values < _COUNT_MAX)):
            low, high = garwood(values)
            return values - low, high - values
        return np.sqrt(variances), np.sqrt(variances)

    def band(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the uncertainty of the simulation below and above."""
        return band(self.simulated, self.uncertainties)

    def coloured_lines(self) -> list[tuple[str, SampleHistogram]]:
        """Return the signals that are drawn as lines, with their colours."""
        return [(SIGNALS[number % len(SIGNALS)], one) for number, one in enumerate(self.lines)]

    def tops(self) -> np.ndarray:
        """Return the highest point that is drawn in each bin."""
        tops = [np.zeros(len(self.edges) - 1), *(one.nominal.values for one in self.lines)]
        if self.data is not None:
            tops.append(self.data.values + self.data_errors()[1])
        simulated = total(self.simulated)
        if simulated is not None:
            tops.append(simulated.values + self.band()[1])
        return np.asarray(np.max(np.nan_to_num(tops, posinf=0), axis=0))


def stack_figure(stack: SampleStack, options: PlotOptions) -> StyledFigure:
    """Return the figure of a stack with one axis."""
    layers = Layers.of(stack, options)
    nominal = total(layers.simulated)
    has_panel = options.panel != "none" and layers.data is not None and nominal is not None
    has_note = bool(_note(stack, options))
    with new_figure(options.style, 8.0 if has_panel else 6.8) as figure:
        bottom = (0.105 if has_panel else 0.125) + (_NOTE_HEIGHT if has_note else 0)
        figure.subplots_adjust(left=0.17, right=0.965, top=0.935, bottom=bottom)
        if has_panel:
            main, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": (3, 1), "hspace": 0.06})
        else:
            main, below = figure.subplots(), None
        draw_stack(main, layers)
        if below is not None and layers.data is not None and nominal is not None:
            errors, uncertainty = layers.data_errors(), layers.band()
            draw_panel(below, options.panel, layers.edges, layers.data, errors, nominal.values, uncertainty)
            main.tick_params(labelbottom=False)
        lowest = main if below is None else below
        scale_axis(lowest, stack.axis)
        lowest.set_xlabel(text(axis_label(stack.axis)))
        main.set_ylabel(text(_height_label(stack.axis)))
        _scale_heights(main, layers, log=options.log)
        if is_category(stack.axis):
            make_room(figure)
            figure.subplots_adjust(bottom=figure.subplotpars.bottom + (_NOTE_HEIGHT if has_note else 0))
        inside = label_figure(main, stack, options, has_data=layers.data is not None)
        legend = write_legend(main, inside)
        _make_headroom(main, layers, [one for one in (*inside, legend) if one is not None])
        write_note(figure, stack, options)
        figure.align_ylabels()
    return figure


def edges_of(axis: Axis) -> np.ndarray:
    """Return the edges of the bins. Categories have a width of 1; integers are at the centres of their bins. A bin
    without an end is drawn as wide as its neighbour.
    """
    if is_category(axis):
        return np.arange(len(axis) + 1)
    edges = np.array(axis.edges, dtype=np.float64)
    if isinstance(axis, boost_histogram.axis.Integer):
        return edges - 0.5
    for end, next_to, after in ((0, 1, 2), (-1, -2, -3)):
        if not np.isfinite(edges[end]):
            width = edges[next_to] - edges[after] if len(edges) > 2 and np.isfinite(edges[after]) else 0.0
            edges[end] = edges[next_to] + (width or 1 - 2 * (end == 0))
    return edges


def scale_axis(axes: Axes, axis: Axis, which: str = "x") -> None:
    """Set the limits and the scale of an axis, and label categories."""
    edges = edges_of(axis)
    getattr(axes, f"set_{which}lim")(edges[0], edges[-1])
    if is_category(axis):
        getattr(axes, f"{which}axis").set_minor_locator(NullLocator())
        label_bins(axes, axis, which, _LABEL_POINTS)
    elif is_logarithmic(axis):
        getattr(axes, f"set_{which}scale")("log")


def draw_stack(axes: Axes, layers: Layers) -> None:
    """Draw the simulation with its band, the signals and the data."""
    edges, nominal = layers.edges, total(layers.simulated)
    if nominal is not None:
        groups = groups_of(layers.simulated)
        mplhep.histplot(
            [contents.values for _, _, contents in groups],
            bins=edges,
            stack=True,
            histtype="fill",
            ax=axes,
            color=[colour for _, colour, _ in groups],
            label=[text(label) for label, _, _ in groups],
            flow="none",
        )
        below, above = layers.band()
        what = f"{BAND_LABEL} and syst. unc." if layers.uncertainties else f"{BAND_LABEL} unc."
        axes.stairs(nominal.values + above, edges, baseline=nominal.values - below, fill=True, label=what, **BAND)
    for colour, one in layers.coloured_lines():
        axes.stairs(one.nominal.values, edges, color=colour, linewidth=2.6, label=text(one.sample.label))
    if layers.data is not None:
        centres, across = bin_centres(edges)
        errors = np.stack(layers.data_errors())
        axes.errorbar(centres, layers.data.values, errors, across, label="Data", **POINTS)


def label_figure(
    axes: Axes, stack: SampleStack, options: PlotOptions, *, has_data: bool, is_above: bool = False
) -> list[Text]:
    """Write the experiment's label with luminosity and energy. Return the texts inside the frame."""
    simulated = {one.sample.luminosity_per_fb for one in stack.samples if not one.sample.is_data}
    of_data = [one.sample.luminosity_per_fb or 0.0 for one in stack.samples if one.sample.is_data]
    # The simulation is scaled to the total luminosity of the data.
    luminosity = simulated.pop() if len(simulated) == 1 else sum(of_data) or None
    return write_label(
        axes,
        options.style,
        options.label,
        has_data=has_data or options.blind,
        luminosity_per_fb=luminosity,
        energy=options.energy,
        is_above=is_above,
    )


def write_legend(axes: Axes, inside: Sequence[Text]) -> Legend | None:
    """Write the legend: data first, then the layers of the stack from the top, and the uncertainty band last. It is
    below the texts inside the frame if they leave no space beside them.
    """
    handles, labels = axes.get_legend_handles_labels()
    if not labels:
        return None
    order = sorted(range(len(labels)), key=lambda i: (labels[i] != "Data", labels[i].startswith(BAND_LABEL), i))
    chosen, names = [handles[i] for i in order], [labels[i] for i in order]
    renderer = axes.figure.canvas.get_renderer()  # type: ignore[attr-defined]
    frame = axes.get_window_extent(renderer)
    for columns in range(-(-len(labels) // _COLUMN_MAX), 0, -1):
        legend = axes.legend(chosen, names, ncols=columns, loc="upper right")
        if legend.get_window_extent(renderer).width < frame.width:
            break
    box = legend.get_window_extent(renderer)
    # With very many samples, small texts are better than none.
    fits = min(1.0, frame.width / box.width, _LEGEND_MAX * frame.height / box.height)
    size = float(legend.get_texts()[0].get_fontsize()) * fits
    legend = axes.legend(chosen, names, ncols=columns, loc="upper right", fontsize=size)
    left, boxes = legend.get_window_extent(renderer).x0, [one.get_window_extent(renderer) for one in inside]
    if any(box.x1 + _DISTANCE * frame.width > left for box in boxes):
        lowest = axes.transAxes.inverted().transform((0, min(box.y0 for box in boxes)))[1]
        place = (1.0, float(lowest))
        legend = axes.legend(chosen, names, ncols=columns, fontsize=size, loc="upper right", bbox_to_anchor=place)
    return legend


def write_note(figure: StyledFigure, stack: SampleStack, options: PlotOptions) -> None:
    """Write a note on what the figure leaves out or adds, below the frame."""
    figure.text(0.02, 0.012, _note(stack, options), fontsize=17, color="0.3", va="bottom", gid="note")


def _note(stack: SampleStack, options: PlotOptions) -> str:
    notes = ["Blinded"] if options.blind else []
    if stack.has_flow and any(map(is_category, stack.axes)):
        notes.append(_CATEGORY_NOTE)
    elif stack.has_flow and options.overflow:
        notes.append(_FLOW_NOTE)
    return ". ".join(notes)


def groups_of(simulated: Sequence[SampleHistogram]) -> list[tuple[str, str, Contents]]:
    """Return the layers of the stack with their labels and colours, from bottom to top."""
    groups: dict[str, tuple[str, list[SampleHistogram]]] = {}
    for one in simulated:
        name = one.sample.group or one.sample.name
        groups.setdefault(name, (one.sample.group or one.sample.label, []))[1].append(one)
    colours = {True: itertools.cycle(SIGNALS), False: itertools.cycle(STACKED)}
    layers = []
    for label, members in groups.values():
        contents = total(members)
        assert contents is not None
        layers.append((label, next(colours[members[0].sample.kind == "signal"]), contents))
    return layers


def _height_label(axis: Axis) -> str:
    if is_category(axis) or isinstance(axis, boost_histogram.axis.Integer):
        return "Events"
    widths, label = np.diff(edges_of(axis)), axis_label(axis)
    unit = label.rpartition("[")[2].partition("]")[0] if label.endswith("]") else ""
    is_even = np.allclose(widths, widths[0], rtol=1e-6)
    return f"Events / {widths[0]:.3g} {unit}".rstrip() if is_even else "Events / bin"


def _scale_heights(axes: Axes, layers: Layers, *, log: bool) -> None:
    """Set the limits of the heights, without room for texts."""
    tops = layers.tops()
    highest = float(tops.max(initial=0))
    if log:
        axes.set_yscale("log", nonpositive="clip")
        lowest = float(np.min(tops, where=tops > 0, initial=highest or 1))
        axes.set_ylim(lowest / 3, max(lowest, highest) * _LOG_HEADROOM)
    else:
        axes.set_ylim(0, _HEADROOM * highest if highest > 0 else 1)
    # At its default position, the axis' power of ten would overlap with the label of the experiment.
    axes.yaxis.get_offset_text().set_x(-0.16)


def _make_headroom(axes: Axes, layers: Layers, texts: Sequence[Text | Legend]) -> None:
    """Raise the upper limit of the heights until no bin reaches into a text."""
    renderer = axes.figure.canvas.get_renderer()  # type: ignore[attr-defined]
    across = axes.transData.transform(np.column_stack([layers.edges, np.ones(len(layers.edges))]))[:, 0]
    frame = axes.get_window_extent(renderer)
    is_log = axes.get_yscale() == "log"
    low, limit = axes.get_ylim()
    tops = np.maximum(layers.tops(), low)
    bottom, heights = (np.log(low), np.log(tops)) if is_log else (low, tops)
    highest = np.log(limit) if is_log else limit
    for one in texts:
        box = one.get_window_extent(renderer)
        is_under = (across[1:] > box.x0) & (across[:-1] < box.x1)
        if is_under.any():
            room = max(_TEXT_LOWEST, (box.y0 - frame.y0) / frame.height - _DISTANCE)
            highest = max(highest, bottom + (float(heights[is_under].max()) - bottom) / room)
    axes.set_ylim(low, float(np.exp(highest)) if is_log else highest)
