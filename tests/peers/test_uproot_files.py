"""Files of uproot 3, and PyROOT objects written by uproot 5, which does not write streamer infos for their classes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.peers.peers import imported
from tests.peers.root_classes import FOLDER

import branchline
from branchline.writing.merging.merge import merge

# Written by uproot3 3.14.4: a tree with two baskets per branch, a histogram and a string, compressed with LZMA.
UPROOT3 = Path(__file__).parent / "files/uproot3.root"


@pytest.mark.peer
def test_a_file_of_uproot_3_is_read_as_uproot_5_reads_it() -> None:
    theirs, ours = imported("uproot").open(UPROOT3), branchline.open(UPROOT3)
    assert ours.keys() == theirs.keys() == ["tree;1", "counts;1", "text;1"]
    expected = theirs["tree"].arrays()
    assert ours["tree"].num_entries == 10
    assert ours["tree"].arrays().tolist() == expected.tolist()
    assert ours["counts"].values().tolist() == theirs["counts"].values().tolist() == [2, 0, 1, 0]
    assert ours["text"] == str(theirs["text"]) == "some text"


@pytest.mark.peer
def test_files_of_uproot_3_are_merged(root: Any, tmp_path: Path) -> None:
    other, merged = tmp_path / "other.root", tmp_path / "merged.root"
    shutil.copy(UPROOT3, other)
    merge([str(UPROOT3), str(other)], str(merged))
    once = branchline.open(UPROOT3)["tree"].arrays().tolist()
    assert branchline.open(merged)["tree"].arrays().tolist() == once + once
    file = root.TFile.Open(str(merged))
    assert [entry.x for entry in file.Get("tree")] == [one["x"] for one in once + once]
    assert file.Get("counts").GetBinContent(1) == 4


def objects_of_pyroot(root: Any) -> dict[str, Any]:
    """Return objects of ROOT's own classes. Their contents differ from the contents of a new object."""
    objects = {
        "histogram": root.TH1F("histogram", "title", 10, 0, 1),
        "plane": root.TH2D("plane", "", 5, 0, 1, 4, 0, 2),
        "profile": root.TProfile("profile", "", 5, 0, 1),
        "graph": root.TGraphErrors(3),
        "axis": root.TAxis(10, 0, 1),
        "line": root.TLine(0, 1, 2, 3),
        "vector": root.TLorentzVector(1, 2, 3, 4),
        "parameter": root.TParameter["double"]("parameter", 3.5),
        "matrix": root.TMatrixT["double"](2, 3),
        "named": root.TNamed("named", "title"),
        "text": root.TObjString("text"),
    }
    for value in (0.1, 0.35, 0.35, 2.0):
        objects["histogram"].Fill(value, 2 * value)
        objects["plane"].Fill(value, value)
        objects["profile"].Fill(value, 3 * value)
    objects["graph"].SetPoint(1, 2.5, 3.5)
    objects["graph"].SetPointError(1, 0.25, 0.75)
    objects["matrix"][1][2] = 7
    for name in ("histogram", "plane", "profile"):
        objects[name].SetDirectory(root.nullptr)
    return objects


@pytest.fixture
def pyroot_file(root: Any, tmp_path: Path) -> Path:
    path = tmp_path / "pyroot.root"
    with imported("uproot").recreate(path) as file:
        for name, thing in objects_of_pyroot(root).items():
            file[name] = thing
    assert not imported("uproot").open(path).file.streamers
    return path


def check_objects(file: Any, times: int = 1) -> None:
    """Check the values of these objects. Values that merging adds must be multiplied by ``times``."""
    histogram = file["histogram"]
    np.testing.assert_allclose(histogram.values(), [0, 0.2, 0, 1.4, 0, 0, 0, 0, 0, 0] * np.array(times), rtol=1e-6)
    assert file["plane"].values().sum() == 3 * times
    np.testing.assert_allclose(file["profile"].values()[:2], [0.3, 1.05])
    assert file["graph"].values("x")[1] == 2.5
    assert file["axis"].member("fNbins") == 10
    assert file["line"].member("fY2") == 3
    assert file["vector"].member("fE") == 4
    assert file["parameter"].member("fVal") == 3.5 * times
    assert list(file["matrix"].member("fElements")) == [0, 0, 0, 0, 0, 7]
    assert file["named"].member("fTitle") == "title"
    assert file["text"] == "text"


@pytest.mark.peer
def test_objects_of_pyroot_that_uproot_wrote_are_read(pyroot_file: Path) -> None:
    check_objects(branchline.open(pyroot_file))


@pytest.mark.peer
def test_objects_of_pyroot_that_uproot_wrote_are_merged(root: Any, pyroot_file: Path, tmp_path: Path) -> None:
    other, merged = tmp_path / "other.root", tmp_path / "merged.root"
    shutil.copy(pyroot_file, other)
    merge([str(pyroot_file), str(other)], str(merged))
    check_objects(branchline.open(merged), times=2)
    file = root.TFile.Open(str(merged))
    assert file.Get("histogram").GetEntries() == 8
    assert file.Get("profile").GetBinContent(2) == pytest.approx(1.05)


@pytest.mark.peer
def test_the_table_of_classes_is_that_of_the_installed_root(root: Any) -> None:
    # Use a new process, because ROOT's description of a class may depend on the files that the process has read.
    code = "from tests.peers.root_classes import *; print(text(current(import_root())), end='')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=280, check=True)
    assert (FOLDER / "current.txt").read_text() == ended.stdout
