"""If several keys have the same name, every call uses the newest key."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.peers.generator import cycle_cases
from tests.peers.peers import imported

import branchline

OLD, NEW = 3, 5


def file_with_cycles(root: Any, path: Path, old: int, new: int) -> Path:
    """Write a file with a tree of OLD entries, a newer tree of NEW entries, and two notes. ``old`` and ``new`` are the
    cycles.
    """
    file = root.TFile(str(path), "RECREATE")
    for count in (OLD, NEW):
        tree, value = root.TTree("tree", ""), array("i", [0])
        tree.Branch("value", value, "value/I")
        for value[0] in range(count):
            tree.Fill()
        file.WriteTObject(tree)
        file.WriteTObject(root.TObjString(str(count)), "note")
    seeks = [(key.GetSeekKey(), key.GetCycle()) for key in file.GetListOfKeys()]
    file.Close()
    cycle_cases.with_cycles(path, seeks, lambda cycle: old if cycle == 1 else new)
    return path


@pytest.mark.peer
@pytest.mark.parametrize(("old", "new"), [(1, 2), (32766, 32767), (32767, -32768), (-2, -1), (-1, 1), (32767, 5)])
def test_every_call_takes_the_newest_cycle_as_root_does(root: Any, tmp_path: Path, old: int, new: int) -> None:
    path = file_with_cycles(root, tmp_path / "cycles.root", old, new)
    file = branchline.open(path)
    assert root.RDataFrame("tree", str(path)).Count().GetValue() == NEW
    assert file["tree"].num_entries == NEW
    assert file["note"] == root.TFile.Open(str(path)).Get("note").GetString().View() == str(NEW)
    assert file[f"tree;{old}"].num_entries == OLD
    assert [len(part) for part in branchline.iterate(f"{path}:tree")] == [NEW]
    branchline.merge([path], tmp_path / "merged.root")
    branchline.skim(f"{path}:tree", tmp_path / "skim.root", where="value >= 0")
    for made in ("merged.root", "skim.root"):
        assert branchline.open(tmp_path / made)["tree"].num_entries == NEW
        assert root.RDataFrame("tree", str(tmp_path / made)).Count().GetValue() == NEW


@pytest.mark.peer
@pytest.mark.parametrize(("old", "new"), [(1, 2), (32767, -32768)])
def test_what_an_update_adds_is_the_newest(root: Any, tmp_path: Path, old: int, new: int) -> None:
    path = file_with_cycles(root, tmp_path / "cycles.root", old, new)
    with branchline.update(path) as file:
        file["note"] = "the newest"
        assert file.keys()[-1] == f"note;{new + 1}"
    assert root.TFile.Open(str(path)).Get("note").GetString().View() == "the newest"
    assert branchline.open(path)["note"] == "the newest"
    assert branchline.open(path)["tree"].num_entries == NEW


@pytest.mark.peer
@pytest.mark.parametrize(("old", "new"), [(1, 2), (32767, -32768), (-2, -1)])
def test_a_removed_cycle_is_gone(root: Any, tmp_path: Path, old: int, new: int) -> None:
    path = file_with_cycles(root, tmp_path / "cycles.root", old, new)
    with branchline.update(path) as file:
        del file[f"note;{new}"]
    assert root.TFile.Open(str(path)).Get("note").GetString().View() == str(OLD)
    assert sorted(branchline.open(path).keys()) == sorted([f"note;{old}", f"tree;{new}", f"tree;{old}"])


@pytest.mark.peer
@pytest.mark.parametrize("writer", ["branchline", "uproot"])
def test_the_last_object_of_a_name_is_the_newest(root: Any, tmp_path: Path, writer: str) -> None:
    path = tmp_path / "three.root"
    with imported(writer).recreate(path) as file:
        for count in (1, 2, 3):
            file["counts"] = np.histogram(np.zeros(count), bins=1)
    assert branchline.open(path)["counts"].values().sum() == 3
    assert imported("uproot").open(path)["counts"].values().sum() == 3
    if writer == "branchline":
        assert root.TFile.Open(str(path)).Get("counts").Integral() == 3


@pytest.mark.peer
def test_versions_that_a_merge_keeps_are_in_the_order_of_hadd(root: Any, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        with branchline.recreate(tmp_path / f"{number}.root") as file:
            file["note"] = str(number)
    branchline.merge([tmp_path / f"{number}.root" for number in (1, 2, 3)], tmp_path / "merged.root")
    merged = root.TFile.Open(str(tmp_path / "merged.root"))
    assert [key.GetCycle() for key in merged.GetListOfKeys() if key.GetName() == "note"] == [3, 2, 1]
    merged.Close()
    assert branchline.open(tmp_path / "merged.root")["note"] == "3"
