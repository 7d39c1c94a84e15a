"""Friends and aliases of trees have the same values as in ROOT."""

from __future__ import annotations

import os
import shutil
from array import array
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import branchline

pytestmark = pytest.mark.peer

ENTRIES = 50


def tree_of(root: Any, name: str, columns: dict[str, Any]) -> Any:
    """Fill a tree with numbers in ROOT's current directory."""
    tree = root.TTree(name, name)
    held = {}
    for column, values in columns.items():
        code = "d" if values.dtype.kind == "f" else "i"
        held[column] = array(code, [0])
        tree.Branch(column, held[column], f"{column}/{code.upper()}")
    for entry in range(len(next(iter(columns.values())))):
        for column, values in columns.items():
            held[column][0] = values[entry].item()
        tree.Fill()
    tree.ResetBranchAddresses()
    return tree


def main_columns() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {
        "run": np.repeat(np.arange(5, dtype="i4"), 10),
        "event": np.tile(np.arange(10, dtype="i4"), 5),
        "px": rng.normal(0, 2, ENTRIES),
        "py": rng.normal(0, 2, ENTRIES),
    }


def write_friend(root: Any, path: Path, entries: Any, *, index: bool) -> None:
    """Write a friend tree with the events at the indexes ``entries``, in this order."""
    columns = main_columns()
    file = root.TFile.Open(str(path), "RECREATE")
    values = {"run": columns["run"][entries], "event": columns["event"][entries], "weight": np.asarray(entries) * 1.5}
    tree = tree_of(root, "extra", values)
    if index:
        tree.BuildIndex("run", "event")
    tree.Write()
    file.Close()


def write_main(root: Any, path: Path, friends: list[tuple[str, str]], aliases: dict[str, str] | None = None) -> None:
    file = root.TFile.Open(str(path), "RECREATE")
    tree = tree_of(root, "events", main_columns())
    inner = tree_of(root, "inner", {"charge": np.arange(ENTRIES, dtype="i4") % 3, "px": np.arange(ENTRIES) * 0.5})
    inner.Write()
    tree.AddFriend(inner, "inside")
    for name, where in friends:
        tree.AddFriend(name, where)
    for name, formula in (aliases or {}).items():
        tree.SetAlias(name, formula)
    tree.Write()
    file.Close()


def by_draw(root: Any, path: Path, formula: str) -> Any:
    """Return the values of a formula that TTree::Draw computes, one per entry."""
    file = root.TFile.Open(str(path))
    tree = file.Get("events")
    tree.SetEstimate(1000)
    count = tree.Draw(formula, "", "goff")
    values = np.array([tree.GetV1()[place] for place in range(count)])
    file.Close()
    return values


def test_friends_are_read_entry_by_entry(root: Any, tmp_path: Path) -> None:
    write_friend(root, tmp_path / "extra.root", np.arange(ENTRIES)[::-1], index=False)
    path = tmp_path / "main.root"
    write_main(root, path, [("extra", str(tmp_path / "extra.root"))])
    tree = branchline.open(path)["events"]
    assert list(tree.friends) == ["inside", "extra"]
    for formula in ("px", "inside.px", "charge", "extra.weight", "weight", "px + inside.px * extra.weight"):
        assert np.allclose(tree.arrays(formula)[formula], by_draw(root, path, formula)), formula
    got = tree.arrays(["inside.px", "px"], cut="charge == 1", entry_start=7, entry_stop=31)
    wanted = np.arange(7, 31)[np.arange(7, 31) % 3 == 1]
    assert got["inside.px"].tolist() == (wanted * 0.5).tolist()
    assert got.px.tolist() == main_columns()["px"][wanted].tolist()


def test_friends_are_read_by_their_index(root: Any, tmp_path: Path) -> None:
    order = np.random.default_rng(4).permutation(ENTRIES)
    write_friend(root, tmp_path / "extra.root", order, index=True)
    path = tmp_path / "main.root"
    write_main(root, path, [("extra", str(tmp_path / "extra.root"))])
    tree = branchline.open(path)["events"]
    assert tree.friends["extra"].tree.index.formulas == ("run", "event")
    assert np.array_equal(tree.arrays("weight").weight, by_draw(root, path, "weight"))
    assert tree.arrays("weight").weight.tolist() == [1.5 * entry for entry in range(ENTRIES)]
    by_frame = root.RDataFrame("events", str(path)).AsNumpy(["extra.weight"])["extra.weight"]
    assert np.array_equal(tree.arrays("extra.weight")["extra.weight"], by_frame)
    steps = ak.concatenate([step["weight"] for step in tree.iterate(["weight", "px"], step_size=13)])
    assert steps.tolist() == [1.5 * entry for entry in range(ENTRIES)]


