"""The whole analysis of examples/ttbar, small: from data to pictures and a fit, beside coffea and RDataFrame."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import matplotlib.figure
import numpy as np
import pytest
from tests.command_line import run_command
from tests.conftest import REPOSITORY
from tests.peers.peers import imported

import branchline
from branchline.errors import DatasetError
from branchline.trains.results.stacks import stacks_of, total
from branchline.trains.results.systematics import Systematics, band
from branchline.trains.wagons.variation_names import side_of, sides

#: pyhf looks for a schema by a way of jsonschema that will go.
pytestmark = pytest.mark.filterwarnings("ignore:jsonschema.RefResolver:DeprecationWarning")
EXAMPLE = REPOSITORY / "examples" / "ttbar"
EVENTS = 3000
VARIATIONS = ["nominal", "pileup_up", "pileup_down", "jes_up", "jes_down"]


def module(name: str, folder: Path = EXAMPLE) -> ModuleType:
    """A file of the example, or of all examples."""
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The list of the small samples."""
    listed: Path = module("make_data").main(tmp_path_factory.mktemp("ttbar"), EVENTS)
    return listed


@pytest.fixture(scope="module")
def out(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of the example's wagons."""
    folder = tmp_path_factory.mktemp("results")
    branchline.run(str(EXAMPLE / "analysis.py"), str(samples), folder, workers=2, pictures="none")
    return folder


def test_the_list_finds_its_files_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module("make_data").main(Path("made"), 100)
    for folder in (tmp_path, tmp_path / "made"):
        monkeypatch.chdir(folder)
        listed = "samples.toml" if folder.name == "made" else "made/samples.toml"
        found = branchline.run(str(EXAMPLE / "analysis.py"), listed, max_events=10, pictures="none")
        assert len(found.record.files) == 4  # the first of each sample


@pytest.mark.long
def test_the_example_is_as_with_coffea(samples: Path) -> None:
    imported("coffea")
    compare = module("compare", EXAMPLE.parent)
    ours = compare.outcome("ttbar", "branchline", str(samples))
    assert list(ours["ttbar"]) == VARIATIONS
    assert list(ours["data"]) == ["nominal"]
    assert np.sum(ours["ttbar"]["nominal"]["4j2b"]) > 0
    assert compare.equal(ours, compare.outcome("ttbar", "coffea", str(samples)))
    ours["ttbar"]["jes_up"]["4j1b"][9] += 1e-3
    again = compare.outcome("ttbar", "branchline", str(samples))
    assert not compare.equal(ours, again)
    assert 0 < compare.moved(again, ours) < 1e-3


@pytest.mark.long
def test_the_example_is_as_with_rdataframe(samples: Path) -> None:
    """In a process of its own: ROOT changes what Python does in this one."""
    if importlib.util.find_spec("ROOT") is None:
        pytest.skip("ROOT is not installed")
    compare = module("compare", EXAMPLE.parent)
    found, of_a_core, *_ = compare.measured("ttbar", "rdataframe", samples)
    assert of_a_core > 0
    assert compare.equal(compare.outcome("ttbar", "branchline", str(samples)), found)


@pytest.mark.long
def test_the_fit_finds_the_strength_that_data_were_drawn_with(out: Path) -> None:
    imported("cabinetry")
    strength, error, by_pyhf = module("fit").fitted(out)
    assert abs(strength - 1) < 4 * error
    assert 0.01 < error < 0.5
    assert by_pyhf == pytest.approx(strength, abs=0.05 * error)


def test_a_workspace_is_what_the_results_are(out: Path) -> None:
    specification = branchline.workspace(out, {"b": "selected/4j1b"}, parameter="strength")
    scaled = branchline.load(out).normalised("selected")
    (channel,) = specification["channels"]
    ttbar = next(one for one in channel["samples"] if one["name"] == "ttbar")
    flow = scaled["ttbar"]["nominal"]["4j1b"].values(flow=True)
    expected = flow[1:-1].copy()
    expected[0] += flow[0]
    expected[-1] += flow[-1]
    np.testing.assert_allclose(ttbar["data"], expected)
    modifiers = {one["name"]: one["type"] for one in ttbar["modifiers"]}
    assert modifiers == {
        "staterror_b": "staterror",
        "strength": "normfactor",
        "pileup": "histosys",
        "jes": "histosys",
    }
    assert sum(specification["observations"][0]["data"]) == scaled["data"]["nominal"]["4j1b"].sum(flow=True).value
    pyhf = imported("pyhf")
    pyhf.Workspace(specification)
    with pytest.raises(branchline.NoSuchKeyError, match="did you mean 'selected/4j2b'"):
        branchline.workspace(out, {"b": "selected/4j3b"})
    with pytest.raises(DatasetError, match=r"two modifiers of sample .* would have the name 'jes'"):
        branchline.workspace(out, {"b": "selected/4j1b"}, parameter="jes")


def test_bands_are_sums_in_quadrature_of_the_larger_shifts(out: Path) -> None:
    stack = stacks_of(branchline.load(out), "selected")[0]
    simulated = [one for one in stack.samples if not one.sample.is_data]
    uncertainties = Systematics().uncertainties(stack.variations(), [one.sample for one in simulated])
    below, above = band(simulated, uncertainties)
    by_name = {name: total(simulated, name) for name in ["nominal", *stack.variations()]}
    for place in range(len(above)):
        value = {name: float(one.values[place]) for name, one in by_name.items() if one is not None}
        nominal = by_name["nominal"]
        assert nominal is not None
        up = low = float(nominal.variances[place])
        for pair in (("pileup_up", "pileup_down"), ("jes_up", "jes_down")):
            shifts = [value[name] - value["nominal"] for name in pair]
            up += max(0, *shifts) ** 2
            low += min(0, *shifts) ** 2
        assert above[place] == pytest.approx(math.sqrt(up))
        assert below[place] == pytest.approx(math.sqrt(low))
    assert sides(["a_up", "b_down", "a_down", "c"]) == [("a_up", "a_down"), ("b_down",), ("c",)]
    assert sides(["a", "a_up", "a_down"]) == [("a",), ("a_up", "a_down")]


def test_sides_are_named_as_in_several_experiments() -> None:
    names = ["jesUp", "jesDown", "JET_JER__1up", "JET_JER__1down", "met_Up", "met_Down", "PileUp", "pu_up", "Up"]
    found = {name: side_of(name, names) for name in names}
    assert list(found.values()) == [
        *(("jes", "up"), ("jes", "down"), ("JET_JER", "up"), ("JET_JER", "down"), ("met", "up"), ("met", "down")),
        *(("PileUp", ""), ("pu", "up"), ("Up", "")),
    ]
    assert sides(names)[:3] == [("jesUp", "jesDown"), ("JET_JER__1up", "JET_JER__1down"), ("met_Up", "met_Down")]


def test_a_picture_has_stack_data_ratio_and_says_what_lies_outside(out: Path) -> None:
    figure = branchline.plot(out, "selected/4j2b", label="Work in progress")
    assert isinstance(figure, matplotlib.figure.Figure)
    main, ratio = figure.axes
    labels = [one.get_text() for one in main.get_legend().get_texts()]
    assert labels == ["Data", "ttbar", "wjets", "single_top", "stat. and syst. unc."]
    (note,) = [one for one in figure.texts if one.get_gid() == "note"]
    assert note.get_text() == "Outer bins include underflow and overflow"
    assert note.get_window_extent().y1 < ratio.get_window_extent().y0
    assert ratio.get_ylabel() == "Data / sim."
    assert ratio.get_xlabel() == "m(jjj) [GeV]"
    assert main.get_ylabel() == "Events / 25 GeV"
    data = main.get_legend_handles_labels()
    drawn = data[0][data[1].index("Data")][0].get_ydata()
    raw = branchline.load(out)["selected"]["data"]["nominal"]["4j2b"]
    np.testing.assert_array_equal(np.nan_to_num(drawn)[1:-1], raw.values()[1:-1])
    assert np.nansum(drawn) == raw.sum(flow=True).value
    lines = branchline.plot(out, "selected/4j2b", signal=["ttbar"], panel="none", overflow=False, log=True, style="cms")
    assert len(lines.axes) == 1
    assert not [one.get_text() for one in lines.texts if one.get_text()]


def test_wrong_pictures_are_refused(out: Path, tmp_path: Path) -> None:
    with pytest.raises(branchline.NoSuchKeyError, match="did you mean 'selected/4j2b'"):
        branchline.plot(out, "selected/4j2")
    with pytest.raises(branchline.OptionError, match="unknown style 'cdf'"):
        branchline.plot(out, "selected/4j2b", style="cdf")
    with pytest.raises(branchline.OptionError, match="unknown sample 'higgs'"):
        branchline.plot(out, "selected/4j2b", signal=["higgs"])


def test_the_command_draws_all_histograms(out: Path, tmp_path: Path) -> None:
    ended = run_command(["plot", str(out), "-o", str(tmp_path), "--format", "svg"])
    assert ended.exit_code == 0, ended.output
    assert sorted(one.name for one in tmp_path.iterdir()) == ["selected_4j1b.svg", "selected_4j2b.svg"]
    wrong = run_command(["plot", str(out), "--histogram", "selected/x"])
    assert wrong.exit_code == 1
    assert "did you mean 'selected/4j2b'" in wrong.stderr
