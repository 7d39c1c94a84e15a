"""In files without streamer infos, objects of ROOT's own classes are read as if the files described them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

import branchline
from branchline.errors import UnsupportedBranchError
from branchline.writing.merging.merge import merge

# Trees with TTree versions 5 to 20, and with TAttLine versions 1 and 2.
FILES = [
    "run133.root",
    "uproot-sample-5.23.02-uncompressed.root",
    "uproot-simple.root",
    "uproot-from-geant4.root",
    "uproot-Zmumu-zlib.root",
    "TNtuple.root",
]
BIG_FILE_VERSION = 1_000_000


def without_infos(path: Path, copy: Path) -> Path:
    """Copy a file, and change the header of the copy to declare that there is no list of streamer infos."""
    content = bytearray(path.read_bytes())
    seek_size = 8 if struct.unpack(">i", content[4:8])[0] >= BIG_FILE_VERSION else 4
    # Fields before the offset: "root", version and begin (12 bytes), end and free space, three sizes, the number of
    # bytes per offset, and the compression.
    place = 12 + 2 * seek_size + 3 * 4 + 1 + 4
    content[place : place + seek_size + 4] = bytes(seek_size + 4)
    copy.write_bytes(content)
    return copy


def trees(file: branchline.File) -> dict[str, branchline.Tree]:
    paths = [path for path, kind in file.classnames().items() if kind in ("TTree", "TNtuple")]
    return {path: file[path] for path in paths}


@pytest.mark.peer
@pytest.mark.parametrize("name", FILES)
def test_trees_of_files_without_descriptions_are_read(shared: Path, tmp_path: Path, name: str) -> None:
    original = trees(branchline.open(shared / "root" / name))
    stripped = trees(branchline.open(without_infos(shared / "root" / name, tmp_path / name)))
    assert original
    assert stripped.keys() == original.keys()
    for path, tree in original.items():
        assert tree.keys() == stripped[path].keys()
        stop = min(tree.num_entries, 50)
        assert stripped[path].arrays(entry_stop=stop).tolist() == tree.arrays(entry_stop=stop).tolist()


@pytest.fixture
def objects_file(root: Any, tmp_path: Path) -> Path:
    """Write a tree with split and unsplit objects of ROOT's own classes."""
    path = tmp_path / "objects.root"
    file = root.TFile(str(path), "RECREATE")
    tree = root.TTree("tree", "")
    things = {
        "time": root.TTime(5),
        "date": root.TDatime(1999, 1, 2, 3, 4, 5),
        "vector": root.TLorentzVector(1, 2, 3, 4),
        "particle": root.TParticle(13, 1, 0, 0, 1, 2, 1, 2, 3, 4, 5, 6, 7, 8),
        "named": root.TNamed("name", "title"),
        "histogram": root.TH1F("entry", "", 3, 0, 3),
        "clones": root.TClonesArray("TVector3", 2),
    }
    things["histogram"].Fill(1.5, 2)
    things["clones"].ConstructedAt(0).SetXYZ(1, 2, 3)
    things["clones"].ConstructedAt(1).SetXYZ(4, 5, 6)
    for name, thing in things.items():
        tree.Branch(f"{name}_split.", thing, 32000, 99)
        tree.Branch(f"{name}_whole", thing, 32000, 0)
    for _ in range(3):
        tree.Fill()
    tree.Write()
    file.Close()
    return path


@pytest.mark.peer
def test_objects_of_root_in_trees_are_read_without_descriptions(objects_file: Path, tmp_path: Path) -> None:
    described = branchline.open(objects_file)["tree"].arrays()
    stripped = branchline.open(without_infos(objects_file, tmp_path / "stripped.root"))["tree"].arrays()
    assert stripped.tolist() == described.tolist()
    assert stripped["time_whole"].tolist() == [{"fMilliSec": 5}] * 3
    assert [vector["fE"] for vector in stripped["vector_whole"].tolist()] == [4] * 3


@pytest.mark.peer
def test_files_without_descriptions_are_merged(root: Any, objects_file: Path, tmp_path: Path) -> None:
    inputs = [without_infos(objects_file, tmp_path / f"{number}.root") for number in range(2)]
    merged = tmp_path / "merged.root"
    merge([str(path) for path in inputs], str(merged))
    once = branchline.open(objects_file)["tree"].arrays().tolist()
    assert branchline.open(merged)["tree"].arrays().tolist() == once + once
    file = root.TFile.Open(str(merged))
    assert [entry.vector_whole.E() for entry in file.Get("tree")] == [4] * 6


@pytest.fixture
def canvas_file(root: Any, tmp_path: Path) -> Path:
    """Write a canvas with a histogram, and an empty pad."""
    path = tmp_path / "canvas.root"
    root.gROOT.SetBatch(True)
    file = root.TFile(str(path), "RECREATE")
    canvas, drawn = root.TCanvas("canvas", ""), root.TH1F("drawn", "", 3, 0, 3)
    drawn.SetDirectory(root.nullptr)
    drawn.Draw()
    canvas.Write()
    root.TPad("pad", "a pad", 0, 0, 1, 1).Write()
    file.Close()
    return path


@pytest.mark.peer
def test_a_canvas_which_writes_itself_is_no_damage(canvas_file: Path, tmp_path: Path) -> None:
    file = branchline.open(canvas_file)
    with pytest.raises(UnsupportedBranchError, match="class TCanvas"):
        file["canvas"]
    with branchline.recreate(tmp_path / "copy.root") as copy, pytest.raises(UnsupportedBranchError, match="TCanvas"):
        copy.copy_from(file, filter_name="canvas")
    assert file["pad"].member("fTitle") == "a pad"


@pytest.mark.peer
def test_a_canvas_is_merged_as_it_is(root: Any, canvas_file: Path, tmp_path: Path) -> None:
    merge([str(canvas_file)], tmp_path / "merged.root")
    merged = root.TFile(str(tmp_path / "merged.root"))
    assert merged.Get("canvas").GetListOfPrimitives().FindObject("drawn").GetNbinsX() == 3
