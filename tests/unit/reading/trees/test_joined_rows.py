"""Rows by index column: for any order of the rows, with and without sorting."""

from __future__ import annotations

import numpy as np
import pytest

from branchline.reading.trees.joined_trees import JoinedRows


def rows_of(found: JoinedRows, entries: int) -> list[list[int]]:
    every = found.first + np.arange(len(found.entries)) if found.rows is None else found.rows
    offsets = found.offsets(0, entries)
    return [every[offsets[one] : offsets[one + 1]].tolist() for one in range(entries)]


@pytest.mark.parametrize("dtype", ["i1", "i4", "i8", "u2", "u8", ">i4"])
@pytest.mark.parametrize("seed", range(5))
def test_each_entry_has_the_rows_that_refer_to_it(dtype: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    entries = int(random.integers(1, 120))
    lowest = 0 if "u" in dtype else -1
    index = random.integers(lowest, entries, int(random.integers(0, 300))).astype(dtype)
    for given in (index, np.sort(index), np.sort(index)[::-1]):
        found = JoinedRows.of(given)
        assert rows_of(found, entries) == [np.flatnonzero(given == one).tolist() for one in range(entries)]
        assert found.negative_count == np.sum(given < 0)
        for start, stop in ((0, entries), (entries // 3, entries // 2)):
            np.testing.assert_array_equal(found.offsets(start, stop), found.offsets(0, entries)[start : stop + 1])
            chosen = [row for rows in rows_of(found, entries)[start:stop] for row in rows]
            assert found.limits(start, stop) == ((min(chosen), max(chosen) + 1) if chosen else (0, 0))


@pytest.mark.parametrize(
    ("index", "rows", "first", "is_ascending"),
    [
        ([0, 0, 2], None, 0, True),
        ([0, 1, 1, -1, -1], None, 0, True),
        ([-1, -1, 0, 3], None, 2, True),
        ([0, -1, 3], [0, 2], 0, True),
        ([3, 0, -1, 3], [1, 0, 3], 0, False),
        ([-1], [], 0, True),
        ([], None, 0, True),
    ],
)
def test_only_unsorted_indices_are_sorted(
    index: list[int], rows: list[int] | None, first: int, *, is_ascending: bool
) -> None:
    found = JoinedRows.of(np.array(index, "i4"))
    assert (found.rows if found.rows is None else found.rows.tolist(), found.first) == (rows, first)
    assert found.is_ascending is is_ascending


def test_more_entries_than_the_type_of_the_index_has_values() -> None:
    assert rows_of(JoinedRows.of(np.array([127, 3], "i1")), 1000)[127] == [0]


def test_a_sorted_column_is_not_sorted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("sorted")

    monkeypatch.setattr(np, "argsort", refuse)
    assert len(JoinedRows.of(np.array([0, 0, 1, -1], "i4")).entries) == 3
