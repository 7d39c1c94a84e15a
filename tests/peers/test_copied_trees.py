"""Trees of the shared files are copied into new files. ROOT, uproot and Branchline read the same values as before."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import awkward as ak
import pytest
import uproot
from tests.sampled import long_but

import branchline

TREES = {"TTree", "TNtuple", "TNtupleD", "ROOT::RNTuple"}
# The baskets of this tree are in another file, which is missing.
NOT_COPIED = {("AliESDs-0.root", "esdTree;1")}
# uproot cannot decompress the format that ROOT used before zlib.
OLD_COMPRESSION = {"Event2a.root", "shorttrack.root"}

READER = """
import json, sys
import ROOT
for path, name in (sys.argv[1:3], sys.argv[3:5]):
    file = ROOT.TFile.Open(path)
    tree = file.Get(name)
    assert tree.GetName() == name
    leaves = [(str(leaf.GetBranch().GetFullName()), str(leaf.GetTypeName())) for leaf in tree.GetListOfLeaves()]
    sizes = [tree.GetEntry(entry) for entry in range(min(tree.GetEntries(), 20))]
    print(json.dumps({"leaves": leaves, "entries": tree.GetEntries(), "sizes": sizes}), flush=True)
"""


def trees_of(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.glob("*.root")):
        with branchline.open(path) as file:
            yield from ((path, key) for key, name in file.classnames().items() if name in TREES)


def is_refused(path: Path, key: str) -> bool:
    return (path.name, key) in NOT_COPIED


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("every", long_but([1, 6], [6]))
def test_all_trees_but_one_are_copied_with_their_branches(shared: Path, tmp_path: Path, every: int) -> None:
    refused = {}
    trees = [one for number, one in enumerate(trees_of(shared / "root")) if number % every == 0 or is_refused(*one)]
    for number, (path, key) in enumerate(trees):
        source, target = branchline.open(path)[key], tmp_path / f"{number}.root"
        try:
            with branchline.recreate(target) as file:
                file["a/copy"] = source
        except branchline.UnsupportedBranchError as error:
            refused[path.name, key] = str(error)
            assert not target.exists()
            continue
        copy = branchline.open(target)["a/copy"]
        assert copy.name == "copy"
        assert (copy.title, copy.num_entries, copy.keys()) == (source.title, source.num_entries, source.keys()), path
        assert copy.typenames() == source.typenames(), path
        target.unlink()
    assert refused.keys() == NOT_COPIED
    assert all(name in text and "in another file" in text for (name, _), text in refused.items())


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Event2a.root", "T"),  # embedded baskets, with objects that refer to each other
        ("shorttrack.root", "T"),
        ("TreeClassNested2.root", "TreeClassNested2"),
        ("fta_clones.root", "C"),
        pytest.param("PHYSLITE_example.root", "CollectionTree", marks=pytest.mark.long),
    ],
)
@pytest.mark.usefixtures("root")
def test_root_and_uproot_read_a_copy_as_the_tree_itself(shared: Path, tmp_path: Path, name: str, key: str) -> None:
    given, made = str(shared / "root" / name), str(tmp_path / "copy.root")
    with branchline.recreate(made, compression="lz4") as file:
        file["h"] = "beside it"
        file["copy"] = branchline.open(given)[key]
    # Use one process per tree, because ROOT crashes on some classes for which it only has a streamer info.
    read = [sys.executable, "-c", READER, given, key, made, "copy"]
    done = subprocess.run(read, capture_output=True, text=True, check=True)
    of_given, of_made = (json.loads(line) for line in done.stdout.splitlines()[-2:])
    assert of_made == of_given
    assert all(size > 0 for size in of_given["sizes"])
    if name in OLD_COMPRESSION:
        return
    one, other = uproot.open(given)[key], uproot.open(made)["copy"]
    assert one.keys() == other.keys()
    count = 0
    for branch in one.keys():
        if "[" in branch:
            continue  # uproot reads some arrays of Double32_t differently each time
        try:
            values = one[branch].array(entry_stop=20)
        except Exception:  # noqa: BLE001, what uproot cannot read there
            continue
        count += 1
        assert repr(other[branch].array(entry_stop=20).to_list()) == repr(ak.Array(values).to_list()), branch
    assert count > 0


def test_a_reference_finds_its_process_id_in_an_updated_file(shared: Path, tmp_path: Path) -> None:
    """The process IDs of a copied tree are appended to the process IDs that the file already has."""
    path = shared / "root" / "uproot-issue513.root"
    before = [key for key, name in branchline.open(path).classnames().items() if name == "TProcessID"]
    with branchline.recreate(tmp_path / "a.root") as file:
        file["one"] = branchline.open(path)["Delphes"]
    with branchline.update(tmp_path / "a.root") as file:
        file["two"] = branchline.open(path)["Delphes"]
        file["three"] = branchline.open(path)["Delphes"]
    found = branchline.open(tmp_path / "a.root").classnames(cycle=False)
    assert len([name for name, kind in found.items() if kind == "TProcessID"]) == 2 * len(before)
    assert len(before) > 0
