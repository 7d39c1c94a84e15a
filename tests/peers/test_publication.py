"""ROOT can read a file at any time while Branchline writes it, and can append to the file afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import branchline


def read_by_root(root: Any, path: Path, capfd: pytest.CaptureFixture[str]) -> dict[str, int]:
    """Return the number of entries of each histogram, and the sum of `x` in each tree and RNTuple. Fails if ROOT
    recovers the file or prints a message.
    """
    file = root.TFile.Open(str(path))
    found: dict[str, int] = {}

    def walk(directory: Any, begin: str) -> None:
        for key in directory.GetListOfKeys():
            name = begin + key.GetName()
            if key.GetClassName().startswith("TDirectory"):
                walk(directory.Get(key.GetName()), f"{name}/")
            elif key.GetClassName() in ("TTree", "ROOT::RNTuple"):
                found[name] = root.RDataFrame(name, str(path)).Sum("x").GetValue()
            else:
                found[name] = int(directory.Get(key.GetName()).GetEntries())

    walk(file, "")
    assert not file.TestBit(root.TFile.kRecovered)
    file.Close()
    assert capfd.readouterr().err == ""
    return found


@pytest.mark.peer
def test_root_reads_what_was_written_so_far(root: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, expected = tmp_path / "a.root", {}
    with branchline.recreate(path) as file:
        tree, ntuple = file.mktree("d/t", {"x": "i8"}), file.mkrntuple("n", {"x": "i8"})
        for number in range(1, 30):
            file[f"d{number % 3}/h{number}"] = np.histogram(np.zeros(number))
            expected[f"d{number % 3}/h{number}"] = number
            for grown in (tree, ntuple):
                grown.extend({"x": np.full(1000, number)})
            found = read_by_root(root, path, capfd)
            assert {name: count for name, count in found.items() if name[-1] not in "tn"} == expected
            assert {"d/t", "n"} <= set(found)
    whole = 1000 * sum(range(1, 30))
    assert read_by_root(root, path, capfd) == expected | {"d/t": whole, "n": whole}


@pytest.mark.peer
def test_root_continues_a_file_that_was_published(root: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.root"
    with branchline.recreate(path) as file:
        for number in range(1, 10):
            file[f"d/h{number}"] = np.histogram(np.zeros(number))
    before = read_by_root(root, path, capfd)
    other = root.TFile.Open(str(path), "UPDATE")
    histogram = root.TH1D("h", "", 3, 0, 1)
    histogram.Fill(0.5)
    for directory in (other, other.Get("d")):
        directory.WriteTObject(histogram)
    other.Close()
    with branchline.update(path) as file:
        file["d/more"] = np.histogram(np.zeros(7))
    assert read_by_root(root, path, capfd) == before | {"h": 1, "d/h": 1, "d/more": 7}
    assert len(branchline.open(path).keys(filter_classname="TH1*")) == 12


@pytest.mark.peer
def test_a_file_of_root_describes_each_class_once(root: Any, tmp_path: Path) -> None:
    """After ROOT has read a streamer info from a file, its bits differ from the bits that ROOT wrote first."""
    path = tmp_path / "a.root"
    with branchline.recreate(path) as written:
        written["note"] = "text"
    assert root.TFile.Open(str(path)).Get("note").GetString().View() == "text"
    file = root.TFile.Open(str(path), "RECREATE")
    root.TObjString("one").Write()
    file.Close()
    with branchline.update(path) as updated:
        updated["two"] = "two"
        updated["d/three"] = "three"
    read = root.TFile.Open(str(path))
    assert [info.GetName() for info in read.GetStreamerInfoList()] == ["TObjString"]
    assert [read.Get(name).GetString().View() for name in ("one", "two", "d/three")] == ["one", "two", "three"]
