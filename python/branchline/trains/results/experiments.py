"""The styles and labels of experiments, for figures in publications. Fonts and labels are those of mplhep.

Sizes are chosen such that the smallest text has 6.5 points if the figure is as wide as a column of a journal, 85 mm.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import matplotlib.style
import mplhep
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from mplhep import label as label_module

from branchline.base.texts import one_line
from branchline.records.pictures.matplotlib_pictures import FALLBACK_FONTS, text

#: Names of mplhep's styles, and the modules with the labels of the experiments.
_STYLES = {"root": "ROOT", "cms": "CMS", "atlas": "ATLAS", "lhcb": "LHCb2", "alice": "ALICE", "dune": "DUNE"}
#: Width of figures in inches. Heights depend on the panels.
WIDTH_INCHES = 8.0
_TEXT_POINTS = 23.0
# Smallest factor by which labels are shrunk to fit above the frame, and the gap between them in points.
_SMALLEST, _GAP_POINTS = 0.6, 14.0
_LABEL_LENGTH_MAX = 60
# The styles of the experiments are made for different figure sizes, so that their sizes cannot be used.
_SIZES: dict[str, object] = {
    "font.size": _TEXT_POINTS,
    "axes.labelsize": "medium",
    "axes.titlesize": "medium",
    "axes.labelpad": 6.0,
    "axes.linewidth": 1.4,
    "axes.formatter.limits": (-3, 5),
    "axes.formatter.use_mathtext": True,
    "xtick.labelsize": "small",
    "ytick.labelsize": "small",
    "legend.fontsize": "small",
    "legend.title_fontsize": "small",
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "legend.handletextpad": 0.5,
    "legend.labelspacing": 0.25,
    "legend.columnspacing": 1.0,
    "legend.borderaxespad": 0.5,
    "legend.borderpad": 0.2,
    "lines.linewidth": 2.0,
    "lines.markersize": 7.0,
    "hatch.linewidth": 1.0,
    "errorbar.capsize": 0.0,
    "xaxis.labellocation": "right",
    "yaxis.labellocation": "top",
    "figure.autolayout": False,
    "savefig.dpi": 120,
    "savefig.bbox": "standard",
    "savefig.facecolor": "white",
    "figure.facecolor": "white",
    "svg.hashsalt": "branchline",
}
for _which in ("xtick", "ytick"):
    _SIZES |= {f"{_which}.major.size": 10.0, f"{_which}.minor.size": 5.0, f"{_which}.direction": "in"}
    _SIZES |= {f"{_which}.major.width": 1.2, f"{_which}.minor.width": 1.0, f"{_which}.minor.visible": True}
    _SIZES |= {f"{_which}.major.pad": 7.0, f"{_which}.minor.pad": 7.0}
_SIZES |= {"xtick.top": True, "ytick.right": True}


def _in_style(method: Any) -> Any:
    """Return a method of Figure, called in the style of the figure."""

    @functools.wraps(method)
    def styled(self: StyledFigure, *arguments: object, **options: object) -> object:
        with self.styled():
            return method(self, *arguments, **options)

    return styled


class StyledFigure(Figure):
    """A figure that keeps its style: fonts do not change if the figure is drawn or saved after the style was left."""

    def __init__(self, style: Mapping[str, object], width_inches: float, height_inches: float) -> None:
        super().__init__(figsize=(width_inches, height_inches))
        self._style = dict(style)
        FigureCanvasAgg(self)

    @contextlib.contextmanager
    def styled(self) -> Iterator[None]:
        """Apply the style of the figure in the block."""
        with matplotlib.style.context(self._style):
            yield

    draw = _in_style(Figure.draw)
    savefig = _in_style(Figure.savefig)
    get_tightbbox = _in_style(Figure.get_tightbbox)


@contextlib.contextmanager
def new_figure(style: str, height_inches: float) -> Iterator[StyledFigure]:
    """Yield a new figure, and apply the style of an experiment in the block."""
    chosen = getattr(mplhep.style, _STYLES[style])
    family = chosen["font.family"]
    font = chosen[f"font.{family}"][0]
    formulas = dict.fromkeys(("rm", "sf", "tt", "cal"), font) | {"it": f"{font}:italic", "bf": f"{font}:bold"}
    settings = {**chosen, **_SIZES, "mathtext.fontset": "custom", "font.family": [family, *FALLBACK_FONTS]}
    settings |= {f"mathtext.{name}": value for name, value in formulas.items()}
    # Without a context, the creation of the figure would use other default sizes.
    with matplotlib.style.context(settings):
        yield StyledFigure(settings, WIDTH_INCHES, height_inches)


def write_label(
    axes: Axes,
    style: str,
    label: str,
    *,
    has_data: bool,
    luminosity_per_fb: float | None,
    energy: float | str | None,
    is_above: bool = False,
) -> list[Text]:
    """Write the label of the experiment with luminosity and energy. Return the texts that are inside the frame.

    ATLAS, LHCb and ALICE write their labels inside the frame, unless ``is_above``.
    """
    module = label_module if style == "root" else getattr(mplhep, style)
    location = 0 if is_above else {"atlas": 4, "lhcb": 1, "alice": 1}.get(style, 0)
    size = float(matplotlib.rcParams["font.size"])
    write: Callable[..., Sequence[Text | None]] = module.exp_label if style == "root" else module.label
    texts = write(
        text=text(one_line(label, _LABEL_LENGTH_MAX)),
        data=has_data,
        lumi=luminosity_per_fb,
        lumi_format="{0:.4g}",
        com=energy,
        rlabel=None,
        loc=location,
        ax=axes,
        fontsize=(1.25 * size, size, 0.9 * size, 0.75 * size),
        scilocator_adjust=False,
        # mplhep writes the luminosity of ATLAS in italics, unlike ATLAS.
        **({"fontstyle": ("italic", "normal", "normal", "normal")} if style == "atlas" else {}),
    )
    written = [one for one in texts if one is not None and one.get_text()]
    _fit_above(axes, [one for one in written if one.get_position()[1] >= 1])
    return [one for one in written if one.get_position()[1] < 1]


def _fit_above(axes: Axes, above: list[Text]) -> None:
    """Shrink the texts above the frame such that they do not overlap."""
    renderer = axes.figure.canvas.get_renderer()  # type: ignore[attr-defined]
    boxes = [one.get_window_extent(renderer) for one in above]
    widths = sum(float(box.width) for box in boxes)
    gaps = len(above) * _GAP_POINTS * axes.figure.dpi / 72
    room = float(axes.get_window_extent(renderer).width) - gaps
    if len(above) > 1 and widths > room:
        factor = max(_SMALLEST, room / widths)
        for one in above:
            x, y = one.get_position()
            one.set_fontsize(float(one.get_fontsize()) * factor)
            if 0 < x < 1:
                # The text follows another one, which is shorter now.
                one.set_position((x * factor, y))