@pytest.mark.parametrize("index", [False, True])
def test_what_a_friend_does_not_have_is_none(root: Any, tmp_path: Path, index: bool) -> None:
    there = np.array([4, 0, 2, 9]) if index else np.arange(4)
    write_friend(root, tmp_path / "extra.root", there, index=index)
    path = tmp_path / "main.root"
    write_main(root, path, [("extra", str(tmp_path / "extra.root"))])
    got = branchline.open(path)["events"].arrays("weight", entry_stop=12).weight
    assert got.tolist() == [1.5 * entry if entry in there else None for entry in range(12)]


def test_a_friend_is_found_beside_the_main_file(root: Any, tmp_path: Path) -> None:
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        write_friend(root, Path("extra.root"), np.arange(ENTRIES), index=False)
        write_main(root, Path("main.root"), [("extra", "extra.root")])
    finally:
        os.chdir(here)
    tree = branchline.open(tmp_path / "main.root")["events"]
    assert tree.arrays("weight", entry_stop=2).weight.tolist() == [0.0, 1.5]
    shutil.move(tmp_path / "extra.root", tmp_path / "away.root")
    tree = branchline.open(tmp_path / "main.root")["events"]
    assert tree.arrays("px", entry_stop=2).px.tolist() == main_columns()["px"][:2].tolist()
    with pytest.raises(branchline.MissingFileError, match="friend extra"):
        tree.arrays("extra.weight")


def test_a_name_of_a_friend_says_how_its_branch_is_read(root: Any, tmp_path: Path) -> None:
    path = tmp_path / "main.root"
    write_main(root, path, [("away", str(tmp_path / "away.root"))])
    tree = branchline.open(path)["events"]
    for name in ("inside.px", "away.weight", "charge"):
        with pytest.raises(branchline.NoSuchKeyError, match="friend") as caught:
            tree[name]
        assert f"tree.arrays({name!r})" in str(caught.value)
        assert name not in tree
    assert tree.friends["inside"].tree["px"].array(entry_stop=3).tolist() == [0.0, 0.5, 1.0]


def test_a_branch_may_be_named_with_its_tree(root: Any, tmp_path: Path) -> None:
    path = tmp_path / "main.root"
    write_main(root, path, [])
    tree = branchline.open(path)["events"]
    assert tree["events.px"].array().tolist() == main_columns()["px"].tolist()
    formula = "events.px + inside.px"
    assert np.allclose(tree.arrays(formula)[formula], by_draw(root, path, formula))
    assert "events.nothing" not in tree


ALIASES = {
    "pt": "sqrt(px*px + py^2)",
    "central": "px > 0 && !(py > 1 || py < -1)",
    "twice": "2*pt",
    "angle": "TMath::ATan2(py, px) / TMath::Pi()",
    "scaled": "pow(px, 2) * inside.px",
}


def test_aliases_are_those_of_root(root: Any, tmp_path: Path) -> None:
    path = tmp_path / "main.root"
    write_main(root, path, [], ALIASES)
    tree = branchline.open(path)["events"]
    assert tree.aliases == ALIASES
    for name in ALIASES:
        assert np.allclose(tree.arrays(name)[name], by_draw(root, path, name)), name
    cut = tree.arrays("px", cut="central").px
    assert cut.tolist() == [
        px for px, py in zip(*(main_columns()[one] for one in ("px", "py")), strict=True) if px > 0 and abs(py) <= 1
    ]
    assert tree.arrays("pt", aliases={"pt": "px"}).pt.tolist() == main_columns()["px"].tolist()


def test_the_friend_of_a_shared_file_is_read_as_by_root(
    root: Any, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shared / "root")  # ROOT looks for the friend's file in this folder
    tree = branchline.open("fta_main.root")["M"]
    assert list(tree.friends) == ["F"]
    names = [f"F.{name}" for name in tree.friends["F"].tree.keys()]
    theirs = root.RDataFrame("M", "fta_main.root").AsNumpy(names)
    for name in names:
        values = tree.arrays(name)[name].tolist()
        assert len(values) == tree.entries_count > 0
        assert values == theirs[name].tolist()
