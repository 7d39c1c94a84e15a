"""What stands in Parquet files for values that Parquet has no types for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from branchline.writing.columns.parquet_writer import _stored

NOTHING = ak.contents.RecordArray([], [], length=3)
EITHER = ak.contents.UnionArray(
    ak.index.Index8(np.array([0, 1, 2, 1], "i1")),
    ak.index.Index64([0, 0, 0, 1]),
    [
        ak.contents.IndexedOptionArray(ak.index.Index64([-1]), ak.contents.EmptyArray()),
        ak.contents.IndexedOptionArray(ak.index.Index64([0, 1]), ak.contents.NumpyArray(np.array([5, 6]))),
        ak.contents.IndexedOptionArray(ak.index.Index64([0]), ak.from_iter(["text"], highlevel=False)),
    ],
)
EITHERS = [{"_0": None, "_1": None}, {"_0": 5, "_1": None}, {"_0": None, "_1": "text"}, {"_0": 6, "_1": None}]


def written(layout: Any, folder: Path) -> list[Any]:
    array = ak.to_arrow(ak.transform(_stored, ak.Array(layout)), extensionarray=False)
    pq.write_table(pa.table({"x": array}), folder / "x.parquet")
    values: list[Any] = pq.read_table(folder / "x.parquet")["x"].to_pylist()
    return values


def test_records_without_members_are_nothing_but_there(tmp_path: Path) -> None:
    lists = ak.contents.ListOffsetArray(ak.index.Index64([0, 2, 2, 3]), NOTHING)
    assert written(lists, tmp_path) == [[None, None], [], [None]]
    maybe = ak.contents.IndexedOptionArray(ak.index.Index64([0, -1]), NOTHING)
    assert written(ak.contents.RecordArray([maybe], ["member"]), tmp_path) == [{"member": None}, {"member": None}]


def test_one_of_several_types_is_a_record_of_which_one_member_is_there(tmp_path: Path) -> None:
    assert written(EITHER, tmp_path) == EITHERS
    lists = ak.contents.ListOffsetArray(ak.index.Index64([0, 1, 1, 4]), EITHER)
    assert written(lists, tmp_path) == [EITHERS[:1], [], EITHERS[1:]]
    assert written(EITHER[:0], tmp_path) == []


def test_records_that_are_all_missing_hold_lists(tmp_path: Path) -> None:
    numbers = ak.contents.ListOffsetArray(ak.index.Index64([0]), ak.contents.NumpyArray(np.zeros(0)))
    inner = ak.contents.RecordArray([numbers], ["numbers"], length=0)
    missing = ak.contents.IndexedOptionArray(ak.index.Index64([-1, -1]), inner)
    assert written(missing, tmp_path) == [None, None]
