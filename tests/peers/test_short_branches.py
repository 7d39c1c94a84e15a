"""Branches with fewer entries than their tree, or without entries."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest
from tests.peers.peers import imported

import branchline

LIMITS: list[dict[str, int]] = [{}, {"entry_stop": 30}, {"entry_start": 2, "entry_stop": 5}, {"entry_start": -3}]


@pytest.fixture(scope="module")
def path(root: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("short") / "short.root"
    file = root.TFile(str(path), "RECREATE")
    tree, value = root.TTree("tree", ""), array("i", [0])
    tree.Branch("whole", value, "whole/I")
    for value[0] in range(40):
        tree.Fill()
    short = tree.Branch("short", value, "short/I")
    for value[0] in range(10):
        short.Fill()
    tree.Branch("empty", value, "empty/I")
    tree.Write()
    file.Close()
    return path


@pytest.mark.peer
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("name", ["whole", "short", "empty"])
def test_short_branches_are_read_as_far_as_they_go(path: Path, name: str, limits: dict[str, int]) -> None:
    ours, theirs = branchline.open(path)["tree"], imported("uproot").open(path)["tree"]
    assert ours[name].num_entries == theirs[name].num_entries == {"whole": 40, "short": 10, "empty": 0}[name]
    assert ours[name].array(**limits).tolist() == theirs[name].array(**limits).tolist()


@pytest.mark.peer
def test_entries_that_a_branch_beside_others_lacks_are_named(path: Path) -> None:
    with pytest.raises(
        branchline.UnsupportedBranchError, match="branch short has 10 entries, but its tree tree has 40"
    ):
        branchline.open(path)["tree"].arrays(["whole", "short"])


@pytest.mark.peer
def test_a_tree_with_short_branches_is_read_without_them(path: Path, tmp_path: Path) -> None:
    with pytest.warns(branchline.UnreadableBranchWarning, match="2 branches of tree .* left out: short, empty"):
        assert branchline.open(path)["tree"].arrays().fields == ["whole"]
    assert [len(chunk) for chunk in branchline.iterate(f"{path}:tree")] == [40]
