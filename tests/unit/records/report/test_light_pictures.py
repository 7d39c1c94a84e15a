"""Pictures of one axis that are written without matplotlib: what they show, what is left to it, and formulas."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import hist
import numpy as np
import pytest

from branchline.records.pictures.meaning import Title
from branchline.records.pictures.svg_pictures import light_picture, words_of, write_light_picture

TITLE = Title("wagon", "spectra/pt", "1 000 events")
SVG = "{http://www.w3.org/2000/svg}"


def drawn(histogram: Any, title: Title = TITLE) -> ElementTree.Element:
    """The picture as XML."""
    picture = light_picture(histogram, title)
    assert picture is not None
    return ElementTree.fromstring(picture)


def texts(picture: ElementTree.Element) -> list[str]:
    return ["".join(one.itertext()) for one in picture.iter(f"{SVG}text")]


def paths(picture: ElementTree.Element) -> list[str]:
    return [one.attrib["d"] for one in picture.iter(f"{SVG}path")]


def heights_of(path: str) -> list[float]:
    return [float(one) for one in re.findall(r"V([-.0-9]+)H", path)]


def test_a_picture_shows_bins_errors_and_words() -> None:
    histogram = hist.Hist.new.Reg(4, 0, 8, label="$p_T$ [GeV]").Weight().fill([1, 1, 3, 5], weight=[2, 2, 3, 1])
    picture = drawn(histogram)
    _, steps, errors = paths(picture)
    values = np.array(histogram.values())
    # The frame is from 30 to 376, and 15 % of it are free above the highest error.
    top = (values + np.sqrt(histogram.variances())).max() * 1.15
    np.testing.assert_allclose(heights_of(steps), 376 - 346 * values / top, atol=0.01)
    low_and_high = np.array(re.findall(r"M[-.0-9]+ ([-.0-9]+)V([-.0-9]+)", errors), dtype=float)
    filled = values > 0
    sizes = (low_and_high[:, 0] - low_and_high[:, 1]) * top / 346
    below = np.minimum(values, np.sqrt(histogram.variances()))
    np.testing.assert_allclose(sizes, (below + np.sqrt(histogram.variances()))[filled], atol=0.01)
    written = texts(picture)
    assert {"wagon", "spectra/pt", "1 000 events", "pT [GeV]", "Sum of weights / 2 GeV", "0", "2", "8"} <= set(written)


def test_heights_that_span_decades_and_negative_ones_are_seen() -> None:
    falling = hist.Hist.new.Reg(3, 0, 3).Double().fill([0.5, 1.5, 2.5], weight=[1, 100, 10_000])
    first, second, third = heights_of(paths(drawn(falling))[1])
    assert first - second == pytest.approx(second - third, abs=0.05)
    assert {"100", "101", "104"} <= set(texts(drawn(falling)))
    below = hist.Hist.new.Reg(2, 0, 2).Double().fill([0.5, 1.5], weight=[-3, 5])
    assert "\N{MINUS SIGN}2" in texts(drawn(below))
    large = hist.Hist.new.Reg(2, 0, 2e6).Double().fill([1.0, 2.0, 1.5e6])
    assert "\N{MULTIPLICATION SIGN}106" in texts(drawn(large))
    assert "no entries" in texts(drawn(hist.Hist.new.Reg(3, 0, 1).Double()))


@pytest.mark.parametrize(
    "histogram",
    [
        hist.Hist.new.Reg(3, 0, 1).Reg(3, 0, 1).Double(),
        hist.Hist.new.StrCat(["a"]).Double(),
        hist.Hist.new.Reg(3, 1, 10, transform=hist.axis.transform.log).Double(),
        hist.Hist.new.Reg(3, 0, 1).Mean(),
        hist.Hist.new.Reg(5000, 0, 1).Double(),
        hist.Hist.new.Reg(3, 0, 1, label=r"$\frac{a}{b}$").Double(),
        hist.Hist.new.Reg(3, 1.6e9, 1.6e9 + 10).Double(),
        hist.Hist.new.Var([0, 1, np.inf]).Double(),
        hist.Hist.new.StrCat([], growth=True).Double(),
    ],
)
def test_what_is_not_simple_is_left_to_matplotlib(histogram: Any, tmp_path: Path) -> None:
    assert light_picture(histogram, TITLE) is None
    assert write_light_picture(tmp_path, ("w", "h"), histogram, TITLE) is None
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("contents", [[1e300], [-1e300], [np.nan], [np.inf], [1e-300], [0.0], [5e-324, 1.0]])
@pytest.mark.parametrize("edges", [[0, 1], [-5, -1, 7], [1e-12, 2e-12], [0, 3e11], [-1e308, 1e308]])
def test_no_numbers_leave_the_picture(contents: list[float], edges: list[float]) -> None:
    histogram = hist.Hist.new.Var(edges).Weight()
    histogram.fill([edges[0]] * len(contents), weight=contents)
    picture = light_picture(histogram, TITLE)
    if picture is not None:
        lines = paths(ElementTree.fromstring(picture))
        numbers = [float(one) for line in lines[1:] for one in re.findall(r"[-.0-9]+|nan|inf", line)]
        assert all(0 <= one <= 576 for one in numbers)


@pytest.mark.parametrize("label", ["a & b < c", "x\x00y", "\N{CJK UNIFIED IDEOGRAPH-4E00}" * 90, "'\"]]>", "x" * 5000])
def test_every_label_gives_a_page_that_can_be_read(label: str) -> None:
    picture = drawn(hist.Hist.new.Reg(3, 0, 1, label=label).Double().fill([0.5]), Title(label, label, label))
    assert len(ElementTree.tostring(picture)) < 20_000


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("$p_T$ [GeV]", "pT [GeV]"),
        (r"$m_{\bar{t}t}^{\mathrm{reco}}$", "mt\N{COMBINING MACRON}treco"),
        (r"$\Delta\phi(\mu,\,\nu) - 1$", "\u0394\u03c6(\u03bc,\N{THIN SPACE}\u03bd)\N{MINUS SIGN}1"),
        (r"$\lambda_1$ and $x^2$", "\u03bb1 and x2"),
        ("no formula", "no formula"),
    ],
)
def test_simple_formulas_are_written(written: str, shown: str) -> None:
    words = words_of(written)
    assert words is not None
    assert "".join(one.text for one in words.pieces) == shown


def test_indices_are_lower_and_smaller() -> None:
    words = words_of("$a_{b^c}$")
    assert words is not None
    a, b, c = words.pieces
    assert (a.raised, a.size, a.is_italic) == (0.0, 1.0, True)
    assert b.raised < 0 < c.raised - b.raised
    assert 1 > b.size > c.size


@pytest.mark.parametrize(
    "written",
    ["cost [$]", r"$\frac{$", "$$", "$_$", "$a_{b$", "$a}$", r"$\unknown$", r"\$5 and $x$", "$" + "_" * 500 + "$"],
)
def test_other_formulas_are_not(written: str) -> None:
    assert words_of(written) is None


def test_the_same_histogram_gives_the_same_picture_and_matplotlib_is_not_loaded(tmp_path: Path) -> None:
    code = (
        "import sys, hist, pathlib\n"
        "from branchline.records.pictures.svg_pictures import write_light_picture\n"
        "from branchline.records.pictures.meaning import Title\n"
        "one = hist.Hist.new.Reg(5, 0, 1).Weight().fill([0.1, 0.5])\n"
        "assert write_light_picture(pathlib.Path(sys.argv[1]), ('w', 'h'), one, Title('a', 'b', 'c'))\n"
        "assert 'matplotlib' not in sys.modules\n"
    )
    for name in ("one", "two"):
        subprocess.run([sys.executable, "-c", code, str(tmp_path / name)], check=True)
    assert (tmp_path / "one/pictures/w/h.svg").read_bytes() == (tmp_path / "two/pictures/w/h.svg").read_bytes()
