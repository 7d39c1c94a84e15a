"""Kinds of branches that only ROOT writes: leaf lists, containers, split objects, and those that are not read yet."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.peers.peers import import_root, missing

import branchline
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream

ENTRIES = 30
LEFT_OUT = pytest.mark.filterwarnings("ignore::branchline.UnreadableBranchWarning")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree of all these kinds, with baskets of a few entries, and an empty one."""
    root = import_root()
    if root is None:
        missing("ROOT (the package `root` of PyPI)")
    path = tmp_path_factory.mktemp("kinds") / "kinds.root"
    file = root.TFile.Open(str(path), "RECREATE", "", 0)
    tree = root.TTree("kinds", "of branches")
    point = np.zeros(1, dtype=np.dtype([("x", "f4"), ("n", "i4"), ("flag", "?")], align=True))
    numbers, lists = root.std.vector("float")(), root.std.vector("std::vector<int>")()
    root.gInterpreter.Declare("struct Undescribed { float weight = 1; std::vector<int> hits; };")
    text, whole = root.std.string(), root.Undescribed()
    first, second = root.Math.PxPyPzEVector(), root.Math.PxPyPzEVector()
    tree.Branch("point", point, "x/F:n/I:flag/O")
    tree.Branch("numbers", numbers)
    tree.Branch("lists", lists)
    tree.Branch("text", text)
    tree.Branch("whole", whole, 32000, 0)
    tree.Branch("first", first)
    tree.Branch("second", second)
    last = array("i", [0])
    tree.Branch("last", last, "last/I")
    tree.SetBasketSize("*", 300)
    for entry in range(ENTRIES):
        point[0] = (entry / 2, -entry, entry % 2 == 0)
        numbers.clear()
        lists.clear()
        for index in range(entry % 4):
            numbers.push_back(entry + index / 4)
            lists.push_back(root.std.vector("int")(range(index)))
        text.assign("ab" * entry)
        first.SetCoordinates(entry, 0, 0, entry)
        second.SetCoordinates(0, entry, 0, 2 * entry)
        last[0] = entry
        tree.Fill()
    tree.Write()
    empty = root.TTree("empty", "")
    empty.Branch("last", last, "last/I")
    empty.Branch("numbers", numbers)
    empty.Write()
    file.Close()
    forget_class(path, "Undescribed")
    return path


def forget_class(path: Path, name: str) -> None:
    """Gives the description of a class another name, so that the file does not describe it any more."""
    with uproot.open(path) as opened:
        start, stop = opened.file.fSeekInfo, opened.file.fSeekInfo + opened.file.fNbytesInfo
    content = bytearray(path.read_bytes())
    at = content.index(bytes([len(name)]) + name.encode(), start, stop)
    content[at + len(name)] ^= 1
    path.write_bytes(content)


@pytest.fixture(scope="module")
def tree(path: Path) -> Any:
    return branchline.open(path)["kinds"]


WANTED = {
    "numbers": [[entry + index / 4 for index in range(entry % 4)] for entry in range(ENTRIES)],
    "lists": [[list(range(index)) for index in range(entry % 4)] for entry in range(ENTRIES)],
    "text": ["ab" * entry for entry in range(ENTRIES)],
    "last": list(range(ENTRIES)),
}


@pytest.mark.parametrize("name", WANTED)
@pytest.mark.parametrize("limits", [(None, None), (3, 20), (29, 30), (-2, None)])
def test_containers_and_texts_come_in_every_library(tree: Any, name: str, limits: tuple[Any, Any]) -> None:
    wanted = WANTED[name][slice(*limits)]
    assert tree[name].array(None, *limits).tolist() == wanted
    assert tree[name].array(None, *limits, library="arrow").to_pylist() == wanted
    assert ak.to_list(list(tree[name].array(None, *limits, library="np"))) == wanted
    assert ak.to_list(list(tree[name].array(None, *limits, library="pd"))) == wanted


def test_a_leaf_list_is_a_record(tree: Any) -> None:
    read = tree["point"].array()
    assert read.fields == ["x", "n", "flag"]
    assert read.tolist() == [{"x": e / 2, "n": -e, "flag": e % 2 == 0} for e in range(ENTRIES)]
    structured = tree["point"].array(library="np")
    assert structured.dtype == np.dtype([("x", "f4"), ("n", "i4"), ("flag", "?")])
    assert structured["n"].tolist() == [-entry for entry in range(ENTRIES)]
    assert tree["point"].array(library="arrow").to_pylist() == read.tolist()
    assert tree.arrays(["point"], library="pd")["point.n"].tolist() == structured["n"].tolist()
    assert tree.typenames()["point"] == "struct {float x; int32_t n; bool flag;}"


@LEFT_OUT
@pytest.mark.parametrize("library", ["ak", "np", "arrow", "pd"])
def test_everything_that_is_readable_comes_together(tree: Any, library: Any) -> None:
    read = tree.arrays(library=library)
    names = read.fields if library == "ak" else list(read) if library != "arrow" else read.column_names
    assert len(names) >= 10
    assert not [name for name in names if name.startswith("whole")]


def test_members_of_split_objects_have_paths(tree: Any) -> None:
    assert tree["first"].is_group
    assert "fCoordinates/fCoordinates.fX" in tree["first"].keys()
    first, second = "first/fCoordinates/fCoordinates.fX", "second/fCoordinates/fCoordinates.fY"
    assert tree[first].array().tolist() == list(range(ENTRIES))
    assert tree["first"]["fCoordinates/fCoordinates.fX"].array().tolist() == list(range(ENTRIES))
    assert tree["first/fCoordinates"]["fCoordinates.fX"].array().tolist() == list(range(ENTRIES))
    assert tree.arrays([second])[second].tolist() == list(range(ENTRIES))
    # Two branches of one name are distinguished by their paths.
    together = tree.arrays(filter_name="*fX")
    assert together.fields == [first, first.replace("first", "second")]


