"""Columns of the engine as awkward's layouts, where awkward has rules of its own."""

from __future__ import annotations

import awkward as ak
import numpy as np

from branchline._core import Column
from branchline.tree.arrays import layout_of


def numbers(dtype: str, *values: float) -> Column:
    return Column.Flat(dtype, memoryview(np.array(values, dtype).tobytes()))


def union(tags: list[int], *contents: Column) -> Column:
    return Column.Union(memoryview(np.array(tags, "i1").tobytes()), contents)


def test_a_variant_has_its_alternatives() -> None:
    array = ak.Array(layout_of(union([1, 0, 1], numbers("i4", 7), numbers("f8", 0.5, 1.5))))
    assert array.to_list() == [0.5, 7, 1.5]
    assert str(array.type) == "3 * union[int32, float64]"


def test_a_variant_of_variants_has_all_their_alternatives() -> None:
    inner = union([1, 0, 0], numbers("i4", 7, 8), numbers("f8", 0.5))
    array = ak.Array(layout_of(union([1, 0, 1, 1], numbers("i1", 3), inner)))
    assert array.to_list() == [0.5, 3, 7, 8]
    assert str(array.type) == "4 * union[int8, int32, float64]"


def test_a_variant_with_one_alternative_is_that() -> None:
    assert ak.Array(layout_of(union([0, 0], numbers("i4", 7, 8)))).to_list() == [7, 8]
