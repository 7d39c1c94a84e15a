"""Companions are declared as people write them, and are next to each file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from branchline.errors import DatasetError
from branchline.reading.datasets.data_file import Companion, companions_of
from branchline.reading.datasets.dataset import Dataset


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, {}),
        ("Kinematics.root", {"Kinematics": "Kinematics.root"}),
        (["mc/truth.root:TE"], {"truth": "mc/truth.root:TE"}),
        (["K=Kinematics.root:Event{entry}/TreeK"], {"K": "Kinematics.root:Event{entry}/TreeK"}),
        ({"K": "a.root", "T": Path("b.root")}, {"K": "a.root", "T": "b.root"}),
        (["{stem}_friend.root"], {"friend": "{stem}_friend.root"}),
    ],
)
def test_what_people_write(given: Any, wanted: dict[str, str]) -> None:
    assert {one.name: one.location for one in companions_of(given)} == wanted


@pytest.mark.parametrize("wrong", [3, [3], {"a": ""}, ["K=", "x"], ["a/K.root", "b/K.root"]])
def test_what_is_no_companion_is_refused(wrong: Any) -> None:
    with pytest.raises(DatasetError):
        companions_of(wrong)


def test_the_place_is_beside_the_main_file() -> None:
    assert Companion("K", "Kinematics.root:Event{entry}/TreeK").path_for("/d/AliESDs.root") == (
        "/d/Kinematics.root",
        "Event{entry}/TreeK",
    )
    assert Companion("f", "../{stem}_f.root").path_for("root://host//d/a.root") == ("root://host//d/../a_f.root", None)
    assert Companion("f", "f.root").path_for("a.root") == ("f.root", None)
    assert Companion("f", "/else/f.root:t").path_for("/d/a.root") == ("/else/f.root", "t")


def test_a_dataset_carries_them_to_its_files(tmp_path: Path) -> None:
    (one,) = Dataset.of("a.root", companions="K.root")
    assert [companion.name for companion in one.companions] == ["K"]
    (other,) = Dataset.of(Dataset.of("a.root"), companions=["L.root"])
    assert [companion.name for companion in other.companions] == ["L"]
    path = tmp_path / "set.json"
    path.write_text(json.dumps({"mc": {"files": {"a.root": "t"}, "companions": {"K": "K.root"}}, "data": ["b.root"]}))
    first, second = Dataset.of(str(path))
    assert [companion.location for companion in first.companions] == ["K.root"]
    assert second.companions == ()
