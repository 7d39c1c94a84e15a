"""ROOT and uproot read objects of uproot and PyROOT that Branchline has written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest
import uproot
from uproot.writing import identify

import branchline

POINTS = {"x": np.array([1.0, 2.0]), "y": np.array([3.0, 4.0])}


@pytest.fixture
def by_uproot(tmp_path: Path) -> dict[str, Any]:
    """Return objects that uproot has read or created."""
    path = tmp_path / "uproot.root"
    with uproot.recreate(path) as file:
        file["h1"] = hist.Hist.new.Reg(3, 0, 3).Weight().fill([1, 2])
        file["h2"] = np.histogram2d([1, 2], [1, 2])
        file["p"] = hist.Hist.new.Reg(3, 0, 3).WeightedMean().fill([1, 2], sample=[3, 4], weight=[1, 1])
        file["g read"] = uproot.as_TGraph(POINTS, title="read")
    opened = uproot.open(path)
    read = {name: opened[name] for name in ("h1", "h2", "p", "g read")}
    made = {
        "g": uproot.as_TGraph(POINTS, title="made"),
        "h3": uproot.to_writable(
            hist.Hist.new.Reg(2, 0, 1).Reg(2, 0, 1).Reg(2, 0, 1).Double().fill([0.1], [0.1], [0.1])
        ),
        "list": identify.to_TList([identify.to_TObjString("a"), identify.to_TObjString("b")]),
    }
    return {**read, **made}


@pytest.mark.peer
def test_root_reads_objects_of_uproot(root: Any, tmp_path: Path, by_uproot: dict[str, Any]) -> None:
    path = tmp_path / "written.root"
    with branchline.recreate(path) as file:
        for name, value in by_uproot.items():
            file[f"d/{name}"] = value
        # Objects of the same classes in other versions.
        file["ours"] = branchline.as_TGraph(POINTS, title="ours")
        file["counts"] = np.histogram([1, 2, 2])
    opened = root.TFile.Open(str(path))
    for name in ("d/g", "d/g read", "ours"):
        graph = opened.Get(name)
        assert [graph.GetPointY(index) for index in range(graph.GetN())] == [3.0, 4.0]
    assert opened.Get("d/g").GetTitle().startswith("made")
    assert opened.Get("d/h1").Integral() == opened.Get("d/h2").Integral() == 2
    assert opened.Get("d/h3").Integral() == 1
    assert [opened.Get("d/p").GetBinContent(number) for number in (2, 3)] == [3, 4]
    assert [str(one) for one in opened.Get("d/list")] == ["a", "b"]
    assert opened.Get("counts").Integral() == 3


@pytest.mark.peer
def test_uproot_reads_its_objects_again(tmp_path: Path, by_uproot: dict[str, Any]) -> None:
    path = tmp_path / "written.root"
    with branchline.recreate(path) as file:
        for name, value in by_uproot.items():
            file[name] = value
    again = uproot.open(path)
    assert {name: again[name].classname for name in by_uproot} == {
        name: value.classname for name, value in by_uproot.items()
    }
    assert again["h1"].values(flow=True).tolist() == by_uproot["h1"].values(flow=True).tolist()
    assert again["h1"].variances().tolist() == by_uproot["h1"].variances().tolist()


@pytest.mark.peer
def test_objects_of_pyroot_are_written(root: Any, tmp_path: Path) -> None:
    path = tmp_path / "written.root"
    histogram = root.TH1F("own name", "title", 3, 0, 3)
    histogram.Fill(1)
    with branchline.recreate(path) as file:
        file["d/h"] = histogram
        file["vector"] = root.TLorentzVector(1, 2, 3, 4)
        file["text"] = root.TObjString("said")
        with pytest.raises(branchline.UnsupportedBranchError, match="ROOT cannot write this TTree"):
            file["tree"] = root.TTree("tree", "")
        with pytest.raises(branchline.UnsupportedBranchError, match="ROOT cannot write this vector<int>"):
            file["numbers"] = root.std.vector("int")(3)
    opened = root.TFile.Open(str(path))
    assert opened.Get("d/h").Integral() == 1
    assert opened.Get("vector").E() == 4
    assert uproot.open(path)["text"] == "said"
    assert branchline.open(path)["d/h"].classname == "TH1F"


@pytest.mark.peer
def test_what_uproot_cannot_write_is_refused(tmp_path: Path) -> None:
    errors = {"x_errors": POINTS["x"], "y_errors": POINTS["y"]}
    with branchline.recreate(tmp_path / "written.root") as file:
        with pytest.raises(branchline.UnsupportedBranchError, match="uproot cannot write this"):
            file["g"] = uproot.as_TGraph({**POINTS, **errors})
        assert file.keys() == []
