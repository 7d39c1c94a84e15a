"""Branchline, uproot and ROOT read the same field descriptions from an RNTuple (``__doc__`` in awkward)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import pytest
import uproot

import branchline

TEXTS = {"n": "a number", "jets": "all jets", "jets.pt": "in GeV", "box.x": "a member"}


def described() -> ak.Array:
    values = ak.Array({"n": [1, 2], "jets": [[{"pt": 1.5, "e": 2.5}], []], "box": [{"x": 1}, {"x": 2}]})
    number, jets, box = (ak.with_parameter(values[name], "__doc__", TEXTS.get(name)) for name in values.fields)
    jets.layout.content.contents[0].parameters["__doc__"] = TEXTS["jets.pt"]
    box.layout.contents[0].parameters["__doc__"] = TEXTS["box.x"]
    del box.layout.parameters["__doc__"]
    layouts = [number.layout, jets.layout, box.layout]
    return ak.Array(ak.contents.RecordArray(layouts, values.fields, parameters={"__doc__": "two events"}))


def check(path: Path, texts: dict[str, str], root: Any) -> None:
    """Compare all descriptions of the RNTuple ``t`` with ``texts``."""
    tree = branchline.open(path)["t"]
    assert tree.description == "two events"
    assert {name: tree[name].description for name in tree.keys() if tree[name].description} == texts
    with uproot.open(path) as file:
        assert file["t"].description == "two events"
        assert {name: one.description for name, one in file["t"].items() if one.description} == texts
    reader = root.RNTupleReader.Open("t", str(path))
    descriptor = reader.GetDescriptor()  # the descriptor belongs to the reader, which must stay alive
    for name, text in texts.items():
        field = descriptor.GetFieldZeroId()
        for part in name.replace("jets.", "jets._0.").split("."):
            field = descriptor.FindFieldId(part, field)
        assert descriptor.GetFieldDescriptor(field).GetFieldDescription() == text


@pytest.mark.peer
@pytest.mark.parametrize("given", ["form", "array", "columns"])
def test_descriptions_are_those_of_the_fields(tmp_path: Path, root: Any, given: str) -> None:
    values = described()
    with branchline.recreate(tmp_path / "a.root") as file:
        if given == "form":
            file.mkrntuple("t", values.layout.form).extend(values)
        elif given == "array":
            file["t"] = values
        else:
            file.mkrntuple("t", {name: values[name] for name in values.fields}, "two events").extend(values)
    check(tmp_path / "a.root", TEXTS, root)


@pytest.mark.peer
def test_added_fields_have_theirs_and_others_keep_them(tmp_path: Path, root: Any) -> None:
    values = described()
    with branchline.recreate(tmp_path / "a.root") as file:
        file["t"] = values
    with branchline.update(tmp_path / "a.root") as file:
        number = ak.with_parameter(ak.Array([1.5, 2.5]), "__doc__", "added later")
        file["t"].add_branches({"late": number})
        file["t"].add_fields({"box.y": number.type.content})
    check(tmp_path / "a.root", TEXTS | {"late": "added later", "box.y": "added later"}, root)
    branchline.merge([tmp_path / "a.root"], tmp_path / "merged.root")
    check(tmp_path / "merged.root", TEXTS | {"late": "added later", "box.y": "added later"}, root)
