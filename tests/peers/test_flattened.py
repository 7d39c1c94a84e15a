"""ROOT and uproot read flat columns with the values that ROOT reads from the members of the objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

import branchline
from branchline.errors import OptionError
from branchline.writing.columns.flat_columns import POINTER
from branchline.writing.merging.convert import convert

ENTRIES = 50
# Columns with expressions by which ROOT computes their values from the objects.
VALUES = {
    "event_fRun": "event.fRun",
    "event_fVertex_fX": "event.fVertex.fX",
    "event_fLead_fId": "event.fLead.fId",
    "event_fLead_FlatLeft_fSide": "event.fLead.FlatLeft::fSide",
    "event_fLead_fEta": "event.fLead.fEta",
    "event_fLead_fBest_fPos_fY": "event.fLead.fBest.fPos.fY",
    "event_fLead_fP_fP_fX": "event.fLead.fP.X()",
    "lead_fPt": "lead.fPt",
    "lead_fPos_fX": "lead.fPos.fX",
    "ntracks": "(int)tracks.size()",
    "nclones": "clones.GetEntries()",
    "n": "n",
}
TEXTS = {"event_fLead_fName": "event.fLead.fName", "lead_fLabel": "std::string(lead.fLabel.Data())"}
LISTS = {
    "event_fLead_fChi": "event.fLead.fChi",
    "event_fLead_fArray": "std::vector<float>(event.fLead.fArray, event.fLead.fArray + event.fLead.fN)",
    "event_fLead_fHits_fE": "flat_members(event.fLead.fHits, [](auto &hit) { return hit.fE; })",
    "event_fTracks_fPt": "flat_members(event.fTracks, [](auto &track) { return track.fPt; })",
    "event_fTracks_fPos_fY": "flat_members(event.fTracks, [](auto &track) { return track.fPos.fY; })",
    "event_fTracks_fId": "flat_members(event.fTracks, [](auto &track) { return track.fId; })",
    "event_fTracks_fP_fE": "flat_members(event.fTracks, [](auto &track) { return track.fP.E(); })",
    "event_fMap_first": "flat_members(event.fMap, [](auto &pair) { return pair.first; })",
    "event_fMap_second": "flat_members(event.fMap, [](auto &pair) { return pair.second; })",
    "event_fPointers_fPos_fY": "flat_members(event.fPointers, [](auto *hit) { return hit->fPos.fY; })",
    "event_fObjects_fE": "flat_members(event.fObjects, [](auto *hit) { return ((FlatHit *)hit)->fE; })",
    "event_fFlags": "event.fFlags",
    "tracks_fEta": "flat_members(tracks, [](auto &track) { return track.fEta; })",
    "clones_fE": "flat_members(clones, [](auto *hit) { return ((FlatHit *)hit)->fE; })",
    "event_fTracks_fHits_fE": "flat_members(event.fTracks, [](auto &track) {"
    " return flat_members(track.fHits, [](auto &hit) { return hit.fE; }); })",
    "event_fTracks_fName": "flat_members(event.fTracks, [](auto &track) { return track.fName; })",
    "event_fMatrix": "event.fMatrix",
    "event_fWords": "event.fWords",
    "flat": "flat",
}
# Arrays of a fixed size, whose sums are compared.
SUMS = {
    "event_fCorners_fX[1]": "event.fCorners[1].fX",
    "event_fLead_fBest_fAdc[2]": "event.fLead.fBest.fAdc[2]",
}
# In branches of a split vector, both members fSide have the same name, which is a collision.
SPLIT = ["event/fTracks/fTracks.fSide#2", "tracks/tracks.fSide#2"]
LEFT_OUT = (
    "4 members without a flat form (pointers to single objects, or optional values): "
    "event_fLead_fLast, event_fTracks_fLast, lead_fLast, tracks_fLast",
    "5 members without a flat form (references to other objects): "
    "event_fLead_fRef, event_fTracks_fRef, event_fRefs, lead_fRef, tracks_fRef",
)

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(root: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the objects unsplit (0.root), split (99.root), and later entries with other classes (later.root)."""
    folder = tmp_path_factory.mktemp("flattened")
    source = Path(__file__).parent / "flattened.h"
    (folder / "flattened.h").write_text(source.read_text(encoding="utf-8"))
    optimizations = str(root.gSystem.GetFlagsOpt())
    root.gSystem.SetFlagsOpt("-O0")
    root.gROOT.ProcessLine(f".L {folder}/flattened.h+")
    root.gSystem.SetFlagsOpt(optimizations)
    for split in (0, 99):
        root.write_objects(str(folder / f"{split}.root"), split, 0, ENTRIES, -1, -1)
    root.write_objects(str(folder / "later.root"), 0, ENTRIES, 10, ENTRIES + 5, ENTRIES + 7)
    return folder


