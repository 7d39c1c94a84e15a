"""Merging adds histograms with slightly different limits or edges only if ROOT's hadd adds them, too."""

from __future__ import annotations

import math
import subprocess
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import branchline
from branchline.writing.merging.merge import merge
from branchline.writing.merging.verify import verify

Edges = list[float] | tuple[int, float, float]
EDGES = [0.0, 1.0, 3.0, 10.0]
UNIFORM = (10, 0.0, 10.0)


def ulp_above(value: float) -> float:
    return math.nextafter(value, math.inf)


#: Pairs of axes that ROOT adds.
ADDED: dict[str, tuple[Edges, Edges]] = {
    "inner edge one ulp apart": (EDGES, [0.0, ulp_above(1.0), 3.0, 10.0]),
    "inner edge below the tolerance": (EDGES, [0.0, 1.0, 3.0 + 1.9e-10, 10.0]),
    "last edge one ulp apart": (EDGES, [0.0, 1.0, 3.0, ulp_above(10.0)]),
    "last edge below the tolerance": (EDGES, [0.0, 1.0, 3.0, 10.0 + 6e-10]),
    "all edges one ulp apart": ([0.1, 0.3, 0.7], [ulp_above(0.1), ulp_above(0.3), ulp_above(0.7)]),
    "equal widths with and without edges": ([0.0, 1.0, 2.0, 3.0, 4.0], (4, 0.0, 4.0)),
    "equal widths without and with edges": ((4, 0.0, 4.0), [0.0, 1.0, 2.0, 3.0, 4.0]),
    "equal widths with edges side by side": ([0.0, 1.0, 2.0], [2.0, 3.0, 4.0]),
    "limit of equal bins one ulp apart": (UNIFORM, (10, 0.0, ulp_above(10.0))),
    "limit of equal bins below the tolerance": (UNIFORM, (10, 0.0, 10.0 + 9e-11)),
    "limits of a part of a bin": (UNIFORM, (10, 0.0, 10.0 + 1e-9)),
    "low limit a part of a bin lower": (UNIFORM, (10, -1e-9, 10.0)),
    "half a bin lower": ((20, 0.5, 10.5), UNIFORM),
    "half a bin higher": (UNIFORM, (20, 0.5, 10.5)),
}
REFUSED: dict[str, tuple[Edges, Edges]] = {
    "last edge above the tolerance": (EDGES, [0.0, 1.0, 3.0, 10.0 + 8e-10]),
    "limit above the tolerance": (UNIFORM, (10, 0.0, 10.0 + 1e-7)),
    "low limit above the tolerance": (UNIFORM, (10, 1e-7, 10.0)),
    "limit just above the tolerance": (UNIFORM, (10, 0.0, 10.0 + 1.2e-8)),
    "side by side above the tolerance": (UNIFORM, (10, 10.0 + 1e-7, 20.0 + 1e-7)),
    "widths without a common multiple": ((10, 0.0, 20.0), (10, 0.0, 30.0)),
    "half a bin apart": (UNIFORM, (10, 10.5, 20.5)),
    "one ulp of a large number": ((10, 1e9, 1e9 + 10), (10, 1e9, ulp_above(1e9 + 10))),
}
#: Pairs that ROOT adds bin by bin although their bins differ.
WRONG_IN_ROOT: dict[str, tuple[Edges, Edges]] = {
    "other inner edge": (EDGES, [0.0, 2.0, 3.0, 10.0]),
    "inner edge above the tolerance": (EDGES, [0.0, 1.0, 3.0 + 2.1e-10, 10.0]),
    "edges and equal widths": (EDGES, (3, 0.0, 10.0)),
    "equal widths and edges": ((3, 0.0, 10.0), EDGES),
}


def bins_of(edges: Edges) -> tuple[Any, ...]:
    return edges if isinstance(edges, tuple) else (len(edges) - 1, array("d", edges))


def middles(edges: Edges) -> list[float]:
    values = np.linspace(*edges[1:], edges[0] + 1) if isinstance(edges, tuple) else np.array(edges)
    return [float(value) for value in (values[1:] + values[:-1]) / 2]


