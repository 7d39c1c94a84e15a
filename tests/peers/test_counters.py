"""Members that hold array lengths have the type that ROOT gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import branchline

# TVirtualStreamerInfo::kCounter. uproot reads such members as unsigned integers.
COUNTER = 6


@pytest.mark.peer
def test_counters_of_arrays_are_ints_as_in_root(root: Any, shared: Path) -> None:
    path = shared / "root" / "uproot-small-evnt-tree-fullsplit.root"
    opened = root.TFile.Open(str(path))
    in_root = opened.Get("tree").FindBranch("N")
    assert (in_root.GetStreamerType(), in_root.GetTypeName()) == (COUNTER, "Int_t")
    opened.Close()
    with branchline.open(path) as file:
        assert file["tree/evt/N"].array(library="np").dtype == np.int32