@pytest.fixture(scope="module")
def expected(root: Any, folder: Path) -> dict[str, Any]:
    return values_of(root, folder / "0.root", VALUES | TEXTS | LISTS | SUMS)


def values_of(root: Any, path: Path, expressions: dict[str, str]) -> dict[str, Any]:
    """Return the values of expressions that ROOT evaluates, by name."""
    frame = root.RDataFrame("T", str(path))
    names = {}
    for number, (name, expression) in enumerate(expressions.items()):
        frame = frame.Define(f"value{number}", f"return {expression};")
        names[f"value{number}"] = name
    columns = frame.AsNumpy(list(names))
    return {names[name]: [plain(one) for one in values] for name, values in columns.items()}


def plain(value: Any) -> Any:
    if isinstance(value, int | float | bool | np.number | np.bool_):
        return value.item() if hasattr(value, "item") else value
    return str(value) if type(value).__name__ in ("str", "string") else [plain(one) for one in value]


def flat_file(folder: Path, split: int, kind: str) -> Path:
    output = folder / f"flat-{split}-{kind}.root"
    if not output.exists():
        drop = ["*_fHits_fAdc", *(SPLIT if split else [])]
        made = convert(
            folder / f"{split}.root", output, to=kind, flatten=True, drop=drop, verify=True, cluster_entries=15
        )
        assert (made.entries, made.clusters, made.left_out) == (ENTRIES, 4, LEFT_OUT)
    return output


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
@pytest.mark.parametrize("split", [0, 99])
def test_root_reads_the_members_of_the_objects(
    root: Any, folder: Path, expected: dict[str, Any], split: int, kind: str
) -> None:
    names = {name: name for name in expected}
    if kind == "ttree":
        # Strings in a TTree are arrays of characters.
        names |= {name: f"std::string(std::string({name}.begin(), {name}.end()).c_str())" for name in TEXTS}
    for name, values in values_of(root, flat_file(folder, split, kind), names).items():
        assert values == expected[name], name


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
@pytest.mark.parametrize("split", [0, 99])
def test_uproot_reads_the_members_of_the_objects(folder: Path, expected: dict[str, Any], split: int, kind: str) -> None:
    flat = flat_file(folder, split, kind)
    own, theirs = branchline.open(flat)["T"], uproot.open(flat)["T"]
    for name in VALUES | TEXTS | LISTS:
        assert ak.to_list(theirs[name].array()) == expected[name], name
    # Every other column has the values that Branchline reads, which verify has compared with the objects.
    names = [name for name in own.keys() if not name.startswith("_collection")]
    assert len(names) > 100
    for name in names:
        assert ak.to_list(theirs[name].array()) == ak.to_list(own[name].array()), name


def test_columns_have_the_same_names_whether_objects_are_split_or_not(folder: Path) -> None:
    whole, split = (set(branchline.open(flat_file(folder, split, "ttree"))["T"].keys()) for split in (0, 99))
    # Only split objects have branches for the members of TObject. The members fSide of two base classes differ.
    assert {name for name in split - whole if not name.endswith(("_fUniqueID", "_fBits", "_fSide"))} == set()
    assert {name for name in whole - split if not name.endswith("_fSide")} == set()


