"""The results of a train, written to results.root, come back as they were."""

from __future__ import annotations

from pathlib import Path

import boost_histogram
import hist
import numpy as np
import pytest

import branchline
from branchline.reading.objects.histogram import Histogram
from branchline.writing.objects.forms import write_root_file

STORAGES = ("Double", "Int64", "Weight", "Mean", "WeightedMean")


@pytest.mark.parametrize("storage", STORAGES)
def test_a_histogram_of_results_comes_back(tmp_path: Path, storage: str) -> None:
    rng = np.random.default_rng(4)
    filled = hist.Hist(hist.axis.Regular(10, -2, 2, label="$p_T$"), storage=getattr(boost_histogram.storage, storage)())
    options = {"sample": rng.normal(3, 1, 200)} if "Mean" in storage else {}
    filled.fill(rng.normal(size=200), **options, **({"weight": rng.random(200)} if "eight" in storage else {}))
    filled.label = "momenta"
    write_root_file(tmp_path, [(("Momenta", "pt"), filled)])
    got = branchline.open(tmp_path / "results.root")["Momenta/pt"]
    assert isinstance(got, Histogram)
    assert got.title == "momenta"
    assert got.axes[0].label == "p_{T}"  # as ROOT draws it
    assert np.allclose(got.values(flow=True), filled.values(flow=True))
    if "Mean" not in storage:
        assert np.allclose(got.variances(flow=True), filled.variances(flow=True))


def test_categories_of_results_come_back(tmp_path: Path) -> None:
    filled = hist.Hist(hist.axis.StrCategory(["mu", "e"]), storage=boost_histogram.storage.Weight())
    filled.fill(["mu", "mu", "e"], weight=2.0)
    write_root_file(tmp_path, [(("kinds",), filled)])
    got = branchline.open(tmp_path / "results.root")["kinds"]
    assert got["mu"].value == 4.0
    assert got.bin_labels()[0] == "mu"
    assert got.errors()[1] == 2.0
