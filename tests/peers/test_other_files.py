"""Branches whose baskets are in another file, as TBranch::SetFile writes them, in the same folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import branchline

ENTRIES = 3000

WRITER = """
import array, sys
import ROOT
folder = sys.argv[1]
file = ROOT.TFile(folder + "/main.root", "RECREATE")
tree = ROOT.TTree("events", "")
number, other = array.array("i", [0]), array.array("d", [0])
count, hits = array.array("i", [0]), array.array("f", [0] * 9)
tree.Branch("number", number, "number/I", 4000)
tree.Branch("other", other, "other/D", 4000)
tree.Branch("count", count, "count/I", 4000)
tree.Branch("hits", hits, "hits[count]/F", 4000)
tree.GetBranch("other").SetFile(sys.argv[2])
tree.GetBranch("hits").SetFile(sys.argv[2])
for entry in range(3000):
    number[0], other[0], count[0], hits[0] = entry, entry / 4, entry % 9, entry
    tree.Fill()
file.Write()
file.Close()
for opened in list(ROOT.gROOT.GetListOfFiles()):
    opened.Close()
"""


@pytest.fixture(scope="module")
def folder(root: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("others")
    command = [sys.executable, "-c", WRITER, str(folder), str(folder / "other.root")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 0, ended.stderr
    assert (folder / "other.root").exists()
    return folder


def check(tree: branchline.Tree) -> None:
    arrays = tree.arrays()
    assert arrays["number"].tolist() == list(range(ENTRIES))
    assert arrays["other"].tolist() == [entry / 4 for entry in range(ENTRIES)]
    assert [len(hits) for hits in arrays["hits"]] == [entry % 9 for entry in range(ENTRIES)]
    assert all(hits[0] == entry for entry, hits in enumerate(arrays["hits"].tolist()) if hits)


@pytest.mark.peer
def test_baskets_in_a_file_beside_are_read(folder: Path) -> None:
    check(branchline.open(folder / "main.root")["events"])


@pytest.mark.peer
def test_only_the_folder_of_the_file_is_looked_in(folder: Path, tmp_path: Path) -> None:
    # The stored name of the other file still refers to the original folder, which contains that file.
    shutil.copy(folder / "main.root", tmp_path)
    tree = branchline.open(tmp_path / "main.root")["events"]
    with pytest.raises(branchline.StorageError, match=r"in another file, .*other\.root") as caught:
        tree["other"].array()
    assert caught.value.path == str(tmp_path / "other.root")
    assert str(tmp_path / "main.root") in str(caught.value)
    with pytest.warns(branchline.UnreadableBranchWarning, match="left out: other, hits"):
        assert tree.arrays().fields == ["number", "count"]
    assert tree["number"].array().tolist() == list(range(ENTRIES))
    shutil.copy(folder / "other.root", tmp_path)
    check(branchline.open(tmp_path / "main.root")["events"])


@pytest.mark.peer
def test_a_train_lists_the_other_file(folder: Path) -> None:
    class Sums:
        branches = ("number", "other")

        def process(self, events: Any) -> float:
            return float(events.other.to_numpy().sum())

    result = branchline.run([Sums()], f"{folder}/main.root:events", workers=1)
    assert result.outputs["Sums"] == sum(range(ENTRIES)) / 4
    read = {Path(one["path"]).name: one for one in result.job["files"]}
    assert set(read) == {"main.root", "other.root"}
    assert read["main.root"]["events"] == ENTRIES
    assert read["other.root"]["bytes_read"] > 0


WAGON = """
import numpy as np


class Other:
    def process(self, events):
        return float(np.sum(np.asarray(events.other)))
"""


@pytest.mark.peer
def test_results_of_baskets_in_a_file_beside_are_not_kept(folder: Path, tmp_path: Path) -> None:
    """The keys of cached results only depend on the files of the dataset, so results that depend on other files are not
    cached.
    """
    data, wagons = tmp_path / "data", tmp_path / "wagons.py"
    shutil.copytree(folder, data)
    wagons.write_text(WAGON)
    first, again = [branchline.run(wagons, data / "main.root", tmp_path / "out", workers=0) for _ in range(2)]
    assert f"sub-jobs that read files outside the dataset, such as {data}/other.root" in first.record.reuse_notes[0]
    assert again.record.subjobs_reused == 0
