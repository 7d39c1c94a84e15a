"""A picture of a file: each basket by its offset in the file and its entries, coloured by branch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from branchline.base.quantities import count, size
from branchline.base.whole_files import whole_file
from branchline.errors import OptionError
from branchline.reading.layout.extents import Extents
from branchline.reading.layout.file_layout import FileLayout

#: Branches that have a colour of their own, those with most bytes; more colours cannot be distinguished.
COLOURS = ("#3f90da", "#bd1f01", "#ffa90e", "#832db6", "#a96b59", "#e76300", "#92dadd", "#717581")
OTHERS = "#c8ccd0"
#: Baskets of branches that were not selected.
UNWANTED = "#eceef0"
FORMATS = (".svg", ".png")
#: The least width and height of a basket, as a part of the picture: thinner ones would be invisible.
LEAST_PART = 1 / 800


def draw(layout: FileLayout, path: Path) -> None:
    """Writes the picture as SVG or PNG. Raises OptionError for another ending, or a directory that is not there."""
    if path.suffix.lower() not in FORMATS:
        raise OptionError(f"a picture cannot be written to {path}", hint="give it a name that ends with .svg or .png")
    if not path.parent.is_dir():
        raise OptionError(f"a picture cannot be written to {path}", hint=f"there is no directory {path.parent}")
    figure = Figure(figsize=(11, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    legend = _draw_baskets(axes, layout)
    axes.set_xlim(0, layout.size_bytes / 1e6)
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


# The same file gives the same picture, bit for bit.
_METADATA: dict[str, dict[str, str | None]] = {".svg": {"Date": None}, ".png": {"Software": None}}


def _draw_baskets(axes: Axes, layout: FileLayout) -> list[Patch]:
    """Draws the baskets of unselected, smaller and largest branches; returns the legend."""
    largest = sorted(layout.branches, key=lambda branch: -branch.compressed_bytes)
    numbers = {path: number for number, path in layout.numbers.items()}
    shown = [branch.path for branch in largest if branch.path in set(layout.wanted)][: len(COLOURS)]
    rest = [numbers[path] for path in layout.wanted if path not in shown]
    unwanted = [number for number, path in layout.numbers.items() if path not in set(layout.wanted)]
    legend = []
    for members, colour, label in (
        (unwanted, UNWANTED, f"{len(unwanted)} branches not selected"),
        (rest, OTHERS, f"{len(rest)} smaller branches"),
        *(([numbers[path]], colour, _short(path)) for path, colour in zip(shown, COLOURS, strict=False)),
    ):
        if members:
            _add(axes, layout.all_extents.of(members), layout, colour)
            legend.append(Patch(color=colour, label=label))
    return legend


def _short(name: str, longest: int = 32) -> str:
    return name if len(name) <= longest else "\u2026" + name[1 - longest :]


def _add(axes: Axes, extents: Extents, layout: FileLayout, colour: str) -> None:
    left, width = extents.offset / 1e6, np.maximum(extents.size / 1e6, layout.size_bytes / 1e6 * LEAST_PART)
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
    # Drawn as pixels: thousands of rectangles make an SVG that no browser opens.
    axes.add_collection(PolyCollection(list(corners), facecolors=colour, linewidths=0, rasterized=True))
