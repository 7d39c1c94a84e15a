"""What wagons return is added up, and never changed while somebody else holds it."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from typing import Any, NamedTuple, Self

import awkward as ak
import hist
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from branchline.trains.sums.accumulators import CannotAddError, Total, add


class Pair(NamedTuple):
    left: int
    right: int


def filled(values: list[float]) -> hist.Hist:
    histogram = hist.Hist.new.Reg(10, 0, 1, name="x").Weight()
    histogram.fill(values)
    return histogram


class Summed:
    """Knows only ``+=``."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __iadd__(self, other: Summed) -> Self:
        self.value += other.value
        return self


@pytest.mark.parametrize(
    ("first", "second", "total"),
    [
        (1, 2, 3),
        (1, 2.5, 3.5),
        (np.float32(1), np.float32(2), np.float64(3)),
        (None, 4, 4),
        (4, None, 4),
        (None, None, None),
        ({"a": 1}, {"b": 2, "a": 3}, {"a": 4, "b": 2}),
        ({"a": {"b": [1]}}, {"a": {"b": [2], "c": {3}}}, {"a": {"b": [1, 2], "c": {3}}}),
        ([1, 2], [3], [1, 2, 3]),
        ({1, 2}, {2, 3}, {1, 2, 3}),
        (frozenset({1}), frozenset({2}), frozenset({1, 2})),
        ((1, [2]), (3, [4]), (4, [2, 4])),
        (Pair(1, 2), Pair(3, 4), Pair(4, 6)),
        ("GeV", "GeV", "GeV"),
        (Counter(a=-1), Counter(a=-1), Counter(a=-2)),
    ],
)
def test_plain_things_add(first: Any, second: Any, total: Any) -> None:
    result = add(first, second)
    assert result == total
    assert type(result) is type(total)


def test_arrays_histograms_and_tables_add() -> None:
    assert add(np.arange(3), np.ones(3, int)).tolist() == [1, 2, 3]
    assert add(filled([0.1]), filled([0.1, 0.2])).sum().value == 3
    assert add(ak.Array([[1], []]), ak.Array([[2, 3]])).to_list() == [[1], [], [2, 3]]
    assert add(pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [2]}))["a"].to_list() == [1, 2]
    assert add(pa.table({"a": [1]}), pa.table({"a": [2]}))["a"].to_pylist() == [1, 2]
    assert add(Summed(1), Summed(2)).value == 3


def test_growing_categories_are_merged() -> None:
    def of(name: str) -> hist.Hist:
        histogram = hist.Hist.new.StrCat([], growth=True, name="process").Double()
        histogram.fill(process=name)
        return histogram

    assert list(add(of("zh"), of("ww")).axes[0]) == ["zh", "ww"]


def test_nothing_that_somebody_holds_is_changed() -> None:
    first = defaultdict(list, {"list": [1], "array": np.ones(2), "set": {1}, "hist": filled([0.5])})
    second = {"list": [2], "array": np.ones(2), "set": {2}, "hist": filled([0.5]), "new": [3]}
    before = pickle.dumps((first, second))
    total = add(first, second)
    add(total, second)["list"].append(99)
    assert pickle.dumps((first, second)) == before
    assert total["list"] == [1, 2]
    assert isinstance(total, defaultdict)
    kept = Summed(1)
    add(kept, Summed(2))
    assert kept.value == 1


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"a": {"b": 1}}, {"a": {"b": [1]}}, r"at \['a'\]\['b'\]: int and list cannot be added"),
        ((1, "x"), (1, "y"), r"at \[1\]: strings cannot be added unless they are equal"),
        ((1,), (1, 2), "tuples of 1 and of 2"),
        (np.ones(3), np.ones(1), r"shapes \(3,\) and \(1,\)"),
        (np.ones(3), 1.0, "shapes"),
        (object(), object(), "define __add__ in the class"),
        (1, "a", "strings"),
        ([1], {1}, "list"),
        (filled([]), hist.Hist.new.Reg(3, 0, 1).Weight(), r"hist\..*raised"),
        (pd.DataFrame({"a": [1]}), 3, "cannot be added"),
    ],
)
def test_what_does_not_add_says_where_and_why(first: Any, second: Any, message: str) -> None:
    with pytest.raises(CannotAddError, match=message) as caught:
        add(first, second)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


def test_an_output_that_does_not_add_leaves_the_sum_as_it_was() -> None:
    total = Total({"list": [1], "set": {1}, "table": pa.table({"a": [1]}), "n": 1})
    with pytest.raises(CannotAddError, match=r"at \['n'\]"):
        total.add({"list": [2], "set": {2}, "table": pa.table({"a": [2]}), "new": [3], "n": "x"})
    with pytest.raises(CannotAddError, match=r"at \['table'\]: cannot concatenate the two"):
        total.add({"list": [2], "table": pa.table({"b": ["x"]})})
    assert total.value == {"list": [1], "set": {1}, "table": pa.table({"a": [1]}), "n": 1}
    total.add({"list": [2], "table": pa.table({"a": [2]})})
    assert total.value["list"] == [1, 2]
    assert total.value["table"]["a"].to_pylist() == [1, 2]


