"""Frames and series of polars, pandas and pyarrow keep every type and name in trees, or are refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import branchline
from branchline.writing.recreate.values import layout_of

#: Types of columns, with values of which some are at the ends of what the type holds.
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False, True]),
    "int8": (pa.int8(), [-128, 127, 0]),
    "uint8": (pa.uint8(), [0, 255, 7]),
    "int16": (pa.int16(), [-(2**15), 2**15 - 1, 3]),
    "uint16": (pa.uint16(), [0, 2**16 - 1, 3]),
    "int32": (pa.int32(), [-(2**31), 2**31 - 1, 3]),
    "uint32": (pa.uint32(), [0, 2**32 - 1, 3]),
    "int64": (pa.int64(), [2**60 + 1, -(2**63), 2**63 - 1]),
    "uint64": (pa.uint64(), [2**64 - 1, 2**60 + 1, 0]),
    "float32": (pa.float32(), [1.5, -0.25, 3.0]),
    "float64": (pa.float64(), [0.1, -1e300, 3.0]),
    "text": (pa.string(), ["pt", "", "\u00e9ta"]),
    "lists of float32": (pa.list_(pa.float32()), [[1.5, 2.5], [], [3.5]]),
    "lists of uint8": (pa.list_(pa.uint8()), [[255], [], [1, 2]]),
    "lists of bool": (pa.list_(pa.bool_()), [[True], [], [False, True]]),
    "lists of int64": (pa.list_(pa.int64()), [[2**60 + 1], [], [-1]]),
    "empty lists": (pa.list_(pa.int16()), [[], [], []]),
    "arrays": (pa.list_(pa.int32(), 2), [[1, 2], [3, 4], [5, 6]]),
    "records": (pa.struct([("x", pa.int16()), ("y", pa.float32())]), [{"x": 1, "y": 2.5}, {"x": -3, "y": 4.5}] * 2),
    "lists of records": (
        pa.list_(pa.struct([("pt", pa.float32()), ("n", pa.uint8())])),
        [[{"pt": 1.5, "n": 255}], [], [{"pt": 2.5, "n": 1}] * 2],
    ),
}
NUMBERS = [name for name, (kind, _) in VALUES.items() if not pa.types.is_nested(kind) and name != "text"]


def of_polars(column: pa.Array) -> Any:
    return pl.DataFrame({"a": pl.from_arrow(column)})


def of_arrow_backed_pandas(column: pa.Array) -> Any:
    return pd.DataFrame({"a": pd.Series(column, dtype=pd.ArrowDtype(column.type))})


def of_pyarrow(column: pa.Array) -> Any:
    return pa.table({"a": column})


def of_series(column: pa.Array) -> Any:
    return {"a": pl.from_arrow(column)}


def of_pandas_series(column: pa.Array) -> Any:
    return {"a": pd.Series(column, dtype=pd.ArrowDtype(column.type))}


FRAMES = [of_polars, of_arrow_backed_pandas, of_pyarrow, of_series, of_pandas_series]


def written(folder: Path, values: Any, kind: str) -> Any:
    """What is read of a tree of these values."""
    with branchline.recreate(folder / "out.root") as file:
        getattr(file, kind)("t", values)
    return branchline.open(folder / "out.root")["t"].arrays(library="ak")


def columns_of(column: pa.Array, kind: str) -> dict[str, tuple[pa.DataType, list[Any]]]:
    """The branches that a column becomes: in a TTree members of records are branches."""
    if kind == "mkrntuple":
        return {"a": (column.type, column.to_pylist())}
    if pa.types.is_struct(column.type):
        return {f"a_{one.name}": (one.type, column.field(one.name).to_pylist()) for one in column.type}
    if pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type):
        rows = column.to_pylist()
        return {
            f"a_{one.name}": (pa.list_(one.type), [[each[one.name] for each in row] for row in rows])
            for one in column.type.value_type
        }
    return {"a": (column.type, column.to_pylist())}


def number_type(kind: pa.DataType) -> str | None:
    """The type of the numbers in columns of a type; None for texts and records."""
    while pa.types.is_nested(kind) and not pa.types.is_struct(kind):
        kind = kind.value_type
    return None if pa.types.is_string(kind) or pa.types.is_struct(kind) else str(np.dtype(kind.to_pandas_dtype()))


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("make", FRAMES)
@pytest.mark.parametrize("kind", ["mktree", "mkrntuple"])
def test_every_type_is_kept(tmp_path: Path, make: Callable[[pa.Array], Any], name: str, kind: str) -> None:
    type_, values = VALUES[name]
    column = pa.array(values, type_)
    found = written(tmp_path, make(column), kind)
    for branch, (wanted_type, wanted) in columns_of(column, kind).items():
        assert found[branch].tolist() == wanted
        if (number := number_type(wanted_type)) is not None:
            # A column of Arrow may miss values, by its type.
            assert str(found[branch].type).split(" ")[-1].strip("?]") == number


@pytest.mark.parametrize("name", [*NUMBERS, "text"])
@pytest.mark.parametrize("make", FRAMES)
def test_missing_values_are_refused_in_a_ttree_and_kept_in_an_rntuple(
    tmp_path: Path, make: Callable[[pa.Array], Any], name: str
) -> None:
    type_, values = VALUES[name]
    column = pa.array([*values[:2], None], type_)
    with pytest.raises(branchline.UnsupportedBranchError, match="may be missing"):
        written(tmp_path, make(column), "mktree")
    found = written(tmp_path, make(column), "mkrntuple")
    assert found["a"].tolist() == [*values[:2], None]


@pytest.mark.parametrize("name", ["text", "lists of float32", "lists of records", "int8"])
@pytest.mark.parametrize("make", FRAMES)
def test_columns_without_entries_have_their_type(tmp_path: Path, make: Callable[[pa.Array], Any], name: str) -> None:
    found = written(tmp_path, make(pa.array([], VALUES[name][0])), "mktree")
    assert len(found) == 0
    assert set(columns_of(pa.array([], VALUES[name][0]), "mktree")) <= set(found.fields)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_frame_as_a_column_is_a_column_of_records(tmp_path: Path, frame: Callable[[Any], Any]) -> None:
    inner = frame({"x": [1.5, 2.5], "y": [2**60 + 1, 5]})
    found = written(tmp_path, {"n": [1, 2], "b": inner}, "mktree")
    assert found["b_x"].tolist() == [1.5, 2.5]
    assert found["b_y"].tolist() == [2**60 + 1, 5]


def test_series_of_texts_are_columns(tmp_path: Path) -> None:
    for series in (pd.Series(["x", "y"]), pd.Series(["x", "y"], dtype="string"), pl.Series(["x", "y"])):
        assert written(tmp_path, {"s": series}, "mktree")["s"].tolist() == ["x", "y"]


@pytest.mark.parametrize("values", [["2020-01-01"], ["2020-01-01", None], []])
@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("is_index", [False, True])
def test_times_of_pandas_are_refused_by_their_type(
    tmp_path: Path, zone: str | None, values: list[str | None], is_index: bool
) -> None:
    times = pd.Series(pd.to_datetime(values)).dt.tz_localize(zone)
    frame = pd.DataFrame({"a": range(len(values))}, index=times) if is_index else pd.DataFrame({"a": times})
    with (
        branchline.recreate(tmp_path / "out.root") as file,
        pytest.raises(branchline.UnsupportedBranchError, match=r"type datetime64\[\w+\] cannot be converted"),
    ):
        file["t"] = frame


def test_nullable_integers_of_pandas_are_refused_where_some_are_missing(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": pd.Series([2**60 + 1, None], dtype="Int64")})
    with pytest.raises(branchline.UnsupportedBranchError, match="may be missing"):
        written(tmp_path, frame, "mktree")
    assert written(tmp_path, frame, "mkrntuple")["a"].tolist() == [2**60 + 1, None]


def test_empty_parts_of_columns_hold_nothing(tmp_path: Path) -> None:
    whole = pa.array([1, 2], pa.uint32())
    table = pa.table({"a": pa.chunked_array([whole[1:1], whole[1:2]])})
    # Tables that pass from library to library as Arrow streams, as this copy does.
    assert written(tmp_path, pa.table(table), "mktree")["a"].tolist() == [2]


@pytest.mark.parametrize("name", [*NUMBERS, "text", "lists of bool", "arrays", "records"])
def test_slices_hold_their_own_values(tmp_path: Path, name: str) -> None:
    type_, values = VALUES[name]
    values = [*values[:1], None, *values[1:3], None]
    kept = [{"x": None, "y": None} if name == "records" and one is None else one for one in values]
    for start in range(4):
        sliced = pa.array(values, type_)[start:]
        for column in (sliced, pl.from_arrow(pa.array(values, type_))[start:]):
            assert written(tmp_path, {"a": column}, "mkrntuple")["a"].tolist() == kept[start:]


def test_arrays_of_records_are_no_lists(tmp_path: Path) -> None:
    type_ = pa.list_(pa.struct([("x", pa.int16())]), 2)
    values = [[{"x": 1}, {"x": 2}], [{"x": 3}, {"x": 4}]]
    assert written(tmp_path, pa.table({"a": pa.array(values, type_)}), "mkrntuple")["a"].tolist() == values
    with pytest.raises(branchline.UnsupportedBranchError, match="branch a: arrays of records are missing"):
        written(tmp_path, pa.table({"a": pa.array([*values, None], type_)}), "mkrntuple")


def test_random_frames_are_read_again_as_they_were(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    drawn = random.Random(seed)
    for _ in range(60):
        names = drawn.sample(list(VALUES), drawn.randrange(1, 6))
        count = drawn.randrange(0, 20)
        columns = {
            f"c{number}": pa.array([drawn.choice(VALUES[name][1]) for _ in range(count)], VALUES[name][0])
            for number, name in enumerate(names)
        }
        make = drawn.choice([pl.from_arrow, pa.table, lambda one: one.to_pandas(types_mapper=pd.ArrowDtype)])
        found = written(tmp_path, make(pa.table(columns)), "mkrntuple")
        assert {name: found[name].tolist() for name in columns} == {
            name: column.to_pylist() for name, column in columns.items()
        }


def test_records_may_have_fields_that_are_named_as_methods_of_frames(tmp_path: Path) -> None:
    hits = ak.Array([[{"columns": 1, "to_arrow": 2, "dtype": 3}], [], [{"columns": 4, "to_arrow": 5, "dtype": 6}]])
    assert written(tmp_path, {"hit": hits}, "mkrntuple")["hit"].tolist() == hits.tolist()
    found = written(tmp_path, {"hit": hits}, "mktree")
    assert found["hit_columns"].tolist() == [[1], [], [4]]


def test_slices_with_columns_of_nothing_hold_their_own_values(tmp_path: Path) -> None:
    # pyarrow damages such arrays where it casts them, even to the type that they have.
    type_ = pa.struct([("n", pa.int32()), ("nothing", pa.null())])
    whole = pa.array([{"n": number, "nothing": None} for number in range(5)], type_)
    frame = pa.table({"a": whole}).slice(2).to_pandas(types_mapper=pd.ArrowDtype)
    found = layout_of(frame["a"], "a")
    assert found.to_list() == [{"n": number, "nothing": None} for number in (2, 3, 4)]
    assert layout_of(pa.array([[None, None], [None]], pa.list_(pa.null())), "a").to_list() == [[None, None], [None]]
