"""Draws a histogram with two axes: a colour mesh, and the projections onto both axes with data and simulation."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm, Normalize
from matplotlib.ticker import MaxNLocator, NullFormatter

from branchline.records.pictures.matplotlib_pictures import text
from branchline.trains.results.comparison_panels import BAND, POINTS, bin_centres
from branchline.trains.results.experiments import StyledFigure, new_figure
from branchline.trains.results.plot_options import PlotOptions
from branchline.trains.results.stack_pictures import (
    BAND_LABEL,
    Layers,
    draw_stack,
    edges_of,
    groups_of,
    label_figure,
    scale_axis,
    write_note,
)
from branchline.trains.results.stacks import Contents, SampleHistogram, SampleStack, total
from branchline.writing.objects.forms import axis_label

# Part of the height of a projection that stays free above its highest bin.
_HEADROOM, _LOG_HEADROOM = 1.15, 3.0


def plane_figure(stack: SampleStack, options: PlotOptions) -> StyledFigure:
    """Return the figure of a stack with two axes. The mesh is the simulation without signals that are drawn as lines,
    or data if there is no simulation.
    """
    horizontal, vertical = (Layers.of(_projected(stack, index), options) for index in (0, 1))
    with new_figure(options.style, 8.0) as figure:
        figure.subplots_adjust(left=0.17, right=0.87, top=0.935, bottom=0.15)
        grid = figure.add_gridspec(2, 3, width_ratios=(2.6, 1, 0.14), height_ratios=(1, 2.6), hspace=0.07, wspace=0.07)
        mesh = figure.add_subplot(grid[1, 0])
        top, right = figure.add_subplot(grid[0, 0], sharex=mesh), figure.add_subplot(grid[1, 1], sharey=mesh)
        what, shown = _shown(stack, options)
        if shown is not None:
            colours = _draw_mesh(mesh, stack, shown.values, is_logarithmic=options.log)
            bar = figure.colorbar(colours, cax=figure.add_subplot(grid[1, 2]))
            if isinstance(colours.norm, LogNorm) and len(bar.get_ticks()) > 1:
                bar.ax.yaxis.set_minor_formatter(NullFormatter())
            bar.set_label(f"{what} events / bin", fontsize="small")
        draw_stack(top, horizontal)
        _draw_sideways(right, vertical)
        for which, axis in zip("xy", stack.axes, strict=True):
            scale_axis(mesh, axis, which)
        for axes, which, layers in ((top, "y", horizontal), (right, "x", vertical)):
            highest = float(layers.tops().max(initial=0)) or 1.0
            if options.log:
                getattr(axes, f"set_{which}scale")("log", nonpositive="clip")
                getattr(axes, f"set_{which}lim")(None, highest * _LOG_HEADROOM)
            else:
                getattr(axes, f"set_{which}lim")(0, highest * _HEADROOM)
        top.tick_params(labelbottom=False)
        right.tick_params(labelleft=False)
        right.tick_params(axis="x", labelrotation=90)
        if not options.log:
            # The first number would overlap with the last one of the mesh.
            right.xaxis.set_major_locator(MaxNLocator(2, prune="lower"))
        mesh.set_xlabel(text(axis_label(stack.axes[0])))
        mesh.set_ylabel(text(axis_label(stack.axes[1])))
        top.set_ylabel("Events")
        # The label is above both projections.
        frame = figure.add_subplot(grid[0, :2], frameon=False, xticks=[], yticks=[])
        label_figure(frame, stack, options, has_data=horizontal.data is not None, is_above=True)
        _write_legend(top)
        write_note(figure, stack, options)
        figure.align_ylabels()
    return figure


def _projected(stack: SampleStack, index: int) -> SampleStack:
    """Return the projection of a stack with two axes onto one of them."""
    other = 1 - index
    samples = [
        SampleHistogram(
            one.sample,
            {
                name: Contents(bins.values.sum(axis=other), bins.variances.sum(axis=other))
                for name, bins in one.by_variation.items()
            },
        )
        for one in stack.samples
    ]
    return SampleStack(stack.wagon, stack.key, (stack.axes[index],), samples, stack.has_flow)


def _shown(stack: SampleStack, options: PlotOptions) -> tuple[str, Contents | None]:
    """Return what the mesh shows, with its name."""
    simulated = [one for one in stack.samples if not one.sample.is_data and one.sample.name not in options.signal]
    if simulated:
        return "Simulated", total(simulated)
    return "", None if options.blind else total([one for one in stack.samples if one.sample.is_data])


def _draw_mesh(axes: Axes, stack: SampleStack, values: np.ndarray, *, is_logarithmic: bool) -> QuadMesh:
    positive = values[values > 0]
    norm: Normalize
    if is_logarithmic and positive.size and positive.max() > positive.min():
        norm = LogNorm(float(positive.min()), float(positive.max()))
    else:
        norm = Normalize(min(0.0, float(values.min())), float(values.max()) or 1.0)
    filled = np.where(values == 0, np.nan, values)
    edges = [edges_of(axis) for axis in stack.axes]
    return axes.pcolormesh(*edges, filled.T, norm=norm, cmap="viridis", rasterized=True)


def _draw_sideways(axes: Axes, layers: Layers) -> None:
    """Draw a stack along the vertical axis."""
    edges, nominal = layers.edges, total(layers.simulated)
    if nominal is not None:
        below = np.zeros(len(edges) - 1)
        for _, colour, contents in groups_of(layers.simulated):
            above = below + contents.values
            axes.stairs(above, edges, baseline=below, fill=True, orientation="horizontal", color=colour)
            below = above
        low, high = layers.band()
        options = {**BAND, "orientation": "horizontal", "fill": True}
        axes.stairs(nominal.values + high, edges, baseline=nominal.values - low, **options)
    for colour, one in layers.coloured_lines():
        axes.stairs(one.nominal.values, edges, color=colour, linewidth=2.6, orientation="horizontal")
    if layers.data is not None:
        centres, across = bin_centres(edges)
        axes.errorbar(layers.data.values, centres, across, np.stack(layers.data_errors()), **POINTS)


def _write_legend(top: Axes) -> None:
    """Write the legend to the right of the upper projection."""
    handles, labels = top.get_legend_handles_labels()
    entries = [
        (handle, label) for handle, label in zip(handles, labels, strict=True) if not label.startswith(BAND_LABEL)
    ]
    if entries:
        top.legend(*zip(*entries, strict=True), loc="upper left", bbox_to_anchor=(1.0, 1.04))
