"""Merged files have the values of the inputs when ROOT and uproot read them, and can be merged again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.peers.peers import missing

import branchline
from branchline.writing.merging.merge import merge
from branchline.writing.merging.verify import verify

ENTRIES = (700, 0, 1, 1300)
ORDERS = ("entry", "branch", "offset")


@pytest.fixture(scope="module")
def inputs(root: Any, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write files with variable-size arrays that grow from file to file, vectors and strings, in clusters of 100
    entries.
    """
    folder = tmp_path_factory.mktemp("inputs")
    root.gInterpreter.Declare(
        """
        #include <TFile.h>
        #include <TTree.h>
        #include <string>
        #include <vector>
        #ifndef BRANCHLINE_MERGING
        #define BRANCHLINE_MERGING
        void branchline_write(const char *path, int number, int entries) {
           TFile file(path, "RECREATE");
           TTree tree("events", "events of a test");
           tree.SetAutoFlush(100);
           int n = 0; double x = 0; float values[50]; std::vector<int> list; std::string text;
           tree.Branch("n", &n, "n/I");
           tree.Branch("x", &x, "x/D");
           tree.Branch("values", values, "values[n]/F");
           tree.Branch("list", &list);
           tree.Branch("text", &text);
           for (int entry = 0; entry < entries; ++entry) {
              n = (entry * 7 + number) % (5 + 10 * number);
              x = number + 0.001 * entry;
              list.clear();
              for (int k = 0; k < n; ++k) { values[k] = x + k; list.push_back(number * 1000 + k); }
              text = "entry " + std::to_string(entry) + " of file " + std::to_string(number);
              tree.Fill();
           }
           tree.Write();
        }
        #endif
        """
    )
    paths = [folder / f"{number}.root" for number in range(len(ENTRIES))]
    for number, (path, entries) in enumerate(zip(paths, ENTRIES, strict=True)):
        root.branchline_write(str(path), number, entries)
    return paths


def names(paths: list[Path]) -> list[str]:
    return [str(path) for path in paths]


def arrays(paths: list[Path]) -> Any:
    return ak.concatenate([uproot.open(path)["events"].arrays() for path in paths])


@pytest.mark.parametrize("order", ORDERS)
def test_a_merged_tree_is_read_like_its_inputs(root: Any, inputs: list[Path], tmp_path: Path, order: Any) -> None:
    output = tmp_path / "merged.root"
    made = merge(names(inputs), output, order=order)
    assert (made.entries, made.files, made.size_bytes) == (sum(ENTRIES), len(ENTRIES), output.stat().st_size)
    expected = arrays(inputs)
    assert ak.array_equal(uproot.open(output)["events"].arrays(), expected)
    with branchline.open(output) as file:
        for name in expected.fields:
            assert ak.to_list(file["events"][name].array()) == ak.to_list(expected[name]), name
    columns = root.RDataFrame("events", str(output)).AsNumpy(["n", "x"])
    assert np.array_equal(columns["n"], ak.to_numpy(expected["n"]))
    assert np.array_equal(columns["x"], ak.to_numpy(expected["x"]))
    file = root.TFile.Open(str(output))
    tree = file.Get("events")
    tree.SetCacheSize(1 << 20)
    for entry in range(tree.GetEntries()):
        assert tree.GetEntry(entry) > 0
        assert str(tree.text) == expected["text"][entry]
        assert list(tree.values) == ak.to_list(expected["values"][entry])
    assert tree.GetLeaf("n").GetMaximum() == max(expected["n"])
    file.Close()


def test_totals_and_clusters_are_those_of_the_inputs(root: Any, inputs: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "merged.root"
    merge(names(inputs), output)
    file = root.TFile.Open(str(output))
    tree = file.Get("events")
    files = [root.TFile.Open(str(path)) for path in inputs]
    trees = [one.Get("events") for one in files]
    for size in ("GetTotBytes", "GetZipBytes"):
        assert getattr(tree, size)() == sum(getattr(one, size)() for one in trees), size
        for branch in tree.GetListOfBranches():
            expected = sum(getattr(one.GetBranch(branch.GetName()), size)() for one in trees)
            assert getattr(branch, size)() == expected, (branch.GetName(), size)
    starts, clusters = [], tree.GetClusterIterator(0)
    while (start := clusters()) < tree.GetEntries():
        starts.append(start)
    before = 0
    expected_starts = []
    for entries in ENTRIES:
        expected_starts += [before + start for start in range(0, entries, 100)]
        before += entries
    assert starts == expected_starts
    for one in (*files, file):
        one.Close()


def test_hadd_merges_a_merged_file_on(inputs: list[Path], tmp_path: Path) -> None:
    import ROOT

    hadd = Path(ROOT.__file__).parent / "bin" / "hadd"
    if not os.access(hadd, os.X_OK):
        missing(f"the command {hadd}")
    merged, whole = tmp_path / "merged.root", tmp_path / "whole.root"
    merge(names(inputs[:2]), merged)
    subprocess.run([hadd, "-fk", "-v", "0", whole, merged, *inputs[2:]], check=True, capture_output=True)
    assert ak.array_equal(uproot.open(whole)["events"].arrays(), arrays(inputs))
    again = tmp_path / "again.root"
    merge([str(merged), *names(inputs[2:])], again)
    assert ak.array_equal(uproot.open(again)["events"].arrays(), arrays(inputs))


def test_the_same_inputs_make_the_same_bytes(inputs: list[Path], tmp_path: Path) -> None:
    made = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        merge(names(inputs), tmp_path / folder / "merged.root")
        made.append((tmp_path / folder / "merged.root").read_bytes())
    assert made[0] == made[1]


def test_baskets_that_came_with_a_tree_of_objects_become_baskets_of_the_file(shared: Path, tmp_path: Path) -> None:
    """Embedded baskets can be moved, because members of split objects cannot refer to each other."""
    path, copy, output = shared / "root/mksm.root", tmp_path / "copy.root", tmp_path / "merged.root"
    copy.write_bytes(path.read_bytes())
    merge(names([path, copy]), output, verify=True)
    assert verify(output, names([path, copy])).is_same
    with branchline.open(path) as one, branchline.open(output) as whole:
        own, made = one["mk"], whole["mk"]
        assert made.num_entries == 2 * own.num_entries
        compared = own.keys()[2:40:2]
        assert "event/TObject/fUniqueID" in compared
        for name in compared:
            expected = ak.to_list(own[name].array())
            assert ak.to_list(made[name].array()) == expected * 2, name
