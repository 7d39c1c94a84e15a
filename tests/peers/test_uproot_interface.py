"""Calls of uproot's reading interface return the same as uproot for the same files."""

from __future__ import annotations

import pickle
from datetime import datetime
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest
from tests.peers.peers import imported

import branchline


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("interface") / "file.root"
    with imported("uproot").recreate(path) as file:
        file.mktree("folder/events", {"x": "float64", "n": "var * int32"})
        file["folder/events"].extend({"x": np.array([1.5, 2.5]), "n": ak.Array([[1], [2, 3]])})
    return path


@pytest.fixture(scope="module")
def both(path: Path) -> tuple[Any, Any]:
    return imported("uproot").open(path), branchline.open(path)


@pytest.mark.peer
def test_a_tree_has_its_class(both: tuple[Any, Any]) -> None:
    theirs, ours = both
    assert ours["folder/events"].classname == theirs["folder/events"].classname == "TTree"


@pytest.mark.peer
def test_a_branch_in_a_with_statement_is_closed_behind_it(path: Path) -> None:
    with branchline.open(path)["folder/events/x"] as branch:
        values = branch.array()
    assert branch.file.closed
    assert values.tolist() == [1.5, 2.5]


@pytest.mark.peer
def test_files_directories_trees_and_branches_can_be_pickled(both: tuple[Any, Any]) -> None:
    _, ours = both
    for one in (ours, ours["folder"], ours["folder/events"], ours["folder/events/x"]):
        again = pickle.loads(pickle.dumps(one))
        assert type(again) is type(one)
        assert again.object_path == one.object_path if hasattr(one, "object_path") else again.path == one.path
    assert pickle.loads(pickle.dumps(ours["folder/events/n"])).array().tolist() == [[1], [2, 3]]


@pytest.mark.peer
def test_a_virtual_branch_is_read_at_its_first_value(both: tuple[Any, Any]) -> None:
    log: list[Any] = []
    array = both[1]["folder/events/n"].array(virtual=True, access_log=log)
    assert log == []
    assert array.tolist() == [[1], [2, 3]]
    assert [one.branch for one in log] == ["n", "n"]
    with pytest.raises(branchline.OptionError, match="access_log cannot be used"):
        both[1]["folder/events/n"].array(access_log=log)


@pytest.mark.peer
def test_numpys_objects_are_uproots_lists_and_dicts(shared: Path) -> None:
    path = shared / "root/uproot-stl_containers.root"
    theirs, ours = imported("uproot").open(path)["tree"], branchline.open(path)["tree"]
    for name in ours.keys(filter_name=["vector_vector*", "vector_string", "map_*"]):
        if "_set_" in name:  # a set is a list in Branchline
            continue
        expected = [one.tolist() for one in theirs[name].array(library="np")]
        assert [one.tolist() for one in ours[name].array(library="np")] == expected
        assert [one.tolist() for one in ours.arrays([name], library="np")[name]] == expected
    assert isinstance(ours["map_string_vector_int16"].array(library="np")[0], dict)


@pytest.mark.peer
def test_numpys_objects_have_members_by_name(shared: Path) -> None:
    path = shared / "root/uproot-small-evnt-tree-nosplit.root"
    theirs, ours = imported("uproot").open(path)["tree/evt"], branchline.open(path)["tree/evt"]
    expected, found = theirs.array(library="np")[3], ours.array(library="np")[3]
    assert found.has_member("I32")
    assert found.member("I32") == found.I32 == expected.member("I32")
    assert found.members["P3"].member("Px") == expected.member("P3").member("Px")
    with pytest.raises(AttributeError, match="no member 'Absent'"):
        _ = found.Absent


@pytest.mark.peer
def test_parameters_and_times_have_their_values(root: Any, tmp_path: Path) -> None:
    path = tmp_path / "parameters.root"
    file = root.TFile(str(path), "RECREATE")
    values = {"int": 500, "double": 2.5, "bool": True, "Long64_t": -(2**40), "float": 0.25}
    for kind, value in values.items():
        file.WriteObject(root.TParameter[kind](kind, value), kind)
    file.WriteObject(root.TDatime(2021, 3, 4, 5, 6, 7), "time")
    file.Close()
    opened, theirs = branchline.open(path), imported("uproot").open(path)
    for kind, value in values.items():
        assert opened[kind].value == theirs[kind].value == value
        assert float(opened[kind]) == value
        assert pickle.loads(pickle.dumps(opened[kind])).value == value
    assert range(501)[opened["int"]] == 500
    assert opened["time"].to_datetime() == theirs["time"].to_datetime() == datetime(2021, 3, 4, 5, 6, 7)


