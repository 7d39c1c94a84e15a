"""Trees and RNTuples of a file that is updated get entries, branches and fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.sampled import long_but

import branchline
from branchline.errors import OptionError, UnsupportedBranchError

TYPES = {"x": "float32", "s": "string", "hits": "var * int16", "p": ("f8", (2,)), "n": "int64"}
MADE = ("mktree", "mkrntuple")


def rows(first: int, count: int) -> dict[str, Any]:
    numbers = range(first, first + count)
    return {
        "x": np.arange(first, first + count, dtype="f4"),
        "s": ["text " * (number % 5) for number in numbers],
        "hits": ak.values_astype(ak.Array([[number] * (number % 3) for number in numbers] + [[1]]), "i2")[:-1],
        "p": np.ones((count, 2)) * first,
        "n": np.arange(first, first + count),
    }


def make(path: Path, call: str, count: int, compression: str = "zstd:5") -> None:
    with branchline.recreate(path, compression=compression) as file:
        tree = getattr(file, call)("dir/t", TYPES)
        if count:
            tree.extend(rows(0, count))
        file["note"] = "kept"


def read(path: Path, *names: str) -> list[Any]:
    columns = list(names) or list(TYPES)
    by_branchline = branchline.open(path)["dir/t"].arrays(columns).tolist()
    assert uproot.open(path)["dir/t"].arrays(columns).tolist() == by_branchline
    return list(by_branchline)


@pytest.mark.parametrize("call", MADE)
@pytest.mark.parametrize("count", [0, 1, 100, 5000])
@pytest.mark.parametrize("compression", ["zstd:5", "none"])
def test_entries_are_added_in_several_sessions(tmp_path: Path, call: str, count: int, compression: str) -> None:
    path = tmp_path / "a.root"
    make(path, call, count, compression)
    for session in range(2):
        with branchline.update(path) as file:
            for _ in range(2):
                tree = file["dir/t"]
                tree.extend(rows(tree.num_entries, 70))
            assert tree.num_entries == count + 140 * (session + 1)
    with branchline.recreate(tmp_path / "b.root") as file:
        file.mktree("dir/t", TYPES).extend(rows(0, count))
        for start in range(count, count + 280, 70):
            file["dir/t"].extend(rows(start, 70))
    assert read(path) == read(tmp_path / "b.root")
    assert branchline.open(path).keys(cycle=False) == ["dir", "dir/t", "note"]


@pytest.mark.parametrize("call", long_but(MADE, ["mktree"]))
def test_baskets_and_pages_stay_where_they_are(tmp_path: Path, call: str) -> None:
    path = tmp_path / "a.root"
    make(path, call, 200_000, "none")
    size = path.stat().st_size
    with branchline.update(path) as file:
        file["dir/t"].extend(rows(200_000, 1))
    assert path.stat().st_size < size + 30_000
    assert len(read(path)) == 200_001


@pytest.mark.parametrize("call", MADE)
def test_branches_are_added_with_values_and_fields_with_zeros(tmp_path: Path, call: str) -> None:
    path = tmp_path / "a.root"
    make(path, call, 100)
    weights, lists = np.arange(130) / 7, ak.Array([[number] * (number % 4) for number in range(130)])
    with branchline.update(path) as file:
        tree = file["dir/t"]
        tree.extend(rows(100, 30))
        tree.add_branches({"w": weights, "l": lists})
        tree.add_fields({"flag": "int8", "texts": "string", "more": "var * float32"})
        tree.extend({**rows(130, 1), "w": [0.5], "l": [[8, 9]], "flag": [3], "texts": ["t"], "more": [[1.5]]})
    found = read(path, "w", "l", "flag", "texts", "more", "x")
    assert [row["w"] for row in found] == [*weights, 0.5]
    assert [row["l"] for row in found] == [*lists.tolist(), [8, 9]]
    assert [row["flag"] for row in found] == [0] * 130 + [3]
    assert [row["texts"] for row in found] == [""] * 130 + ["t"]
    assert [row["more"] for row in found] == [[]] * 130 + [[1.5]]
    assert read(path)[:100] == read(path)[:100]


@pytest.mark.parametrize("call", MADE)
def test_new_fields_are_accepted_only_if_asked_for(tmp_path: Path, call: str) -> None:
    path = tmp_path / "a.root"
    make(path, call, 3)
    with branchline.update(path) as file:
        tree = file["dir/t"]
        with pytest.raises(OptionError, match="new is not in this"):
            tree.extend({**rows(3, 1), "new": [1]})
        tree.extend({**rows(3, 1), "new": [1]}, accept_new_fields=True)
    assert [row["new"] for row in read(path, "new")] == [0, 0, 0, 1]
    assert [row["n"] for row in read(path)] == [0, 1, 2, 3]


@pytest.mark.parametrize("call", MADE)
def test_what_does_not_fit_is_refused_and_changes_nothing(tmp_path: Path, call: str) -> None:
    path = tmp_path / "a.root"
    make(path, call, 3)
    before = read(path)
    with branchline.update(path) as file:
        tree = file["dir/t"]
        with pytest.raises(OptionError, match="missing"):
            tree.extend({"x": [1.0]})
        with pytest.raises(OptionError, match="has 3 entries, but y has 2 values"):
            tree.add_branches({"y": [1, 2]})
        with pytest.raises(OptionError, match="x already exists"):
            tree.add_fields({"x": "int8"})
    assert read(path) == before


def test_small_trees_between_which_branches_are_added_do_not_make_small_clusters(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        tree = file.mktree("t", {"x": [1]})
        tree.add_branches({"y": [1]})
        tree.extend({"x": range(1000), "y": range(1000)})
    assert uproot.open(tmp_path / "a.root")["t/x"].num_baskets == 2


def test_members_are_added_to_records(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with branchline.recreate(path) as file:
        file["t"] = ak.Array([{"p": {"pt": 1.0, "track": {"n": 1}}, "l": [{"a": 1}], "v": [1]}] * 2)
    with branchline.update(path) as file:
        tree = file["t"]
        tree.add_fields({"p.eta": "float32", "p.track.m": "int8"})
        with pytest.raises(OptionError, match="already exists"):
            tree.add_fields({"p.eta": "float32"})
        for name in ("l.b", "v.b", "p.pt.b"):
            with pytest.raises(OptionError, match=r"type .* and is not a record"):
                tree.add_fields({name: "int8"})
        with pytest.raises(OptionError, match="no record q found"):
            tree.add_fields({"q.b": "int8"})
        tree.extend(ak.Array([{"v": [2], "l": [], "p": {"eta": 3.0, "pt": 2.0, "track": {"m": 7, "n": 2}}}]))
    p = uproot.open(path)["t"].arrays()["p"]
    assert p.pt.tolist() == [1.0, 1.0, 2.0]
    assert p.eta.tolist() == [0.0, 0.0, 3.0]
    assert p.track.tolist() == [{"n": 1, "m": 0}, {"n": 1, "m": 0}, {"n": 2, "m": 7}]


def test_records_are_given_as_when_the_tree_was_made(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with branchline.recreate(path) as file:
        file.mktree("t", {"m": {"a": [1.0], "b": [2]}, "jet": ak.Array([[{"pt": 1.0}]])})
    with branchline.update(path) as file:
        file["t"].extend({"m": {"a": [3.0], "b": [4]}, "jet": ak.Array([[{"pt": 2.0}, {"pt": 3.0}]])})
        file["t"].extend({"m_a": [5.0], "m_b": [6], "jet_pt": [[4.0]]})
    found = branchline.open(path)["t"].arrays()
    assert found.m_a.tolist() == [1.0, 3.0, 5.0]
    assert found.m_b.tolist() == [2, 4, 6]
    assert found.jet_pt.tolist() == [[1.0], [2.0, 3.0], [4.0]]


def test_trees_of_vectors_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with branchline.recreate(path) as file:
        file.mktree("t", {"v": [["a", "b"], []]})
        file["u"] = ak.Array({"v": ak.Array([1, "text"])})
    with branchline.update(path) as file:
        for name in ("t", "u"):
            with pytest.raises(UnsupportedBranchError, match=r"writing its (branch|field) .* is not supported"):
                file[name].extend({"v": [["c"]]})
    assert branchline.open(path)["t/v"].array().tolist() == [["a", "b"], []]


def test_texts_are_leaves_with_the_length_of_the_longest(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    texts = ["a", "", "b" * 254, "c" * 255, "d" * 70_000, "\u00e9"]
    with branchline.recreate(path) as file:
        tree = file.mktree("t", {"s": "string", "empty": "string"})
        tree.extend({"s": texts[:3], "empty": [""] * 3})
        tree.extend({"s": texts[3:], "empty": [""] * 3})
        with pytest.raises(OptionError, match="NUL character"):
            tree.extend({"s": ["a\0b"], "empty": [""]})
    for opened in (uproot.open(path), branchline.open(path)):
        assert opened["t/s"].array().tolist() == texts
    leaf = uproot.open(path)["t/s"].member("fLeaves")[0]
    assert (leaf.classname, leaf.member("fLen")) == ("TLeafC", 70_001)
    assert uproot.open(path)["t/empty"].member("fLeaves")[0].member("fLen") == 1


def test_branches_have_codecs_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with branchline.recreate(path, compression="zstd:5") as file:
        tree = file.mktree("t", dict.fromkeys("abcd", "int64"))
        tree["a"].compression = "lz4:4"
        tree.compression = {"b": None, "c": 109}
        assert [tree[name].compression for name in "abd"] == ["lz4:4", "none", "zstd:5"]
        tree.extend(dict.fromkeys("abcd", np.zeros(1000, "i8")))
        with pytest.raises(OptionError, match="1000 entries"):
            tree["a"].compression = "zlib"
        with pytest.raises(branchline.NoSuchKeyError):
            tree["e"]
        with pytest.raises(OptionError, match="the same codec"):
            file.mkrntuple("n", {"a": "int8", "b": "int8"}).compression = {"a": "zlib"}
    found = uproot.open(path)["t"]
    assert [str(found[name].compression) for name in "abcd"] == ["LZ4(4)", "None", "ZLIB(9)", "ZSTD(5)"]
    assert all(found[name].array().tolist() == [0] * 1000 for name in "abcd")
