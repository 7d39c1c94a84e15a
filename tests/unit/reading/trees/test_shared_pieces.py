"""Small baskets of objects are decoded to one piece together: the values and the errors are those of each basket."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.command_line import run_command

import branchline
from branchline import BadFileError

BASKETS_MIN = 20


@pytest.fixture
def small_baskets(tmp_path: Path) -> Path:
    """A tree of lists in lists in baskets of about 1 kB."""
    whole, small = tmp_path / "whole.root", tmp_path / "small.root"
    with branchline.recreate(whole, compression="zlib:1") as file:
        file.mktree("events", {"hits": _hits()})
    merged = run_command(["merge", str(whole), "-o", str(small), "--basket-size", "1 kB"])
    assert merged.exit_code == 0, merged.output
    return small


def _hits() -> ak.Array:
    rng = np.random.default_rng(1)
    lists = rng.integers(0, 4, 2000)
    numbers = rng.integers(0, 5, int(lists.sum()))
    return ak.unflatten(ak.unflatten(np.arange(float(numbers.sum()), dtype="f4"), numbers), lists)


def test_many_small_baskets_give_the_values_of_all(small_baskets: Path) -> None:
    tree = branchline.open(f"{small_baskets}:events")
    assert tree["hits"].baskets_count > BASKETS_MIN
    given = _hits()
    assert ak.array_equal(tree.arrays(["hits"]).hits, given)
    # From within a basket to within another.
    assert ak.array_equal(tree.arrays(["hits"], entry_start=333, entry_stop=1777).hits, given[333:1777])


def test_an_error_names_the_basket_in_which_it_is(small_baskets: Path) -> None:
    branch = uproot.open(small_baskets)["events"]["hits"]
    place = int(branch.member("fBasketSeek")[13]) + int(branch.basket_key(13).fKeylen) + 12
    content = bytearray(small_baskets.read_bytes())
    content[place : place + 8] = b"\xff" * 8
    small_baskets.write_bytes(content)
    with pytest.raises(BadFileError, match=r"branch hits: basket 13\b"):
        branchline.open(f"{small_baskets}:events").arrays(["hits"])
