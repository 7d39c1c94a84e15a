"""Numbers as people read them."""

from __future__ import annotations

import pytest

from branchline.base.quantities import (
    count,
    counted,
    duration,
    percent,
    rate,
    ratio,
    share,
    shares,
    significant,
    size,
    weights_column,
    whole_share,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (999, "999 B"), (999.7, "1.00 kB"), (1000, "1.00 kB"), (61_400, "61.4 kB"), (4_200_000, "4.20 MB"),
     (999_600, "1.00 MB"), (1.5e12, "1.50 TB"), (2.5e18, "2 500 PB")],
)  # fmt: skip
def test_sizes_are_powers_of_ten_with_three_digits(value: float, text: str) -> None:
    assert size(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.00042, "0.42 ms"), (0.35, "350 ms"), (0.9996, "1.00 s"), (3.214, "3.21 s"), (45.28, "45.3 s"),
     (119.4, "119 s"), (119.6, "2 min"), (725, "12 min 5 s"), (7169, "119 min 29 s"), (11_520, "3 h 12 min"),
     (7200, "2 h")],
)  # fmt: skip
def test_durations_use_the_unit_that_a_person_would(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(68.2, 100, "68 %"), (1, 1, "100 %"), (0.5, 100, "0.5 %"), (0.01, 100, "< 0.1 %"), (0, 100, "0 %"), (1, 0, "-")],
)
def test_small_shares_never_read_as_zero(part: float, whole: float, text: str) -> None:
    assert percent(part, whole) == text


def test_counts_have_their_thousands_apart_and_their_noun_in_the_right_form() -> None:
    assert count(12_300) == "12 300"
    assert counted(1, "file") == "1 file"
    assert counted(0, "file") == "0 files"
    assert counted(2, "branch", "branches") == "2 branches"


def test_nothing_is_divided_by_zero() -> None:
    assert rate(1e6, 0) == "-"
    assert ratio(1, 0) == "-"
    assert significant(float("nan")) == "-"
    assert rate(2.5e6, 2) == "1.25 MB/s"
    assert ratio(9.4, 3.05, 2) == "3.1"


@pytest.mark.parametrize(
    "parts", [[1, 1, 1], [0.287, 0.014, 0.0095, 0.0084, 0.013, 5.4, 0.02, 2.75, 0.00015, 0.018], [1e-9, 1, 0], [5]]
)
def test_shares_of_parts_add_up_to_all_of_it(parts: list[float]) -> None:
    tenths = shares(parts)
    assert sum(tenths) == 1000
    for part, one in zip(parts, tenths, strict=True):
        assert abs(one - 1000 * part / sum(parts)) < 1


def test_shares_of_nothing_are_nothing() -> None:
    assert shares([0.0, 0.0]) == [0, 0]
    assert shares([]) == []


@pytest.mark.parametrize(
    ("tenths", "part", "exact", "whole"),
    [(634, 5, "63.4 %", "63 %"), (635, 5, "63.5 %", "64 %"), (9, 5, "0.9 %", "0.9 %"), (0, 1e-9, "< 0.1 %", "< 0.1 %"),
     (0, 0, "0.0 %", "0.0 %"), (1000, 1, "100.0 %", "100 %")],
)  # fmt: skip
def test_a_share_reads_alike_in_a_table_and_in_a_sentence(tenths: int, part: float, exact: str, whole: str) -> None:
    assert share(tenths, part) == exact
    assert whole_share(tenths, part) == whole


@pytest.mark.parametrize(
    ("totals", "texts"),
    [
        ([], []),
        ([12345.0, 7.0, 0.0], ["12 345", "7", "0"]),
        ([12345.0, 523.4, 8.25, 0.0], ["12 345.000", "523.400", "8.250", "0.000"]),
        ([1234567.8, 234567.25], ["1 234 568", "234 567"]),
        ([0.5, 0.0123456], ["0.500000", "0.012346"]),
        ([3.5, -1e-17, float("inf")], ["3.50000", "0.00000", "-"]),
        ([-2.5, 1.0], ["-2.50000", "1.00000"]),
    ],
)
def test_weights_of_one_column_have_the_same_number_of_decimals(totals: list[float], texts: list[str]) -> None:
    assert weights_column(totals) == texts
