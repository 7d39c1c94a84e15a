"""Histograms read by Branchline have the interface of uproot's histograms, and uproot can write them to files."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from copy import copy, deepcopy
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest
import uproot
from tests.peers.histograms import assert_equal_to_root

import branchline
from branchline.reading.objects.histogram import Histogram

pytestmark = pytest.mark.peer

# Bins of different widths, so that the mean of the bin centers differs from the mean of the values.
EDGES = np.array([0.0, 1.0, 4.0, 10.0])


def fill(histogram: Any, dimensions: int, *, weights: bool = False) -> Any:
    rng = np.random.default_rng(3)
    for point in rng.normal(4, 3, (50, dimensions)):
        histogram.Fill(*point.tolist(), *([float(rng.normal(2, 1))] if weights else []))
    return histogram


def labelled(root: Any) -> Any:
    histogram = root.TH1F("labelled", "with labels;kind", 3, 0.0, 3.0)
    for number, label in enumerate(("mu", "e", "tau"), start=1):
        histogram.GetXaxis().SetBinLabel(number, label)
    for x in (0.5, 0.5, 2.5):
        histogram.Fill(x)
    return histogram


def partly_labelled(root: Any) -> Any:
    histogram = root.TH1D("partly", "", 4, 0.0, 4.0)
    histogram.GetXaxis().SetBinLabel(2, "here")
    return fill(histogram, 1)


def weighted(root: Any) -> Any:
    histogram = root.TH1D("weighted", "", 3, EDGES)
    histogram.Sumw2()
    return fill(histogram, 1, weights=True)


def in_buffer(root: Any) -> Any:
    histogram = root.TH1D("buffer", "", 10, 0.0, 8.0)
    histogram.SetBuffer(1000)
    return fill(histogram, 1)


def profile(root: Any, option: str = "") -> Any:
    return fill(root.TProfile(f"profile{option}", "a profile;x;y", 3, EDGES, option), 2)


MADE: dict[str, Callable[[Any], Any]] = {
    **{f"TH1{letter}": lambda root, letter=letter: fill(getattr(root, f"TH1{letter}")("h", "t;x", 3, EDGES), 1)
       for letter in "CSIFD"},
    "TH2F": lambda root: fill(root.TH2F("h2", "two", 3, EDGES, 4, -1.0, 9.0), 2),
    "TH3D": lambda root: fill(root.TH3D("h3", "three", 3, EDGES, 3, EDGES, 3, EDGES), 3),
    "labelled": labelled,
    "partly": partly_labelled,
    "weighted": weighted,
    "buffer": in_buffer,
    "profile": profile,
    "spread": lambda root: profile(root, "s"),
    "profile2": lambda root: fill(root.TProfile2D("p2", "", 3, EDGES, 3, EDGES), 3),
    "weighted profile": lambda root: fill(root.TProfile("pw", "", 3, EDGES), 2, weights=True),
}  # fmt: skip


@pytest.fixture
def one(request: pytest.FixtureRequest, root: Any, tmp_path: Path) -> tuple[Any, Path]:
    """Return an object filled by ROOT, and the path of the file that contains it as `h`."""
    root.TH1.AddDirectory(False)
    made = MADE[request.param](root)
    file = root.TFile.Open(str(tmp_path / "source.root"), "RECREATE")
    file.WriteObject(made, "h")
    file.Close()
    return made, tmp_path / "source.root"


def statistics(histogram: Any) -> list[float]:
    """Return ROOT's sums for the mean and the standard deviation."""
    return [histogram.GetEntries(), *(histogram.GetMean(axis) for axis in (1, 2, 3)), histogram.GetStdDev()]


@pytest.mark.filterwarnings("ignore:.*have labels:branchline.BranchlineWarning")
@pytest.mark.parametrize("one", list(MADE), indirect=True)
def test_a_histogram_goes_on_into_a_file_of_uproot_as_it_is(one: tuple[Any, Path], root: Any, tmp_path: Path) -> None:
    theirs, path = one
    with uproot.recreate(tmp_path / "next.root") as file:
        file["h"] = branchline.open(path)["h"]
    again = root.TFile.Open(str(tmp_path / "next.root")).Get("h")
    assert again.ClassName() == theirs.ClassName()
    assert again.GetTitle() == theirs.GetTitle()
    assert np.allclose(statistics(again), statistics(theirs), rtol=1e-12)
    got = branchline.open(tmp_path / "next.root")["h"]
    theirs.SetName("h")
    assert_equal_to_root(got, theirs)


