"""The memory of arrays that are written is read where it is."""

from __future__ import annotations

import awkward as ak
import numpy as np

from branchline.writing.columns.columns import column_of, lists_of
from branchline.writing.recreate.values import Naming, branches_of, layout_of


def test_neither_offsets_nor_numbers_of_lists_are_copied() -> None:
    offsets, numbers = np.array([0, 2, 2, 5]), np.arange(5.0)
    given = ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(offsets), ak.contents.NumpyArray(numbers)))
    layout = layout_of(given, "x")
    (branch,) = branches_of("x", layout, Naming())
    column = column_of(branch.layout, "x")
    for part, whole in ((column.offsets, offsets), (column.content.values, numbers)):
        assert np.shares_memory(np.frombuffer(part, "u1"), whole)


def test_lists_from_elsewhere_begin_at_0() -> None:
    content = ak.contents.NumpyArray(np.arange(5.0))
    part = ak.contents.ListOffsetArray(ak.index.Index32(np.array([0, 2, 2, 5], "i4")), content)[1:]
    lists = lists_of(part)
    assert lists.offsets.data.tolist() == [0, 0, 3]
    assert lists.offsets.data.dtype == np.int64
    assert layout_of(ak.Array(part), "x").to_list() == [[], [2.0, 3.0, 4.0]]
