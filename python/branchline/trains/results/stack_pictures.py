"""Draws a stack of samples with matplotlib, in the styles of mplhep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import boost_histogram
import matplotlib.style
import mplhep
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from branchline.base.palette import SIGNALS, STACKED
from branchline.records.pictures.matplotlib_pictures import text
from branchline.trains.results.stacks import Contents, SampleHistogram, SampleStack, band, total
from branchline.writing.objects.forms import axis_label

#: The ratio axis shows at most 1 plus or minus this value, and less if all points are closer to 1.
_RATIO_MAX = 1.0
#: Markers for points outside the ratio panel, by side: the symbol, and its height as a fraction of the panel.
_OUTSIDE: dict[str, tuple[str, float]] = {"above": ("^", 0.93), "below": ("v", 0.07)}
_HEADROOM, _LOG_HEADROOM = 1.5, 300.0
#: Font sizes for the figure size used here. The styles of the experiments are made for different figure sizes.
_SIZES: Any = {
    "font.size": 18,
    "axes.labelsize": "medium",
    "axes.titlesize": "small",
    "xtick.labelsize": "small",
    "ytick.labelsize": "small",
    "legend.fontsize": "x-small",
    "xaxis.labellocation": "right",
    "yaxis.labellocation": "top",
    "savefig.dpi": 120,
    "savefig.bbox": "standard",
    "mathtext.cal": "sans",
    "svg.hashsalt": "branchline",
}
_BAND_LABEL = "stat."
_BAND: dict[Any, Any] = {"facecolor": "none", "edgecolor": "0.35", "hatch": "////", "linewidth": 0}


def stack_figure(
    stack: SampleStack, *, signal: Sequence[str], ratio: bool, overflow: bool, log: bool, style: str, label: str
) -> Figure:
    """Return the figure of a stack."""
    data = [one for one in stack.samples if one.sample.is_data]
    lines = [one for one in stack.samples if one.sample.name in signal and not one.sample.is_data]
    simulated = [one for one in stack.samples if not one.sample.is_data and one not in lines]
    # Draw signals on top of the stack.
    simulated.sort(key=lambda one: one.sample.kind == "signal")
    has_ratio = ratio and bool(data) and bool(simulated)
    with matplotlib.style.context([getattr(mplhep.style, style), _SIZES]):
        figure = Figure(figsize=(9, 9 if has_ratio else 7.5))
        FigureCanvasAgg(figure)
        if has_ratio:
            main, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": (3, 1), "hspace": 0.06})
        else:
            main, below = figure.subplots(), None
        edges = np.asarray(stack.axis.edges)
        _draw_simulation(main, edges, simulated, stack.variations())
        for number, one in enumerate(lines):
            colour = SIGNALS[number % len(SIGNALS)]
            main.stairs(one.nominal.values, edges, color=colour, linewidth=2.2, label=text(one.sample.label))
        of_data = total(data)
        if of_data is not None:
            centres, halves = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
            shown = np.where(of_data.variances > 0, of_data.values, np.nan)
            main.errorbar(
                centres, shown, np.sqrt(of_data.variances), halves, fmt="o", color="black", markersize=5, label="Data"
            )
        _finish(main, stack, log=log, overflow=overflow, label=label)
        lowest = main if below is None else below
        lowest.set_xlabel(text(axis_label(stack.axis)))
        if below is not None and of_data is not None:
            main.tick_params(labelbottom=False)
            _draw_ratio(below, edges, of_data, simulated, stack.variations())
        main.set_xlim(edges[0], edges[-1])
        figure.subplots_adjust(left=0.14, right=0.96, top=0.93, bottom=0.11)
        figure.align_ylabels()
    return figure


def _groups(simulated: Sequence[SampleHistogram]) -> list[tuple[str, Contents]]:
    """Return the layers of the stack with their labels, from bottom to top."""
    groups: dict[str, tuple[str, list[SampleHistogram]]] = {}
    for one in simulated:
        name = one.sample.group or one.sample.name
        groups.setdefault(name, (one.sample.group or one.sample.label, []))[1].append(one)
    summed = [(label, total(members)) for label, members in groups.values()]
    return [(label, contents) for label, contents in summed if contents is not None]


def _draw_simulation(
    axes: Axes, edges: np.ndarray, simulated: Sequence[SampleHistogram], variations: Sequence[str]
) -> None:
    nominal = total(simulated)
    if nominal is None:
        return
    groups = _groups(simulated)
    mplhep.histplot(
        [contents.values for _, contents in groups],
        bins=edges,
        stack=True,
        histtype="fill",
        ax=axes,
        color=[STACKED[number % len(STACKED)] for number in range(len(groups))],
        label=[text(label) for label, _ in groups],
        flow="none",
    )
    below, above = band(simulated, variations)
    what = f"{_BAND_LABEL} and syst. unc." if variations else f"{_BAND_LABEL} unc."
    axes.stairs(nominal.values + above, edges, baseline=nominal.values - below, fill=True, label=what, **_BAND)


def _draw_ratio(
    axes: Axes, edges: np.ndarray, data: Contents, simulated: Sequence[SampleHistogram], variations: Sequence[str]
) -> None:
    """Draw the ratio of data to simulation. Bins without simulation have no ratio."""
    nominal = total(simulated)
    assert nominal is not None
    divisor = np.where((nominal.values > 0) & (data.variances > 0), nominal.values, np.nan)
    values, errors = data.values / divisor, np.sqrt(data.variances) / divisor
    below, above = band(simulated, variations)
    low, high = np.nan_to_num(1 - below / divisor, nan=1.0), np.nan_to_num(1 + above / divisor, nan=1.0)
    axes.stairs(high, edges, baseline=low, fill=True, **_BAND)
    axes.axhline(1, color="0.4", linewidth=1)
    centres, halves = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    axes.errorbar(centres, values, errors, halves, fmt="o", color="black", markersize=5)
    reach = np.abs(np.concatenate([values + errors, values - errors, low, high]) - 1)
    reach = reach[np.isfinite(reach)]
    most = min(_RATIO_MAX, 1.15 * float(reach.max())) if len(reach) and reach.max() > 0 else 0.5
    axes.set_ylim(1 - most, 1 + most)
    for side, is_there in (("above", values > 1 + most), ("below", values < 1 - most)):
        marker, height = _OUTSIDE[side]
        places = np.full(np.count_nonzero(is_there), height)
        across = axes.get_xaxis_transform()
        axes.plot(centres[is_there], places, marker, color="black", markersize=8, transform=across, gid=side)
    axes.set_ylabel("Data / sim.", fontsize="small", loc="center")


def _finish(axes: Axes, stack: SampleStack, *, log: bool, overflow: bool, label: str) -> None:
    widths = np.diff(np.asarray(stack.axis.edges))
    is_even = np.allclose(widths, widths[0], rtol=1e-6)
    unit = axis_label(stack.axis).rpartition("[")[2].partition("]")[0] if axis_label(stack.axis).endswith("]") else ""
    per = (
        ""
        if isinstance(stack.axis, boost_histogram.axis.Integer)
        else f" / {widths[0]:.3g} {unit}"
        if is_even
        else " / bin"
    )
    axes.set_ylabel(text(f"Events{per}".rstrip()))
    simulated = total([one for one in stack.samples if not one.sample.is_data])
    data = total([one for one in stack.samples if one.sample.is_data])
    shown = [one.values + np.sqrt(one.variances) for one in (simulated, data) if one is not None]
    heights = np.concatenate([np.nan_to_num(one) for one in (np.zeros(1), *shown)])
    highest = float(heights.max())
    if log:
        axes.set_yscale("log")
        lowest = float(np.min(heights, where=heights > 0, initial=highest or 1))
        axes.set_ylim(lowest / 3, max(lowest, highest) * _LOG_HEADROOM)
    else:
        axes.set_ylim(0, _HEADROOM * highest if highest > 0 else 1)
    handles, labels = axes.get_legend_handles_labels()
    # Sort the legend: data first, then the layers of the stack from the top, and the uncertainty band last.
    order = sorted(range(len(labels)), key=lambda i: (labels[i] != "Data", labels[i].startswith(_BAND_LABEL), i))
    columns = 1 if len(labels) <= 6 else 2
    axes.legend([handles[i] for i in order], [labels[i] for i in order], ncols=columns, loc="upper right")
    luminosities = {one.sample.luminosity_per_fb for one in stack.samples if one.sample.luminosity_per_fb}
    if len(luminosities) == 1:
        axes.set_title(f"{luminosities.pop():.4g} fb$^{{-1}}$", loc="right")
    axes.set_title(text(label), loc="left", style="italic")
    if overflow and stack.has_flow:
        remark = "first and last bin include underflow and overflow"
        axes.text(0.03, 0.96, remark, transform=axes.transAxes, va="top", fontsize=12, color="0.3")
