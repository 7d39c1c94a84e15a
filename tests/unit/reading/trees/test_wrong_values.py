"""A key, or a limit of entries, of a wrong type gives an error of Branchline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import uproot

import branchline
from branchline.errors import NoSuchKeyError, OptionError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with uproot.recreate(tmp_path / "f.root") as file:
        file["tree"] = {"x": [1, 2, 3]}
    return tmp_path / "f.root"


@pytest.mark.parametrize("name", [5, None, b"tree", "tree;\u00b2", "tree;--1", "tree;x"])
def test_what_is_no_name_is_no_key(path: Path, name: Any) -> None:
    file = branchline.open(path)
    for get in (file.__getitem__, file.classname_of, file.title_of):
        with pytest.raises(NoSuchKeyError, match="no object"):
            get(name)
    assert name not in file
    assert file.get(name) is None


@pytest.mark.parametrize("limits", [{"entry_start": "x"}, {"entry_start": 1.5}, {"entry_stop": "x"}])
def test_entries_are_whole_numbers(path: Path, limits: dict[str, Any]) -> None:
    tree = branchline.open(path)["tree"]
    for read in (tree.arrays, tree["x"].array):
        with pytest.raises(OptionError, match="give integers as entry_start and entry_stop"):
            read(**limits)
