"""results.root as uproot and ROOT read it: values, variances, under- and overflow, edges, labels."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import hist
import numpy
import pytest
import uproot
from tests.peers.peers import imported

from branchline import _core
from branchline.errors import StorageError
from branchline.writing.objects.forms import root_forms, write_root_file


def _random() -> numpy.random.Generator:
    return numpy.random.default_rng(20240917)


def _weighted() -> Any:
    histogram = hist.Hist.new.Reg(40, 0, 20, name="pt", label="pT [GeV]").Weight()
    histogram.fill(_random().exponential(6, 3000), weight=_random().uniform(0.5, 1.5, 3000))
    return histogram


def _two_axes() -> Any:
    histogram = hist.Hist.new.Integer(-2, 4, label="charge").Var([0, 1, 5, 20], label="p [GeV]").Double()
    histogram.fill(_random().integers(-5, 6, 2000), _random().exponential(5, 2000))
    return histogram


def _three_axes() -> Any:
    histogram = (
        hist.Hist.new.Reg(3, -1, 1, label="x")
        .Reg(4, -1, 1, label="y", underflow=False)
        .Reg(5, -1, 1, label="z")
        .Weight()
    )
    histogram.fill(*_random().normal(size=(3, 2000)), weight=2.0)
    return histogram


def _full(histogram: Any, what: str) -> numpy.ndarray:
    """Return values or variances with flow bins on both sides of each axis, zeros where an axis has none."""
    cells = getattr(histogram, what)(flow=True)
    pad = [(0 if axis.traits.underflow else 1, 0 if axis.traits.overflow else 1) for axis in histogram.axes]
    return numpy.pad(cells, pad)


HISTOGRAMS = {
    "weighted": _weighted,
    "two": _two_axes,
    "three": _three_axes,
    "no_overflow": lambda: (
        hist.Hist.new.Reg(5, 0, 5, overflow=False, label="n").Int64().fill(_random().normal(2, 2, 99))
    ),
    "circular": lambda: hist.Hist.new.Reg(8, 0, 6.28, circular=True, label="phi").Double().fill([1, 2, 9]),
    "logarithmic": lambda: hist.Hist.new.Log(6, 1, 1e6, label="E").Double().fill([0, 3, 1e9, 77]),
}


@pytest.fixture(params=HISTOGRAMS)
def case(request: pytest.FixtureRequest) -> tuple[str, Any]:
    return request.param, HISTOGRAMS[request.param]()


@pytest.fixture(scope="session")
def root() -> Any:
    """Return the ROOT module. Where it is missing the test is skipped by name; in CI that is a failure."""
    if not os.environ.get("CI"):
        imported("ROOT")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ROOT
    ROOT.gROOT.SetBatch(True)
    ROOT.gErrorIgnoreLevel = ROOT.kError
    return ROOT


def test_uproot_reads_equal_values_variances_edges_and_labels(tmp_path: Path, case: tuple[str, Any]) -> None:
    name, histogram = case
    (written,) = write_root_file(tmp_path, [(("wagon", name), histogram)])
    assert written.names == [f"wagon/{name}"]
    assert written.note is None
    with uproot.open(tmp_path / "results.root") as file:
        read = file[f"wagon/{name}"]
        numpy.testing.assert_array_equal(read.values(flow=True), _full(histogram, "values"))
        numpy.testing.assert_allclose(read.variances(flow=True), _full(histogram, "variances"), rtol=1e-15)
        for index, axis in enumerate(histogram.axes):
            numpy.testing.assert_allclose(read.axis(index).edges(), axis.edges, rtol=1e-14)
            assert read.axis(index).member("fTitle") == axis.label


@pytest.mark.peer
def test_root_reads_equal_values_errors_edges_and_labels(tmp_path: Path, case: tuple[str, Any], root: Any) -> None:
    name, histogram = case
    write_root_file(tmp_path, [(("wagon", name), histogram)])
    file = root.TFile.Open(str(tmp_path / "results.root"))
    read = file.Get(f"wagon/{name}")
    assert read.ClassName() == f"TH{len(histogram.axes)}D"
    values, variances = _full(histogram, "values"), _full(histogram, "variances")
    for where in numpy.ndindex(values.shape):
        assert read.GetBinContent(*where) == values[where]
        assert read.GetBinError(*where) ** 2 == pytest.approx(variances[where], rel=1e-12)
    for axis, of_root in zip(histogram.axes, (read.GetXaxis(), read.GetYaxis(), read.GetZaxis()), strict=False):
        edges = [of_root.GetBinLowEdge(index + 1) for index in range(len(axis) + 1)]
        numpy.testing.assert_allclose(edges, axis.edges, rtol=1e-12, atol=1e-15)
        assert of_root.GetTitle() == axis.label
    file.Close()


@pytest.mark.peer
def test_means_become_profiles_that_root_draws_with_the_same_errors(tmp_path: Path, root: Any) -> None:
    histogram = hist.Hist.new.Reg(10, 0, 20, label="multiplicity").Mean()
    x = _random().uniform(0, 20, 5000)
    histogram.fill(x, sample=1 + 0.1 * x + _random().normal(size=5000))
    write_root_file(tmp_path, [(("wagon", "mean"), histogram)])
    file = root.TFile.Open(str(tmp_path / "results.root"))
    profile = file.Get("wagon/mean")
    assert profile.ClassName() == "TProfile"
    counts = histogram.counts()
    for index, (mean, variance, entries) in enumerate(
        zip(histogram.values(), histogram.variances(), counts, strict=True), start=1
    ):
        assert profile.GetBinEntries(index) == entries
        assert profile.GetBinContent(index) == pytest.approx(mean, rel=1e-12)
        # hist divides the spread by N-1, ROOT by N.
        assert profile.GetBinError(index) ** 2 == pytest.approx(variance * (entries - 1) / entries, rel=1e-9)
    file.Close()


@pytest.mark.peer
def test_categories_alone_become_labelled_bins_with_their_overflow_as_a_bin(tmp_path: Path, root: Any) -> None:
    histogram = hist.Hist.new.StrCat(["all", "pt > 5"], label="cut").Weight()
    histogram.fill(["all", "all", "pt > 5", "unknown"], weight=2.0)
    write_root_file(tmp_path, [(("wagon", "cutflow"), histogram)])
    file = root.TFile.Open(str(tmp_path / "results.root"))
    read = file.Get("wagon/cutflow")
    labels = [read.GetXaxis().GetBinLabel(index) for index in (1, 2, 3)]
    assert labels == ["all", "pt > 5", "(other)"]
    assert [read.GetBinContent(index) for index in range(5)] == [0, 4, 2, 2, 0]
    assert [read.GetBinError(index) ** 2 for index in (1, 2, 3)] == pytest.approx([8, 4, 4])
    file.Close()


@pytest.mark.parametrize("axis", [hist.axis.StrCategory(["1", "5"]), hist.axis.IntCategory([1, 5])])
@pytest.mark.parametrize("storage", ["Double", "Weight"])
def test_an_overflow_of_categories_without_entries_makes_no_bin_as_in_uproot(
    tmp_path: Path, axis: Any, storage: str
) -> None:
    histogram = hist.Hist(axis, axis, storage=getattr(hist.storage, storage)())
    one = "1" if isinstance(axis, hist.axis.StrCategory) else 1
    histogram.fill([one, one], [one, one])
    write_root_file(tmp_path, [(("kinds",), histogram)])
    with uproot.recreate(tmp_path / "theirs.root") as file:
        file["kinds"] = histogram
    ours, theirs = (uproot.open(tmp_path / name)["kinds"] for name in ("results.root", "theirs.root"))
    assert [one.labels() for one in ours.axes] == [one.labels() for one in theirs.axes] == [["1", "5"]] * 2
    assert ours.values(flow=True).tolist() == theirs.values(flow=True).tolist()
    # Where squares of weights are kept, what cancels is there, too.
    other = "9" if isinstance(axis, hist.axis.StrCategory) else 9
    histogram.fill([other, other], [one, one], weight=[1.0, -1.0])
    write_root_file(tmp_path / "filled", [(("kinds",), histogram)])
    filled = uproot.open(tmp_path / "filled/results.root")["kinds"]
    assert filled.axis(0).labels() == (["1", "5"] if storage == "Double" else ["1", "5", "(other)"])
    assert filled.axis(1).labels() == ["1", "5"]


def test_categories_beside_a_number_become_directories(tmp_path: Path) -> None:
    histogram = hist.Hist.new.StrCat(["pp", "p/Pb"], name="system").Reg(3, 0, 3, label="x").Weight()
    histogram.fill(["pp", "p/Pb", "p/Pb", "nobody's"], [0.5, 1.5, 9.0, 2.5])
    (written,) = write_root_file(tmp_path, [(("wagon", "x"), histogram)])
    assert written.names == ["wagon/x/pp", "wagon/x/p_Pb", "wagon/x/other"]
    with uproot.open(tmp_path / "results.root") as file:
        assert file["wagon/x/pp"].values(flow=True).tolist() == [0, 1, 0, 0, 0]
        assert file["wagon/x/p_Pb"].values(flow=True).tolist() == [0, 0, 1, 0, 1]
        assert file["wagon/x/other"].values(flow=True).tolist() == [0, 0, 0, 1, 0]


def test_means_of_no_category_are_kept_where_they_are_zero(tmp_path: Path) -> None:
    histogram = hist.Hist.new.StrCat(["pp"], name="system").Reg(2, 0, 2, label="x").Mean()
    histogram.fill(["nobody's"], [0.5], sample=[0.0])
    (written,) = write_root_file(tmp_path, [(("x",), histogram)])
    assert written.names == ["x/pp", "x/other"]
    with uproot.open(tmp_path / "results.root") as file:
        assert file["x/other"].counts().tolist() == [1, 0]


@pytest.mark.parametrize(
    ("histogram", "reason"),
    [
        (hist.Hist.new.Reg(2, 0, 1).Reg(2, 0, 1).Reg(2, 0, 1).Reg(2, 0, 1).Double(), "it has 4 axes"),
        (hist.Hist.new.IntCat(range(1200)).Reg(2, 0, 1).Double(), "more than 1000 categories"),
    ],
)
def test_what_root_has_no_class_for_is_told(tmp_path: Path, histogram: Any, reason: str) -> None:
    (refused, kept) = write_root_file(tmp_path, [(("wagon", "odd"), histogram), (("wagon", "usual"), _weighted())])
    assert refused.names == []
    assert reason in str(refused.note)
    assert kept.names == ["wagon/usual"]


def test_an_axis_without_a_label_gets_none(tmp_path: Path) -> None:
    write_root_file(tmp_path, [(("wagon", "plain"), hist.Hist.new.Reg(2, 0, 1).Double())])
    with uproot.open(tmp_path / "results.root") as file:
        assert file["wagon/plain"].axis().member("fTitle").strip() == ""


@pytest.mark.peer
def test_root_computes_the_same_entries_means_and_spreads(tmp_path: Path, root: Any) -> None:
    random = _random()
    x, y, z = random.normal(5, 2, (3, 4000))
    one = hist.Hist.new.Reg(50, 0, 10).Weight().fill(x)
    two = hist.Hist.new.Reg(50, 0, 10).Reg(40, 0, 10).Weight().fill(x, y)
    three = hist.Hist.new.Reg(20, 0, 10).Reg(21, 0, 10).Reg(22, 0, 10).Weight().fill(x, y, z)
    write_root_file(tmp_path, [(("one",), one), (("two",), two), (("three",), three)])
    file = root.TFile.Open(str(tmp_path / "results.root"))
    for name in ("one", "two", "three"):
        written = file.Get(name)
        assert written.GetEntries() == pytest.approx(4000)
        stored = numpy.zeros(13)
        written.GetStats(stored)
        # Without stored sums ROOT computes them from the bins.
        fresh = written.Clone()
        fresh.ResetStats()
        computed = numpy.zeros(13)
        fresh.GetStats(computed)
        numpy.testing.assert_allclose(stored, computed, rtol=1e-12)
        assert written.GetMean() == pytest.approx(x[(x > 0) & (x < 10)].mean(), abs=0.1)
    file.Close()


@pytest.mark.peer
def test_weighted_means_become_profiles_with_the_same_errors(tmp_path: Path, root: Any) -> None:
    histogram = hist.Hist.new.Var([0, 1, 3, 20], label="multiplicity").WeightedMean()
    x, weights = _random().uniform(-1, 22, 3000), _random().uniform(0.5, 2, 3000)
    histogram.fill(x, sample=1 + 0.1 * x + _random().normal(size=3000), weight=weights)
    write_root_file(tmp_path, [(("mean",), histogram)])
    file = root.TFile.Open(str(tmp_path / "results.root"))
    profile = file.Get("mean")
    view = histogram.view(flow=True)
    for index, cell in enumerate(view):
        assert profile.GetBinEntries(index) == pytest.approx(cell["sum_of_weights"], rel=1e-12)
        assert profile.GetBinContent(index) == pytest.approx(cell["value"], rel=1e-12)
        effective = cell["sum_of_weights"] ** 2 / cell["sum_of_weights_squared"]
        assert profile.GetBinEffectiveEntries(index) == pytest.approx(effective, rel=1e-12)
        spread = cell["_sum_of_weighted_deltas_squared"] / cell["sum_of_weights"]
        assert profile.GetBinError(index) ** 2 == pytest.approx(spread / effective, rel=1e-8)
    file.Close()
    with uproot.open(tmp_path / "results.root") as read:
        numpy.testing.assert_allclose(read["mean"].values(flow=True), view["value"], rtol=1e-12)


def test_uproot_reads_labels_directories_and_long_titles(tmp_path: Path) -> None:
    title = "a title that is long " * 20
    histogram = hist.Hist.new.StrCat(["all", "tight"], label="cut").Double().fill(["all"] * 3, weight=0.5)
    histogram.label = title
    write_root_file(tmp_path, [(("w", "a", "b", "cut"), histogram), (("w", "other"), histogram)])
    with uproot.open(tmp_path / "results.root") as file:
        assert sorted(file.keys(cycle=False)) == ["w", "w/a", "w/a/b", "w/a/b/cut", "w/other"]
        read = file["w/a/b/cut"]
        assert read.axis().labels() == ["all", "tight"]
        assert read.title == title
        assert list(read.values()) == [1.5, 0]


@pytest.mark.parametrize(
    ("written", "drawn"),
    [
        (r"$\eta$", "#eta"),
        (r"$p_T$ [GeV]", "p_{T} [GeV]"),
        (r"$m_{\mu\mu}$ [GeV]", "m_{#mu#mu} [GeV]"),
        (r"$p_\mathrm{T}^2$", "p_{T}^{2}"),
        (r"$\Delta\phi(\mu, j)$", "#Delta#phi(#mu, j)"),
        (r"$H\to ZZ$", "H#rightarrow ZZ"),
        ("a price of $5", "a price of $5"),
        (r"50\% of #all", "50% of #all"),
        ("plain_name", "plain_name"),
    ],
)
def test_titles_are_written_as_root_draws_them(tmp_path: Path, written: str, drawn: str) -> None:
    histogram = hist.Hist.new.Reg(2, 0, 1, label=written).Double()
    histogram.label = written
    write_root_file(tmp_path, [(("h",), histogram)])
    with uproot.open(tmp_path / "results.root") as file:
        assert file["h"].axis().member("fTitle") == drawn
        assert file["h"].title == drawn


def test_a_file_of_objects_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "objects.root"
    file = _core.WritableFile(path, False, "zlib:1")
    form = next(root_forms(_weighted()))[1]
    file.add(["d"], form.class_name, "h", "", form.streamed("h"))
    for directories, name in (([], "d"), (["d", "h"], "inside")):
        with pytest.raises(StorageError, match=r"d/h|d is a directory"):
            file.add(directories, form.class_name, name, "", form.streamed(name))
    assert not path.exists()
    file.abandon()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="closed"):
        file.finish()
