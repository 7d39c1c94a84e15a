"""Parts of a file begin at entries where few baskets have to be read for two parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import branchline

ENTRIES, NUMBERS = 1000, 40
# Sizes of baskets in bytes. ROOT reserves part of the buffer, so a small basket has 99 entries of 40 numbers.
SMALL_BASKET, LARGE_BASKET = 32_000, 10_000_000


def write(root: Any, path: Path, flush: int, numbers_of_other: int) -> None:
    """Write a tree with a branch of random numbers in small baskets, and a branch whose baskets only end at cluster
    boundaries.
    """
    file = root.TFile(str(path), "RECREATE")
    tree = root.TTree("events", "")
    values, others = np.zeros(NUMBERS), np.zeros(numbers_of_other)
    tree.Branch("values", values, f"values[{NUMBERS}]/D", SMALL_BASKET)
    tree.Branch("others", others, f"others[{numbers_of_other}]/D", LARGE_BASKET)
    tree.SetAutoFlush(flush)
    random = np.random.default_rng(1)
    for _ in range(ENTRIES):
        values[:], others[:] = random.random(NUMBERS), random.random(numbers_of_other)
        tree.Fill()
    tree.Write()
    file.Close()


@pytest.mark.peer
@pytest.mark.parametrize(
    ("flush", "numbers_of_other", "borders"),
    [
        pytest.param(250, 30, list(range(0, ENTRIES, 250)), id="clusters"),
        pytest.param(0, 30, [0], id="a large basket is not read for two parts"),
        pytest.param(0, 1, list(range(0, ENTRIES, 99))[::2], id="a small one is, for parts eight times as large"),
    ],
)
def test_parts_begin_where_little_is_read_twice(
    root: Any, tmp_path: Path, flush: int, numbers_of_other: int, borders: list[int]
) -> None:
    path = tmp_path / "events.root"
    write(root, path, flush, numbers_of_other)
    with branchline.open(path) as file:
        assert file["events"].basket_borders() == borders