def test_a_name_that_two_branches_have_is_ambiguous(tree: Any) -> None:
    with pytest.raises(branchline.NoSuchKeyError, match="several branches") as caught:
        tree["fCoordinates.fX"]
    assert "first/fCoordinates/fCoordinates.fX, second/fCoordinates/fCoordinates.fX" in str(caught.value)


def test_a_group_comes_as_records_of_the_branches_below_it(tree: Any) -> None:
    read = tree["first"].array(entry_start=3, entry_stop=5)
    names = ["fCoordinates.fX", "fCoordinates.fY", "fCoordinates.fZ", "fCoordinates.fT"]
    wanted = [dict(zip(names, (entry, 0, 0, entry), strict=True)) for entry in (3, 4)]
    assert read.tolist() == [{"fCoordinates": entry} for entry in wanted]
    assert tree.arrays("first", entry_start=3, entry_stop=5)["first"].tolist() == read.tolist()
    # All of what is below it was not asked for: it comes as one.
    assert tree.arrays(filter_name="second").fields == ["second"]


def test_a_branch_that_is_not_read_is_listed_and_told_by_its_class(path: Path, tree: Any) -> None:
    branch = tree["whole"]
    assert not branch.readable
    assert branch.reason
    assert "Undescribed" in branch.typename
    asked = [
        branch.array,
        lambda: tree.arrays(["last", "whole"]),
        lambda: next(tree.iterate(["whole"])),
        lambda: next(branchline.iterate(f"{path}:kinds", ["last", "whole"])),
    ]
    for ask in asked:
        with pytest.raises(branchline.UnsupportedBranchError, match="Undescribed") as caught:
            ask()
        assert "whole" in str(caught.value)
        assert str(path) in str(caught.value)
        assert isinstance(caught.value, NotImplementedError)
    assert tree["last"].array().tolist() == WANTED["last"]


def test_the_table_names_what_is_not_read(tree: Any, capsys: pytest.CaptureFixture[str]) -> None:
    tree.show()
    shown = capsys.readouterr().out
    assert "1 branch cannot be read yet:" in shown
    assert "whole (Undescribed)" in shown
    assert "    fCoordinates.fX " in shown


def test_an_empty_tree_of_root_has_typed_columns(path: Path) -> None:
    empty = branchline.open(path)["empty"]
    assert empty.entries_count == 0
    assert empty.arrays().type.content == ak.types.RecordType(
        [ak.types.NumpyType("int32"), ak.types.ListType(ak.types.NumpyType("float32"))], ["last", "numbers"]
    )


def test_a_late_read_of_what_is_not_read_is_told(path: Path) -> None:
    with ChunkStream([Source(str(path), "kinds")], ["last"], step_size=7) as stream:
        for chunk in stream:
            start, stop = chunk.entry_start, chunk.entry_stop
            assert chunk.array("lists").tolist() == WANTED["lists"][start:stop]
            with pytest.raises(branchline.UnsupportedBranchError, match="Undescribed"):
                chunk.array("whole")
            assert "whole" not in chunk.all_branches


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree of which one branch has its baskets in another file, which is not there."""
    root = import_root()
    if root is None:
        missing("ROOT (the package `root` of PyPI)")
    path = tmp_path_factory.mktemp("elsewhere") / "main.root"
    file = root.TFile.Open(str(path), "RECREATE")
    tree = root.TTree("events", "")
    value = array("i", [7])
    for name in ("here", "also_here", "elsewhere"):
        tree.Branch(name, value, f"{name}/I")
    tree.GetBranch("elsewhere").SetFile(str(path.with_name("other.root")))
    tree.Fill()
    file.Write()
    file.Close()
    path.with_name("other.root").unlink(missing_ok=True)
    return path


def test_one_warning_names_the_branches_that_are_left_out(elsewhere: Path) -> None:
    tree = branchline.open(elsewhere)["events"]
    with pytest.warns(branchline.UnreadableBranchWarning, match="1 branch of events .* left out: elsewhere") as caught:
        assert tree.arrays().fields == ["here", "also_here"]
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert str(elsewhere) in str(caught[0].message)
    assert tree.arrays().fields == tree.arrays(filter_name="*here*").fields == ["here", "also_here"]
    for read in (lambda: next(branchline.iterate(elsewhere)), lambda: branchline.concatenate([elsewhere] * 2)):
        with pytest.warns(branchline.UnreadableBranchWarning, match="elsewhere") as caught:
            assert read().fields == ["here", "also_here"]
        assert len(caught) == 1
        assert caught[0].filename == __file__


def test_what_is_asked_for_by_name_is_not_left_out(elsewhere: Path) -> None:
    tree = branchline.open(elsewhere)["events"]
    for asked in ("elsewhere", ["here", "elsewhere"], "here + elsewhere"):
        with pytest.raises(branchline.StorageError, match="another file"):
            tree.arrays(asked)
    assert tree.arrays("here").fields == ["here"]


@LEFT_OUT
@pytest.mark.parametrize("step", [1, 4, 11, "1 kB", "300 B"])
@pytest.mark.parametrize("workers", [1, 3])
def test_steps_across_small_baskets_give_the_same_values(tree: Any, step: Any, workers: int) -> None:
    whole = tree.arrays()
    parts = list(tree.iterate(step_size=step, workers=workers))
    assert ak.array_equal(ak.concatenate(parts), whole)
