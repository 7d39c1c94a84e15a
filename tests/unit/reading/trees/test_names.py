"""Which branches a name or filter stands for, and what is said of a branch."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.unit.reading.trees.conftest import CODECS, Sample, write_sample

import branchline

NAMES = ["number", "energy", "is_good", "matrix", "n_hits", "hits", "label"]


@pytest.fixture(scope="module")
def tree(sample: Sample) -> Any:
    return branchline.open(sample.location)


def test_branches_are_listed_in_the_order_of_the_file(tree: Any) -> None:
    assert tree.keys() == NAMES
    assert [branch.name for branch in tree] == [branch.name for branch in tree.branches] == NAMES
    assert len(tree) == len(NAMES)
    assert [branch.name for branch in tree.values()] == NAMES
    assert [name for name, _ in tree.items()] == NAMES
    assert "hits" in tree
    assert "hit" not in tree


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("n_hits", ["n_hits"]),
        ("*hits", ["n_hits", "hits"]),
        ("[ei]*", ["energy", "is_good"]),
        ("/.*(gy|el)$/", ["energy", "label"]),
        ("/ENERGY/i", ["energy"]),
        ("/ENERGY/", []),
        (["label", "num*"], ["number", "label"]),
        (lambda name: name.endswith("s"), ["n_hits", "hits"]),
        (None, NAMES),
    ],
)
def test_a_filter_keeps_the_names_that_uproot_keeps(sample: Sample, tree: Any, wanted: Any, names: list[str]) -> None:
    assert tree.keys(filter_name=wanted) == names
    assert tree.arrays(filter_name=wanted).fields == names
    assert next(tree.iterate(filter_name=wanted)).fields == names
    assert next(branchline.iterate(sample.location, filter_name=wanted)).fields == names
    with uproot.open(sample.location) as by_uproot:
        assert by_uproot.keys(filter_name=wanted) == names


def test_expressions_are_read_in_the_order_asked_for(sample: Sample, tree: Any) -> None:
    assert tree.arrays("hits").fields == ["hits"]
    assert tree.arrays(["label", "number"]).fields == ["label", "number"]
    assert next(tree.iterate(["label", "number"])).fields == ["label", "number"]
    assert next(branchline.iterate(sample.location, ["label", "number"])).fields == ["label", "number"]
    # As with uproot, filters are for what was not asked for by name.
    assert tree.arrays(["label", "number"], filter_name="l*").fields == ["label", "number"]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("*hits", ["n_hits", "hits"]),
        ("/.*(gy|el)$/", ["energy", "label"]),
        (["label", "num*"], ["label", "number"]),
        ("n[_u]*", ["number", "n_hits"]),
    ],
)
def test_a_pattern_among_expressions_stands_for_all_that_it_matches(
    sample: Sample, tree: Any, wanted: Any, names: list[str]
) -> None:
    assert tree.arrays(wanted).fields == names
    assert next(tree.iterate(wanted)).fields == names
    assert next(branchline.iterate(sample.location, wanted)).fields == names


def test_a_pattern_that_matches_one_branch_is_a_name_for_it(tree: Any) -> None:
    assert tree["mat*"].name == tree["/MAT/i"].name == "matrix"
    with pytest.raises(branchline.NoSuchKeyError, match=r"'\*hits' matches 2 branches of tree events .*tree.arrays"):
        tree["*hits"]
    with pytest.raises(branchline.NoSuchKeyError, match="has no branch"):
        tree["q*"]


@pytest.mark.parametrize("pattern", ["x*", "/x.*/", "[q]*", "q<*>", "zz@*"])
def test_a_pattern_that_matches_nothing_is_told(tree: Any, pattern: str) -> None:
    with pytest.raises(branchline.NoSuchKeyError, match="no branch of events matches"):
        tree.arrays(["number", pattern])


@pytest.mark.parametrize("name", ["hitz", "Energy", "is_god"])
def test_a_missing_branch_is_told_with_the_nearest_names(sample: Sample, tree: Any, name: str) -> None:
    near = {"hitz": "hits", "Energy": "energy", "is_god": "is_good"}[name]
    asked = [
        lambda: tree[name],
        lambda: tree.arrays([name]),
        lambda: tree.arrays(["number", name]),
        lambda: next(tree.iterate(name)),
        lambda: next(branchline.iterate(sample.location, name)),
        lambda: branchline.concatenate(sample.location, [name]),
    ]
    for ask in asked:
        with pytest.raises(branchline.NoSuchKeyError, match=rf"did you mean {near}") as caught:
            ask()
        message = str(caught.value)
        assert name in message
        assert "events" in message
        assert str(sample.path) in message


def test_a_name_like_no_other_is_told_with_some_that_are_there(tree: Any) -> None:
    with pytest.raises(branchline.NoSuchKeyError, match=r"the names are number, energy"):
        tree["qqqqqqqqqqq"]


def test_an_error_names_the_only_object(sample: Sample) -> None:
    with pytest.raises(branchline.NoSuchKeyError, match=r"no object 'qqqq' \(the only name is events\)"):
        branchline.open(sample.path)["qqqq"]


def test_an_error_names_what_is_beside_the_only_tree(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        file.mktree("events", {"x": [1.0]})
        file["plots/mass"] = np.histogram([1.0, 2.0])
    file = branchline.open(tmp_path / "a.root")
    with pytest.raises(branchline.NoSuchKeyError, match=r"did you mean plots/mass or"):
        file["plots/mas"]
    with pytest.raises(branchline.NoSuchKeyError, match="the names are events, plots, plots/mass"):
        file["qqqq"]


@pytest.mark.parametrize("codec", CODECS)
def test_a_branch_tells_what_uproot_tells(tmp_path: Any, codec: str) -> None:
    made = write_sample(tmp_path / f"{codec}.root", CODECS[codec], (500, 300))
    tree = branchline.open(made.location)
    with uproot.open(made.location) as by_uproot:
        for name in tree.keys():
            branch, other = tree[name], by_uproot[name]
            assert branch.path == branch.name == other.name
            assert branch.title == other.title
            assert branch.entries_count == branch.num_entries == other.num_entries == 800
            assert branch.baskets_count == branch.num_baskets == other.num_baskets == 2
            assert branch.compressed_bytes == other.compressed_bytes
            assert branch.plain_bytes == branch.uncompressed_bytes == other.uncompressed_bytes
            assert (branch.readable, branch.is_group, branch.reason) == (True, False, None)
            assert branch.tree is tree
    assert tree["n_hits"].codec == ("none" if codec == "none" else None)
    assert tree.typenames()["matrix"] == "float[2][3]"


def test_the_table_shows_every_branch_with_its_sizes(tree: Any, capsys: pytest.CaptureFixture[str]) -> None:
    tree.show()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["branch", "type", "entries", "baskets", "compressed", "plain", "factor"]
    rows = {line.split()[0]: line for line in lines[2:-1]}
    assert list(rows) == NAMES
    assert re.search(r"double +100 +3 +1\.0\d kB +1\.0\d kB +1\.00", rows["energy"])
    assert "float[]" in rows["hits"]
    assert "100 entries, 7 branches" in lines[-1]
    into = io.StringIO()
    tree.show(stream=into)
    assert into.getvalue().splitlines() == lines


def test_fields_of_an_rntuple_come_under_their_paths(tmp_path: Path) -> None:
    jets = ak.zip({"pt": np.array([1.0, 2.0]), "eta": np.array([4.0, 5.0])})
    values = {"jet": jets, "pt": np.arange(2)}
    with branchline.recreate(tmp_path / "f.root") as file:
        file.mkrntuple("events", values)
    events = branchline.open(tmp_path / "f.root")["events"]
    assert events.arrays(filter_name="jet.*").fields == ["jet.pt", "jet.eta"]
    assert events.arrays(["jet.*", "pt"]).fields == ["jet.pt", "jet.eta", "pt"]
    assert events.arrays(filter_name="*pt").tolist() == [{"jet.pt": 1.0, "pt": 0}, {"jet.pt": 2.0, "pt": 1}]
    # Below a field names are as they are there.
    assert events["jet"].arrays(filter_name="p*").fields == ["pt"]
