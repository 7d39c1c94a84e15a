"""Branchline has every public attribute of uproot, or the page on moving from uproot names a replacement."""

from __future__ import annotations

import fnmatch
import re
import warnings
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from tests.peers.peers import REPOSITORY, imported

import branchline

#: Attributes with which uproot's models read themselves or the storage. uproot's documentation does not tell users to
#: call them.
MACHINERY = frozenset(
    {
        *(
            "base",
            "base_names_versions",
            "bases",
            "behaviors",
            "check_numbytes",
            "chunk",
            "concrete",
            "context",
            "cursor",
        ),
        *(
            "deserialize_page_decompressed_buffer",
            "descent_into_path",
            "empty",
            "encoded_classname",
            "instance_version",
        ),
        *("begin_chunk", "combine_cluster_arrays", "in_variant", "is_anonymous", "is_instance", "is_memberwise", "key"),
        *("member_names", "no_inherit", "num_bytes", "post_process", "postprocess", "read", "read_cluster_pages"),
        *("read_cluster_range", "read_locator", "read_member_n", "read_members", "read_numbytes_version", "read_page"),
        *("record", "serialize", "source", "strided_interpretation", "writable", "to_writable", "field_id"),
    }
)
MACHINERY_PATTERNS = ("hook_*", "gpu_*")


@pytest.fixture(scope="module")
def instead() -> list[str]:
    """Return the names and name patterns in the table on that page."""
    page = (REPOSITORY / "docs/moving/from-uproot.md").read_text()
    rows = re.findall(r"^\|([^|]*)\|[^|]*\|$", page.partition("## Differences in behaviour")[2], re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([\w.*]+)`", row)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("attributes") / "file.root"
    hist = imported("hist")
    histogram = hist.Hist(hist.axis.Regular(3, 0, 3), storage=hist.storage.Weight()).fill([1, 2], weight=[2, 3])
    with imported("uproot").recreate(path) as file:
        file.mktree("folder/events", {"x": "float64", "n": "var * int32"}, title="of events")
        file["folder/events"].extend({"x": np.array([1.5]), "n": ak.Array([[1, 2]])})
        file.mkrntuple("ntuple", {"x": np.array([1.5])})
        file["one"] = histogram
        file["two"] = np.histogram2d([1, 2], [1, 2])
        file["text"] = "a text"
        file["graph"] = imported("uproot").as_TGraph({"x": [1.0, 2.0], "y": [3.0, 4.0]})
    return path


def names_of(one: Any) -> set[str]:
    return {name for name in {*dir(type(one)), *vars(one)} if not name.startswith("_")}


def has(one: Any, name: str) -> bool:
    try:
        getattr(one, name)
    except AttributeError:
        return False
    except branchline.BranchlineError:
        return True  # the attribute exists but does not support this object
    return True


@pytest.mark.peer
@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("file", ""),
        ("directory", "folder"),
        ("tree", "folder/events"),
        ("branch", "folder/events/x"),
        ("ntuple", "ntuple"),
        ("field", "ntuple/x"),
        ("object", "one"),
        ("object", "two"),
        ("object", "graph"),
        ("TObjString", "text"),
    ],
)
def test_public_attributes_are_there_or_explained(path: Path, instead: list[str], kind: str, place: str) -> None:
    theirs, ours = imported("uproot").open(path), branchline.open(path)
    one, other = (theirs[place], ours[place]) if place else (theirs.file, ours.file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        missing = sorted(name for name in names_of(one) - MACHINERY if not has(other, name))
    missing = [name for name in missing if not any(fnmatch.fnmatch(name, each) for each in MACHINERY_PATTERNS)]
    owners = ["TObjString", "object"] if kind == "TObjString" else [kind]

    def is_explained(name: str) -> bool:
        written = (name, *(f"{owner}.{name}" for owner in owners))
        return any(fnmatch.fnmatch(one, each) for each in instead for one in written)

    assert [name for name in missing if not is_explained(name)] == []


@pytest.mark.peer
def test_identifiers_are_those_of_uproot(path: Path) -> None:
    theirs, ours = imported("uproot").open(path), branchline.open(path)
    assert ours.uuid == theirs.file.uuid
    assert ours.hex_uuid == theirs.file.hex_uuid
    assert repr(ours.compression) == repr(theirs.file.compression)
    assert ours["folder"].cache_key == theirs["folder"].cache_key
    assert ours["folder/events"].cache_key == theirs["folder/events"].cache_key
    for name in ("x", "n"):
        assert ours["folder/events"][name].cache_key == theirs["folder/events"][name].cache_key


@pytest.mark.peer
def test_members_of_a_tree_and_counters_of_branches_are_those_of_uproot(path: Path) -> None:
    theirs, ours = imported("uproot").open(path)["folder/events"], branchline.open(path)["folder/events"]
    for name in ("fName", "fTitle", "fEntries", "fAutoSave"):
        assert ours.member(name) == theirs.member(name)
        assert ours.has_member(name)
    assert not ours.has_member("fNothing")
    assert ours["n"].count_branch.name == theirs["n"].count_branch.name == "nn"
    assert ours["x"].count_branch is theirs["x"].count_branch is None


@pytest.mark.peer
def test_members_of_a_graph_are_those_of_uproot(path: Path) -> None:
    theirs, ours = imported("uproot").open(path)["graph"], branchline.open(path)["graph"]
    for name in ("fX", "fY"):
        assert ours.member(name).tolist() == ours.all_members[name].tolist() == theirs.member(name).tolist()
    assert ours.member("fNpoints") == theirs.member("fNpoints")
    assert not ours.has_member("fNothing")
    made = branchline.as_TGraph({"x": [1.0], "y": [2.0]})
    assert not made.has_member("fX")
    with pytest.raises(branchline.NoSuchKeyError, match="no member 'fX'"):
        made.member("fX")


@pytest.mark.peer
def test_weights_and_fields_have_the_names_of_uproot(path: Path) -> None:
    theirs, ours = imported("uproot").open(path), branchline.open(path)
    for name in ("one", "two"):
        assert ours[name].weighted == theirs[name].weighted
    assert [field.name for field in ours["ntuple"].fields] == [field.name for field in theirs["ntuple"].fields]
    assert ours["ntuple"].field_names == ["x"]
    chosen = ours["ntuple"].arrays(filter_field=lambda field: field.name == "x")
    assert chosen.fields == ["x"]


@pytest.mark.peer
def test_a_tree_and_a_branch_stay_the_same_object_while_they_are_held(path: Path) -> None:
    file = branchline.open(path)
    branch = file["folder/events/x"]
    assert file["folder/events"]["x"] is branch
    assert branch.tree is file["folder/events"]


@pytest.mark.peer
def test_a_type_may_be_named_if_it_is_that_of_the_branch(path: Path) -> None:
    branch = branchline.open(path)["folder/events/x"]
    for named in ("f8", ">f8", np.dtype("f8"), imported("uproot").AsDtype(">f8"), float):
        assert branch.array(named).tolist() == [1.5]
    with pytest.raises(branchline.OptionError, match="cannot be read as 'f4'"):
        branch.array("f4")
