"""Draws the picture of the layouts: events per second of one and four jobs, and the seeks of one job, by reader."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from benches.requests import Counts
from benches.rounds import Sample

COLOURS = ("#2f4b6e", "#c98b3c", "#8d99a6")
WIDTH = 0.27


def draw(
    target: Path,
    layouts: list[str],
    selections: list[str],
    samples: list[Sample],
    counts: dict[tuple[str, str], Counts],
) -> None:
    """Write the picture as SVG and PNG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "branchline"
    figure = Figure(figsize=(13, 6.5), layout="constrained")
    readers = list(dict.fromkeys(reader for _, reader in counts))
    for row, selection in zip(figure.subplots(len(selections), 3, squeeze=False), selections, strict=True):
        names = [f"{layout}, {selection}" for layout in layouts]
        for axes, jobs in zip(row, sorted({one.arm.rpartition(", ")[2] for one in samples}), strict=False):
            values = [[rates(samples, name, f"{reader}, {jobs}") for name in names] for reader in readers]
            bars(axes, layouts, readers, values, f"{selection}, {jobs}: events/s")
        seeks = [[[float(counts[name, reader].seeks)] for name in names] for reader in readers]
        bars(row[2], layouts, readers, seeks, f"{selection}, 1 job: seeks")
        row[2].set_yscale("log")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(target.with_suffix(".png"), dpi=110)


def rates(samples: list[Sample], case: str, arm: str) -> list[float]:
    """Return the events per second of each round."""
    return [(one.entries or 0) / one.seconds for one in samples if (one.case, one.arm) == (case, arm)]


def bars(axes: Any, layouts: list[str], readers: list[str], values: list[list[list[float]]], title: str) -> None:
    """Draw a group of bars for each layout at the median, with a line from the lowest to the highest value."""
    for index, (reader, colour) in enumerate(zip(readers, COLOURS, strict=True)):
        middle = [median(one) for one in values[index]]
        ends = [
            [mid - min(one) for mid, one in zip(middle, values[index], strict=True)],
            [max(one) - mid for mid, one in zip(middle, values[index], strict=True)],
        ]
        places = [at + (index - 1) * WIDTH for at in range(len(layouts))]
        axes.bar(places, middle, WIDTH, yerr=ends, label=reader, color=colour, error_kw={"lw": 0.8})
    axes.set_xticks(range(len(layouts)), [name.replace(" ", "\n", 1) for name in layouts], fontsize=8)
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