def one_axis(root: Any, edges: Edges) -> Any:
    histogram = root.TH1D("h", "", *bins_of(edges))
    for number, x in enumerate(middles(edges)):
        histogram.Fill(x, number + 1)
    return histogram


def first_of_two(root: Any, edges: Edges) -> Any:
    histogram = root.TH2F("h", "", *bins_of(edges), 2, 0.0, 2.0)
    for number, x in enumerate(middles(edges)):
        histogram.Fill(x, number % 2, number + 1)
    return histogram


def last_of_three(root: Any, edges: Edges) -> Any:
    # A TH3 has edges on all axes or on no axis.
    if isinstance(edges, list):
        two = array("d", [0.0, 1.0, 2.0])
        histogram = root.TH3I("h", "", 2, two, 2, two, *bins_of(edges))
    else:
        histogram = root.TH3I("h", "", 2, 0.0, 2.0, 2, 0.0, 2.0, *bins_of(edges))
    for number, x in enumerate(middles(edges)):
        histogram.Fill(number % 2, 1, x, number + 1)
    return histogram


def profile(root: Any, edges: Edges) -> Any:
    histogram = root.TProfile("h", "", *bins_of(edges))
    for number, x in enumerate(middles(edges)):
        histogram.Fill(x, number, number + 1)
    return histogram


def profile_of_two(root: Any, edges: Edges) -> Any:
    if isinstance(edges, list):
        histogram = root.TProfile2D("h", "", *bins_of(edges), 2, array("d", [0.0, 1.0, 2.0]))
    else:
        histogram = root.TProfile2D("h", "", *bins_of(edges), 2, 0.0, 2.0)
    for number, x in enumerate(middles(edges)):
        histogram.Fill(x, number % 2, number, number + 1)
    return histogram


MAKERS = [one_axis, first_of_two, last_of_three, profile, profile_of_two]
Maker = Callable[[Any, Edges], Any]


def written(root: Any, folder: Path, make: Maker, pairs: dict[str, tuple[Edges, Edges]]) -> list[str]:
    """Write two files, with the first and with the second histogram of each pair."""
    paths = [str(folder / "one.root"), str(folder / "two.root")]
    for index, path in enumerate(paths):
        file = root.TFile(path, "RECREATE")
        for name, pair in pairs.items():
            make(root, pair[index]).Write(name)
        file.Close()
    return paths


def contents(root: Any, path: str) -> dict[str, list[Any]]:
    """Return the axes and cells that ROOT reads from the histograms of a file."""
    file, found = root.TFile.Open(path), {}
    for key in file.GetListOfKeys():
        histogram = key.ReadObj()
        axes = [histogram.GetXaxis(), histogram.GetYaxis(), histogram.GetZaxis()]
        edges = [[axis.GetBinLowEdge(place) for place in range(1, axis.GetNbins() + 2)] for axis in axes]
        is_profile = histogram.InheritsFrom("TProfile") or histogram.InheritsFrom("TProfile2D")
        cells = range(histogram.GetNcells())
        values = [histogram.GetBinContent(cell) for cell in cells]
        errors = [histogram.GetBinError(cell) for cell in cells]
        entries = [histogram.GetBinEntries(cell) for cell in cells] if is_profile else []
        found[f"{key.GetName()};{key.GetCycle()}"] = [
            histogram.GetEntries(), histogram.GetMean(), *edges, values, errors, entries,
            histogram.GetXaxis().GetXbins().GetSize(),
        ]  # fmt: skip
    file.Close()
    return found


@pytest.mark.parametrize("make", MAKERS)
def test_limits_and_edges_that_root_takes_for_the_same_are_added(root: Any, tmp_path: Path, make: Maker) -> None:
    inputs = written(root, tmp_path, make, ADDED)
    theirs, ours = str(tmp_path / "theirs.root"), str(tmp_path / "ours.root")
    hadd = Path(root.__file__).parent / "bin" / "hadd"
    subprocess.run([hadd, "-fk", "-v", "0", theirs, *inputs], check=True, capture_output=True)
    made = merge(inputs, ours)
    assert not made.notes
    assert verify(ours, inputs).is_same
    expected, found = contents(root, theirs), contents(root, ours)
    assert expected.keys() == found.keys() == {f"{name};1" for name in ADDED}
    for name, values in expected.items():
        for one, two in zip(values, found[name], strict=True):
            assert one == pytest.approx(two, rel=1e-12), name


