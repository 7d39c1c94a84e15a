"""TMaps written by ROOT: objects are accessed by the names of their keys and by paths, and copied to other files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import branchline

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def path(root: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a file with a map of strings and a histogram, a map with objects as keys, and an empty map."""
    root.TH1.AddDirectory(False)
    text, named, histogram = root.TObjString, root.TNamed, root.TH1D("mass", "", 3, 0.0, 3.0)
    histogram.Fill(1.5)
    contents = {
        "settings": [(text("year"), text("2018")), (text("mass"), histogram)],
        "keyed": [(named("one", "first"), text("1")), (named("two", "second"), named("value", "2"))],
        "empty": [],
    }
    path = tmp_path_factory.mktemp("maps") / "maps.root"
    file = root.TFile.Open(str(path), "RECREATE")
    for name, pairs in contents.items():
        made = root.TMap()
        made.SetName(name)
        for key, value in pairs:
            made.Add(key, value)
        made.Write(name, root.TObject.kSingleKey)
    file.Close()
    return path


def test_a_map_has_its_objects_by_the_names_of_its_keys(path: Path) -> None:
    file = branchline.open(path)
    settings, keyed = file["settings"], file["keyed"]
    assert settings["year"] == file["settings/year"] == "2018"
    assert settings["mass"].values().tolist() == file["settings/mass"].values().tolist() == [0, 1, 0]
    assert sorted(settings) == ["mass", "year"]
    assert keyed["one"] == file["keyed/one"] == "1"
    assert {key.fTitle for key, _ in keyed.pairs()} == {"first", "second"}
    assert len(file["empty"]) == 0
    assert "TMap 'settings' of 2 pairs" in repr(settings)
    assert pickle.loads(pickle.dumps(settings))["year"] == "2018"
    # Comparing the objects may return arrays, which are neither true nor false.
    assert settings == settings
    assert settings != file["keyed"]
    assert {settings: 1}[settings] == 1


@pytest.mark.parametrize(("name", "has"), [("settings", "year"), ("keyed", "one"), ("empty", "all unnamed")])
def test_a_key_that_a_map_does_not_have_is_told(path: Path, name: str, has: str) -> None:
    file = branchline.open(path)
    for ask in (lambda: file[name]["zz"], lambda: file[f"{name}/zz"]):
        with pytest.raises(branchline.NoSuchKeyError, match=f"the TMap in .*{name}.* has no key 'zz' .*{has}") as told:
            ask()
        assert told.value.path == str(path)


def test_a_map_that_was_read_is_copied(root: Any, path: Path, tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "copy.root") as file:
        for name in ("settings", "keyed", "empty"):
            file[name] = branchline.open(path)[name]
    theirs = root.TFile.Open(str(tmp_path / "copy.root"))
    assert theirs.Get("settings").GetValue("year").GetName() == "2018"
    assert theirs.Get("settings").GetValue("mass").GetBinContent(2) == 1
    assert theirs.Get("keyed").GetValue("two").GetTitle() == "2"
    assert theirs.Get("empty").GetSize() == 0
    theirs.Close()
    assert branchline.open(tmp_path / "copy.root")["settings/year"] == "2018"
