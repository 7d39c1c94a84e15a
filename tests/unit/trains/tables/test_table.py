"""Tables as wagons return them: their columns, their types, and what is refused."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np
import pytest

from branchline.errors import OptionError, TableError
from branchline.trains.tables.table import Table, found, replaced


def test_columns_have_types_by_name() -> None:
    columns = {
        "number": np.arange(3, dtype="f4"),
        "jagged": ak.Array([[1.5], [], [2.5, 3.5]]),
        "fixed": np.zeros((3, 2), dtype="i2"),
        "text": ["a", "", "b"],
        "flag": ak.Array([True, False, True])[ak.Array([2, 1, 0])],
    }
    table = Table(columns)
    assert len(table) == 3
    assert table.types == {
        "number": "float32",
        "jagged": "var * float64",
        "fixed": "2 * int16",
        "text": "string",
        "flag": "bool",
    }
    assert ak.to_list(table.chunk().flag) == [True, False, True]


MUONS = ak.zip({"pt": [[1.0, 2.0], []], "eta": [[0.5, 0.1], []]})


def test_records_are_branches_of_a_tree_and_stay_records_elsewhere() -> None:
    assert Table({"mu": MUONS}).types == {"mu_pt": "var * float64", "mu_eta": "var * float64"}
    assert Table({"mu": MUONS}, format="rntuple").types == {"mu": "var * {pt: float64, eta: float64}"}
    assert Table(ak.zip({"mu": MUONS, "n": [2, 0]}, depth_limit=1), format="parquet").types["n"] == "int64"


@pytest.mark.parametrize(
    ("columns", "settings", "message"),
    [
        ({"a": [1, 2], "b": [1]}, {}, "different lengths: a 2, b 1"),
        ({"a": 3.5}, {}, "column 'a'"),
        ({}, {}, "at least one column"),
        ([1, 2], {}, "arrays by name, got list"),
        (ak.Array([1, 2]), {}, "an array without fields"),
        ({"a.b": [1]}, {}, "invalid column name 'a.b'"),
        ({"a": ak.Array([1, None])}, {}, "missing values, which a TTree cannot store"),
        ({"a": [1]}, {"format": "csv"}, "unknown table format 'csv'"),
        ({"mu": MUONS, "mu_pt": [1, 2]}, {}, "two columns are called 'mu_pt'"),
    ],
)
def test_what_is_no_table_is_refused(columns: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises((TableError, OptionError), match=message):
        Table(columns, **settings)


def test_tables_are_found_under_keys() -> None:
    table = Table({"a": [1]})
    output = {"x": (1, {"y": table}), "z": [2]}
    assert [key for key, _ in found(output, Table)] == [("x", "1", "y")]
    changed = replaced(output, Table, lambda _key, one: len(one))
    assert changed == {"x": (1, {"y": 1}), "z": [2]}
    assert output["x"][1]["y"] is table
    without = {"z": [2]}
    assert replaced(without, Table, lambda _key, _one: None) is without
    with pytest.raises(TableError, match="in a list"):
        found([table], Table)
