"""Figures for publications: fonts, labels, intervals, panels, and texts that can be read at the width of a column."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import hist
import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.text import Text
from scipy.stats import chi2
from tests.command_line import run_command
from tests.sampled import long_but

import branchline
from branchline.records.pictures.meaning import is_logarithmic
from branchline.records.pictures.poisson import garwood
from branchline.records.sensors.record_parts import SampleRecord
from branchline.trains.results.plot_options import STYLES, PlotOptions
from branchline.trains.results.stack_pictures import stack_figure
from branchline.trains.results.stacks import Contents, SampleHistogram, SampleStack

COLUMN_INCHES = 85 / 25.4
#: Radical signs are drawn with a font of matplotlib.
FONTS = {style: {"TeXGyreHeros", "Cmex10"} for style in STYLES} | {"lhcb": {"TeXGyreTermes"}}


def figure_of(data: list[float], simulated: list[float], variances: list[float] | None = None, **options: Any) -> Any:
    """The figure of a sample of data and one of simulation, with these bins."""
    samples = [
        SampleHistogram(SampleRecord("data", kind="data"), {"nominal": Contents(np.array(data), np.array(data))}),
        SampleHistogram(
            SampleRecord("top", label="top"),
            {"nominal": Contents(np.array(simulated), np.array(variances or simulated))},
        ),
    ]
    axis = options.pop("axis", None) or hist.axis.Regular(len(data), 0, len(data), label="x [GeV]")
    stack = SampleStack("w", ("n",), (axis,), samples, has_flow=False)
    return stack_figure(stack, PlotOptions(**options))


def errors_of(axes: Any) -> np.ndarray:
    """The lower and upper ends of the error bars."""
    (bars,) = axes.containers
    return np.array([one[:, 1] for one in bars[2][0].get_segments()]).T


def band_of(axes: Any) -> Any:
    """The lower and upper edge of the hatched band, by bin."""
    (band,) = [one for one in axes.patches if one.get_hatch()]
    values, edges, baseline = band.get_data()
    assert len(values) == len(edges) - 1
    return np.broadcast_to(baseline, values.shape), values


def test_intervals_of_counts_are_those_of_garwood() -> None:
    counts = np.array([0, 1, 2, 7, 50, 99, 100, 101, 5000])
    low, high = garwood(counts)
    part = 0.15865525393145707
    exact = chi2.ppf(part, 2 * counts) / 2, chi2.ppf(1 - part, 2 * counts + 2) / 2
    np.testing.assert_allclose(low[1:], exact[0][1:], rtol=2e-5)
    np.testing.assert_allclose(high, exact[1], rtol=2e-5)
    assert low[0] == 0


def test_empty_bins_have_intervals_and_do_not_interrupt_the_band() -> None:
    main, ratio = figure_of([4, 0, 9], [5.0, 2.0, 8.0]).axes
    low, high = garwood(np.array([4, 0, 9]))
    np.testing.assert_allclose(errors_of(main), [low, high])
    np.testing.assert_allclose(errors_of(ratio), [low / [5, 2, 8], high / [5, 2, 8]])
    below, above = band_of(ratio)
    np.testing.assert_allclose(above - 1, 1 / np.sqrt([5, 2, 8]))
    np.testing.assert_allclose(1 - below, 1 / np.sqrt([5, 2, 8]))
    below, above = band_of(main)
    np.testing.assert_allclose(above, np.array([5, 2, 8]) + np.sqrt([5, 2, 8]))


def test_weighted_data_have_the_errors_of_weights() -> None:
    samples = [SampleHistogram(SampleRecord("d", kind="data"), {"nominal": Contents(np.ones(2), np.full(2, 0.25))})]
    stack = SampleStack("w", ("n",), (hist.axis.Regular(2, 0, 1),), samples, has_flow=False)
    (main,) = stack_figure(stack, PlotOptions()).axes
    np.testing.assert_allclose(errors_of(main), [[0.5, 0.5], [1.5, 1.5]])


def test_panels_show_pulls_and_differences() -> None:
    data, simulated, variances = [4, 30, 9], [5.0, 20.0, 9.0], [1.0, 4.0, 9.0]
    low, high = garwood(np.array(data))
    pull = figure_of(data, simulated, variances, panel="pull").axes[1]
    values = pull.patches[0].get_data().values
    expected = [-1 / np.hypot(high[0] - 4, 1), 10 / np.hypot(30 - low[1], 2), 0]
    np.testing.assert_allclose(values, expected, atol=1e-12)
    assert pull.get_ylabel() == "Pull"
    difference = figure_of(data, simulated, variances, panel="difference").axes[1]
    np.testing.assert_allclose(errors_of(difference), [low - simulated, high - simulated])
    below, above = band_of(difference)
    np.testing.assert_allclose([-below, above], np.sqrt([variances, variances]))
    assert len(figure_of(data, simulated, panel="none").axes) == 1


@pytest.mark.parametrize("style", long_but(STYLES, ["cms", "lhcb"]))
def test_figures_keep_the_fonts_and_the_label_of_their_style(style: str, regions_out: Path) -> None:
    before = dict(mpl.rcParams)
    figure = branchline.plot(regions_out, "Regions/varied/CR", style=style, label="Preliminary", energy=13.6)
    written = io.BytesIO()
    figure.savefig(written, format="pdf")
    fonts = {one.decode() for one in re.findall(rb"/BaseFont /[A-Z]+\+([A-Za-z0-9]+)", written.getvalue())}
    assert fonts
    assert fonts <= FONTS[style], fonts
    texts = " ".join(one.get_text() for one in figure.axes[0].texts)
    assert "Preliminary" in texts
    assert re.search(r"13\.6(\\ | )TeV", texts)
    assert r"2 $\mathrm{fb^{-1}}$" in texts
    assert style == "root" or {"lhcb": "LHCb"}.get(style, style.upper()) in texts
    assert dict(mpl.rcParams) == before


def readable(figure: Any) -> list[Text]:
    """The texts of a figure that are drawn."""
    figure.draw(figure.canvas.get_renderer())
    ticks = [tick for panel in figure.axes for axis in (panel.xaxis, panel.yaxis) for tick in _outside(axis)]
    outside = {id(label) for tick in ticks for label in (tick.label1, tick.label2)}
    found = [one for one in figure.findobj(Text) if one.get_visible() and one.get_text().strip()]
    found = [one for one in found if id(one) not in outside]
    size = figure.get_window_extent()
    return [one for one in found if one.get_window_extent().overlaps(size) and one.get_alpha() != 0]


#: The style, the histogram and the options of figures at the width of a column.
AT_COLUMN_WIDTH: list[tuple[str, str, dict[str, Any]]] = [
    ("cms", "CR", {"label": "Work in progress"}),
    ("atlas", "SR", {"label": "Internal", "panel": "pull"}),
    ("lhcb", "SR", {"label": "Preliminary", "log": True}),
    ("alice", "channels", {"label": "Performance", "panel": "difference"}),
    ("root", "plane", {"label": "Preliminary"}),
]


def _outside(axis: Any) -> list[Any]:
    """The ticks outside of the limits, which are not drawn."""
    low, high = sorted(axis.get_view_interval())
    return [tick for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high]


@pytest.mark.parametrize(
    ("style", "histogram", "options"),
    long_but(AT_COLUMN_WIDTH, [AT_COLUMN_WIDTH[0], AT_COLUMN_WIDTH[3]]),
)
def test_figures_can_be_read_at_the_width_of_a_column(
    style: str, histogram: str, options: dict[str, Any], regions_out: Path
) -> None:
    figure = branchline.plot(regions_out, f"Regions/varied/{histogram}", style=style, energy=13.6, **options)
    scale = COLUMN_INCHES / figure.get_size_inches()[0]
    frame = figure.get_window_extent()
    with figure.styled():
        texts = readable(figure)
        assert min(one.get_fontsize() for one in texts) * scale > 6.5
        for one in texts:
            box = one.get_window_extent()
            assert box.x0 >= 0, one
            assert box.y0 >= 0, one
            assert box.x1 <= frame.x1 + 1, one
            assert box.y1 <= frame.y1 + 1, one
        main = figure.axes[0]
        legend = main.get_legend()
        if legend is not None:
            # Bins, points and labels are outside the legend.
            box = legend.get_window_extent()
            for one in main.texts:
                assert not one.get_text() or not one.get_window_extent().overlaps(box), one
            for segment in main.containers[0][2][0].get_segments() if main.containers else []:
                x, y = main.transData.transform(segment).max(axis=0)
                assert not (box.x0 < x < box.x1 and box.y0 < y < box.y1)


def test_heights_leave_room_for_the_legend_and_the_label() -> None:
    for log in (False, True):
        main = figure_of([10, 20, 400, 900], [10.0, 20.0, 400.0, 900.0], log=log, style="atlas", label="Internal").axes[
            0
        ]
        top = main.transData.transform((3.5, garwood(np.array([900]))[1][0]))[1]
        assert top < main.get_legend().get_window_extent().y0


def test_many_samples_and_huge_counts_are_drawn() -> None:
    contents = Contents(np.ones(2), np.ones(2))
    names = [f"a sample with a long name, number {number}" for number in range(25)]
    samples = [SampleHistogram(SampleRecord(one, label=one), {"nominal": contents}) for one in names]
    stack = SampleStack("w", ("n",), (hist.axis.Regular(2, 0, 1),), samples, has_flow=False)
    main = stack_figure(stack, PlotOptions()).axes[0]
    box, frame = main.get_legend().get_window_extent(), main.get_window_extent()
    assert box.x0 >= frame.x0 - 1
    assert box.height < 0.7 * frame.height
    huge = figure_of([1e30, 2], [1e30, 1.0]).axes[0]
    assert np.isfinite(errors_of(huge)).all()


def test_axes_may_be_logarithmic_or_categories(regions_out: Path) -> None:
    axis = hist.axis.Variable(np.geomspace(1, 1000, 4), label="x")
    main, ratio = figure_of([4, 30, 9], [5.0, 20.0, 9.0], axis=axis).axes
    assert ratio.get_xscale() == "log"
    assert main.get_ylabel() == "Events / bin"
    np.testing.assert_allclose(main.containers[0][0].get_xdata(), np.geomspace(1, 1000, 7)[1::2])
    assert not is_logarithmic(hist.axis.Variable([1, 2, 3, 4]))
    assert not is_logarithmic(hist.axis.Variable([0, 1, 10, 100]))
    endless = figure_of([4, 30, 9], [5.0, 20.0, 9.0], axis=hist.axis.Variable([-np.inf, 1, 3, np.inf])).axes[0]
    assert endless.get_xlim() == (-1, 5)
    figure = branchline.plot(regions_out, "Regions/varied/channels")
    assert [one.get_text() for one in figure.axes[1].get_xticklabels()] == ["ee", "em", "mm"]
    (note,) = [one for one in figure.texts if one.get_gid() == "note"]
    assert note.get_text() == "Entries in other categories are left out"


def test_histograms_with_two_axes_have_projections(regions_out: Path) -> None:
    figure = branchline.plot(regions_out, "Regions/varied/plane", overflow=False)
    mesh, top, right = figure.axes[:3]
    scaled = branchline.load(regions_out).normalised("Regions")
    simulated = [one["varied"]["nominal"]["plane"].values() for name, one in scaled.items() if name != "data"]
    expected = np.sum(simulated, axis=0)
    np.testing.assert_allclose(mesh.collections[0].get_array().filled(0), expected.T)
    data = branchline.load(regions_out)["Regions"]["data"]["varied"]["nominal"]["plane"].values()
    np.testing.assert_allclose(top.containers[-1][0].get_ydata(), data.sum(axis=1))
    np.testing.assert_allclose(right.containers[-1][0].get_xdata(), data.sum(axis=0))
    assert (mesh.get_xlabel(), mesh.get_ylabel()) == ("x [GeV]", "u")
    assert top.get_xlim() == mesh.get_xlim() == (0, 90)


def test_blinded_histograms_have_no_data(regions_out: Path, tmp_path: Path) -> None:
    figure = branchline.plot(regions_out, "Regions/varied/SR", blind=True)
    assert len(figure.axes) == 1
    assert not figure.axes[0].containers
    assert any(one.get_text().startswith("Blinded") for one in figure.texts)
    options = ["--histogram", "Regions/varied/SR", "--histogram", "Regions/varied/CR", "--blind", "Regions/varied/SR"]
    (tmp_path / "systematics.toml").write_text('[rates]\nlumi = 1.1\n[envelopes]\nscale = ["mu*"]\n')
    options += ["--systematics", str(tmp_path / "systematics.toml"), "--energy", "13.6", "--panel", "pull"]
    ended = run_command(["plot", str(regions_out), "-o", str(tmp_path / "plots"), "--style", "dune", *options])
    assert ended.exit_code == 0, ended.output
    assert len(list((tmp_path / "plots").iterdir())) == 2
    wrong = run_command(["plot", str(regions_out), "--blind", "Regions/x"])
    assert wrong.exit_code == 1
    (tmp_path / "systematics.toml").write_text("[rate]\nlumi = 1.1\n")
    wrong = run_command(["plot", str(regions_out), "--systematics", str(tmp_path / "systematics.toml")])
    assert "unknown table 'rate' (choose from rates" in wrong.stderr


def test_wrong_options_are_refused(regions_out: Path) -> None:
    for options, match in (
        ({"panel": "residual"}, "unknown panel 'residual'"),
        ({"energy": -1}, "invalid energy: -1"),
        ({"energy": float("nan")}, "invalid energy: nan"),
        ({"energy": "13}$"}, "invalid energy"),
    ):
        with pytest.raises(branchline.OptionError, match=match):
            branchline.plot(regions_out, "Regions/varied/SR", **options)


def test_the_command_prints_tables(regions_out: Path) -> None:
    cut = run_command(["table", str(regions_out), "cutflows", "--format", "latex"])
    assert r"\begin{tabular}{lrrrr}" in cut.stdout
    regions = ["--of", "SR=Regions/varied/SR", "--of", "CR=Regions/varied/CR", "--blind", "SR"]
    yields = run_command(["table", str(regions_out), "yields", *regions, "--format", "markdown"])
    assert "| Data | blinded |" in yields.stdout
    varied = run_command(["table", str(regions_out), "variations", "--of", "Regions/varied/CR", "--format", "html"])
    assert "<td>muR</td>" in varied.stdout
