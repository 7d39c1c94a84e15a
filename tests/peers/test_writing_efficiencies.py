"""Efficiencies, profiles and multidimensional histograms written from Python equal the objects that ROOT creates."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest
import uproot
from tests.peers.histograms import assert_equal_efficiency, assert_equal_to_root

import branchline
from branchline.reading.objects.efficiency import BAYESIAN, STATISTICS

pytestmark = pytest.mark.peer

EDGES = [np.array([0.0, 0.5, 2.0, 5.0]), np.array([-1.0, 0.0, 1.0]), np.array([0.0, 10.0, 30.0])]


@pytest.fixture(autouse=True)
def objects_of_python(root: Any) -> Iterator[None]:
    """Make Python the owner of new histograms, instead of the open file."""
    before = root.TH1.AddDirectoryStatus()
    root.TH1.AddDirectory(False)
    yield
    root.TH1.AddDirectory(before)


def counted(dimensions: int, weighted: bool, seed: int = 3) -> tuple[Any, Any]:
    """Return a histogram of the passed values and a histogram of all values."""
    axes = [hist.axis.Variable(edges, name=name) for edges, name in zip(EDGES[:dimensions], "xyz", strict=False)]
    storage = hist.storage.Weight() if weighted else hist.storage.Double()
    passed, total = hist.Hist(*axes, storage=storage), hist.Hist(*axes, storage=storage)
    rng = np.random.default_rng(seed)
    points = [rng.uniform(edges[0] - 0.1, edges[-1] + 0.1, 300) for edges in EDGES[:dimensions]]
    weights = rng.uniform(0.5, 2.0, 300) if weighted else np.ones(300)
    kept = rng.random(300) < 0.6
    total.fill(*points, weight=weights)
    passed.fill(*(one[kept] for one in points), weight=weights[kept])
    return passed, total


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_efficiencies_of_counts(root: Any, tmp_path: Path, dimensions: int, statistics: str) -> None:
    passed, total = counted(dimensions, weighted=False)
    path = tmp_path / "e.root"
    with branchline.recreate(path) as file:
        file["folder/e"] = branchline.as_TEfficiency(
            passed, total, "trigger", statistics=statistics, confidence_level=0.9, prior=(2.0, 3.0)
        )
    theirs = root.TFile.Open(str(path)).Get("folder/e")
    own = {"Jeffrey": (0.5, 0.5), "uniform prior": (1.0, 1.0)}.get(statistics, (2.0, 3.0))
    assert (theirs.GetName(), theirs.GetTitle(), theirs.GetConfidenceLevel()) == ("e", "trigger", 0.9)
    assert (theirs.GetStatisticOption(), theirs.GetBetaAlpha(), theirs.GetBetaBeta()) == (
        STATISTICS.index(statistics),
        *own,
    )
    assert bool(theirs.UsesBayesianStat()) == (statistics in BAYESIAN)
    assert theirs.GetDimension() == dimensions
    assert not theirs.UsesWeights()
    # The function that computes the intervals is not stored. ROOT uses Clopper-Pearson intervals until the option is
    # set again.
    theirs.SetStatisticOption(theirs.GetStatisticOption())
    got = branchline.open(path)["folder/e"]
    assert_equal_efficiency(got, theirs)
    for name, wanted in (("fPassedHistogram", passed), ("fTotalHistogram", total)):
        of_uproot = uproot.open(path)["folder/e"].member(name)
        assert np.array_equal(of_uproot.values(flow=True), wanted.values(flow=True))


@pytest.mark.parametrize("statistics", [None, "Bayesian"])
def test_efficiencies_of_weights(root: Any, tmp_path: Path, statistics: str | None) -> None:
    path = tmp_path / "e.root"
    with branchline.recreate(path) as file:
        file["e"] = branchline.as_TEfficiency(*counted(1, weighted=True), statistics=statistics)
    theirs = root.TFile.Open(str(path)).Get("e")
    assert theirs.UsesWeights()
    assert theirs.GetStatisticOption() == STATISTICS.index(statistics or "normal")
    theirs.SetStatisticOption(theirs.GetStatisticOption())
    assert_equal_efficiency(branchline.open(path)["e"], theirs)


def test_efficiencies_of_numpy_are_added_by_hadd_and_merge(root: Any, tmp_path: Path) -> None:
    inputs = [tmp_path / f"{number}.root" for number in range(2)]
    for number, path in enumerate(inputs):
        with branchline.recreate(path) as file:
            total = (np.array([10.0, 20.0]) + number, EDGES[1])
            file["e"] = branchline.as_TEfficiency((np.array([4.0, 20.0]), EDGES[1]), total)
    hadd = Path(root.__file__).parent / "bin" / "hadd"
    subprocess.run([hadd, tmp_path / "hadd.root", *inputs], check=True, capture_output=True)
    branchline.merge(inputs, tmp_path / "merge.root")
    for name in ("hadd.root", "merge.root"):
        got = branchline.open(tmp_path / name)["e"]
        assert got.values().tolist() == [8 / 21, 40 / 41]
        assert_equal_efficiency(got, root.TFile.Open(str(tmp_path / name)).Get("e"))


@pytest.mark.parametrize("weighted", [False, True])
def test_histograms_over_many_axes(root: Any, tmp_path: Path, weighted: bool) -> None:
    storage = hist.storage.Weight() if weighted else hist.storage.Double()
    made = hist.Hist(
        hist.axis.Regular(2, 0, 1, name="x", label="x [cm]"),
        hist.axis.Variable([0.0, 1.0, 5.0], name="y"),
        hist.axis.Integer(0, 3, name="n"),
        hist.axis.Regular(3, -1, 1, name="z"),
        storage=storage,
        label="many",
    )
    rng = np.random.default_rng(4)
    points = [rng.uniform(-0.2, 1.2, 200), rng.uniform(0, 6, 200), rng.integers(-1, 4, 200), rng.normal(0, 1, 200)]
    made.fill(*points, weight=rng.uniform(0.5, 2.0, 200) if weighted else None)
    path = tmp_path / "many.root"
    with branchline.recreate(path) as file:
        file["many"] = made
        file["numpy"] = np.histogramdd(np.stack(points, axis=1), bins=(2, 3, 2, 2))
    file = root.TFile.Open(str(path))
    theirs = file.Get("many")
    assert (theirs.ClassName(), theirs.GetName(), theirs.GetTitle()) == ("THnT<double>", "many", "many")
    assert [theirs.GetAxis(number).GetTitle() for number in range(4)] == ["x [cm]", "y", "n", "z"]
    assert bool(theirs.GetCalculateErrors()) == weighted
    values, variances = made.values(flow=True), made.variances(flow=True)
    for cell, place in enumerate(itertools.product(*map(range, values.shape))):
        # Use only ROOT functions without an overload for pointers, because PyROOT may convert the Python number 0 to a
        # null pointer.
        assert theirs.GetArray().AtAsDouble(cell) == values[place]
        assert np.isclose(theirs.GetBinError2(cell), variances[place], rtol=1e-12)
    assert file.Get("numpy").GetNdimensions() == 4
    again = branchline.open(path)
    assert np.array_equal(again["many"].values(flow=True), values)
    assert np.allclose(again["many"].variances(flow=True), variances, rtol=1e-12)
    assert np.array_equal(again["numpy"].values(), np.histogramdd(np.stack(points, axis=1), bins=(2, 3, 2, 2))[0])
    of_uproot = uproot.open(path)["many"]
    assert np.array_equal(of_uproot.member("fArray").member("fData"), values.reshape(-1))
    projected = theirs.Projection(0)
    along = values[1:-1].sum(axis=(1, 2, 3))
    assert np.allclose([projected.GetBinContent(number) for number in (1, 2)], along)


def test_profiles_over_one_and_two_axes(root: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    x, y, sample = rng.uniform(0, 5, 300), rng.uniform(-1, 1, 300), rng.normal(5, 2, 300)
    one = hist.Hist(hist.axis.Variable(EDGES[0]), storage=hist.storage.Mean()).fill(x, sample=sample)
    two = hist.Hist(*map(hist.axis.Variable, EDGES[:2]), storage=hist.storage.WeightedMean())
    two.fill(x, y, sample=sample, weight=rng.uniform(0.5, 2.0, 300))
    path = tmp_path / "p.root"
    with branchline.recreate(path) as file:
        file["one"], file["two"] = one, two
    file, of_uproot = root.TFile.Open(str(path)), uproot.open(path)
    for name, made in (("one", one), ("two", two)):
        assert file.Get(name).ClassName() == {"one": "TProfile", "two": "TProfile2D"}[name]
        assert_equal_to_root(branchline.open(path)[name], file.Get(name))
        assert np.allclose(of_uproot[name].values(), made.values(), rtol=1e-12)


def test_streamer_infos_are_those_of_root(root: Any, tmp_path: Path) -> None:
    path = tmp_path / "e.root"
    with branchline.recreate(path) as file:
        file["e"] = branchline.as_TEfficiency(*counted(1, weighted=False))
    infos = {info.GetName(): info for info in root.TFile.Open(str(path)).GetStreamerInfoList()}
    for name in ("TEfficiency", "THnT<double>", "THnSparseT<TArrayD>", "TNDArrayT<double>", "TH1D"):
        known = root.TClass.GetClass(name)
        assert (infos[name].GetClassVersion(), infos[name].GetCheckSum()) == (
            known.GetClassVersion(),
            known.GetCheckSum(),
        )


@pytest.mark.parametrize(("letter", "dtype"), [("D", "float64"), ("F", "float32"), ("I", "int32")])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bins", [[3, 40, 5], [7, 200, 1000, 30, 15, 2, 500, 900, 11]])
def test_sparse_histograms(root: Any, tmp_path: Path, bins: list[int], weighted: bool, letter: str, dtype: str) -> None:
    rng = np.random.default_rng(6)
    places = np.unique(np.stack([rng.integers(0, count + 2, 300) for count in bins], axis=1), axis=0)
    values = rng.uniform(0.5, 9.0, len(places)).astype(dtype)
    variances = rng.uniform(0.5, 9.0, len(places)) if weighted else None
    edges = [np.cumsum(rng.uniform(0.5, 1.0, count + 1)) for count in bins]
    path = tmp_path / "sparse.root"
    with branchline.recreate(path) as file:
        file["s"] = branchline.as_THnSparse(
            places, values, edges, "cells", variances=variances, axis_titles=["x"], dtype=dtype
        )
        file["none"] = branchline.as_THnSparse([], [], edges, dtype=dtype)
    opened = root.TFile.Open(str(path))
    theirs, empty = opened.Get("s"), opened.Get("none")
    assert (theirs.ClassName(), theirs.GetTitle(), theirs.GetNbins()) == (
        f"THnSparseT<TArray{letter}>",
        "cells",
        len(places),
    )
    assert (empty.GetNbins(), theirs.GetAxis(0).GetTitle(), theirs.GetCalculateErrors()) == (0, "x", weighted)
    for number, one in enumerate(edges):
        assert [theirs.GetAxis(number).GetBinLowEdge(bin_ + 1) for bin_ in range(len(one))] == pytest.approx(list(one))
    for place, value, square in zip(places, values, values if variances is None else variances, strict=True):
        cell = theirs.GetBin(place.astype("i4"), False)
        assert cell >= 0
        of_root = theirs.GetBinContent(place.astype("i4")), theirs.GetBinError2(cell)
        assert of_root == (value, pytest.approx(square))
    for one in (theirs, empty):
        one.Fill(np.array([edge[1] * 1.0001 for edge in edges]), 2.5)
        one.Fill(np.array([edge[-2] * 1.0001 for edge in edges]), 1.5)
    assert empty.GetNbins() == 2
    got = branchline.open(path)["s"]
    assert np.array_equal(got.coordinates, places)
    assert np.array_equal(got.values, values)
    assert np.array_equal(got.variances, values if variances is None else variances)
    infos = {info.GetName(): info for info in opened.GetStreamerInfoList()}
    known = root.TClass.GetClass(theirs.ClassName())
    assert infos[theirs.ClassName()].GetCheckSum() == known.GetCheckSum()
