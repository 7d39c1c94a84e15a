"""Histograms and graphs of all classes, with all their options, have the same contents as in ROOT."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest
import uproot
from tests.peers.histograms import assert_equal_efficiency, assert_equal_graph, assert_equal_to_root
from tests.sampled import long_but

import branchline
from branchline.reading.objects.classes import ObjectList
from branchline.reading.objects.graph import Graph, MultiGraph
from branchline.reading.objects.histogram import Histogram
from branchline.reading.objects.object_record import Record
from branchline.reading.objects.sparse import SparseHistogram

pytestmark = pytest.mark.peer

HISTOGRAMS = ("TH1", "TH2", "TH3", "TProfile")
DEGENERATE = {"htime"}  # never filled, and without axis limits


def write(root: Any, path: Path, make: Callable[[Any], list[Any]]) -> dict[str, Any]:
    """Write objects with ROOT, and return them by name."""
    root.TH1.AddDirectory(False)
    objects = make(root)
    file = root.TFile.Open(str(path), "RECREATE")
    for one in objects:
        file.WriteObject(one, one.GetName())
    file.Close()
    return {one.GetName(): one for one in objects}


EDGES = np.array([0.0, 0.5, 2.0, 5.0, 10.0])


def counts(root: Any) -> list[Any]:
    """Return histograms of all cell types, with one to three dimensions, with and without weights."""
    rng = np.random.default_rng(5)
    made = []
    for letter in "CSILFD":
        options = ((f"h1{letter}", 1), (f"h2{letter}", 2), (f"h3{letter}", 3))
        for name, dimensions in options:
            kind = getattr(root, f"TH{dimensions}{letter}", None)
            if kind is None:
                continue
            histogram = kind(name, f"{letter};x [GeV];y;z", *[4, -2.0, 2.5][:3] * dimensions)
            for point in rng.normal(0, 2, (40, dimensions)):
                histogram.Fill(*point.tolist())
            made.append(histogram)
    for dimensions, kind in ((1, root.TH1D), (2, root.TH2F), (3, root.TH3D)):
        weighted = kind(f"weighted{dimensions}", "weighted", *[4, EDGES] * dimensions)
        weighted.Sumw2()
        for *point, weight in rng.normal(3, 3, (60, dimensions + 1)):
            weighted.Fill(*point, weight)
        made.append(weighted)
    average = root.TH1D("average", "", 3, 0.0, 1.0)
    average.SetBit(root.TH1.kIsAverage)
    average.Fill(0.5, 3.0)
    empty = root.TH1F("empty", "", 1, 0.0, 1.0)
    return [*made, average, empty]


def labelled(root: Any) -> list[Any]:
    """Return histograms with labels: of all bins, of some bins, set in another order, and of bins that filling has
    added.
    """
    whole = root.TH1D("whole", "", 3, 0.0, 3.0)
    for number, label in ((3, "c"), (1, "a"), (2, "b")):
        whole.GetXaxis().SetBinLabel(number, label)
    for x in (0.5, 1.5, 1.5, 7.0):
        whole.Fill(x)
    numbers = root.TH1I("numbers", "", 2, 0.0, 2.0)
    numbers.GetXaxis().SetBinLabel(1, "13")
    numbers.GetXaxis().SetBinLabel(2, "-11")
    numbers.Fill(0.5)
    some = root.TH1D("some", "", 5, 0.0, 5.0)
    some.GetXaxis().SetBinLabel(4, "here")
    some.Fill(2.5)
    grown = root.TH1F("grown", "", 1, 0.0, 1.0)
    grown.SetCanExtend(root.TH1.kAllAxes)
    for label in ("mu", "e", "mu", "tau", "nu", "mu"):
        grown.Fill(label, 1.5)
    both = root.TH2D("both", "", 2, 0.0, 2.0, 3, 0.0, 1.5)
    both.GetXaxis().SetBinLabel(1, "left")
    both.GetXaxis().SetBinLabel(2, "right")
    both.Fill(1.5, 0.7, 2.0)
    twice = root.TH1D("twice", "", 2, 0.0, 2.0)
    twice.GetXaxis().SetBinLabel(1, "same")
    twice.GetXaxis().SetBinLabel(2, "same")
    return [whole, numbers, some, grown, both, twice]


def profiles(root: Any) -> list[Any]:
    """Return profiles with all error options, with and without weights, with one to three dimensions."""
    rng = np.random.default_rng(6)
    made = []
    for option in ("", "s", "i", "g"):
        for weighted in (False, True):
            name = f"{option or 'mean'}{weighted}"
            one = [
                root.TProfile(f"p1{name}", "p;x;y", 4, -2.0, 2.0, option),
                root.TProfile2D(f"p2{name}", "p", 3, -2.0, 2.0, 2, 0.0, 1.0, option),
                root.TProfile3D(f"p3{name}", "p", 2, -2.0, 2.0, 2, 0.0, 1.0, 2, -1.0, 1.0, option),
            ]
            for dimensions, profile in enumerate(one, start=1):
                if weighted:
                    profile.Sumw2()
                for *point, y, weight in np.abs(rng.normal(0, 1.5, (50, dimensions + 2))):
                    profile.Fill(*point, y, *([weight] if weighted else []))
                profile.Fill(*[0.1] * dimensions, 5.0)
            made += one
    variable = root.TProfile("variable", "", 4, EDGES)
    variable.Fill(1.0, 3.0)
    bins = root.TProfile("bins", "", 2, 0.0, 2.0)
    bins.GetXaxis().SetBinLabel(1, "one")
    bins.GetXaxis().SetBinLabel(2, "two")
    bins.Fill(1.5, 3.0)
    return [*made, variable, bins]


def extended(root: Any) -> list[Any]:
    """Return histograms with extended axes, and histograms that were written with entries in the buffer."""
    grown = root.TH1D("grown", "", 4, 0.0, 1.0)
    grown.SetCanExtend(root.TH1.kXaxis)
    for x in (0.1, 17.0, -3.0):
        grown.Fill(x)
    made = [grown]
    for dimensions, kind in ((1, root.TH1D), (2, root.TH2F), (3, root.TH3D)):
        buffered = kind(f"buffered{dimensions}", "", *[4, 0.0, 1.0] * dimensions)
        buffered.SetBuffer(100)
        for weight in (1.0, 2.5):
            buffered.Fill(*[0.3] * dimensions, weight)
        made.append(buffered)
    one = [root.TProfile("profile1", "", 4, 0.0, 1.0), root.TProfile2D("profile2", "", 4, 0.0, 1.0, 2, 0.0, 1.0)]
    for dimensions, profile in enumerate(one, start=1):
        profile.SetBuffer(100)
        profile.Fill(*[0.3] * dimensions, 2.0, 1.5)
        profile.Fill(*[0.3] * dimensions, 4.0, 0.5)
    return [*made, *one, *without_limits(root)]


def without_limits(root: Any) -> list[Any]:
    """Return histograms for which ROOT chooses the axis limits when they are needed."""
    rng = np.random.default_rng(12)
    made = []
    for number in range(60):
        bins, scale = int(rng.choice([1, 2, 3, 4, 5, 6, 50, 100, rng.integers(1, 150)])), 10.0 ** rng.integers(-4, 5)
        histogram = root.TH1D(f"free{number}", "", bins, 0.0, 0.0)
        for x in rng.normal(rng.choice([-3, 0, 3]), 1, int(rng.integers(2, 50))) * scale:
            histogram.Fill(x)
        made.append(histogram)
    both = root.TH2D("both", "", 10, 0.0, 0.0, 7, 0.0, 0.0)
    for x, y in rng.normal(2, 1, (20, 2)):
        both.Fill(x, y)
    return [*made, both]


@pytest.mark.filterwarnings("ignore:.* have labels:branchline.BranchlineWarning")
@pytest.mark.parametrize("make", [counts, labelled, profiles, extended])
def test_histograms_are_those_of_root(root: Any, tmp_path: Path, make: Callable[[Any], list[Any]]) -> None:
    path = tmp_path / "h.root"
    wanted = write(root, path, make)
    file = branchline.open(path)
    assert sorted(file.keys(cycle=False)) == sorted(wanted)
    assert file.classnames(cycle=False) == {name: one.ClassName() for name, one in wanted.items()}
    for name, theirs in wanted.items():
        assert name in file
        assert_equal_to_root(file[name], theirs)
    assert [one.name for one in file.values()] == list(wanted)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("make", [counts, profiles])
def test_histograms_are_those_of_uproot(root: Any, tmp_path: Path, make: Callable[[Any], list[Any]]) -> None:
    path = tmp_path / "h.root"
    write(root, path, make)
    ours, theirs = branchline.open(path), uproot.open(path)
    assert ours.keys() == theirs.keys() != []
    for name in ours.keys():
        got, wanted = ours[name], theirs[name]
        assert np.array_equal(got.values(), wanted.values())
        if wanted.kind == "COUNT":
            by_hist = wanted.to_hist()
            assert got.axes == by_hist.axes
            assert got.storage_type is by_hist.storage_type
            assert np.array_equal(got.values(flow=True), by_hist.values(flow=True))
            assert np.array_equal(got.variances(flow=True), by_hist.variances(flow=True))
        elif wanted.classname == "TProfile":
            by_hist = wanted.to_hist()
            assert got.storage_type is by_hist.storage_type
            errors = wanted.errors(error_mode=("", "s", "i", "g")[wanted.member("fErrorMode")])
            for theirs_one, one in zip((by_hist.values(), errors**2), (got.values(), got.variances()), strict=True):
                assert np.allclose(one, theirs_one, rtol=1e-9, atol=1e-9, equal_nan=True)
        for mode in ("", "s", "i", "g") if wanted.kind == "MEAN" else ():
            assert np.allclose(got.errors(error_mode=mode), wanted.errors(error_mode=mode), rtol=1e-9, atol=1e-7)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("every", "at_least"), long_but([(1, 80), (5, 10)], [(5, 10)]))
def test_all_histograms_of_the_shared_files_are_those_of_root(
    root: Any, shared: Path, every: int, at_least: int
) -> None:
    compared = 0
    for path in sorted((shared / "root").glob("*.root"))[::every]:
        file = branchline.open(path)
        names = [name for name, kind in file.classnames().items() if kind.startswith(HISTOGRAMS)]
        theirs = root.TFile.Open(str(path)) if names else None
        for name in names:
            if name.split(";")[0] not in DEGENERATE:
                assert_equal_to_root(file[name], theirs.Get(name))
                compared += 1
    assert compared > at_least


def test_a_histogram_goes_on_as_one_of_hist(root: Any, tmp_path: Path) -> None:
    write(root, tmp_path / "h.root", counts)
    got = branchline.open(tmp_path / "h.root")["weighted2"]
    assert isinstance(got, hist.Hist)
    for other in (pickle.loads(pickle.dumps(got)), got.copy(), got[:, :], got * 1.0):
        assert isinstance(other, Histogram)
        assert np.array_equal(other.errors(), got.errors())
        assert other.member("fEntries") == 60.0
    assert np.allclose((got + got).values(), 2 * got.values())
    assert type(got.to_hist()) is hist.Hist
    assert got.project("xaxis").ndim == 1
    assert got.axis("y").label == got.axes[1].label
    with pytest.raises(branchline.OptionError, match="applies to profiles"):
        got.errors(error_mode="s")


def test_underflow_below_labels_is_told(root: Any, tmp_path: Path) -> None:
    def make(root: Any) -> list[Any]:
        histogram = root.TH1D("h", "", 1, 0.0, 1.0)
        histogram.GetXaxis().SetBinLabel(1, "only")
        histogram.Fill(-1.0)
        return [histogram]

    write(root, tmp_path / "h.root", make)
    with pytest.warns(branchline.BranchlineWarning, match="1 cells of h in the underflow are left out"):
        branchline.open(tmp_path / "h.root")["h"]


def test_an_object_that_is_not_read_leaves_the_others(root: Any, tmp_path: Path) -> None:
    file = root.TFile.Open(str(tmp_path / "chain.root"), "RECREATE")
    root.TChain("t").Write("chain")
    root.TNamed("name", "title").Write("name")
    file.Close()
    opened = branchline.open(tmp_path / "chain.root")
    with pytest.raises(branchline.UnsupportedBranchError, match="the other objects and trees") as caught:
        opened["chain"]
    assert "branches" not in str(caught.value)
    assert opened["name"].member("fTitle") == "title"


def test_labels_of_some_bins_are_told_and_kept(root: Any, tmp_path: Path) -> None:
    write(root, tmp_path / "h.root", labelled)
    file = branchline.open(tmp_path / "h.root")
    for name, message, labels in (
        ("some", "1 of 5 bins of xaxis of some have labels, 1 different", {3: "here"}),
        ("twice", "2 of 2 bins of xaxis of twice have labels, 1 different", {0: "same", 1: "same"}),
    ):
        with pytest.warns(branchline.BranchlineWarning, match=message) as caught:
            got = file[name]
        assert "bin_labels(0)" in str(caught[0].message)
        assert isinstance(got.axes[0], hist.axis.Regular)
        assert got.bin_labels(0) == labels


def graphs(root: Any) -> list[Any]:
    x, y, low, high = (np.random.default_rng(7).random(5) for _ in range(4))
    plain = root.TGraph(5, x, y)
    errors = root.TGraphErrors(5, x, y, low, high)
    asymmetric = root.TGraphAsymmErrors(5, x, y, low, high, high, low)
    asymmetric.SetTitle("title;time;rate")
    empty = root.TGraph()
    made = [plain, errors, asymmetric, empty]
    for number, graph in enumerate(made):
        graph.SetName(f"graph{number}")
    return made


def test_graphs_are_those_of_root(root: Any, tmp_path: Path) -> None:
    wanted = write(root, tmp_path / "g.root", graphs)
    file = branchline.open(tmp_path / "g.root")
    for name, theirs in wanted.items():
        assert_equal_graph(file[name], theirs)
    by_uproot = uproot.open(tmp_path / "g.root")["graph2"]
    got = file["graph2"]
    assert got.labels == ("time", "rate")
    for which in ("low", "high", "mean", "diff"):
        assert np.array_equal(got.errors(which), by_uproot.errors(which))
    assert np.array_equal(got.values(), by_uproot.values())
    with pytest.raises(branchline.OptionError, match="no axis 'z'"):
        got.values("z")


def test_graphs_of_bins_become_histograms(root: Any, tmp_path: Path) -> None:
    def make(root: Any) -> list[Any]:
        x, half = np.array([0.5, 1.5, 3.0]), np.array([0.5, 0.5, 1.0])
        bins = root.TGraphAsymmErrors(3, x, x * 2, half, half, half, half)
        apart = root.TGraphErrors(3, x * 2, x, half, half)
        bins.SetName("bins")
        apart.SetName("apart")
        return [bins, apart]

    write(root, tmp_path / "g.root", make)
    file = branchline.open(tmp_path / "g.root")
    made = file["bins"].to_hist()
    assert made.axes[0].edges.tolist() == [0.0, 1.0, 2.0, 4.0]
    assert made.values().tolist() == [1.0, 3.0, 6.0]
    assert made.variances().tolist() == [0.25, 0.25, 1.0]
    with pytest.raises(branchline.OptionError, match="are not adjacent bins"):
        file["apart"].to_hist()


def test_several_graphs_and_points_in_space(root: Any, tmp_path: Path) -> None:
    def make(root: Any) -> list[Any]:
        several = root.TMultiGraph("several", "both")
        for graph in graphs(root)[:2]:
            root.SetOwnership(graph, False)
            several.Add(graph)
        numbers = np.arange(4.0)
        space = root.TGraph2DErrors(4, numbers, numbers * 2, numbers * 3, numbers, numbers, numbers / 2)
        space.SetName("space")
        return [several, space]

    write(root, tmp_path / "g.root", make)
    file = branchline.open(tmp_path / "g.root")
    several = file["several"]
    assert isinstance(several, MultiGraph)
    assert [graph.name for graph in several] == ["graph0", "graph1"]
    assert several["graph1"] is several[1]
    with pytest.raises(branchline.NoSuchKeyError, match="graph0, graph1"):
        several["other"]
    space = file["space"]
    assert isinstance(space, Graph)
    assert space.z.tolist() == [0.0, 3.0, 6.0, 9.0]
    assert space.errors("high", "z").tolist() == [0.0, 0.5, 1.0, 1.5]


STATISTICS = ("kFCP", "kFNormal", "kFWilson", "kFAC", "kBJeffrey", "kBUniform", "kBBayesian")


def efficiencies(root: Any) -> list[Any]:
    rng = np.random.default_rng(8)
    made = []
    for name in STATISTICS:
        one = root.TEfficiency(name, "eff;x;y", 5, 0.0, 1.0)
        for x, passed in zip(rng.random(40) * 0.9, rng.random(40) < 0.7, strict=True):
            one.Fill(bool(passed), float(x))
        one.SetStatisticOption(getattr(root.TEfficiency, name))
        if name == "kBBayesian":
            one.SetBetaAlpha(2.0)
            one.SetBetaBeta(3.0)
            one.SetConfidenceLevel(0.9)
        made.append(one)
    two = root.TEfficiency("two", "", 2, 0.0, 1.0, 2, 0.0, 1.0)
    two.Fill(True, 0.3, 0.4)
    weighted = root.TEfficiency("weighted", "", 3, 0.0, 1.0)
    weighted.SetUseWeightedEvents()
    for x, weight, passed in zip(rng.random(40), rng.random(40), rng.random(40) < 0.7, strict=True):
        weighted.FillWeighted(bool(passed), float(weight), float(x))
    weighted.SetStatisticOption(root.TEfficiency.kFNormal)
    return [*made, two, weighted]


def test_efficiencies_are_those_of_root(root: Any, tmp_path: Path) -> None:
    wanted = write(root, tmp_path / "e.root", efficiencies)
    file = branchline.open(tmp_path / "e.root")
    for name, theirs in wanted.items():
        assert_equal_efficiency(file[name], theirs)


BINS = 40
BAYESIAN = ("kBJeffrey", "kBUniform", "kBBayesian")


def random_efficiency(root: Any, seed: int, statistic: str, *, weighted: bool, bits: Sequence[str] = ()) -> Any:
    """Return an efficiency with few or many events per bin, including bins where no event or every event passed."""
    rng = np.random.default_rng(seed)
    name = f"{statistic}{seed}{weighted}{''.join(bits)}"
    passed, total = root.TH1D(f"{name}_p", "", BINS, 0, 1), root.TH1D(f"{name}_t", "", BINS, 0, 1)
    if weighted:
        passed.Sumw2()
        total.Sumw2()
    for cell in range(1, BINS + 1):
        count = int(rng.integers(1 if weighted else 0, [3, 20, 200, 3000][cell % 4]))
        some = {0: 0, 1: count}.get(cell % 7, int(rng.binomial(count, rng.random())))
        weights = rng.uniform(0.2, 2.0, count) if weighted else np.ones(count)
        for histogram, of in ((passed, weights[:some]), (total, weights)):
            histogram.SetBinContent(cell, of.sum())
            if weighted:
                histogram.SetBinError(cell, np.sqrt((of**2).sum()))
    made = root.TEfficiency(passed, total)
    made.SetName(name)
    made.SetDirectory(root.nullptr)
    made.SetStatisticOption(getattr(root.TEfficiency, statistic))
    made.SetConfidenceLevel(float(rng.uniform(0.5, 0.99)))
    if statistic == "kBBayesian":
        made.SetBetaAlpha(1.3)
        made.SetBetaBeta(2.1)
    if weighted:
        made.SetUseWeightedEvents()
    for bit in bits:
        getattr(made, bit)() if bit.startswith("Set") else _set_priors(made)
    return made


def _set_priors(efficiency: Any) -> None:
    for cell in range(1, BINS + 1):
        efficiency.SetBetaBinParameters(cell, 0.5 + 0.1 * cell, 2.0)


def assert_close_efficiency(got: Any, theirs: Any, difference: float) -> None:
    cells = range(1, BINS + 1)
    assert np.allclose(got.values(), [theirs.GetEfficiency(cell) for cell in cells], rtol=0, atol=1e-12)
    low, high = got.errors()
    assert np.allclose(low, [theirs.GetEfficiencyErrorLow(cell) for cell in cells], rtol=0, atol=difference)
    assert np.allclose(high, [theirs.GetEfficiencyErrorUp(cell) for cell in cells], rtol=0, atol=difference)


@pytest.mark.parametrize("statistic", [*STATISTICS, "kFFC", "kMidP"])
def test_intervals_of_random_counts_are_those_of_root(root: Any, tmp_path: Path, statistic: str) -> None:
    def make(root: Any) -> list[Any]:
        return [random_efficiency(root, seed, statistic, weighted=False) for seed in range(5)]

    wanted = write(root, tmp_path / "e.root", make)
    file = branchline.open(tmp_path / "e.root")
    for name, theirs in wanted.items():
        assert_close_efficiency(file[name], theirs, 1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "bits", [(), ("priors",), ("SetShortestInterval",), ("SetPosteriorMode", "SetShortestInterval", "priors")], ids=str
)
def test_bayesian_intervals_are_those_of_root(root: Any, tmp_path: Path, bits: Sequence[str], weighted: bool) -> None:
    def make(root: Any) -> list[Any]:
        return [random_efficiency(root, 3, one, weighted=weighted, bits=bits) for one in BAYESIAN]

    wanted = write(root, tmp_path / "e.root", make)
    file = branchline.open(tmp_path / "e.root")
    # For the shortest interval, ROOT uses a minimizer with a limited precision.
    difference = 1e-7 if "SetShortestInterval" in bits else 1e-9
    for name, theirs in wanted.items():
        assert_close_efficiency(file[name], theirs, difference)


def test_statistics_that_are_not_defined_say_so(root: Any, tmp_path: Path) -> None:
    def make(root: Any) -> list[Any]:
        passed, total = root.TH1D("p", "", 1, 0.0, 1.0), root.TH1D("t", "", 1, 0.0, 1.0)
        passed.SetBinContent(1, 1.5)
        total.SetBinContent(1, 2.5)
        one = root.TEfficiency(passed, total)
        one.SetName("e")
        one.SetStatisticOption(root.TEfficiency.kFFC)
        return [one]

    write(root, tmp_path / "e.root", make)
    got = branchline.open(tmp_path / "e.root")["e"]
    assert got.values().tolist() == [0.6]
    with pytest.raises(branchline.UnsupportedBranchError, match="non-integer counts"):
        got.errors()


def sparse(root: Any, kind: str, *, weighted: bool) -> Any:
    bins, low, high = np.array([3, 40, 5], "i4"), np.array([0.0, -1.0, 0.0]), np.array([3.0, 1.0, 1.0])
    one = getattr(root, kind)(f"{kind}{weighted}", "n", 3, bins, low, high)
    one.GetAxis(0).SetTitle("mass")
    if weighted:
        one.Sumw2()
    for *point, weight in np.random.default_rng(9).normal(0.5, 0.8, (60, 4)):
        one.Fill(np.array(point), abs(weight) if weighted else 1.0)
    return one


@pytest.mark.parametrize("kind", ["THnSparseD", "THnSparseF", "THnSparseI", "THnD", "THnF"])
@pytest.mark.parametrize("weighted", [False, True])
def test_histograms_of_many_dimensions(root: Any, tmp_path: Path, kind: str, weighted: bool) -> None:
    theirs = sparse(root, kind, weighted=weighted)
    write(root, tmp_path / "n.root", lambda _: [theirs])
    got = branchline.open(tmp_path / "n.root")[theirs.GetName()]
    if kind.startswith("THnSparse"):
        assert isinstance(got, SparseHistogram)
        assert len(got.values) == theirs.GetNbins()
        whole = got.to_hist()
        assert np.allclose(got.to_hist("mass").values(flow=True), whole.project(0).values(flow=True))
        with pytest.raises(branchline.OptionError, match="mass"):
            got.to_hist("speed")
    else:
        whole = got
    values, errors = whole.values(flow=True), whole.errors(flow=True)
    assert values.shape == (5, 42, 7)
    wanted = theirs.Projection(0, 1, 2)
    for place in np.ndindex(values.shape):
        cell = wanted.GetBin(*place)
        assert np.isclose(values[place], wanted.GetBinContent(cell), rtol=1e-12)
        assert np.isclose(errors[place], wanted.GetBinError(cell), rtol=1e-9)
    assert values.sum() > 0
    assert whole.axes[0].label == "mass"


def test_lists_hold_what_they_hold(root: Any, tmp_path: Path) -> None:
    file = root.TFile.Open(str(tmp_path / "l.root"), "RECREATE")
    inner, outer = root.TList(), root.TObjArray()
    inner.SetName("inner")
    made = [*counts(root)[:3], root.TNamed("named", "a title"), root.TObjString("text")]
    for one in made:
        inner.Add(one)
    outer.Add(inner)
    outer.Add(made[0])
    inner.Write("list", root.TObject.kSingleKey)
    outer.Write("array", root.TObject.kSingleKey)
    file.Close()
    ours = branchline.open(tmp_path / "l.root")
    got = ours["list"]
    assert isinstance(got, ObjectList)
    assert got.names() == ["h1C", "h2C", "h3C", "named", "text"]
    for place, theirs in enumerate(made[:3]):
        assert_equal_to_root(got[place], theirs)
        assert_equal_to_root(ours[f"list/{theirs.GetName()}"], theirs)
    assert isinstance(got["named"], Record)
    assert got["named"].fTitle == "a title"
    assert got[-1] == "text"
    assert ours["array"][0].name == "inner"
    assert_equal_to_root(ours["array"]["inner"]["h2C"], made[1])
    with pytest.raises(branchline.NoSuchKeyError, match="h1C, h2C, h3C"):
        got["other"]


def test_what_is_no_histogram_is_a_record_of_its_members(root: Any, tmp_path: Path) -> None:
    def make(root: Any) -> list[Any]:
        polygons = root.TH2Poly("polygons", "", 0.0, 1.0, 0.0, 1.0)
        polygons.AddBin(root.TGraph(3, np.array([0.0, 0.5, 0.5]), np.array([0.0, 0.0, 0.5])))
        function = root.TF1("function", "[0]*x", 0.0, 1.0)
        parameter = root.TParameter["double"]("parameter", 2.5)
        return [polygons, function, parameter]

    write(root, tmp_path / "o.root", make)
    file = branchline.open(tmp_path / "o.root")
    for name in ("polygons", "function"):
        assert isinstance(file[name], Record)
        assert file[name].fName == name
    assert file["parameter"]["fVal"] == 2.5
    assert dict(pickle.loads(pickle.dumps(file["parameter"]))) == dict(file["parameter"])
    with pytest.raises(AttributeError, match="TH2Poly has no member 'axes'"):
        _ = file["polygons"].axes
    with pytest.raises(branchline.NoSuchKeyError, match="its members are fUniqueID"):
        file["parameter"]["fNothing"]
    assert file.record("polygons")["fXaxis"].fNbins == file["polygons"].fXaxis.fNbins