@pytest.mark.parametrize("make", MAKERS)
def test_limits_and_edges_that_differ_are_versions(root: Any, tmp_path: Path, make: Maker) -> None:
    pairs = REFUSED | WRONG_IN_ROOT
    inputs = written(root, tmp_path, make, pairs)
    made = merge(inputs, tmp_path / "ours.root")
    found = contents(root, str(tmp_path / "ours.root"))
    assert found.keys() == {f"{name};{cycle}" for name in pairs for cycle in (1, 2)}
    assert len(made.notes) == len(pairs)
    for name, pair in pairs.items():
        one, two = (make(root, edges) for edges in pair)
        for histogram in (one, two):
            histogram.SetDirectory(root.nullptr)
        several = root.TList()
        several.Add(two)
        silent, root.gErrorIgnoreLevel = root.gErrorIgnoreLevel, root.kFatal
        is_added = one.Merge(several) >= 0
        root.gErrorIgnoreLevel = silent
        # Otherwise the list would access the histogram when the list is freed, and the histogram may have been freed
        # before.
        several.Clear("nodelete")
        assert is_added == (name in WRONG_IN_ROOT), name


def test_grids_with_edges_that_are_the_same_are_added(root: Any, tmp_path: Path) -> None:
    def grid(root: Any, edges: Edges) -> Any:
        bins = edges[0] if isinstance(edges, tuple) else len(edges) - 1
        limits = edges[1:] if isinstance(edges, tuple) else (edges[0], edges[-1])
        made = root.THnD("h", "", 2, array("i", [bins, 2]), array("d", [limits[0], 0]), array("d", [limits[1], 2]))
        if isinstance(edges, list):
            made.GetAxis(0).Set(bins, array("d", edges))
        for number, x in enumerate(middles(edges)):
            made.Fill(array("d", [x, 0.5]), number + 1)
        return made

    moved = {"limits of a part of a bin", "low limit a part of a bin lower", "equal widths with edges side by side",
             "half a bin lower", "half a bin higher"}  # fmt: skip
    same = {name: pair for name, pair in ADDED.items() if name not in moved}
    differ = {name: ADDED[name] for name in sorted(moved)} | REFUSED | WRONG_IN_ROOT
    inputs = written(root, tmp_path, grid, same | differ)
    merge(inputs, tmp_path / "ours.root")
    file = root.TFile.Open(str(tmp_path / "ours.root"))
    cycles = {(key.GetName(), key.GetCycle()) for key in file.GetListOfKeys()}
    assert cycles == {(name, 1) for name in same} | {(name, cycle) for name in differ for cycle in (1, 2)}
    for name, pair in same.items():
        total, count = file.Get(name), len(middles(pair[0]))
        assert total.GetEntries() == 2 * count, name
        assert total.GetBinContent(array("i", [count, 1])) == 2 * count, name
    file.Close()


def test_labels_are_kept_where_limits_differ_by_rounding(root: Any, tmp_path: Path) -> None:
    inputs = []
    for number, high in enumerate((3.0, ulp_above(3.0))):
        inputs.append(str(tmp_path / f"{number}.root"))
        file = root.TFile(inputs[-1], "RECREATE")
        histogram = root.TH1D("h", "", 3, 0.0, high)
        for place, label in enumerate("abc", 1):
            histogram.GetXaxis().SetBinLabel(place, label)
            histogram.SetBinContent(place, place + number)
        histogram.Write()
        file.Close()
    assert not merge(inputs, tmp_path / "ours.root").notes
    merged = branchline.open(tmp_path / "ours.root")["h"]
    assert merged.values().tolist() == [3, 5, 7]
    assert list(merged.axes[0]) == ["a", "b", "c"]