@pytest.mark.peer
def test_the_squared_weights_of_a_histogram_are_those_of_its_cells(root: Any, tmp_path: Path) -> None:
    path = tmp_path / "weights.root"
    file = root.TFile(str(path), "RECREATE")
    plain = root.TH1D("plain", "", 3, 0, 3)
    plane = root.TH2D("plane", "", 3, 0, 3, 2, 0, 2)
    labelled = root.TH1D("labelled", "", 4, 0, 4)
    for number in range(-1, 4):
        plain.Fill(number)
        plane.Fill(number, number / 2, 0.5 + number)
        if number in (0, 1):
            labelled.Fill(number + 0.5, 2.0 + number)
    for number, label in enumerate(("a", "b"), start=1):
        labelled.GetXaxis().SetBinLabel(number, label)
    for one in (plain, plane, labelled):
        one.SetDirectory(file)
    file.Write()
    file.Close()
    ours, theirs = branchline.open(path), imported("uproot").open(path)
    for name in ("plain", "plane", "labelled"):
        found, expected = ours[name].member("fSumw2"), np.asarray(theirs[name].member("fSumw2"))
        if name == "labelled":  # the underflow is dropped, because categories have none
            found, expected = found[1:], expected[1:]
        assert found.tolist() == expected.tolist()
    assert ours["plane"].member("fYaxis") == ours["plane"].axis(1)
    assert ours["plane"].has_member("fSumw2")


@pytest.mark.peer
def test_a_histogram_whose_axes_an_operation_changed_has_the_cells_of_these_axes(tmp_path: Path) -> None:
    path, uproot = tmp_path / "changed.root", imported("uproot")
    numeric = hist.Hist(hist.axis.Regular(6, 0, 6, name="x", label="X"), storage="weight")
    numeric.fill(np.arange(-1, 7) + 0.5, weight=2.0)
    plane = hist.Hist(hist.axis.Regular(3, 0, 3, name="x"), hist.axis.Regular(2, 0, 2, name="y"), storage="weight")
    plane.fill([0.5, 1.5, 1.5], [0.5, 0.5, 1.5], weight=[1.0, 2.0, 3.0])
    labelled = hist.Hist(hist.axis.StrCategory(["a", "b", "c"], name="x"), storage="weight")
    labelled.fill(["a", "b", "b", "c"], weight=[1.0, 2.0, 3.0, 4.0])
    with branchline.recreate(path) as file:
        file["numeric"], file["plane"], file["labelled"] = numeric, plane, labelled
    opened = branchline.open(path)
    labelled = opened["labelled"]
    changed = {
        "slice": opened["numeric"][2:5],
        "rebinned": opened["numeric"][:: hist.rebin(2)],
        "projected": opened["plane"].project(1),
    }
    with pytest.warns(UserWarning, match="List indexing selection is experimental"):
        changed["labels"] = labelled[["b", "c"]]
    assert changed["projected"].bin_labels() == changed["projected"].bin_labels(1) == {}
    assert labelled.bin_labels() == {0: "a", 1: "b", 2: "c"}
    assert changed["labels"].bin_labels() == {0: "b", 1: "c"}
    with uproot.recreate(tmp_path / "by_uproot.root") as file:
        for name, histogram in changed.items():
            file[name] = histogram
    by_uproot = uproot.open(tmp_path / "by_uproot.root")
    for name, histogram in changed.items():
        stored = np.asarray(by_uproot[name].member("fSumw2"))
        assert histogram.member("fSumw2").tolist() == stored.tolist(), name


@pytest.mark.peer
def test_uproot_writes_the_titles_that_axes_have_now(tmp_path: Path) -> None:
    path, uproot = tmp_path / "titles.root", imported("uproot")
    made = hist.Hist(hist.axis.Regular(2, 0, 2, name="x", label="X"), hist.axis.Regular(2, 0, 2, name="y", label=""))
    with branchline.recreate(path) as file:
        file["h"] = made
    read = branchline.open(path)["h"]
    read.axes[0].label = "now"
    with uproot.recreate(tmp_path / "by_uproot.root") as file:
        file["h"] = read
    by_uproot, before = uproot.open(tmp_path / "by_uproot.root")["h"], uproot.open(path)["h"]
    assert by_uproot.axis("x").member("fTitle") == "now"
    assert by_uproot.axis("y").member("fTitle") == before.axis("y").member("fTitle")