def test_members_of_the_same_name_are_an_error(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"tracks_fSide: tracks/tracks\.fSide, and tracks/tracks\.fSide#2"):
        convert(folder / "99.root", tmp_path / "flat.root", flatten=True)
    assert list(tmp_path.iterdir()) == []


def test_classes_that_only_later_entries_show_are_found(root: Any, folder: Path, tmp_path: Path) -> None:
    """In the second file, one collection has objects of two classes, and another has a null pointer."""
    inputs, output = [folder / "0.root", folder / "later.root"], tmp_path / "flat.root"
    made = convert(inputs, output, flatten=True, verify=True)
    assert made.entries == ENTRIES + 10
    names = [f"event_fPointers_{name}" for name in ("fE", "fPos_fX", "fPos_fY", "fAdc")]
    assert set(made.left_out) == {
        *LEFT_OUT,
        f"4 members without a flat form (null pointers): {', '.join(names)}",
        "1 member without a flat form (objects of different classes, or variants): event_fObjects",
    }
    assert branchline.verify(str(output), [str(one) for one in inputs]).is_same
    last = uproot.open(output)["T"].arrays(["event_fRun", "tracks_fPt"], entry_start=ENTRIES)
    assert ak.to_list(last.event_fRun) == list(range(ENTRIES, ENTRIES + 10))
    assert ak.to_list(last.tracks_fPt[1]) == [51.0, 51.5, 52.0]


@pytest.mark.parametrize("name", ["nosplit", "fullsplit"])
def test_the_members_of_a_real_object_have_the_values_of_uproot(shared: Path, tmp_path: Path, name: str) -> None:
    output = tmp_path / "flat.root"
    convert(shared / f"root/uproot-small-evnt-tree-{name}.root:tree", output, flatten=True, to="ttree", verify=True)
    flat = uproot.open(output)["tree"]
    event = uproot.open(shared / "root/uproot-small-evnt-tree-nosplit.root")["tree/evt"].array()
    members = {f"evt_{member}": event[member] for member in event.fields if member != "P3"}
    members |= {f"evt_P3_{member}": event.P3[member] for member in event.P3.fields}
    assert {one for one in flat.keys() if not one.startswith("n")} == members.keys()
    for column, values in members.items():
        assert ak.to_list(flat[column].array()) == ak.to_list(values), column


def test_real_collections_have_the_values_of_uproot(shared: Path, tmp_path: Path) -> None:
    source, output = shared / "root/uproot-HZZ-objects.root", tmp_path / "flat.root"
    convert(f"{source}:events", output, flatten=True, verify=True)
    vectors, flat = uproot.open(source)["events"], uproot.open(output)["events"]
    for name in ("jetp4", "muonp4", "electronp4"):
        values = vectors[name].array()
        assert ak.to_list(flat[f"{name}_fE"].array()) == ak.to_list(values.fE)
        assert ak.to_list(flat[f"{name}_fP_fZ"].array()) == ak.to_list(values.fP.fZ)
        assert ak.to_list(flat[f"n{name}"].array()) == ak.to_list(ak.num(values))
    assert ak.to_list(flat["MET_fX"].array()) == ak.to_list(vectors["MET"].array().fX)


def test_an_event_of_alice_has_hundreds_of_columns(shared: Path, tmp_path: Path) -> None:
    source, output = shared / "root/AliESDs-0.root", tmp_path / "flat.root"
    made = convert(f"{source}:HLTesdTree", output, flatten=True, to="ttree", verify=True)
    assert (made.entries, made.fields) == (100, 469)
    pointers = "Tracks_fCp, Tracks_fIp, Tracks_fTPCInner, Tracks_fOp"
    assert made.left_out[-1] == f"4 members without a flat form ({POINTER}): {pointers}"
    flat, tree = uproot.open(output)["HLTesdTree"], uproot.open(source)["HLTesdTree"]
    for member in ("fAlpha", "fITSncls", "fTPCsignal"):
        assert ak.to_list(flat[f"Tracks_{member}"].array()) == ak.to_list(tree[f"Tracks/Tracks.{member}"].array())
