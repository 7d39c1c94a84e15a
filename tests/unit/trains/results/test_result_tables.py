"""Tables of yields, cutflows and variations, with names escaped for each format."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import branchline
from branchline import Systematics, TextTable

REGIONS = {"SR": "Regions/varied/SR", "CR": "Regions/varied/CR"}
STRANGE = TextTable(
    "<t>", ["a|b", "x_1 & 5 %"], [[r"$t\bar{t}$ \input{x}", "<b>\n**1**"], ["$\\input{x}$", "~^#{}"]], ["100 %"], [1]
)


def test_names_are_escaped_for_each_format() -> None:
    assert STRANGE.markdown().splitlines()[:4] == [
        r"| a\|b | x\_1 \& 5 % |",
        "|---|---:|",
        r"| $t\bar{t}$ \\input\{x\} | \<b\> \*\*1\*\* |",
        r"| \$\\input\{x\}\$ | \~^\#\{\} |",
    ]
    latex = STRANGE.latex().splitlines()
    assert latex[2] == r"a\textbar{}b & x\_1 \& 5 \% \\"
    assert latex[4] == r"$t\bar{t}$ \textbackslash{}input\{x\} & \textless{}b\textgreater{} **1** \\"
    assert latex[5:7] == [r"\hline", r"\$\textbackslash{}input\{x\}\$ & \textasciitilde{}\textasciicircum{}\#\{\} \\"]
    assert latex[-1] == "% 100 %"
    html = STRANGE.html()
    assert "&lt;b&gt; **1**" in html
    assert "<b>\n" not in html
    parser = HTMLParser()
    parser.feed(html)
    assert str(STRANGE).splitlines()[0] == "a|b                   x_1 & 5 %"


def test_yields_have_statistical_and_systematic_uncertainties(regions_out: Path) -> None:
    declared = Systematics(rates={"lumi": 1.1}, envelopes={"scale": ["mu*"]}, quadratures={"pdf": ["pdf_*"]})
    table = branchline.yields(regions_out, REGIONS, systematics=declared, blind=["SR"])
    assert table.head == ["Sample", "SR", "CR"]
    assert [row[0] for row in table.rows] == ["WJETS_A", "WJETS_B", "TTBAR", "Background", "Data"]
    assert table.rows[-1][1] == "blinded"
    scaled = branchline.load(regions_out).normalised("Regions")
    assert table.rows[-1][2] == str(int(scaled["data"]["varied"]["nominal"]["CR"].sum(flow=True).value))
    by_name = {name: one["CR"].sum(flow=True) for name, one in scaled["ttbar"]["varied"].items()}
    nominal = by_name["nominal"].value
    shifts = {name: abs(one.value - nominal) for name, one in by_name.items()}
    parts = [max(shifts["jesUp"], shifts["jesDown"]), max(shifts["btag__1up"], shifts["btag__1down"])]
    parts += [shifts["pileup_up"], max(shifts[name] for name in shifts if name.startswith("mu")), 0.1 * nominal]
    bins = {name: one["CR"].values(flow=True) for name, one in scaled["ttbar"]["varied"].items()}
    parts.append(np.hypot(bins["pdf_1"] - bins["nominal"], bins["pdf_2"] - bins["nominal"]).sum())
    value, statistical, systematic = (float(one) for one in table.rows[2][2].split(" \N{PLUS-MINUS SIGN} "))
    assert value == pytest.approx(nominal, abs=0.06)
    assert statistical == pytest.approx(np.sqrt(by_name["nominal"].variance), abs=0.06)
    assert systematic == pytest.approx(np.sqrt(np.sum(np.square(parts))), rel=0.05)
    assert "blinded" in str(table)
    assert r" $\pm$ " in table.latex()


def test_cutflows_of_samples_are_scaled(regions_out: Path) -> None:
    table = branchline.cutflows(regions_out, "Regions")
    assert table.head == ["Cut", "TTBAR", "WJETS_A", "WJETS_B", "data"]
    assert [row[0] for row in table.rows] == ["all", "x > 20 & <50 %"]
    flow = branchline.load(regions_out).normalised("Regions")["ttbar"]["flow"]
    first, second = (float(table.rows[row][1].partition(" (")[0]) for row in (0, 1))
    assert (first, second) == (pytest.approx(flow.sums[0], rel=1e-3), pytest.approx(flow.sums[1], rel=1e-3))
    assert table.rows[0][1].endswith("(100 %)")
    assert r"x \textgreater{} 20 \& \textless{}50 \%" in table.latex()
    assert "x &gt; 20 &amp; &lt;50 %" in table._repr_html_()


def test_the_largest_variations_come_first(regions_out: Path) -> None:
    table = branchline.largest_variations(regions_out, "Regions/varied/CR", rows_max=4)
    names = [row[0] for row in table.rows]
    assert names[0] == "muR"
    assert table.notes == ["3 smaller ones are not shown"]
    sizes = [max(abs(float(one.removesuffix(" %"))) for one in row[1:3]) for row in table.rows]
    assert sizes == sorted(sizes, reverse=True)
    together = branchline.largest_variations(
        regions_out, "Regions/varied/CR", systematics=Systematics(envelopes={"scale": ["mu*"]}, rates={"lumi": 1.5})
    )
    assert [row[0] for row in together.rows][:2] == ["lumi", "scale"]
    assert together.rows[0][1:3] == ["+50.00 %", "-33.33 %"]
    assert " in 0 to 16" in together.rows[0][4]
    plane = branchline.largest_variations(regions_out, "Regions/varied/plane")
    assert " x " in plane.rows[0][4]
    channels = branchline.largest_variations(regions_out, "Regions/varied/channels")
    assert channels.rows[0][4].endswith((" in ee", " in em", " in mm"))
