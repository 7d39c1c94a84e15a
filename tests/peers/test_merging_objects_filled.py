"""Merging trees where some files lack whole split objects of a user-defined class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import uproot
from tests.sampled import long_but

import branchline
from branchline.errors import UnsupportedBranchError
from branchline.writing.merging.merge import merge
from branchline.writing.merging.verify import verify

#: Number of entries of each file, and the names of its objects.
FILES = {"without": (15, ""), "with": (20, "track points"), "other": (10, "points")}
ORDERS = ["without with other", "with without other", "other with without"]
NOTHING = ": 0,0,,0,0|"
MEMBERS = [
    *(f"track./track.Point/track.Point.{name}" for name in ("x", "sign[2][3]")),
    *(f"track./track.Named/track.Named.{name}" for name in ("name", "numbers")),
    *("track./track.points/track.points.y", "points/points.x"),
]


@pytest.fixture(scope="module")
def write(root: Any, peers: Any) -> Any:
    """Return a function that writes a tree with a number and these objects, split into branches."""
    root.gInterpreter.Declare(
        """
        #include <TFile.h>
        #include <TTree.h>
        #include <sstream>
        #include "types.h"
        #ifndef BRANCHLINE_OBJECTS_FILLED
        #define BRANCHLINE_OBJECTS_FILLED
        void branchline_write_filled(const char *path, int seed, int entries, const std::string &names) {
           TFile file(path, "RECREATE");
           TTree tree("Events", "");
           tree.SetAutoFlush(6);
           int number = 0; Track track; std::vector<Point> points;
           tree.Branch("number", &number);
           if (names.find("track") != std::string::npos) tree.Branch("track.", &track);
           if (names.find("points") != std::string::npos) tree.Branch("points", &points);
           for (int entry = 0; entry < entries; ++entry) {
              number = 100 * seed + entry;
              track.x = number + 0.5f; track.y = -number; track.name = "track " + std::to_string(number);
              track.numbers.assign(number % 4, number); track.isGood = entry % 2; track.sign[1][2] = number;
              points.assign(number % 3, track);
              tree.Fill();
           }
           tree.Write();
        }
        // Of each entry the number, members of the track and of the points.
        std::vector<std::string> branchline_read_filled(const char *path) {
           TFile file(path);
           auto tree = file.Get<TTree>("Events");
           int number = 0; auto track = new Track; auto points = new std::vector<Point>;
           tree->SetBranchAddress("number", &number);
           if (tree->GetBranch("track.")) tree->SetBranchAddress("track.", &track);
           if (tree->GetBranch("points")) tree->SetBranchAddress("points", &points);
           std::vector<std::string> all;
           for (Long64_t entry = 0; entry < tree->GetEntries(); ++entry) {
              tree->GetEntry(entry);
              std::ostringstream text;
              text << number << ": " << track->x << "," << track->y << "," << track->name << ","
                   << track->numbers.size() << "," << track->sign[1][2] << "|";
              for (auto &point : *points) text << point.x << "," << point.y << ";";
              all.push_back(text.str());
           }
           return all;
        }
        #endif
        """
    )

    def write(path: Path, seed: int, entries: int, names: str) -> str:
        root.branchline_write_filled(str(path), seed, entries, names)
        return str(path)

    return write


@pytest.fixture(scope="module")
def inputs(write: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("inputs")
    numbered = enumerate(FILES.items(), 1)
    return {name: write(folder / f"{name}.root", seed, *about) for seed, (name, about) in numbered}


def read(root: Any, path: Any) -> list[str]:
    return [str(entry) for entry in root.branchline_read_filled(str(path))]


def expected(root: Any, inputs: dict[str, str], order: str) -> list[str]:
    """Return the entries that ROOT must read from the output. Missing objects are replaced by empty objects."""
    return [entry for name in order.split() for entry in read(root, inputs[name])]


@pytest.mark.peer
@pytest.mark.parametrize("order", long_but(ORDERS, ORDERS[1:]))
@pytest.mark.parametrize(
    "options", long_but([{}, {"codec": "zstd:3"}, {"cluster_events": 7}], [{}, {"cluster_events": 7}])
)
def test_missing_objects_are_empty(
    root: Any, inputs: dict[str, str], tmp_path: Path, order: str, options: dict[str, Any]
) -> None:
    given, output = [inputs[name] for name in order.split()], tmp_path / "all.root"
    made = merge(given, output, fill_missing_branches=True, verify=True, **options)
    assert read(root, output) == expected(root, inputs, order)
    assert any(NOTHING in entry for entry in read(root, output))
    filled = {branch.name: (branch.files, branch.entries) for branch in made.filled}
    assert filled["track./track.Point/track.Point.x"] == (2, 25)
    assert filled["points/points.y"] == (1, 15)
    assert verify(output, given).is_same
    tree, by_uproot = branchline.open(output)["Events"], uproot.open(output)["Events"]
    for name in MEMBERS:
        values = tree[name].array().to_list()
        assert by_uproot[name].array().to_list() == values, name
        assert len(values) == made.entries


@pytest.mark.peer
@pytest.mark.parametrize("order", ORDERS)
def test_each_of_several_outputs_describes_the_classes_of_what_was_filled(
    root: Any, inputs: dict[str, str], tmp_path: Path, order: str
) -> None:
    names = order.split()
    made = merge([inputs[name] for name in names], tmp_path / "all.root", fill_missing_branches=True, max_size=1000)
    assert len(made.paths) == len(names)
    for name, path in zip(names, made.paths, strict=True):
        assert read(root, path) == read(root, inputs[name])
        assert {"Track", "Point", "Named"} <= set(uproot.open(path).file.streamers)
        assert len(uproot.open(path)["Events"][MEMBERS[0]].array()) == FILES[name][0]


@pytest.mark.peer
def test_an_object_of_which_a_member_is_missing_is_refused(root: Any, write: Any, tmp_path: Path) -> None:
    root.gInterpreter.Declare(
        """
        #ifndef BRANCHLINE_OBJECTS_PARTIAL
        #define BRANCHLINE_OBJECTS_PARTIAL
        void branchline_write_partial(const char *from, const char *to) {
           TFile file(from);
           auto tree = file.Get<TTree>("Events");
           tree->SetBranchStatus("points.y", false);
           TFile output(to, "RECREATE");
           tree->CloneTree(-1)->Write();
        }
        #endif
        """
    )
    whole = write(tmp_path / "whole.root", 1, 10, "points")
    root.branchline_write_partial(whole, str(tmp_path / "partial.root"))
    assert "points/points.y" not in branchline.open(tmp_path / "partial.root")["Events"]
    for given in ([whole, str(tmp_path / "partial.root")], [str(tmp_path / "partial.root"), whole]):
        with pytest.raises(
            UnsupportedBranchError, match=r"branch points/points\.y is (missing|new) within an existing branch"
        ):
            merge(given, tmp_path / "all.root", fill_missing_branches=True)
