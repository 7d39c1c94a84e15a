"""Travel, gaps, clusters and pages of extents that are known."""

from __future__ import annotations

import numpy as np
import pytest

from branchline.reading.layout.extents import Extents, Spread


def extents(*rows: tuple[int, int, int, int, int]) -> Extents:
    """Rows of branch, offset, size, first entry, and the entry behind the last."""
    return Extents(*np.array(rows, "i8").reshape(-1, 5).T)


BY_ENTRY = extents((0, 100, 10, 0, 5), (1, 110, 20, 0, 5), (0, 130, 10, 5, 9), (1, 140, 20, 5, 9))
BY_BRANCH = extents((0, 100, 10, 0, 5), (0, 110, 10, 5, 9), (1, 120, 20, 0, 5), (1, 140, 20, 5, 9))


def test_baskets_in_the_order_of_entries_are_read_without_a_jump() -> None:
    travel = BY_ENTRY.travel()
    assert (travel.baskets, travel.wanted_bytes, travel.span_bytes) == (4, 60, 60)
    assert (travel.distance_bytes, travel.jumps, travel.jumps_back) == (0, 0, 0)


def test_baskets_in_the_order_of_branches_are_read_to_and_fro() -> None:
    travel = BY_BRANCH.travel()
    # From 110 on to 120, from 140 back to 110, from 120 on to 140.
    assert (travel.distance_bytes, travel.jumps, travel.jumps_back) == (10 + 30 + 20, 3, 1)


def test_what_is_not_wanted_lies_in_gaps() -> None:
    gaps = BY_ENTRY.of([0]).gaps()
    assert (gaps.count, gaps.total_bytes, gaps.largest_bytes) == (1, 20, 20)
    assert BY_ENTRY.gaps().count == 0


def test_clusters_are_where_all_branches_begin_anew() -> None:
    finer = extents((0, 0, 4, 0, 4), (0, 4, 4, 4, 8), (1, 8, 2, 0, 2), (1, 10, 2, 2, 4), (1, 12, 2, 4, 8))
    clusters = finer.clusters()
    assert clusters.count == 2
    assert clusters.entries == Spread.of([4, 4])
    assert clusters.stored_bytes == Spread.of([8, 6])
    # The first lies from 0 to 12, the second from 4 to 14.
    assert clusters.span == Spread.of([12 / 8, 10 / 6])


def test_branches_of_different_length_have_the_clusters_that_both_have() -> None:
    clusters = extents((0, 0, 4, 0, 4), (0, 4, 4, 4, 8), (1, 8, 2, 0, 4)).clusters()
    assert clusters.count == 1


def test_pages_are_shared_with_branches_that_are_not_wanted() -> None:
    pages = BY_ENTRY.of([0]).disk_pages(BY_ENTRY, 64)
    # 100 to 110 lies in page 1; 130 to 140 in page 2; so does branch 1.
    assert (pages.count, pages.with_others, pages.unwanted_bytes) == (2, 2, 128 - 20)
    assert BY_ENTRY.disk_pages(BY_ENTRY, 64).with_others == 0


def test_no_baskets_are_no_layout() -> None:
    nothing = extents()
    assert nothing.travel().baskets == nothing.gaps().count == nothing.clusters().count == 0
    assert nothing.disk_pages(BY_ENTRY, 64).count == 0


@pytest.mark.parametrize("numbers", [[], [3], [1, 2, 3, 4, 5]])
def test_a_spread_has_its_ends_and_its_middle(numbers: list[int]) -> None:
    spread = Spread.of(numbers)
    assert spread.least == min(numbers, default=0)
    assert spread.most == max(numbers, default=0)
    assert spread.median == (float(np.median(numbers)) if numbers else 0)
