"""`mktree` and `mkrntuple` take types or the first data, as those of uproot do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import uproot

import branchline

PT = [[1.5, 2.5], [], [3.5]]
DATA: dict[str, Any] = {
    "dict": {"x": np.array([1, 2, 3]), "pt": ak.Array(PT)},
    "lists": {"x": [1, 2, 3], "pt": PT},
    "records": ak.Array({"x": [1, 2, 3], "pt": PT}),
    "table": pa.table({"x": [1, 2, 3], "pt": PT}),
    "pandas": pd.DataFrame({"x": [1, 2, 3], "pt": PT}),
}
TYPES: dict[str, Any] = {
    "texts": {"x": "int64", "pt": "var * float64"},
    "record type": ak.Array({"x": [1], "pt": [[1.5]]}).type,
    "its content": ak.Array({"x": [1], "pt": [[1.5]]}).type.content,
    "empty arrays": {"x": np.array([], "i8"), "pt": ak.Array(PT)[:0]},
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("call", ["mktree", "mkrntuple"])
def test_data_are_the_first_entries(tmp_path: Path, call: str, data: str) -> None:
    path = tmp_path / "out.root"
    with branchline.recreate(path) as file:
        tree = getattr(file, call)("dir/t", DATA[data])
        assert tree.num_entries == 3
        tree.extend(DATA[data])
    found = branchline.open(path)["dir/t"].arrays(["x", "pt"])
    assert found.x.tolist() == [1, 2, 3] * 2
    assert found.pt.tolist() == PT * 2
    assert uproot.open(path)["dir/t"].arrays(["pt"])["pt"].tolist() == PT * 2


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("call", ["mktree", "mkrntuple"])
def test_types_make_an_empty_tree(tmp_path: Path, call: str, types: str) -> None:
    path = tmp_path / "out.root"
    with branchline.recreate(path) as file:
        tree = getattr(file, call)("t", TYPES[types])
        assert tree.num_entries == 0
        tree.extend(DATA["dict"])
    assert branchline.open(path)["t"].arrays(["pt"]).pt.tolist() == PT


@pytest.mark.parametrize("call", ["mktree", "mkrntuple"])
def test_a_structured_array_is_data_and_its_type_a_type(tmp_path: Path, call: str) -> None:
    rows = np.array([(1, 2.5), (3, 4.5)], dtype=[("n", "i4"), ("e", "f4")])
    with branchline.recreate(tmp_path / "out.root") as file:
        getattr(file, call)("filled", rows)
        getattr(file, call)("empty", rows.dtype)
    found = branchline.open(tmp_path / "out.root")
    assert found["filled"].arrays().tolist() == [{"n": 1, "e": 2.5}, {"n": 3, "e": 4.5}]
    assert found["empty"].num_entries == 0
    assert found["empty"].typenames() == found["filled"].typenames()


@pytest.mark.parametrize("call", ["mktree", "mkrntuple"])
def test_types_among_data_are_refused_and_leave_nothing(tmp_path: Path, call: str) -> None:
    refused: list[tuple[Any, type[Exception], str]] = [
        ({"x": "int64", "pt": PT}, branchline.OptionError, "types for all branches, or values for all"),
        ({"x": [1, 2], "pt": PT}, branchline.OptionError, "different lengths"),
    ]
    with branchline.recreate(tmp_path / "out.root") as file:
        file["note"] = "kept"
        for given, error, message in refused:
            with pytest.raises(error, match=message):
                getattr(file, call)("t", given)
            assert file.keys(cycle=False) == ["note"]
    assert branchline.open(tmp_path / "out.root").keys(cycle=False) == ["note"]


def test_counters_may_be_among_the_data(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "out.root") as file:
        file.mktree("t", {"njet": [2, 0, 1], "jet": ak.Array({"pt": PT})["pt"]})
    found = branchline.open(tmp_path / "out.root")["t"].arrays()
    assert found.njet.tolist() == [2, 0, 1]
    assert found.jet.tolist() == PT


@pytest.mark.parametrize(
    "make", [lambda file, data: file.mkrntuple("n", data), lambda file, data: file.update({"n": data})]
)
def test_tuples_are_written(tmp_path: Path, make: Callable[[Any, Any], Any]) -> None:
    pairs = ak.Array([(1, 2.5), (3, 4.5)])
    with branchline.recreate(tmp_path / "out.root") as file:
        make(file, {"pair": pairs})
        file.mkrntuple("typed", {"pair": pairs.type}).extend({"pair": pairs})
    found = branchline.open(tmp_path / "out.root")
    assert found["typed"].arrays().pair.tolist() == [(1, 2.5), (3, 4.5)]
    assert found["n"].num_entries == 2


@pytest.mark.parametrize("call", ["mktree", "mkrntuple"])
def test_a_mapping_of_arrays_is_a_record(tmp_path: Path, call: str) -> None:
    record = {"a": np.array([1.5, 2.5]), "b": [[1], []]}
    with branchline.recreate(tmp_path / "out.root") as file:
        tree = getattr(file, call)("t", {"x": [1, 2], "r": record})
        tree.extend({"x": [3, 4], "r": record})
        with pytest.raises(branchline.OptionError, match="different lengths"):
            tree.extend({"x": [3], "r": {"a": [1.0], "b": [[1], []]}})
    found = uproot.open(tmp_path / "out.root")["t"].arrays()
    a, b = (found["r_a"], found["r_b"]) if call == "mktree" else (found["r"]["a"], found["r"]["b"])
    assert a.tolist() == [1.5, 2.5] * 2
    assert b.tolist() == [[1], []] * 2


def test_lists_of_records_alone_become_branches_of_their_members(tmp_path: Path) -> None:
    lists = ak.Array([[{"x": 1, "y": 1.5}, {"x": 2, "y": 2.5}], []])
    with branchline.recreate(tmp_path / "out.root") as file:
        file.mktree("t", lists).extend(lists)
        with pytest.raises(branchline.OptionError, match="needs a column name"):
            file.mkrntuple("n", lists)
    found = uproot.open(tmp_path / "out.root")["t"].arrays()
    assert found.n.tolist() == [2, 0] * 2
    assert found.x.tolist() == [[1, 2], []] * 2
    assert found.y.tolist() == [[1.5, 2.5], []] * 2


@pytest.mark.parametrize("call", ["mktree", "mkrntuple"])
def test_the_index_of_a_frame_is_a_column(tmp_path: Path, call: str) -> None:
    frame = pd.DataFrame({"x": [1, 2]}, index=[7, 9])
    with branchline.recreate(tmp_path / "out.root") as file:
        getattr(file, call)("t", frame).extend(frame)
        getattr(file, call)("without", {"x": "int64"}).extend(frame)
        getattr(file, call)("text", frame.set_index(pd.Index(["a", "b"])))
        with pytest.raises(branchline.OptionError, match="2 levels"):
            getattr(file, call)("levels", frame.set_index([[1, 2], [3, 4]]))
    found = branchline.open(tmp_path / "out.root")
    assert found["t"].arrays(["index"])["index"].tolist() == [7, 9, 7, 9]
    assert found["without"].keys() == ["x"]
    assert found["text"].arrays(["index"])["index"].tolist() == ["a", "b"]


def test_assigned_tables_and_forms_are_ntuples(tmp_path: Path) -> None:
    data = ak.Array({"x": [1, 2, 3], "pt": PT})
    with branchline.recreate(tmp_path / "out.root") as file:
        file["filled"] = data
        file["empty"] = data.layout.form
    found = uproot.open(tmp_path / "out.root")
    assert found.classnames(cycle=False) == dict.fromkeys(("filled", "empty"), "ROOT::RNTuple")
    assert found["filled"].arrays().tolist() == data.tolist()
    assert found["empty"].num_entries == 0