def test_what_was_collected_is_not_copied_for_each_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows that are handed to the joining of tables, and the growth of lists, are linear in what is collected."""
    joined_rows = []
    concatenate = ak.concatenate
    monkeypatch.setattr(ak, "concatenate", lambda parts: joined_rows.append(sum(map(len, parts))) or concatenate(parts))
    total = Total()
    for index in range(100):
        total.add({"array": ak.Array([index] * 10), "list": [index] * 10, "keys": {index: 1}})
    grown = total._node._totals["list"]._node._grown
    assert len(total.value["array"]) == len(total.value["list"]) == 1000
    assert len(total.value["keys"]) == 100
    assert sum(joined_rows) == 1000
    total.add({"list": [1]})
    assert total._node._totals["list"]._node._grown is grown


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", ">i4", "f2", "f4", ">f4", "c8"])
@pytest.mark.parametrize("shape", [None, (), (3,), (2, 2)])
def test_small_numbers_add_in_64_bits(kind: str, shape: tuple[int, ...] | None) -> None:
    dtype = np.dtype(kind)
    largest = int(np.finfo(dtype).max) if dtype.kind in "fc" else np.iinfo(dtype).max
    one = dtype.type(largest) if shape is None else np.full(shape, largest, dtype)
    total = add({"n": one}, {"n": one})
    for _ in range(6):
        total = add(total, {"n": one})
    assert np.shape(total["n"]) == (shape or ())
    assert total["n"].dtype == {"i": np.int64, "u": np.int64, "f": np.float64, "c": np.complex128}[dtype.kind]
    assert np.all(total["n"] == 8 * largest)
    # One output alone has the type that sums have, in any collection.
    for alone in (Total(one).value, Total((one,)).value[0], Total({"a": {"b": one}}).value["a"]["b"]):
        assert alone.dtype == total["n"].dtype
        assert np.all(alone == largest)


def test_counters_in_floats_of_32_bits_do_not_stand_still() -> None:
    assert add(np.float32(2**24), np.float32(1)) == 2**24 + 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.int64(2**62), np.int64(2**62)),
        (np.int64(-(2**63)), np.int32(-1)),
        (np.int64(2**63 - 1), 1),
        (np.int64(1), 2**63 - 1),
        (np.uint64(2**64 - 1), np.uint64(1)),
        (np.uint64(2**64 - 1), np.int64(1)),
        (np.array([0, 2**62]), np.array([0, 2**62])),
        (np.array([0, 2**63], "u8"), np.array([0, 2**63], "u8")),
        (1.5e308, 1.5e308),
        (np.float64(1.5e308), 1.5e308),
        (np.array([0.0, -1.5e308]), np.array([0.0, -1.5e308])),
        (complex(1.5e308, 0), complex(1.5e308, 0)),
        (10**400, 0.5),
    ],
)
def test_a_sum_that_overflows_64_bits_is_refused_with_its_key(first: Any, second: Any) -> None:
    total = Total({"a": {"n": first}, "b": 1})
    with pytest.raises(CannotAddError, match=r"^at \['a'\]\['n'\]: .*(fit|large|out of bounds)"):
        total.add({"a": {"n": second}, "b": 1})
    assert total.value["b"] == 1


@pytest.mark.parametrize(
    ("first", "second", "total"),
    [
        (np.uint64(2**53 + 1), np.int64(-2), np.int64(2**53 - 1)),
        (np.array([2**53 + 1], "u8"), np.array([1]), np.array([2**53 + 2])),
        (np.uint64(2**63), np.uint64(1), np.uint64(2**63 + 1)),
        (2**70, 2**70, 2**71),
        (np.inf, 1.0, np.inf),
        (np.array([np.inf, np.nan]), np.array([1.0, 1.0]), np.array([np.inf, np.nan])),
        (np.bool_(True), np.bool_(False), np.bool_(True)),
        (True, True, 2),
        (np.array([True, False]), np.array([True, True]), np.array([True, True])),
        (np.longdouble("1e400"), np.longdouble("1e400"), np.longdouble("2e400")),
        (np.ma.masked_array([100, 100], [0, 1], "i1"), np.ma.masked_array([100, 1], [0, 0], "i1"), [200, None]),
    ],
)
def test_exact_sums_and_values_that_are_no_overflow(first: Any, second: Any, total: Any) -> None:
    with np.errstate(all="raise"):
        found = add(first, second)
    if isinstance(total, list):
        assert found.tolist() == total
        return
    assert np.array_equal(found, total, equal_nan=np.asarray(total).dtype.kind == "f")
    assert np.asarray(found).dtype == np.asarray(total).dtype
