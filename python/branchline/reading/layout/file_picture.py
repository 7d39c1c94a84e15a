"""A plot of a file: the baskets by file offset and entry, colored by branch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from branchline.base.palette import BRANCHES, OTHERS, UNSELECTED
from branchline.base.quantities import MB, count, size
from branchline.base.whole_files import whole_file
from branchline.errors import OptionError
from branchline.reading.layout.file_layout import FileLayout

FORMATS = (".svg", ".png")
#: Minimum width and height of a basket as a fraction of the plot, so that it stays visible.
LEAST_PART = 1 / 800


def draw(layout: FileLayout, path: Path) -> None:
    """Write the plot as SVG or PNG. Raises OptionError for another suffix, or if the directory does not exist."""
    if path.suffix.lower() not in FORMATS:
        raise OptionError(f"cannot write a plot to {path}", hint="give a file name that ends with .svg or .png")
    if not path.parent.is_dir():
        raise OptionError(f"cannot write a plot to {path}", hint=f"create the directory {path.parent}")
    figure = Figure(figsize=(11, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    legend = _draw_baskets(axes, layout)
    axes.set_xlim(0, layout.size_bytes / MB)
    axes.set_ylim(0, max(1, layout.entries))
    axes.set_xlabel("offset in the file (MB)")
    axes.set_ylabel("entry")
    axes.set_title(
        f"{Path(layout.path).name}, tree {layout.tree}: {count(len(layout.extents))} baskets, "
        f"{size(layout.travel.wanted_bytes)}",
        loc="left",
        fontsize=11,
    )
    figure.legend(handles=legend, loc="outside right upper", fontsize=8, frameon=False)
    with whole_file(path) as unfinished:
        figure.savefig(unfinished, format=path.suffix.lower()[1:], dpi=150, metadata=_METADATA[path.suffix.lower()])


# No variable metadata, so that plots of the same file are identical.
_METADATA: dict[str, dict[str, str | None]] = {".svg": {"Date": None}, ".png": {"Software": None}}


def _draw_baskets(axes: Axes, layout: FileLayout) -> list[Patch]:
    """Draw the baskets of unselected, smaller and largest branches; return the legend."""
    largest = sorted(layout.branches, key=lambda branch: -branch.compressed_bytes)
    numbers = {path: number for number, path in layout.numbers.items()}
    shown = [branch.path for branch in largest if branch.path in set(layout.wanted)][: len(BRANCHES)]
    rest = [numbers[path] for path in layout.wanted if path not in shown]
    unwanted = [number for number, path in layout.numbers.items() if path not in set(layout.wanted)]
    legend = []
    for members, colour, label in (
        (unwanted, UNSELECTED, f"{len(unwanted)} branches not selected"),
        (rest, OTHERS, f"{len(rest)} smaller branches"),
        *(([numbers[path]], colour, _short(path)) for path, colour in zip(shown, BRANCHES, strict=False)),
    ):
        if members:
            extents = layout.all_extents.of(members)
            left, width = extents.offset / MB, np.maximum(extents.size / MB, layout.size_bytes / MB * LEAST_PART)
            low = extents.entry_start.astype("f8")
            height = np.maximum(extents.entry_stop - extents.entry_start, layout.entries * LEAST_PART)
            corners = np.stack(
                [
                    np.stack([left, low], axis=-1),
                    np.stack([left + width, low], axis=-1),
                    np.stack([left + width, low + height], axis=-1),
                    np.stack([left, low + height], axis=-1),
                ],
                axis=1,
            )
            # Rasterized: browsers cannot open an SVG with thousands of rectangles.
            axes.add_collection(PolyCollection(list(corners), facecolors=colour, linewidths=0, rasterized=True))
            legend.append(Patch(color=colour, label=label))
    return legend


def _short(name: str, longest: int = 32) -> str:
    return name if len(name) <= longest else "\u2026" + name[1 - longest :]
