"""Entries that a tree refuses cost nothing else: it goes on, and so does the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

import branchline

TYPES = {"i": "int64", "v": "var * float64", "s": "string", "r": "3 * float64", "b": "bool"}
GOOD: dict[str, Any] = {
    "i": np.arange(2),
    "v": ak.Array([[1.0, 2.0], []]),
    "s": ["a", "b"],
    "r": np.ones((2, 3)),
    "b": [True, False],
}
REFUSED: dict[str, dict[str, Any]] = {
    "fractions for whole numbers": GOOD | {"i": np.array([0.5, 1.0])},
    "a missing column": {"i": np.arange(2)},
    "another column": GOOD | {"more": np.arange(2)},
    "different lengths": GOOD | {"i": np.arange(3)},
    "lists for numbers": GOOD | {"i": ak.Array([[1], [2]])},
    "numbers for lists": GOOD | {"v": np.arange(2.0)},
    "numbers for texts": GOOD | {"s": np.arange(2)},
    "texts for numbers": GOOD | {"i": ["a", "b"]},
    "texts for lists": GOOD | {"v": ["a", "b"]},
    "another shape": GOOD | {"r": np.ones((2, 4))},
    "more dimensions": GOOD | {"r": np.ones((2, 3, 2))},
    "deeper lists": GOOD | {"v": ak.Array([[[1.0]], []])},
    "missing values": GOOD | {"i": ak.Array([1, None])},
    "missing values in lists": GOOD | {"v": ak.Array([[1.0, None], []])},
    "missing lists": GOOD | {"v": ak.Array([[1.0], None])},
    "missing texts": GOOD | {"s": ["a", None]},
    "records for numbers": GOOD | {"i": ak.Array([{"x": 1}, {"x": 2}])},
    "truth values for whole numbers": GOOD | {"v": ak.Array([["a"], []])},
    "dates": GOOD | {"i": np.array(["2026-01-01", "2026-01-02"], "M8[D]")},
    "objects": GOOD | {"i": [object(), object()]},
    "no table": {"i": 3},
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("call", ["mktree", "mkrntuple"])
def test_refused_entries_cost_only_themselves(tmp_path: Path, call: str, name: str) -> None:
    path = tmp_path / "out.root"
    with branchline.recreate(path) as file:
        file["note"] = "before"
        tree = getattr(file, call)("t", TYPES)
        tree.extend(GOOD)
        with pytest.raises(ValueError, match=r"\w") as refused:
            tree.extend(REFUSED[name])
        assert isinstance(refused.value, branchline.BranchlineError)
        assert tree.num_entries == 2
        tree.extend(GOOD)
        file.mktree("after", {"x": [1, 2, 3]})
    found = branchline.open(path)
    assert found["note"] == "before"
    assert found["after"].num_entries == 3
    by_uproot = uproot.open(path)["t"].arrays(["i", "v", "s", "b"])
    for arrays in (found["t"].arrays(["i", "v", "s", "b"]), by_uproot):
        assert arrays["i"].tolist() == [0, 1, 0, 1]
        assert arrays["v"].tolist() == [[1.0, 2.0], []] * 2
        assert arrays["s"].tolist() == ["a", "b"] * 2
        assert arrays["b"].tolist() == [True, False] * 2
