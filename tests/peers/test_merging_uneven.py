"""Merging trees whose branches have different numbers of entries. Values stay at their entry of the tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import pytest
import uproot

import branchline
from branchline.errors import UnsupportedBranchError
from branchline.writing.merging.merge import merge
from branchline.writing.merging.verify import verify

FILES, ENTRIES, MISSING = 3, 50, 20
NOTHING = {"x": 0, "fixed": [0, 0, 0], "text": "", "list": [], "names": [], "string": "", "pair": 0}


@pytest.fixture(scope="module")
def inputs(root: Any, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Write files with branches of all kinds that were added when their tree already had entries."""
    folder = tmp_path_factory.mktemp("inputs")
    root.gInterpreter.Declare(
        """
        #include <TFile.h>
        #include <TTree.h>
        #include <string>
        #include <vector>
        #ifndef BRANCHLINE_UNEVEN
        #define BRANCHLINE_UNEVEN
        void branchline_write_uneven(const char *path, int number, int entries, int missing) {
           TFile file(path, "RECREATE");
           TTree tree("events", "");
           int n = 0, m = 0; float x = 0; double fixed[3]; char text[20]; float values[10];
           struct { float a; int b; } pair;
           std::vector<int> list; std::vector<std::string> names; std::string string;
           tree.Branch("n", &n, "n/I");
           for (int entry = 0; entry < entries; ++entry) {
              if (entry == missing) {
                 tree.Branch("x", &x, "x/F");
                 tree.Branch("fixed", fixed, "fixed[3]/D");
                 tree.Branch("text", text, "text/C");
                 tree.Branch("list", &list);
                 tree.Branch("names", &names);
                 tree.Branch("string", &string);
                 tree.Branch("pair", &pair, "a/F:b/I");
                 tree.Branch("m", &m, "m/I");
                 tree.Branch("values", values, "values[m]/F");
              }
              n = 1000 * number + entry; x = n + 0.5; m = n % 5;
              for (int k = 0; k < 3; ++k) fixed[k] = n + 0.1 * k;
              snprintf(text, sizeof text, "text %d", n);
              list.assign(n % 4, n); names.assign(n % 3, std::string(text)); string = text;
              pair.a = n; pair.b = -n;
              for (int k = 0; k < m; ++k) values[k] = n + k;
              tree.Fill();
           }
           tree.Write();
        }
        #endif
        """
    )
    paths = [folder / f"{number}.root" for number in range(FILES)]
    for number, path in enumerate(paths):
        root.branchline_write_uneven(str(path), number, ENTRIES, MISSING)
    return [str(path) for path in paths]


def columns(path: str | Path) -> dict[str, list[Any]]:
    """Return the values that uproot reads from each branch. Of a leaf list, only the first leaf is returned."""
    tree = uproot.open(path)["events"]
    found = {branch.name: ak.to_list(branch.array()) for branch in tree.branches}
    return {**found, "pair": [pair["a"] for pair in found["pair"]]}


@pytest.mark.parametrize("options", [{}, {"codec": "zstd:3"}, {"cluster_events": 30}, {"order": "branch"}])
def test_what_branches_lack_is_nothing_in_front_of_the_next_file(
    root: Any, inputs: list[str], tmp_path: Path, options: dict[str, Any]
) -> None:
    output = tmp_path / "merged.root"
    made = merge(inputs, output, verify=True, **options)
    notes = [f"{path}: branch x of the tree events has {ENTRIES - MISSING} of {ENTRIES} entries" for path in inputs]
    assert [note.split(", and 8 more")[0] for note in made.notes[:FILES]] == notes
    assert verify(output, inputs).is_same
    parts, whole = [columns(path) for path in inputs], columns(output)
    for name, nothing in {**NOTHING, "m": 0, "values": []}.items():
        assert [len(part[name]) for part in parts] == [ENTRIES - MISSING] * FILES
        assert whole[name] == [one for part in parts for one in part[name] + [nothing] * MISSING], name
    assert whole["n"] == [one for part in parts for one in part["n"]]
    with branchline.open(output) as file:
        assert all(len(file["events"][name].array()) == FILES * ENTRIES for name in whole)
    frame = root.RDataFrame("events", str(output))
    assert frame.AsNumpy(["x"])["x"].tolist() == whole["x"]
    file = root.TFile.Open(str(output))
    tree = file.Get("events")
    for entry, values in enumerate(whole["values"]):
        tree.GetEntry(entry)
        assert list(tree.values) == values
        assert [str(name) for name in tree.names] == whole["names"][entry]
        assert str(tree.string) == whole["string"][entry]
    file.Close()


@pytest.mark.parametrize("options", [{}, {"codec": "zstd:3"}, {"order": "branch"}])
def test_one_file_that_is_rewritten_alone_stays_as_it_is(
    inputs: list[str], tmp_path: Path, options: dict[str, Any]
) -> None:
    output = tmp_path / "copy.root"
    assert merge(inputs[:1], output, **options).notes == ()
    assert columns(output) == columns(inputs[0])
    assert verify(output, inputs[:1]).is_same


def test_a_branch_without_what_counts_it_is_refused_by_name(root: Any, tmp_path: Path) -> None:
    path = tmp_path / "uncounted.root"
    values = root.std.vector["float"]([1, 2, 3])
    count = root.std.vector["int"]([3])
    file = root.TFile(str(path), "RECREATE")
    tree = root.TTree("events", "")
    tree.Branch("n", count.data(), "n/I")
    tree.Fill()
    tree.Branch("values", values.data(), "values[n]/F")
    tree.Fill()
    tree.Write()
    file.Close()
    copy = tmp_path / "copy.root"
    copy.write_bytes(path.read_bytes())
    with pytest.raises(
        UnsupportedBranchError, match="branch values has 1 entries, but n, which holds its element"
    ) as caught:
        merge([str(path), str(copy)], tmp_path / "merged.root")
    assert str(path) in str(caught.value)
    assert not (tmp_path / "merged.root").exists()


def test_a_tree_that_does_not_say_how_many_entries_it_has_gets_those_of_its_branches(
    shared: Path, tmp_path: Path
) -> None:
    path, copy, output = shared / "root/string-example.root", tmp_path / "copy.root", tmp_path / "merged.root"
    copy.write_bytes(path.read_bytes())
    made = merge([str(path), str(copy)], output)
    assert made.entries == 4
    assert made.notes[0].endswith("the tree Refs claims to have no entries, but its branches have up to 2")
    own = ak.to_list(uproot.open(path)["Refs/Params"].array())
    assert len(own) == 2
    assert ak.to_list(uproot.open(output)["Refs/Params"].array()) == own * 2
    assert uproot.open(output)["Refs"].num_entries == 4
    assert len(uproot.open(output)["Refs/Links"].array()) == 0