@pytest.mark.parametrize("one", ["TH1F"], indirect=True)
def test_a_histogram_that_was_changed_goes_on_with_what_is_in_it(
    one: tuple[Any, Path], root: Any, tmp_path: Path
) -> None:
    theirs, path = one
    doubled = branchline.open(path)["h"] * 2
    with uproot.recreate(tmp_path / "next.root") as file:
        file["h"] = doubled
    again = root.TFile.Open(str(tmp_path / "next.root")).Get("h")
    assert [again.GetBinContent(number) for number in range(5)] == [
        2 * theirs.GetBinContent(number) for number in range(5)
    ]
    assert again.GetEntries() == 2 * theirs.GetEntries()


@pytest.mark.parametrize("one", ["TH1F", "profile"], indirect=True)
def test_uproot_changes_nothing_about_a_histogram(one: tuple[Any, Path]) -> None:
    got = branchline.open(one[1])["h"]
    for other in (copy(got), deepcopy(got), pickle.loads(pickle.dumps(got)), got[1:], got + got):
        assert isinstance(other, Histogram)
        assert isinstance(other, hist.Hist)
        assert pickle.loads(pickle.dumps(other)).view(flow=True).tolist() == other.view(flow=True).tolist()
    assert repr(got).startswith("Histogram(")


@pytest.mark.parametrize("one", ["TH1F"], indirect=True)
def test_a_histogram_needs_no_uproot(one: tuple[Any, Path]) -> None:
    script = """
import pickle, sys
import branchline
got = branchline.open(sys.argv[1])["h"]
assert "uproot" not in sys.modules
assert type(pickle.loads(pickle.dumps(got * 2))) is type(got)
import uproot
assert isinstance(got, uproot.Model)
"""
    subprocess.run([sys.executable, "-c", script, str(one[1])], check=True)


@pytest.mark.parametrize("one", ["profile", "spread", "profile2", "weighted profile"], indirect=True)
def test_variances_of_a_profile_are_its_squared_errors(one: tuple[Any, Path]) -> None:
    theirs, path = one
    got = branchline.open(path)["h"]
    if got.ndim == 1:
        errors = [theirs.GetBinError(number) for number in range(1, theirs.GetNbinsX() + 1)]
        assert np.allclose(got.variances(), np.square(errors), rtol=1e-9)
        assert np.allclose(got.variances(flow=True)[1:-1], np.square(errors), rtol=1e-9)
    assert np.array_equal(got.variances(flow=True), got.errors(flow=True) ** 2)
    assert not np.isnan(got.variances(flow=True)).any()


@pytest.mark.parametrize("one", ["TH1F", "profile"], indirect=True)
def test_one_entry_of_a_profile_has_the_variance_of_uproot(one: tuple[Any, Path]) -> None:
    _, path = one
    got, wanted = branchline.open(path)["h"], uproot.open(path)["h"]
    assert np.allclose(got.variances(), wanted.variances(), rtol=1e-9)


@pytest.mark.parametrize("one", ["TH1D", "TH2F", "TH1I", "labelled", "profile"], indirect=True)
def test_axes_are_asked_as_those_of_uproot(one: tuple[Any, Path]) -> None:
    _, path = one
    got, wanted = branchline.open(path)["h"], uproot.open(path)["h"]
    for which in range(got.ndim):
        for ours in (got.axis(which), got.axes[which], got.axis("xyz"[which])):
            theirs = wanted.axis(which)
            for name in ("edges", "centers", "widths", "intervals"):
                assert np.allclose(getattr(ours, name)(), getattr(theirs, name)())
                assert np.array_equal(getattr(ours, name)(flow=True), getattr(theirs, name)(flow=True))
            assert ours.labels() == theirs.labels()
            assert ours.labels(flow=True) == theirs.labels(flow=True)
            assert (ours.low, ours.high) == (theirs.low, theirs.high)
            assert np.isclose(ours.width, theirs.width)
    assert np.array_equal(got.axis().edges(), wanted.axis(0).edges())


@pytest.mark.parametrize("one", ["TH1D", "TH2F", "labelled"], indirect=True)
def test_axes_stay_those_of_hist(one: tuple[Any, Path]) -> None:
    got = branchline.open(one[1])["h"]
    plain = hist.Hist(got)
    for ours, theirs in zip(got.axes, plain.axes, strict=True):
        assert isinstance(ours, type(theirs))
        for name in ("edges", "centers", "widths"):
            assert np.array_equal(getattr(ours, name), getattr(theirs, name))
            assert type(getattr(ours, name)[:]) is np.ndarray
            assert type(getattr(ours, name) * 2) is np.ndarray
        assert type(theirs).__module__.startswith("hist.")
    assert all(np.array_equal(a, b) for a, b in zip(got.axes.edges, plain.axes.edges, strict=True))
    assert np.array_equal(hist.Hist(got.axis(0)).axes[0].edges, plain.axes[0].edges)
    assert np.array_equal(pickle.loads(pickle.dumps(got)).axis().edges(), got.axis().edges())
