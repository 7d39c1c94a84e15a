"""What matplotlib writes on the pictures of histograms: heights, titles, categories; and room for it."""

from __future__ import annotations

from typing import Any

import numpy
from matplotlib.axes import Axes
from matplotlib.cbook import is_math_text
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser
from matplotlib.text import Text

from branchline.base.texts import one_line
from branchline.records.pictures.meaning import Title, height_words
from branchline.writing.objects.forms import category_labels

_LABEL_LENGTH_MAX = 60
#: A category's name at the axis; longer ones would take the room of the histogram.
_CATEGORY_LENGTH_MAX = 26
#: Letters of all categories in a row that fit without being slanted; room for one line when they are.
_LEVEL_LETTERS_MAX, _SLANTED_POINTS, _UPRIGHT_POINTS_MIN = 50, 22.0, 6.5
#: A text that is too long for its place is made smaller down to this part of its size, then cut.
_SMALLEST = 0.65
#: Share of the figure left free at its edges.
_EDGE = 0.012


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


# --- titles, categories, remarks --------------------------------------------------------------------------------------


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


# --- room ------------------------------------------------------------------------------------------------------------


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
