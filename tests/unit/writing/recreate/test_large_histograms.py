"""Histograms of many bins: how much memory writing and reading them takes, and their statistics."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import boost_histogram
import numpy as np
import pytest
import uproot

import branchline
from branchline.errors import UnsupportedBranchError
from branchline.writing.objects import buffer
from branchline.writing.objects.values import has_equal_widths

BINS = 8_000_000
#: Prints how much memory more a statement takes at its peak, in arrays of the bins.
MEASURED = """
import resource, sys
import numpy as np
import branchline

values, edges = np.arange({bins}) % 1000.0, np.linspace(0, 1, {bins} + 1)
path = sys.argv[1]
with branchline.recreate(path + ".first") as file:
    file["h"] = [1.0, 2.0], [0.0, 1.0, 2.0]
branchline.open(path + ".first")["h"].values()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
{statement}
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / values.nbytes)
"""
WRITING = """
with branchline.recreate(path) as file:
    file["h"] = values, edges
"""
READING = "assert branchline.open(path)['h'].values()[-1] == values[-1]"


def arrays_taken(path: Path, statement: str) -> float:
    program = MEASURED.format(bins=BINS, statement=statement)
    ended = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return float(ended.stdout)


def test_writing_and_reading_take_the_memory_of_a_few_arrays(tmp_path: Path) -> None:
    # The bins with those beyond the limits, the bytes of the object, and a part of the compressed bytes.
    assert arrays_taken(tmp_path / "large.root", WRITING) < 2.7
    # The bytes of the object, its numbers, the histogram, and one array of truth values.
    assert arrays_taken(tmp_path / "large.root", READING) < 3.0


@pytest.mark.parametrize("bins", [1, 3, 1000, buffer.NUMBERS_AT_ONCE, buffer.NUMBERS_AT_ONCE + 1])
def test_statistics_of_blocks_are_those_of_all_bins(tmp_path: Path, bins: int) -> None:
    values = np.random.default_rng(bins).random(bins)
    edges = np.linspace(-2, 3, bins + 1)
    with branchline.recreate(tmp_path / "h.root") as file:
        file["h"] = values, edges
    middles = (edges[1:] + edges[:-1]) / 2
    found = uproot.open(tmp_path / "h.root")["h"]
    assert found.values().tolist() == values.tolist()
    assert found.axis().edges().tolist() == pytest.approx(edges.tolist())
    assert not len(found.member("fXaxis").member("fXbins"))
    for name, expected in (("fTsumw", values), ("fTsumwx", values * middles), ("fTsumwx2", values * middles**2)):
        assert found.member(name) == pytest.approx(expected.sum(), rel=1e-12)


@pytest.mark.parametrize("shape", [(700, 500), (3, 200_000), (200_000, 3), (70, 80, 90)])
def test_statistics_over_several_axes_are_those_of_all_bins(tmp_path: Path, shape: tuple[int, ...]) -> None:
    histogram = boost_histogram.Histogram(*[boost_histogram.axis.Regular(count, 0, count) for count in shape])
    histogram.view(flow=True)[...] = np.random.default_rng(1).random([count + 2 for count in shape])
    with branchline.recreate(tmp_path / "h.root") as file:
        file["h"] = histogram
    found = uproot.open(tmp_path / "h.root")["h"]
    assert found.values(flow=True).tolist() == histogram.values(flow=True).tolist()
    weights, grid = histogram.values(), np.meshgrid(*[axis.centers for axis in histogram.axes], indexing="ij")
    assert found.member("fTsumw") == pytest.approx(weights.sum(), rel=1e-12)
    for letter, middles in zip("xyz", grid, strict=False):
        assert found.member(f"fTsumw{letter}") == pytest.approx((weights * middles).sum(), rel=1e-12)
        assert found.member(f"fTsumw{letter}2") == pytest.approx((weights * middles**2).sum(), rel=1e-12)
    assert found.member("fTsumwxy") == pytest.approx((weights * grid[0] * grid[1]).sum(), rel=1e-12)


def test_a_bin_of_another_width_is_seen() -> None:
    assert has_equal_widths(np.linspace(0, 1, 2 * buffer.NUMBERS_AT_ONCE + 2))
    for place in (1, buffer.NUMBERS_AT_ONCE, buffer.NUMBERS_AT_ONCE + 1, -2):
        edges = np.arange(2.0 * buffer.NUMBERS_AT_ONCE + 2)
        edges[place] += 0.1
        assert not has_equal_widths(edges)


def test_an_object_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A byte count of ROOT has 30 bits.
    monkeypatch.setattr(buffer, "OBJECT_BYTES_MAX", 10_000)
    with branchline.recreate(tmp_path / "h.root") as file:
        file["small"] = np.ones(100), np.arange(101.0)
        with pytest.raises(UnsupportedBranchError, match="exceeds the maximum size of an object in a ROOT file"):
            file["large"] = np.ones(2000), np.arange(2001.0)
    assert branchline.open(tmp_path / "h.root").keys() == ["small;1"]
