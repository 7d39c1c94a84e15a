"""Negative sizes, offsets and counts in a file are errors that name the value, never an empty tree or branch."""

from __future__ import annotations

import shutil
import struct
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

import branchline
from branchline.errors import BadFileError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write an uncompressed tree with one branch. The tests search for its numbers in the bytes of the file."""
    path = tmp_path / "a.root"
    with uproot.recreate(path, compression=None) as file:
        file.mktree("t", {"x": "f8"}).extend({"x": np.arange(1234.0)})
    return path


def replace(path: Path, before: bytes, after: bytes) -> None:
    content = path.read_bytes()
    assert before in content
    path.write_bytes(content.replace(before, after))


def basket_of(path: Path) -> tuple[int, int]:
    """Return the offset and the size of the basket."""
    with uproot.open(path) as file:
        branch = file["t"]["x"]
        return int(branch.member("fBasketSeek")[0]), int(branch.member("fBasketBytes")[0])


@pytest.mark.parametrize("wrong", ["place", "size"])
def test_a_basket_at_a_place_or_of_a_size_below_zero_is_damage(path: Path, wrong: str) -> None:
    seek, size = basket_of(path)
    # A byte 1 precedes each array in the tree's record.
    if wrong == "place":
        replace(path, b"\x01" + struct.pack(">q", seek), b"\x01" + struct.pack(">q", -5))
    else:
        replace(path, b"\x01" + struct.pack(">i", size), b"\x01" + struct.pack(">i", -7))
    at, bytes_ = (-5, size) if wrong == "place" else (seek, -7)
    with pytest.raises(BadFileError, match=rf"branch x.*basket 0 .*\(offset {at}, {bytes_} bytes\)"):
        branchline.open(path)["t"].arrays()


def test_a_member_that_is_an_array_of_fewer_than_no_elements_is_damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    title = content.index(b"\x0afFillColor") + 11
    # The title is followed by the type, the size and the length of the array.
    length = title + 1 + content[title] + 8
    assert content[length : length + 4] == struct.pack(">i", 0)
    content[length : length + 4] = struct.pack(">i", -7)
    path.write_bytes(content)
    with pytest.raises(BadFileError, match="member fFillColor has an invalid array length of -7"):
        branchline.open(path)["t"].arrays()


def test_an_entry_before_the_data_of_a_basket_in_its_trees_record_is_damage(root: Any, tmp_path: Path) -> None:
    """ROOT embeds baskets that are not full in the record of the tree."""
    file = root.TFile(str(tmp_path / "going.root"), "RECREATE", "", 0)
    tree = root.TTree("t", "t")
    count, numbers = array("i", [0]), array("f", [0.5] * 3)
    tree.Branch("n", count, "n/I")
    tree.Branch("x", numbers, "x[n]/F")
    for count[0] in (2, 1, 3):
        tree.Fill()
    tree.AutoSave()
    file.Flush()
    path = Path(shutil.copy(tmp_path / "going.root", tmp_path / "saved.root"))
    file.Close()
    with pytest.warns(branchline.RecoveredFileWarning):
        assert branchline.open(path)["t/x"].array().to_list() == [[0.5] * 2, [0.5], [0.5] * 3]
    content = path.read_bytes()
    head = next(head for head in range(40, 100) if struct.pack(">4i", 3, head, head + 8, head + 12) in content)
    replace(path, struct.pack(">4i", 3, head, head + 8, head + 12), struct.pack(">4i", 3, head, 7, head + 12))
    with (
        pytest.warns(branchline.RecoveredFileWarning),
        pytest.raises(BadFileError, match=r"branch x: basket 0.* entry 1 of the basket ends before"),
    ):
        branchline.open(path)["t/x"].array()
