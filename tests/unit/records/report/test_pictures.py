"""Pictures of histograms: every kind is drawn, as well-formed SVG and as PNG, the same each time."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import hist
import numpy
import pytest

from branchline.records.pictures.matplotlib_pictures import draw, write_picture
from branchline.records.pictures.meaning import Title

TITLE = Title("spectra", "pt", "60 000 events")


def _numbers(*shape: int) -> numpy.ndarray:
    return numpy.random.default_rng(99).normal(1, 1, shape)


HISTOGRAMS = {
    "steps": lambda: hist.Hist.new.Reg(20, 0, 5, label="$p_T$ [GeV]").Weight().fill(_numbers(500)),
    "counts": lambda: hist.Hist.new.Int(0, 9, label="N").Int64().fill(_numbers(500).astype(int)),
    "weights_without_variances": lambda: hist.Hist.new.Reg(5, 0, 5).Double().fill(_numbers(50), weight=0.3),
    "negative": lambda: hist.Hist.new.Reg(5, 0, 5).Weight().fill([1, 2], weight=[-3, 1]),
    "decades": lambda: hist.Hist.new.Reg(5, 0, 5).Weight().fill([1] * 5000 + [2, 3, 3]),
    "logarithmic": lambda: hist.Hist.new.Log(10, 1, 1e4).Double().fill([5, 50, 500]),
    "categories": lambda: hist.Hist.new.StrCat(["a", "b"]).Reg(5, 0, 5).Weight().fill(["a", "b"], [1, 2]),
    "many_categories": lambda: hist.Hist.new.IntCat(range(30)).Reg(5, 0, 5).Weight().fill(range(30), _numbers(30)),
    "cutflow": lambda: hist.Hist.new.StrCat([], growth=True).Double().fill(["all", "a rather long name of a cut"]),
    "two_categories": lambda: hist.Hist.new.StrCat(["a", "b"]).Bool().Double().fill(["a", "b"], [True, False]),
    "mesh": lambda: hist.Hist.new.Reg(9, -3, 3, label="x").Reg(8, -3, 3, label="y").Double().fill(*_numbers(2, 500)),
    "mesh_of_categories": lambda: hist.Hist.new.StrCat(["a"]).Reg(3, 0, 1).Reg(3, 0, 1).Double().fill("a", 0.1, 0.1),
    "fine_mesh": lambda: hist.Hist.new.Reg(2500, 0, 1).Reg(3, 0, 1).Double().fill(0.5, 0.5),
    "fine_line": lambda: hist.Hist.new.Reg(100_000, 0, 1).Weight().fill([0.2, 0.5]),
    "means": lambda: hist.Hist.new.Reg(5, 0, 5).Mean().fill(_numbers(50), sample=_numbers(50)),
    "means_of_categories": lambda: hist.Hist.new.StrCat(["a", "b"]).Reg(3, 0, 3).Mean().fill("a", 1, sample=2.0),
    "mean_mesh": lambda: hist.Hist.new.Reg(3, 0, 3).Reg(3, 0, 3).Mean().fill([1, 2], [1, 2], sample=[3, 4]),
    "three_axes": lambda: hist.Hist.new.Reg(4, 0, 1).Reg(4, 0, 1).Reg(4, 0, 1).Double().fill(*_numbers(3, 50)),
    "empty": lambda: hist.Hist.new.Reg(5, 0, 5, label="x").Double(),
    "empty_mesh": lambda: hist.Hist.new.Reg(5, 0, 5).Reg(5, 0, 5).Weight(),
    "not_a_number": lambda: hist.Hist.new.Reg(5, 0, 5).Weight().fill([1, 2], weight=[numpy.nan, 1]),
}


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_every_kind_of_histogram_is_drawn(tmp_path: Path, name: str) -> None:
    relative = write_picture(tmp_path, ("spectra", name), HISTOGRAMS[name](), TITLE, with_png=True)
    assert relative == f"pictures/spectra/{name}.svg"
    svg = ElementTree.parse(tmp_path / relative).getroot()
    assert svg.tag.endswith("svg")
    assert (tmp_path / relative).stat().st_size < 200_000
    assert (tmp_path / relative).with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_a_histogram_without_bins_has_no_picture(tmp_path: Path) -> None:
    assert write_picture(tmp_path, ("w", "h"), hist.Hist.new.StrCat([], growth=True).Double(), TITLE) is None


@pytest.mark.parametrize(
    "label", ["cost [$]", "$ and $", r"$\frac{$", "$$", "\N{CJK UNIFIED IDEOGRAPH-4E00}", "x\x00y", "x" * 500]
)
def test_labels_that_are_no_formulas_are_drawn_as_they_are(tmp_path: Path, label: str) -> None:
    histogram: Any = hist.Hist.new.Reg(3, 0, 1, label=label).Double().fill([0.5])
    relative = write_picture(tmp_path, ("w", "h"), histogram, Title(label, label, label), with_png=True)
    ElementTree.parse(tmp_path / str(relative))


def test_a_root_in_a_label_is_drawn_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    histogram = hist.Hist.new.Reg(5, 0, 5, label=r"$\sqrt{s}$ [GeV]").Reg(5, 0, 5).Double().fill(1, 2)
    assert write_picture(tmp_path, ("w", "h"), histogram, TITLE, with_png=True) is not None
    assert not caplog.records


def test_the_same_histogram_gives_the_same_picture(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        write_picture(tmp_path / folder, ("w", "h"), HISTOGRAMS["mesh"](), TITLE)
    assert (tmp_path / "one/pictures/w/h.svg").read_bytes() == (tmp_path / "two/pictures/w/h.svg").read_bytes()


def test_categories_that_are_left_out_are_not_added_up() -> None:
    """They may be variations of the same events."""
    histogram = hist.Hist.new.StrCat([f"variation{index}" for index in range(12)], name="v").Reg(5, 0, 5).Double()
    for index in range(12):
        histogram.fill(f"variation{index}", [0.5, 1.5], weight=1 + 0.01 * index)
    figure = draw(histogram, Title("w", "h", ""))
    legend = figure.axes[0].get_legend()
    assert legend is not None
    labels = [one.get_text() for one in legend.get_texts()]
    assert labels == [f"variation{index}" for index in range(4, 12)]
    assert legend.get_title().get_text() == "v (8 of 12 shown)"
