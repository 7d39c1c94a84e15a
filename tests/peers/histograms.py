"""Comparison of histograms and graphs read by Branchline with ROOT, cell by cell."""

from __future__ import annotations

import itertools
from typing import Any

import hist
import numpy as np

from branchline.reading.objects.efficiency import Efficiency
from branchline.reading.objects.graph import Graph
from branchline.reading.objects.histogram import Histogram

AXES = ("GetXaxis", "GetYaxis", "GetZaxis")


def cells_of(got: Histogram, theirs: Any) -> list[tuple[tuple[int, ...], int]]:
    """Return the index of each cell in the view with flow, and the number of the same cell in ROOT."""
    ranges = []
    for number, axis in enumerate(got.axes):
        count = getattr(theirs, AXES[number])().GetNbins()
        if isinstance(axis, hist.axis.StrCategory | hist.axis.IntCategory):
            ranges.append([*range(1, len(axis) + 1), count + 1])
        else:
            ranges.append(list(range(count + 2)))
    cells = []
    for chosen in itertools.product(*[list(enumerate(one)) for one in ranges]):
        place = tuple(where for where, _ in chosen)
        cells.append((place, theirs.GetBin(*[number for _, number in chosen])))
    return cells


def assert_equal_to_root(got: Any, theirs: Any) -> None:
    """Compare names, axes, and the contents, errors and effective entries of every cell."""
    theirs.BufferEmpty()
    assert isinstance(got, Histogram), (theirs.ClassName(), theirs.GetName(), got)
    assert (got.name, got.title) == (theirs.GetName(), theirs.GetTitle())
    assert got.ndim == theirs.GetDimension()
    assert got.member("fEntries") == theirs.GetEntries()
    for number, axis in enumerate(got.axes):
        assert_equal_axis(axis, getattr(theirs, AXES[number])(), got.bin_labels(number))
    values, errors, counts = got.values(flow=True), got.errors(flow=True), got.counts(flow=True)
    for place, cell in cells_of(got, theirs):
        where = (theirs.GetName(), place)
        assert values[place] == theirs.GetBinContent(cell), where
        content = abs(theirs.GetBinContent(cell))
        assert np.isclose(errors[place], theirs.GetBinError(cell), rtol=1e-9, atol=1e-9 * content), where
        if hasattr(theirs, "GetBinEffectiveEntries"):
            assert np.isclose(np.nan_to_num(counts[place]), theirs.GetBinEffectiveEntries(cell), rtol=1e-12), where


def assert_equal_axis(axis: Any, theirs: Any, labels: dict[int, str]) -> None:
    """Compare title, edges and labels."""
    count = theirs.GetNbins()
    assert axis.label in (theirs.GetTitle(), axis.name) or not theirs.GetTitle()
    named = {number - 1: str(theirs.GetBinLabel(number)) for number in range(1, count + 1)}
    assert labels == {number: label for number, label in named.items() if label}
    if isinstance(axis, hist.axis.StrCategory | hist.axis.IntCategory):
        assert [str(one) for one in axis] == list(labels.values())
    else:
        wanted = [theirs.GetBinLowEdge(number) for number in range(1, count + 2)]
        assert len(axis) == count
        assert np.allclose(axis.edges, wanted, rtol=1e-12, atol=1e-12 * np.max(np.abs(wanted)))


def assert_equal_graph(got: Any, theirs: Any) -> None:
    """Compare points and errors."""
    assert isinstance(got, Graph), (theirs.ClassName(), got)
    assert (got.name, got.title, len(got)) == (theirs.GetName(), theirs.GetTitle(), theirs.GetN())
    for point in range(len(got)):
        assert (got.x[point], got.y[point]) == (theirs.GetPointX(point), theirs.GetPointY(point))
        for axis, which, name in itertools.product("xy", ("low", "high"), ("GetError{}{}",)):
            wanted = getattr(theirs, name.format(axis.upper(), which))(point)
            assert got.errors(which, axis)[point] == max(wanted, 0), (theirs.GetName(), point, axis, which)


def assert_equal_efficiency(got: Any, theirs: Any) -> None:
    """Compare both histograms, the efficiencies, and the lower and upper errors."""
    assert isinstance(got, Efficiency)
    assert_equal_to_root(got.passed, theirs.GetPassedHistogram())
    assert_equal_to_root(got.total, theirs.GetTotalHistogram())
    values, (low, high) = got.values(flow=True), got.errors(flow=True)
    for place, cell in cells_of(got.total, theirs.GetTotalHistogram()):
        where = (theirs.GetName(), place)
        assert np.isclose(values[place], theirs.GetEfficiency(cell), rtol=1e-9), where
        # In bins without weights, ROOT divides by 0, the sum of the weights.
        below, above = np.nan_to_num([theirs.GetEfficiencyErrorLow(cell), theirs.GetEfficiencyErrorUp(cell)])
        assert np.isclose(low[place], below, rtol=1e-6, atol=1e-9), where
        assert np.isclose(high[place], above, rtol=1e-6, atol=1e-9), where
