"""Branches that belong together as records: by counters, by objects, by names; at once, in steps, and when touched."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.peers.columns import ParticlesColumn
from tests.peers.peers import import_root, missing

import branchline
from branchline.errors import BranchlineError
from branchline.reading.arrays.nesting import Group, Outline, groups_of, nested_layout, short_name
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream

ENTRIES = 60


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    """Columns named as in NanoAOD."""
    rng = np.random.default_rng(5)
    counts = rng.poisson(2, ENTRIES)
    muons = {
        "pt": ak.unflatten(rng.exponential(20, counts.sum()).astype("f4"), counts),
        "charge": ak.unflatten(rng.choice(np.array([-1, 1], "i4"), counts.sum()), counts),
    }
    flat = {name: rng.normal(0, 1, ENTRIES) for name in ("MET_pt", "MET_phi", "one_alone", "plain", "Muon_isolated")}
    return {"Muon": ak.zip(muons, depth_limit=2), **flat, "run": np.arange(ENTRIES)}


@pytest.fixture(scope="module")
def path(values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nesting") / "nano.root"
    with uproot.recreate(path) as file:
        file.mktree("Events", {name: ak.type(ak.Array(column)).content for name, column in values.items()})
        for limits in (slice(25), slice(25, None)):
            file["Events"].extend({name: column[limits] for name, column in values.items()})
    return path


@pytest.fixture(scope="module")
def tree(path: Path) -> Any:
    return branchline.open(path)["Events"]


def test_what_a_branch_counts_is_one_list_of_records(tree: Any, values: dict[str, Any]) -> None:
    assert "Muon_pt" in tree.keys()
    read = tree.arrays(how="nested")
    assert read.fields == ["Muon", "MET", "one_alone", "plain", "Muon_isolated", "run"]
    assert ak.array_equal(read.Muon, values["Muon"])
    assert ak.array_equal(read.Muon[read.Muon.pt > 20].charge, values["Muon"].charge[values["Muon"].pt > 20])
    assert read.MET.fields == ["pt", "phi"]
    assert read.MET.phi.tolist() == values["MET_phi"].tolist()
    # What is not counted with the others does not belong to them.
    assert read["Muon_isolated"].tolist() == values["Muon_isolated"].tolist()


def test_what_was_asked_for_is_what_is_nested(tree: Any, values: dict[str, Any]) -> None:
    read = tree.arrays(["Muon_pt", "Muon_charge", "MET_pt", "Muon_pt * 2"], cut="run > 40", how="nested")
    assert read.fields == ["Muon", "MET_pt", "Muon_pt * 2"]
    assert ak.array_equal(read.Muon, values["Muon"][["pt", "charge"]][41:])
    table = tree.arrays(filter_name="MET_*", how="nested", library="arrow")
    assert table.column_names == ["MET"]
    assert table["MET"].to_pylist()[3] == {"pt": values["MET_pt"][3], "phi": values["MET_phi"][3]}


def test_nested_fields_come_in_steps_and_of_many_files(tree: Any, path: Path, values: dict[str, Any]) -> None:
    parts = list(tree.iterate(filter_name="Muon_*", how="nested", step_size=23))
    assert [len(part) for part in parts] == [23, 23, 14]
    assert ak.array_equal(ak.concatenate(parts).Muon, values["Muon"])
    two = branchline.concatenate([path, path], how="nested")
    assert ak.array_equal(two.Muon, ak.concatenate([values["Muon"], values["Muon"]]))


@pytest.mark.parametrize("options", [{"library": "np"}, {"library": "pd"}])
def test_nested_fields_are_for_libraries_that_have_records(tree: Any, options: dict[str, Any]) -> None:
    with pytest.raises(branchline.OptionError, match="nested"):
        tree.arrays(how="nested", **options)


def test_virtual_arrays_read_what_is_touched(tree: Any, values: dict[str, Any]) -> None:
    log: list[Any] = []
    lazy = tree.arrays(how="nested", virtual=True, access_log=log, entry_start=10, entry_stop=50)
    wanted = values["Muon"][10:50]
    assert (len(lazy), log) == (40, [])
    assert ak.sum(lazy.Muon.pt) == ak.sum(wanted.pt)
    assert [one.branch for one in log] == ["nMuon", "Muon_pt"]
    selected = lazy[lazy.run > 30]
    assert selected.MET.pt.tolist() == values["MET_pt"][31:50].tolist()
    assert [one.branch for one in log] == ["nMuon", "Muon_pt", "run", "MET_pt"]
    assert ak.array_equal(ak.materialize(lazy.Muon), wanted)
    flat = tree.arrays(filter_name="*M*", virtual=True)
    assert flat.fields == ["nMuon", "Muon_pt", "Muon_charge", "MET_pt", "MET_phi", "Muon_isolated"]
    assert ak.array_equal(ak.materialize(flat.Muon_pt), values["Muon"].pt)


@pytest.mark.parametrize(
    "options",
    [{"expressions": "run"}, {"cut": "run > 3"}, {"aliases": {"a": "run"}}, {"library": "np"}, {"how": "zip"}],
)
def test_what_virtual_arrays_cannot_be_is_refused(tree: Any, options: dict[str, Any]) -> None:
    with pytest.raises(branchline.OptionError):
        tree.arrays(virtual=True, **options)
    with pytest.raises(branchline.OptionError, match="virtual=True"):
        tree.arrays(access_log=[])


def test_a_chunk_has_groups_that_read_when_touched(path: Path, values: dict[str, Any]) -> None:
    with ChunkStream([Source(str(path), "Events")], ["run", "Muon_pt"], step_size=40) as stream:
        entries_count = 0
        for chunk in stream:
            entries_count += len(chunk)
            wanted = values["Muon"][chunk.entry_start : chunk.entry_stop]
            muons = chunk.group("Muon")
            assert muons is not None
            assert chunk.late_branches == []
            assert ak.array_equal(muons.pt, wanted.pt)
            assert chunk.late_branches == ["nMuon"]
            asked: list[str] = []

            def column(name: str, chunk: Any = chunk, asked: list[str] = asked) -> ak.Array:
                asked.append(name)
                return chunk.array(name)

            assert ak.array_equal(chunk.group("Muon", column).charge, wanted.charge)
            assert asked == ["nMuon", "Muon_charge"]
            for name in ("run", "Muon_pt", "nMuon", "one", "nothing"):
                assert chunk.group(name) is None
    assert entries_count == len(values["run"])


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ParticlesColumn]:
    """A tree of ROOT with a split TClonesArray, and a split object whose name ends in a dot."""
    root = import_root()
    if root is None:
        missing("ROOT (the package `root` of PyPI)")
    path = tmp_path_factory.mktemp("nesting") / "split.root"
    file = root.TFile.Open(str(path), "RECREATE")
    tree = root.TTree("esdTree", "")
    particles = ParticlesColumn(np.random.default_rng(3), "Tracks", ENTRIES)
    vertex = root.Math.PxPyPzEVector()
    particles.attach(root, tree, writing=True)
    tree.Branch("Vertex.", vertex)
    for entry in range(ENTRIES):
        particles.put(entry)
        vertex.SetCoordinates(entry, 0, -entry, 1)
        tree.Fill()
    tree.Write()
    file.Close()
    return path, particles


def test_members_of_a_collection_are_records(split: tuple[Path, ParticlesColumn]) -> None:
    path, particles = split
    tree = branchline.open(path)["esdTree"]
    read = tree.arrays(how="nested")
    assert read.fields == ["Tracks", "Vertex"]
    truths = particles.truths()
    assert ak.array_equal(read.Tracks.fPx, truths["Tracks/Tracks.fPx"])
    assert ak.array_equal(read.Tracks.fMother, truths["Tracks/Tracks.fMother[2]"])
    assert read.Vertex.fCoordinates.fX.tolist() == list(range(ENTRIES))
    lazy = tree.arrays(how="nested", virtual=True)
    assert ak.array_equal(lazy.Tracks[:, :1].fE, truths["Tracks/Tracks.fE"][:, :1])
    assert lazy.Vertex.fCoordinates.fZ.tolist() == [-entry for entry in range(ENTRIES)]
    some = tree.arrays(["Tracks.fPx", "Tracks.fMother", "Vertex.fX"], how="nested")
    assert some.Tracks.fields == ["fMother", "fPx"]
    assert some.Vertex.fCoordinates.fields == ["fX"]


@pytest.mark.parametrize(
    "name", ["Tracks.fMother", "Tracks/fMother", "Tracks/Tracks.fMother", "fMother", "Tracks.fMother[2]"]
)
def test_a_branch_is_found_by_the_name_that_people_type(split: tuple[Path, ParticlesColumn], name: str) -> None:
    tree = branchline.open(split[0])["esdTree"]
    assert tree[name].path == "Tracks/Tracks.fMother[2]"
    assert name in tree
    assert tree.arrays([name]).fields == [name]
    assert tree.arrays(f"get('{name}')").fields == [f"get('{name}')"]
    assert ak.array_equal(tree.arrays("Tracks.fMother[2] + 1")["Tracks.fMother[2] + 1"], tree[name].array() + 1)
    for other in ("Tracks.fMother[3]", "Mother", "Tracks.fMothr"):
        assert other not in tree


def outline_of(**branches: tuple[str | None, str, str | None]) -> Any:
    """An outline of branches by their names with underscores for dots: parent, kind and counter of each."""

    class Core:
        separator = "/"
        nests = False

        def paths(self) -> list[str]:
            return [f"{branches[name][0]}/{name}" if branches[name][0] else name for name in branches]

        def outline(self) -> list[SimpleNamespace]:
            index = {None: None, **{name: index for index, name in enumerate(branches)}}
            return [
                SimpleNamespace(name=name, parent=index[parent], kind=kind, counter=index[count])
                for name, (parent, kind, count) in branches.items()
            ]

    return Outline(Core())


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        # One name alone makes no group, nor do names that begin as another branch is called.
        (["a_x", "b", "c_y"], ["a_x", "b", "c_y"]),
        (["a", "a_x", "a_y"], ["a", "a_x", "a_y"]),
        (["a_x", "a_y", "b"], ["a", "b"]),
        (["a.x", "a.y", "a_z"], ["a", "a_z"]),
        (["_x", "_y", "x_", "y_"], ["_x", "_y", "x_", "y_"]),
        ([], []),
    ],
)
def test_names_that_begin_alike_make_a_group(names: list[str], groups: list[str]) -> None:
    outline = outline_of(**dict.fromkeys(names, (None, "data", None)))
    assert list(groups_of(outline, outline.paths)) == groups


def test_what_is_counted_takes_its_name_from_its_counter_or_from_what_it_has_in_common() -> None:
    counted = {"nJet": None, "Jet_pt": "nJet", "Jet_nTracks": "nJet", "JetHT": "nJet", "NMu": None}
    counted |= {"Mu_all_x": "NMu", "Mu_all_y": "NMu", "n": None, "lone": "n", "np": None, "one_two": "np"}
    outline = outline_of(**{name: (None, "data", counter) for name, counter in counted.items()})
    groups = groups_of(outline, outline.paths)
    assert list(groups) == ["Jet", "JetHT", "Mu_all", "n", "lone", "np", "one_two"]
    assert groups["Jet"] == Group({"pt": "Jet_pt", "nTracks": "Jet_nTracks"}, counter="nJet")
    assert groups["Mu_all"] == Group({"x": "Mu_all_x", "y": "Mu_all_y"}, counter="NMu")
    # A counter that was not asked for is none of the fields, and is not needed.
    assert list(groups_of(outline, ["Jet_pt"])) == ["Jet"]


def test_lists_of_other_lengths_are_told() -> None:
    layouts = {"a": ak.Array([[1, 2], []]).layout, "b": ak.Array([[1], [2]]).layout, "c": ak.Array([1, 2]).layout}
    for names, message in (
        (("a", "b"), "a and b have different numbers|b and a have"),
        (("a", "c"), "c does not contain lists"),
    ):
        with pytest.raises(BranchlineError, match=message):
            nested_layout(Group({name: name for name in names}, counter="n"), layouts.__getitem__, 2)


@pytest.mark.parametrize(
    ("name", "parent", "short"),
    [
        ("Tracks.fP[5]", "Tracks", "fP"),
        ("Run.fField", "Run.", "fField"),
        ("fX", "first", "fX"),
        ("H.A.fName", "H.A.TNamed", "fName"),
        ("m[2][3]", "", "m"),
        ("Tracks.fMap.fBits", "Tracks", "fMap.fBits"),
    ],
)
def test_a_member_has_a_short_name(name: str, parent: str, short: str) -> None:
    assert short_name(name, parent) == short
