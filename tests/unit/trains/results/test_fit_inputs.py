"""Datacards and workspaces: both from the same results, read back line by line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from tests.peers.peers import imported

import branchline
from branchline import DatasetError, OptionError, Systematics
from branchline.errors import BranchlineWarning
from branchline.records.sensors.record_parts import SampleRecord
from branchline.trains.results.datacards import _check, _without_negative_bins
from branchline.trains.results.fit_inputs import Channel, FitProcess, fit_channels
from branchline.trains.results.stacks import Contents

#: pyhf looks for a schema by a way of jsonschema that will go.
pytestmark = pytest.mark.filterwarnings("ignore:jsonschema.RefResolver:DeprecationWarning")
REGIONS = {"SR": "Regions/varied/SR", "CR": "Regions/varied/CR"}
DECLARED = Systematics(
    rates={"lumi": 1.025, "xsec": {"wjets_*": [0.9, 1.2]}},
    free={"ttbar_norm": ["ttbar"]},
    envelopes={"scale": ["mu[RF]_*"]},
    quadratures={"pdf": ["pdf_*"]},
    uncorrelated={"jes": ["era"], "btag": ["channel"]},
)


@pytest.fixture(scope="module")
def card(regions_out: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cards") / "new" / "card.txt"
    written = branchline.datacard(regions_out, REGIONS, path, systematics=DECLARED, blind=["SR"])
    assert written == path
    assert sorted(one.name for one in path.parent.iterdir()) == ["card.root", "card.txt"]
    return path


@pytest.fixture(scope="module")
def specification(regions_out: Path) -> Any:
    return branchline.workspace(regions_out, REGIONS, systematics=DECLARED, blind=["SR"])


def test_every_line_of_a_card_is_as_expected(card: Path, specification: Any) -> None:
    lines = [line.split() for line in card.read_text().splitlines()]
    comments = [" ".join(line) for line in lines if line[0] == "#"]
    assert comments[0].startswith("# Written by Branchline")
    assert comments[1:] == ["# SR: blinded: the sum of the backgrounds replaces data"]
    lines = [line for line in lines if line[0] != "#" and not line[0].startswith("---")]
    assert lines[:4] == [
        ["imax", "2"],
        ["jmax", "2"],
        ["kmax", "9"],
        ["shapes", "*", "*", "card.root", "$CHANNEL/$PROCESS", "$CHANNEL/$PROCESS_$SYSTEMATIC"],
    ]
    assert lines[4] == ["bin", "SR", "CR"]
    observed = {one["name"]: sum(one["data"]) for one in specification["observations"]}
    assert lines[5][0] == "observation"
    np.testing.assert_allclose([float(one) for one in lines[5][1:]], [observed["SR"], observed["CR"]], rtol=1e-9)
    assert lines[6] == ["bin", *["SR"] * 3, *["CR"] * 3]
    assert lines[7] == ["process", *["ttbar", "wjets_A", "wjets_B"] * 2]
    assert lines[8] == ["process", *["0", "1", "2"] * 2]
    rates = [sum(one["data"]) for channel in specification["channels"] for one in channel["samples"]]
    assert lines[9][0] == "rate"
    np.testing.assert_allclose([float(one) for one in lines[9][1:]], rates, rtol=1e-9)
    assert {line[0]: line[1:] for line in lines[10:]} == {
        "jes_A": ["shape", "1", "1", "-", "1", "1", "-"],
        "jes_B": ["shape", "-", "-", "1", "-", "-", "1"],
        "btag_SR": ["shape", *"111---"],
        "btag_CR": ["shape", *"---111"],
        "pileup": ["shape", *"111111"],
        "scale": ["shape", *"111111"],
        "pdf": ["shape", *"111111"],
        "lumi": ["lnN", *["1.025"] * 6],
        "xsec": ["lnN", *["-", "0.9/1.2", "0.9/1.2"] * 2],
        "ttbar_norm": ["rateParam", "*", "ttbar", "1", "[0,10]"],
        "SR": ["autoMCStats", "10"],
        "CR": ["autoMCStats", "10"],
    }


def test_the_histograms_of_a_card_are_those_of_the_workspace(card: Path, specification: Any, regions_out: Path) -> None:
    with uproot.open(card.with_suffix(".root")) as file:
        names = {name.partition(";")[0] for name in file.keys(filter_classname="TH1D")}
        expected = set()
        scaled = branchline.load(regions_out).normalised("Regions")
        for channel, observation in zip(specification["channels"], specification["observations"], strict=True):
            region = channel["name"]
            data = file[f"{region}/data_obs"]
            expected.add(f"{region}/data_obs")
            np.testing.assert_allclose(data.values(), observation["data"])
            for sample in channel["samples"]:
                name = f"{region}/{sample['name']}"
                nominal = file[name]
                assert nominal.axis().member("fTitle") == "x [GeV]"
                np.testing.assert_allclose(nominal.values(), sample["data"])
                simulated = scaled[sample["name"]]["varied"]["nominal"][region]
                variances = simulated.variances(flow=True)[1:-1].copy()
                variances[-1] += simulated.variances(flow=True)[-1]
                np.testing.assert_allclose(nominal.variances(), variances)
                modifiers = {one["name"]: one for one in sample["modifiers"]}
                np.testing.assert_allclose(modifiers[f"staterror_{region}"]["data"], np.sqrt(nominal.variances()))
                shapes = {one: data["data"] for one, data in modifiers.items() if data["type"] == "histosys"}
                expected |= {name, *(f"{name}_{one}{side}" for one in shapes for side in ("Up", "Down"))}
                for one, sides in shapes.items():
                    np.testing.assert_allclose(file[f"{name}_{one}Up"].values(), sides["hi_data"])
                    np.testing.assert_allclose(file[f"{name}_{one}Down"].values(), sides["lo_data"])
        assert names == expected


def test_uncertainties_are_sides_envelopes_sums_and_rates(specification: Any, regions_out: Path) -> None:
    varied = branchline.load(regions_out).normalised("Regions")["wjets_B"]["varied"]
    bins = {name: one["CR"].values(flow=True)[1:-1] for name, one in varied.items()}
    (sample,) = [one for one in specification["channels"][1]["samples"] if one["name"] == "wjets_B"]
    modifiers = {one["name"]: one["data"] for one in sample["modifiers"]}
    nominal = bins["nominal"]
    expected = {
        "jes_B": (bins["jesUp"], bins["jesDown"]),
        "btag_CR": (bins["btag__1up"], bins["btag__1down"]),
        "pileup": (bins["pileup_up"], 2 * nominal - bins["pileup_up"]),
        "scale": (
            np.max([nominal, bins["muR_up"], bins["muR_down"], bins["muF_up"]], axis=0),
            np.min([nominal, bins["muR_up"], bins["muR_down"], bins["muF_up"]], axis=0),
        ),
    }
    pdf = np.hypot(bins["pdf_1"] - nominal, bins["pdf_2"] - nominal)
    expected["pdf"] = (nominal + pdf, nominal - pdf)
    for name, (up, down) in expected.items():
        np.testing.assert_allclose(modifiers[name]["hi_data"], up)
        np.testing.assert_allclose(modifiers[name]["lo_data"], down)
    assert modifiers["xsec"] == {"hi": 1.2, "lo": 0.9}
    assert modifiers["lumi"] == {"hi": 1.025, "lo": pytest.approx(1 / 1.025)}
    assert modifiers.keys() == {*expected, "xsec", "lumi", "staterror_CR"}


def test_a_workspace_is_fitted_and_blinding_hides_data(specification: Any, regions_out: Path) -> None:
    pyhf = imported("pyhf")
    open_one = branchline.workspace(regions_out, REGIONS, systematics=DECLARED)
    assert specification["measurements"][0]["name"] == (
        "measurement; SR: blinded: the sum of the backgrounds replaces data"
    )
    assert open_one["measurements"][0]["name"] == "measurement"
    blinded, data = (one["observations"][0]["data"] for one in (specification, open_one))
    backgrounds = [one["data"] for one in specification["channels"][0]["samples"] if one["name"] != "ttbar"]
    np.testing.assert_allclose(blinded, np.sum(backgrounds, axis=0))
    raw = branchline.load(regions_out)["Regions"]["data"]["varied"]["nominal"]["SR"]
    assert sum(data) == raw.sum(flow=True).value
    assert specification["observations"][1] == open_one["observations"][1]
    pyhf.set_backend("numpy", pyhf.optimize.scipy_optimizer())
    # A workspace without a second free normalisation of the signal.
    workspace = pyhf.Workspace(
        branchline.workspace(regions_out, REGIONS, systematics=Systematics(rates={"lumi": 1.02}))
    )
    model = workspace.model()
    assert {"lumi", "jes", "pileup", "muR", "mu"} <= set(model.config.par_order)
    best = pyhf.infer.mle.fit(workspace.data(model), model)
    assert np.isfinite(best).all()
    assert 0 <= best[model.config.poi_index] < 10
    assert pyhf.Workspace(specification).model().config.par_order.count("xsec") == 1


def process(name: str, values: list[float], **options: Any) -> FitProcess:
    bins = np.array(values)
    return FitProcess(SampleRecord(name, **options), Contents(bins, np.abs(bins)))


def channel(name: str, *processes: FitProcess) -> Channel:
    return Channel(name, "w/h", None, [*processes], Contents(np.ones(3), np.ones(3)), "data")


@pytest.mark.parametrize(
    "found",
    [
        channel("1b", process("top", [1, 2, 3], kind="signal")),
        channel("S R", process("top", [1, 2, 3], kind="signal")),
        channel("*", process("top", [1, 2, 3], kind="signal")),
        channel("SR", process("t-channel", [1, 2, 3], kind="signal")),
        channel("SR", process("12", [1, 2, 3], kind="signal")),
        channel("SR", process("data_obs", [1, 2, 3], kind="signal")),
        channel("SR", process("top\nrate 1", [1, 2, 3], kind="signal")),
    ],
    ids=lambda one: one.name,
)
def test_names_that_combine_cannot_parse_are_refused(found: Channel) -> None:
    with pytest.raises(OptionError, match=r"cannot be parsed by Combine|would have the name 'data_obs'"):
        _check([found])


def test_parameters_and_histograms_with_the_same_name_are_refused() -> None:
    shapes = {"b_c": (np.ones(3), np.ones(3))}
    one, other = process("a", [1, 2, 3], kind="signal"), process("a_b", [1, 2, 3])
    one.shapes, other.shapes = shapes, {"c": (np.ones(3), np.ones(3))}
    with pytest.raises(OptionError, match="two histograms of region 'SR' would have the name 'a_b_cUp'"):
        _check([channel("SR", one, other)])
    other.shapes, other.rates = {}, {"b_c": (0.9, 1.1)}
    with pytest.raises(OptionError, match="two uncertainties have the name 'b_c'"):
        _check([channel("SR", one, other)])
    other.rates = {"rate": (0.9, 1.1)}
    with pytest.raises(OptionError, match="the parameter name 'rate' is reserved"):
        _check([channel("SR", one, other)])


def test_negative_bins_are_refused_or_set_to_zero_and_named() -> None:
    one = process("top", [4.0, -1.0, 5.0])
    one.shapes["jes"] = np.array([6.0, -2.0, 4.0]), np.array([4.0, 0.0, 4.0])
    with pytest.raises(DatasetError, match=r"process 'top' in region 'SR' has negative bins: bin 1 has -1 .*zero"):
        list(_without_negative_bins(one, channel("SR"), "error"))
    notes = list(_without_negative_bins(one, channel("SR"), "zero"))
    assert notes == [
        "SR: 1 negative bin of process top set to zero",
        "SR: 1 negative bin of process top, jes up set to zero",
    ]
    np.testing.assert_allclose(one.nominal.values, [4 * 8 / 9, 0, 5 * 8 / 9])
    np.testing.assert_allclose(one.shapes["jes"], [[6 * 0.8, 0, 4 * 0.8], [4, 0, 4]])
    for values in ([1.0, -2.0], [0.0, 0.0]):
        empty = process("top", [1.0, 1.0])
        empty.shapes["jes"] = np.array(values), np.array([1.0, 1.0])
        with pytest.raises(DatasetError, match=r"'top', jes up in region 'SR' has the sum (-1|0), which Combine"):
            list(_without_negative_bins(empty, channel("SR"), "zero"))


def test_empty_processes_are_left_out_and_named(regions_out: Path, tmp_path: Path) -> None:
    regions = {"SR": "Regions/varied/SR", "tail": "Regions/varied/empty"}
    with (
        pytest.warns(BranchlineWarning, match="has no entries in region 'tail' and is left out"),
        pytest.raises(DatasetError, match="no process has entries in region 'tail'"),
    ):
        branchline.datacard(regions_out, regions, tmp_path / "card.txt", overflow=False)
    assert not list(tmp_path.iterdir())


def test_wrong_declarations_are_refused(regions_out: Path, tmp_path: Path) -> None:
    for declared, match in (
        ({"rates": {"lumi": -1}}, "'lumi' is -1, not positive factors"),
        ({"rates": {"lumi": [1, 2, 3]}}, "not positive factors"),
        ({"rates": {"lumi": "5 %"}}, "not positive factors"),
        ({"free": {"norm": []}}, "free of 'norm'"),
        ({"uncorrelated": {"jes": ["year"]}}, "cannot be uncorrelated between 'year'.*sample, era, channel"),
        ({"rates": {"a": 1.1}, "free": {"a": ["ttbar"]}}, "two systematic uncertainties are called 'a'"),
    ):
        with pytest.raises(OptionError, match=match):
            Systematics(**declared)
    for declared, match in (
        ({"rates": {"xsec": {"wjet": 1.1}}}, "'wjet' of the systematic uncertainty 'xsec' matches no sample.*wjets_A"),
        ({"envelopes": {"scale": ["muX*"]}}, "'muX\\*' .* matches no variation"),
        ({"uncorrelated": {"jer": ["era"]}}, "'jer' .* matches no uncertainty"),
    ):
        with pytest.raises(DatasetError, match=match):
            branchline.workspace(regions_out, REGIONS, systematics=Systematics(**declared))
    with pytest.raises(OptionError, match="unknown region 'SX' in blind"):
        branchline.workspace(regions_out, REGIONS, blind=["SX"])
    with pytest.raises(OptionError, match="blind cannot be 'SR'"):
        branchline.workspace(regions_out, REGIONS, blind="SR")
    with pytest.raises(OptionError, match="no regions were given"):
        branchline.datacard(regions_out, {}, tmp_path / "card.txt")
    with pytest.raises(OptionError, match="cannot be the name of a datacard"):
        branchline.datacard(regions_out, REGIONS, tmp_path / "my card.txt")
    with pytest.raises(OptionError, match="cannot be the name of a datacard"):
        branchline.datacard(regions_out, REGIONS, tmp_path / "card.root")
    with pytest.raises(branchline.NoSuchKeyError, match="no one-dimensional histogram 'Regions/varied/plane'"):
        branchline.workspace(regions_out, {"SR": "Regions/varied/plane"})


def test_categories_are_bins_of_a_channel(regions_out: Path) -> None:
    (found,) = fit_channels(regions_out, {"all": "Regions/varied/channels"}, systematics=None, blind=[], overflow=True)
    raw = branchline.load(regions_out)["Regions"]["data"]["varied"]["nominal"]["channels"]
    np.testing.assert_array_equal(found.observed.values, raw.values())
    assert found.observed.values.sum() < raw.sum(flow=True).value
