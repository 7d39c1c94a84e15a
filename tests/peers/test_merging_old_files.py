"""Files whose header has an old version of ROOT. ROOT reads such files with the rules of that version."""

from __future__ import annotations

import struct
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from branchline.writing.merging.merge import merge
from branchline.writing.merging.skim import skim

# ROOT assumes that files of versions up to 3.04/01 are compressed even where a basket is as long as its uncompressed
# bytes.
VERSION = 30306
VALUES = np.arange(7, dtype="i4") * 1_000_003


@pytest.fixture
def old(root: Any, tmp_path: Path) -> str:
    """Write a file with this version in its header. Its baskets are small and do not shrink by compression."""
    path = tmp_path / "old.root"
    written = root.TFile(str(path), "RECREATE", "", 101)
    tree, value = root.TTree("events", ""), array("i", [0])
    tree.Branch("x", value, "x/I")
    for value[0] in VALUES.tolist():
        tree.Fill()
    tree.Write()
    written.Close()
    with path.open("r+b") as file:
        file.seek(4)
        assert struct.unpack(">I", file.read(4))[0] > VERSION
        file.seek(4)
        file.write(struct.pack(">I", VERSION))
    return str(path)


def values(root: Any, path: Path) -> list[int]:
    file = root.TFile.Open(str(path))
    tree = file.Get("events")
    found = []
    for entry in range(tree.GetEntries()):
        assert tree.GetEntry(entry) > 0
        found.append(int(tree.x))
    file.Close()
    return found


def test_root_reads_what_is_made_of_them(root: Any, old: str, tmp_path: Path) -> None:
    merge([old], tmp_path / "merged.root")
    skim([old], tmp_path / "some.root", where="x > 1000003")
    assert values(root, tmp_path / "merged.root") == VALUES.tolist()
    assert values(root, tmp_path / "some.root") == VALUES[2:].tolist()
