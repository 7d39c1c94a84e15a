"""Columns as programs have them: with the counters of their lists, in any byte order, with values that may be missing,
and with types as Python and NumPy name them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import branchline
from branchline.errors import OptionError, UnsupportedBranchError

pandas = pytest.importorskip("pandas")

X = ak.Array([[1.5], [], [2.5, 3.5]])


def written(path: Path, values: Any) -> branchline.Tree:
    with branchline.recreate(path) as file:
        file.mktree("t", values)
    return branchline.open(path)["t"]


@pytest.mark.parametrize("as_dict", [True, False])
def test_arrays_that_were_read_are_written_again_with_their_counters(tmp_path: Path, as_dict: bool) -> None:
    read = written(tmp_path / "a.root", {"x": X, "jet": ak.zip({"pt": X, "id": X}), "y": [1, 2, 3]}).arrays()
    again = written(tmp_path / "b.root", {name: read[name] for name in read.fields} if as_dict else read)
    # A member of records and its counter are read as two branches of their own names.
    counted_apart = {"njet_pt", "njet_id"}
    assert set(again.keys()) == {*read.fields, *counted_apart}
    assert all(again[name].array().to_list() == read[name].to_list() for name in read.fields)


def test_counters_are_taken_with_lists_by_the_name_that_counter_name_gives(tmp_path: Path) -> None:
    types = {"nMuon": "uint32", "Muon_pt": "var * float32", "Muon_id": "var * int8"}
    with branchline.recreate(tmp_path / "a.root") as file:
        tree = file.mktree("t", types, counter_name=lambda name: "n" + name.split("_")[0])
        tree.extend({"nMuon": [1, 0, 2], "Muon_pt": X, "Muon_id": ak.values_astype(X, "i1")})
        tree.extend({"Muon_pt": X, "Muon_id": ak.values_astype(X, "i1")})
        assert sorted(tree.keys()) == sorted(types)
    assert branchline.open(tmp_path / "a.root")["t/nMuon"].array().to_list() == [1, 0, 2] * 2


def test_a_counter_that_counts_something_else_is_refused_with_its_row(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        with pytest.raises(OptionError, match="nx is 5 in row 2, where x has 2 elements") as error:
            file.mktree("t", {"nx": [1, 0, 5], "x": X})
        assert "omit nx" in str(error.value)
        with pytest.raises(OptionError, match="two branches nx"):
            file.mktree("u", {"nx": ["a", "b", "c"], "x": X})
        with pytest.raises(OptionError, match="different lengths: nx has 2, x has 3"):
            file.mktree("v", {"nx": [1, 0], "x": X})
        # Nothing of them is left behind.
        assert file.keys() == []
        tree = file.mktree("w", {"x": "var * float32"})
        for odd in ([[1], [2, 3], []], [[1, 1]] * 3, ak.Array([{"a": 1}] * 3), [1.0, 0.0, 2.0], ["a", "b", "c"]):
            with pytest.raises(OptionError, match="nx must be an integer for each entry, as the counter of x"):
                tree.extend({"nx": odd, "x": X})
        assert tree.num_entries == 0


def test_numbers_in_the_other_byte_order_are_written(tmp_path: Path) -> None:
    values = {"a": np.array([1, 2, 3], ">f4"), "b": np.arange(6, dtype=">i2").reshape(3, 2)}
    tree = written(tmp_path / "a.root", values)
    assert tree.typenames() == {"a": "float", "b": "int16_t[2]"}
    assert tree["b"].array().to_list() == values["b"].tolist()
    with branchline.recreate(tmp_path / "b.root") as file:
        file.mktree("t", {name: array.dtype for name, array in values.items()} | {"c": (">f8", (2,))})
    typenames = {"a": "float", "b": "int16_t", "c": "double[2]"}
    assert branchline.open(tmp_path / "b.root")["t"].typenames() == typenames


def test_whole_numbers_up_to_those_of_uint64_are_kept_to_the_last_digit(tmp_path: Path) -> None:
    given = [2**63 + 1, 1, np.uint64(2**64 - 1)]
    for name, values in {"list": given, "objects": np.array(given, dtype=object)}.items():
        tree = written(tmp_path / f"{name}.root", {"x": values})
        assert tree.typenames() == {"x": "uint64_t"}
        assert tree["x"].array().to_list() == [2**63 + 1, 1, 2**64 - 1]
    with branchline.recreate(tmp_path / "b.root") as file:
        tree = file.mktree("t", {"x": "uint64"})
        tree.extend({"x": [2**63 + 1, 5]})
    assert branchline.open(tmp_path / "b.root")["t/x"].array().to_list() == [2**63 + 1, 5]


@pytest.mark.parametrize("values", [[2**70], [2**63 + 1, -1], [2**63 + 1, 0.5], [[2**63 + 1], [1]], [2**63 + 1, "a"]])
def test_whole_numbers_that_no_branch_can_hold_are_refused(tmp_path: Path, values: list[Any]) -> None:
    with (
        branchline.recreate(tmp_path / "a.root") as file,
        pytest.raises(OptionError, match="branch x: some integers do not fit into int64"),
    ):
        file.mktree("t", {"x": values})


def test_a_frame_with_two_columns_of_one_name_is_refused(tmp_path: Path) -> None:
    frame = pandas.DataFrame([[1, 2]], columns=["a", "a"])
    with (
        branchline.recreate(tmp_path / "a.root") as file,
        pytest.raises(OptionError, match="several columns are named 'a'"),
    ):
        file.mktree("t", frame)


def test_arrays_of_no_elements_have_no_branch(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        for name, make in (("t", file.mktree), ("u", file.mkrntuple)):
            with pytest.raises(UnsupportedBranchError, match="x: cannot store arrays with 0 elements"):
                make(name, {"x": np.zeros((3, 0))})
        file["note"] = "written"
    assert branchline.open(tmp_path / "a.root").keys(cycle=False) == ["note"]


def test_missing_values_of_a_frame_are_not_made_numbers(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"x": pandas.array([2**60 + 1, None, 3], dtype="Int64"), "s": ["a", None, "c"]})
    with branchline.recreate(tmp_path / "a.root") as file:
        with pytest.raises(UnsupportedBranchError, match="may be missing"):
            file.mktree("t", frame)
        file.mkrntuple("n", frame)
        file.mktree("whole", frame[["x"]].dropna())
    opened = branchline.open(tmp_path / "a.root")
    assert opened["n"].arrays().to_list() == [
        {"index": 0, "x": 2**60 + 1, "s": "a"},
        {"index": 1, "x": None, "s": None},
        {"index": 2, "x": 3, "s": "c"},
    ]
    assert opened["whole"].typenames() == {"index": "int64_t", "x": "int64_t"}


@pytest.mark.parametrize(
    ("kind", "wanted"), [(np.float32, "float"), (int, "int64_t"), (bool, "bool"), (float, "double")]
)
def test_types_of_python_and_numpy_are_types_of_branches(tmp_path: Path, kind: type, wanted: str) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        file.mktree("t", {"x": kind})
    assert branchline.open(tmp_path / "a.root")["t"].typenames() == {"x": wanted}


@pytest.mark.parametrize(
    ("values", "what"), [({"x": None}, "invalid type None"), ({"a\0b": "f4"}, "invalid branch name")]
)
def test_what_is_no_type_or_name_is_refused(tmp_path: Path, values: dict[str, Any], what: str) -> None:
    with branchline.recreate(tmp_path / "a.root") as file, pytest.raises(OptionError, match=what):
        file.mktree("t", values)


@pytest.mark.parametrize("name", ["with space", "a.b", "a/b", "a\\b", "a\tb"])
def test_names_that_root_does_not_allow_in_an_ntuple_are_refused(tmp_path: Path, name: str) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        for values in ({name: [1]}, {"x": ak.Array([[{name: 1}]])}):
            with pytest.raises(OptionError, match=r"field .* ROOT allows no dots") as error:
                file.mkrntuple("n", values)
            assert repr(name) in str(error.value)
        file.mktree("t", {name.replace("/", "_"): [1]})


@pytest.mark.parametrize("kind", ["mktree", "mkrntuple"])
def test_lists_of_records_that_are_missing_are_refused(tmp_path: Path, kind: str) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        for values in ([[{"x": 1}], None], [[("a", 1)], None], [[[{"x": 1}], None]]):
            with pytest.raises(OptionError, match="branch jet has lists of records that are missing"):
                getattr(file, kind)("t", {"jet": ak.Array(values)})
        getattr(file, kind)("t", {"jet": ak.Array([[{"x": 1}], None])[:1]})


def test_what_is_no_array_is_said_in_one_line(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "a.root") as file, pytest.raises(OptionError) as error:
        file["t"] = {"x": 5}
    assert str(error.value).startswith("branch x: a value of type int cannot be converted to an array")
    assert "\n" not in str(error.value)


def test_create_names_what_replaces_a_file_in_python(tmp_path: Path) -> None:
    (tmp_path / "a.root").write_bytes(b"")
    with pytest.raises(
        branchline.errors.StorageError, match=r"already exists \(use branchline.recreate to replace it\)"
    ):
        branchline.create(tmp_path / "a.root")
