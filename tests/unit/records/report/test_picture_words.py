"""What is written on pictures: the meaning of a bin's height; no text touches another or leaves the picture."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import hist
import numpy
import pytest
from matplotlib.figure import Figure

from branchline.records.pictures.matplotlib_pictures import draw, height_label, styled
from branchline.records.pictures.meaning import Title, remark_on

NEW = hist.Hist.new
VALUES = numpy.linspace(0.01, 9.9, 200)
UNIFORM = hist.axis.Regular(40, 0, 10, label="$p_T$ [GeV/c]")


def _label(histogram: Any) -> str:
    axis = histogram.axes[0]
    return height_label(histogram, axis, numpy.asarray(axis.edges))


@pytest.mark.parametrize(
    ("histogram", "label"),
    [
        (NEW.Reg(40, 0, 10, label="$p_T$ [GeV/c]").Weight().fill(VALUES), "Entries / 0.25 GeV/c"),
        (NEW.Reg(40, 0, 10, label="$p_T$ [GeV/c]").Weight().fill(VALUES, weight=0.3), "Sum of weights / 0.25 GeV/c"),
        (NEW.Reg(40, 0, 10).Weight().fill(VALUES, weight=2), "Sum of weights / 0.25"),
        (NEW.Reg(40, 0, 10).Double().fill(VALUES), "Entries / 0.25"),
        (NEW.Reg(40, 0, 10).Double().fill(VALUES, weight=0.3), "Content / 0.25"),
        (NEW.Reg(40, 0, 10).Int64().fill(VALUES), "Entries / 0.25"),
        (NEW.Reg(10, 0, 10).Int64().fill(VALUES), "Entries / bin"),
        (NEW.Var([0, 1, 10], label="x [m]").Weight().fill(VALUES, weight=0.3), "Sum of weights / bin"),
        (NEW.Int(0, 9, label="jets").Weight().fill([1, 2], weight=0.3), "Sum of weights"),
        (NEW.Reg(50, 0, 1e12, label="t [ps]").Double(), r"Entries / $2\times 10^{10}$ ps"),
        (NEW.Reg(4, 0, 10).Mean().fill(VALUES, sample=VALUES), "Mean"),
        (NEW.Reg(4, 0, 10).Mean(label=r"$\langle p_T\rangle$ [GeV]"), r"$\langle p_T\rangle$ [GeV]"),
        (NEW.Reg(4, 0, 10).Weight(label=r"$d\sigma/dm$ [pb/TeV]"), r"$d\sigma/dm$ [pb/TeV]"),
        (hist.Hist(UNIFORM, metadata={"label": "Yield per event", "unit": "1/cm"}), "Yield per event [1/cm]"),
        (hist.Hist(UNIFORM, metadata="Jets per event"), "Jets per event"),
        (hist.Hist(UNIFORM, metadata={"sample": "ttbar"}), "Entries / 0.25 GeV/c"),
    ],
)
def test_the_height_of_a_bin_is_said_as_the_histogram_knows_it(histogram: Any, label: str) -> None:
    assert _label(histogram) == label


@pytest.mark.parametrize(
    ("histogram", "remark"),
    [
        (NEW.Reg(5, 0, 5).Weight().fill([1, 2, 3], weight=[numpy.nan, 1, numpy.inf]), "2 bins are not a finite number"),
        (NEW.Reg(5, 0, 5).Double().fill([1, 2], weight=[numpy.nan, 1]), "1 bin is not a finite number"),
        (NEW.Reg(5, 0, 5).Double(), "no entries"),
        (NEW.Reg(5, 0, 5).Mean(), "no entries"),
        (NEW.Reg(5, 0, 5).Mean().fill([1], sample=[2]), ""),
        (NEW.Reg(5, 0, 5).Double().fill([7, 8]), "all entries are outside the axes"),
        (NEW.Reg(5, 0, 5).Double().fill([1]), ""),
    ],
)
def test_what_a_picture_cannot_show_is_said(histogram: Any, remark: str) -> None:
    assert remark_on(histogram) == remark


CUTS = [f"{name} requirement" for name in ("trigger", "one good muon", "opposite sign", "Z window", "missing energy")]
LONG = "a name without an end " * 20
DRAWN = {
    "eta": NEW.Reg(80, -10, 10, label=r"$\eta$").Weight().fill(VALUES - 5, weight=4e5),
    "cuts": NEW.StrCat(CUTS, label="cut").Double().fill(CUTS),
    "many_cuts": NEW.StrCat([f"cut number {index}" for index in range(30)]).Double().fill(["cut number 3"]),
    "cuts_beside_numbers": NEW.StrCat(CUTS, label="cut").StrCat(CUTS, label="cut").Double().fill(CUTS, CUTS),
    "long": NEW.Reg(20, 0, 5, label=LONG).Double(label=LONG).fill(VALUES),
    "formula": NEW.Reg(20, 0, 5, label=f"${'p_T + ' * 30}0$").Double().fill(VALUES),
    "three": NEW.Reg(4, 0, 1).Reg(4, 0, 1).Reg(4, 0, 1).Weight().fill(*numpy.random.default_rng(1).random((3, 9))),
    "mesh": NEW.Reg(9, -3, 3, label="x").Reg(8, -3, 3, label="y").Double().fill(VALUES, VALUES, weight=1e7),
    "negative": NEW.Reg(20, -5e-9, 5e-9, label="t [s]").Weight().fill(VALUES * 1e-9, weight=-1e-12),
}


def _texts(figure: Figure) -> Iterator[tuple[str, Any]]:
    """Yield every text that is seen, with its frame in pixels; slanted ones do not overlap at their angle."""
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    for axes in figure.axes:
        labels = [*axes.get_xticklabels(), *axes.get_yticklabels(), axes.xaxis.label, axes.yaxis.label, *axes.texts]
        labels += [axes.xaxis.get_offset_text(), axes.yaxis.get_offset_text()]
        for one in labels:
            frame = one.get_window_extent(renderer)
            if one.get_text() and one.get_visible() and _is_in_view(axes, one) and one.get_rotation() in (0, 90):
                yield one.get_text(), frame.shrunk(0.98, 0.9)


def _is_in_view(axes: Any, label: Any) -> bool:
    """Whether a label of a tick is drawn: those beyond the axis are not."""
    if label in axes.get_xticklabels():
        return bool(axes.get_xlim()[0] <= label.get_position()[0] <= axes.get_xlim()[1])
    if label in axes.get_yticklabels():
        return bool(axes.get_ylim()[0] <= label.get_position()[1] <= axes.get_ylim()[1])
    return True


@pytest.mark.parametrize("name", DRAWN)
def test_no_text_touches_another_or_leaves_the_picture(name: str) -> None:
    with styled():
        figure = draw(DRAWN[name], Title("correlations of particles", LONG if name == "long" else name, "3 000 events"))
        figure.canvas.draw()
        width, height = figure.canvas.get_width_height()
        box = figure.get_tightbbox().transformed(figure.dpi_scale_trans)
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width
        assert box.y1 <= height
        for (one, frame), (other, other_frame) in combinations(_texts(figure), 2):
            assert not frame.overlaps(other_frame), f"{one!r} touches {other!r}"


def test_a_long_name_is_cut_where_the_note_begins() -> None:
    with styled():
        figure = draw(DRAWN["eta"], Title("spectra", LONG, "3 000 events"))
        (name,) = [one.get_text() for one in figure.axes[0].texts if one.get_text().startswith("a name")]
    assert name.endswith("...")
    assert len(name) > 20
