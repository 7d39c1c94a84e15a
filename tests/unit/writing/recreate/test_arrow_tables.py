"""Tables and arrays of pyarrow become trees, and Parquet files ROOT files, whatever their lists hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import branchline
from branchline.errors import OptionError, UnsupportedBranchError
from branchline.writing.merging.convert import convert

HITS = pa.struct([("pt", pa.float32()), ("layers", pa.int16())])
TABLE = pa.table(
    {
        "x": pa.array([1.0, 2.0, 3.0]),
        "lists": pa.array([[], [1.5], []], pa.list_(pa.float32())),
        "none": pa.array([[], [], []], pa.list_(pa.float64())),
        "nested": pa.array([[], [[1, 2], []], [[]]], pa.list_(pa.list_(pa.int32()))),
        "hits": pa.array([[], [{"pt": 1.5, "layers": 3}], []], pa.list_(HITS)),
        "words": pa.array([["a", "bc"], [], [""]]),
        "text": pa.array(["one", "", "three"]).dictionary_encode(),
    }
)
MISSING = {
    "number": pa.array([1.0, None, 3.0]),
    "list": pa.array([[1.0], None, []], pa.list_(pa.float32())),
    "element": pa.array([[1.0], [None], []], pa.list_(pa.float32())),
}
UNKNOWN = {
    "nothing": pa.array([None, None], pa.null()),
    "empty": pa.array([[], []], pa.list_(pa.null())),
    "inside": pa.array([{"a": None}, {"a": None}], pa.struct([("a", pa.null())])),
    "elements": pa.array([[None], []], pa.list_(pa.null())),
}


def saved(table: pa.Table, folder: Path, **how: Any) -> Path:
    pq.write_table(table, folder / "in.parquet", **how)
    return folder / "in.parquet"


def same_values(tree: Any) -> None:
    rows = TABLE.to_pylist()
    for name in ("x", "lists", "none", "nested", "words", "text"):
        assert tree[name].array().to_list() == [row[name] for row in rows], name


@pytest.mark.parametrize("groups", [1, 3])
def test_a_parquet_file_with_empty_lists_becomes_a_tree(tmp_path: Path, groups: int) -> None:
    made = convert(saved(TABLE, tmp_path, row_group_size=groups), tmp_path / "out.root", to="ttree")
    assert (made.kind, made.entries) == ("ttree", 3)
    tree = branchline.open(tmp_path / "out.root")["Events"]
    same_values(tree)
    assert tree["hits.pt"].array().to_list() == [[], [1.5], []]


@pytest.mark.parametrize("to", ["rntuple", "parquet"])
def test_it_becomes_an_rntuple_and_a_parquet_file(tmp_path: Path, to: Any) -> None:
    path = tmp_path / ("out.parquet" if to == "parquet" else "out.root")
    convert(saved(TABLE, tmp_path), path, to=to)
    same_values(branchline.open(path).tree())


@pytest.mark.parametrize("name", MISSING)
def test_what_is_really_missing_is_named_and_an_rntuple_holds_it(tmp_path: Path, name: str) -> None:
    path = saved(pa.table({"x": [1, 2, 3], name: MISSING[name]}), tmp_path)
    with pytest.raises(UnsupportedBranchError, match=f"{name}: a TTree branch cannot store values that may be miss"):
        convert(path, tmp_path / "out.root")
    assert [one.name for one in tmp_path.iterdir()] == ["in.parquet"]
    convert(path, tmp_path / "out.root", to="rntuple")
    assert branchline.open(tmp_path / "out.root")["Events"][name].array().to_list() == MISSING[name].to_pylist()


def test_what_is_missing_behind_the_first_chunk_is_named(tmp_path: Path) -> None:
    full, other = pa.table({"x": [[1.0], []]}), pa.table({"x": pa.array([[1.0], None], pa.list_(pa.float64()))})
    pq.write_table(full, tmp_path / "a.parquet")
    pq.write_table(other, tmp_path / "b.parquet")
    with pytest.raises(UnsupportedBranchError, match="x: values are missing, which a TTree cannot store") as refused:
        convert([tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "out.root")
    assert "rntuple" in str(refused.value)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.parquet", "b.parquet"]


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.parametrize("to", ["rntuple", "ttree"])
def test_values_of_no_type_are_named_and_the_rest_is_converted(tmp_path: Path, name: str, to: Any) -> None:
    path = saved(pa.table({"x": [1, 2], name: UNKNOWN[name]}), tmp_path)
    with pytest.raises(UnsupportedBranchError, match=rf"{name}\S*: .*(unknown type|may be missing)") as refused:
        convert(path, tmp_path / "out.root", to=to)
    assert f"--drop '{name}'" in str(refused.value)
    convert(path, tmp_path / "out.root", to=to, drop=[name])
    assert branchline.open(tmp_path / "out.root")["Events"].arrays().to_list() == [{"x": 1}, {"x": 2}]


@pytest.mark.parametrize("name", UNKNOWN)
def test_values_of_no_type_stay_in_a_parquet_file(tmp_path: Path, name: str) -> None:
    table = pa.table({"x": [1, 2], name: UNKNOWN[name]})
    convert(saved(table, tmp_path), tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == table.to_pylist()


@pytest.mark.parametrize("form", ["table", "batch", "arrays", "awkward", "sliced"])
def test_tables_of_pyarrow_are_written(tmp_path: Path, form: str) -> None:
    given: Any = {
        "table": TABLE,
        "batch": TABLE.to_batches()[0],
        "arrays": {name: TABLE[name] for name in TABLE.column_names},
        "awkward": ak.from_arrow(TABLE),
        "sliced": pa.concat_tables([TABLE, TABLE]).slice(3),
    }[form]
    with branchline.recreate(tmp_path / "out.root") as file:
        file.mktree("tree", given)
        file["tree"].extend(given)
        file.mkrntuple("ntuple", given)
        file.mktree("none", TABLE.slice(0, 0))
    opened = branchline.open(tmp_path / "out.root")
    assert opened["tree"].num_entries == 6
    assert opened["tree"]["lists"].array().to_list() == 2 * TABLE["lists"].to_pylist()
    assert opened["tree"]["nlists"].array().to_list() == [0, 1, 0] * 2
    assert opened["tree"]["hits_layers"].array().to_list() == [[], [3], []] * 2
    assert opened["tree"]["text"].array().to_list() == ["one", "", "three"] * 2
    # A record that may be missing has members that may be missing: ROOT has no class for it.
    assert opened["ntuple"].arrays().to_list() == TABLE.to_pylist()
    assert str(opened["ntuple"]["hits"].array().type.content) == "var * {pt: ?float32, layers: ?int16}"
    assert (opened["none"].num_entries, opened["none"]["nested"].typename) == (0, opened["tree"]["nested"].typename)


def test_what_is_missing_in_a_table_is_named(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "out.root") as file:
        file.mktree("tree", TABLE.select(["x"]))
        with pytest.raises(OptionError, match="x: values are missing, which a TTree cannot store"):
            file["tree"].extend(pa.table({"x": [1.0, None]}))
        for name, values in MISSING.items():
            with pytest.raises(UnsupportedBranchError, match=f"{name}: a TTree branch cannot store values that may"):
                file.mktree(name, pa.table({name: values}))
        with pytest.raises(UnsupportedBranchError, match="the type of empty is unknown"):
            file.mktree("unknown", pa.table({"empty": UNKNOWN["empty"]}))
        with pytest.raises(UnsupportedBranchError, match="may be missing"):
            file.mktree("typed", {"x": "?float32"})
        with pytest.raises(OptionError, match="price: decimal"):
            file.mktree("decimals", pa.table({"price": pa.array([1, 2], pa.decimal128(5))}))
    assert branchline.open(tmp_path / "out.root")["tree"].num_entries == 3
