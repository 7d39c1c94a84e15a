"""Merging trees with different branches, such as the trigger branches of NanoAOD, which differ between runs.

The expected values are those of CMS's haddnano.py: a branch that a file lacks is 0 in the entries of that file.
haddnano.py does not support missing arrays and strings. Branchline fills them with empty values, or with zeros if the
file has their counter branch.
"""

from __future__ import annotations

import subprocess
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.command_line import run_command

import branchline
from branchline.errors import OptionError, UnsupportedBranchError
from branchline.writing.merging.merge import FilledBranch, merge
from branchline.writing.merging.verify import verify

#: The branches of each file, in file order.
FILES = [
    "run HLT_A HLT_B nMuon Muon_pt HLT_C list",
    "run HLT_C nMuon Muon_pt Muon_new HLT_A nTau Tau_pt Tau_mass HLT_D weight text pair",
    "run HLT_D nMuon Muon_pt Muon_new HLT_B words HLT_A HLT_C",
]
ORDER = [
    *("run", "HLT_A", "HLT_B", "nMuon", "Muon_pt", "HLT_C", "list"),
    *("Muon_new", "nTau", "Tau_pt", "Tau_mass", "HLT_D", "weight", "text", "pair"),
    "words",
]


@pytest.fixture(scope="module")
def write(root: Any) -> Any:
    """Return a function that writes a tree with these branches."""
    root.gInterpreter.Declare(
        """
        #include <TFile.h>
        #include <TTree.h>
        #include <sstream>
        #include <string>
        #include <vector>
        #ifndef BRANCHLINE_BRANCHES
        #define BRANCHLINE_BRANCHES
        void branchline_write_branches(const char *path, int number, int entries, const char *names, int flush) {
           TFile file(path, "RECREATE");
           TTree tree("Events", "");
           tree.SetAutoFlush(flush);
           int run = 0; unsigned nMuon = 0, nTau = 0; double weight = 0; bool hlt[64] = {}; char text[30] = "";
           float Muon_pt[10], Muon_new[10]; double Tau_pt[10]; short Tau_mass[10];
           struct { float a; int b; } pair;
           std::vector<float> list; std::vector<std::string> words;
           std::istringstream stream(names);
           std::string name;
           while (stream >> name) {
              const char *n = name.c_str();
              if (name.rfind("HLT_", 0) == 0) tree.Branch(n, &hlt[name[4] - 'A'], (name + "/O").c_str());
              else if (name == "run") tree.Branch(n, &run, "run/I");
              else if (name == "weight") tree.Branch(n, &weight, "weight/D");
              else if (name == "text") tree.Branch(n, text, "text/C");
              else if (name == "nMuon") tree.Branch(n, &nMuon, "nMuon/i");
              else if (name == "nTau") tree.Branch(n, &nTau, "nTau/i");
              else if (name == "Muon_pt") tree.Branch(n, Muon_pt, "Muon_pt[nMuon]/F");
              else if (name == "Muon_new") tree.Branch(n, Muon_new, "Muon_new[nMuon]/F");
              else if (name == "Tau_pt") tree.Branch(n, Tau_pt, "Tau_pt[nTau]/D");
              else if (name == "Tau_mass") tree.Branch(n, Tau_mass, "Tau_mass[nTau]/S");
              else if (name == "pair") tree.Branch(n, &pair, "a/F:b/I");
              else if (name == "list") tree.Branch(n, &list);
              else if (name == "words") tree.Branch(n, &words);
           }
           for (int entry = 0; entry < entries; ++entry) {
              run = 1000 * number + entry; weight = run + 0.5; nMuon = run % 4; nTau = run % 7;
              for (int k = 0; k < 26; ++k) hlt[k] = (run + k) % 3 != 0;
              snprintf(text, sizeof text, "text %d", run);
              for (int k = 0; k < 10; ++k) {
                 Muon_pt[k] = run + k; Muon_new[k] = run + 2 * k; Tau_pt[k] = run - k; Tau_mass[k] = k + 1;
              }
              pair.a = run; pair.b = -run;
              list.assign(run % 5, run); words.assign(run % 3, text);
              tree.Fill();
           }
           tree.Write();
        }
        #endif
        """
    )

    def write(path: Path, number: int, entries: int, names: str, flush: int = 20) -> str:
        root.branchline_write_branches(str(path), number, entries, names, flush)
        return str(path)

    return write


@pytest.fixture(scope="module")
def inputs(write: Any, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("inputs")
    counts = [70, 45, 50]
    return [write(folder / f"{number}.root", number, counts[number], names) for number, names in enumerate(FILES)]


def filling(name: str, muons: Sequence[int]) -> list[Any]:
    """Return the entries of a branch for a file that lacks it. ``muons`` has the number of muons of each entry."""
    nothing = {"list": [], "words": [], "text": "", "Tau_pt": [], "Tau_mass": [], "pair": {"a": 0.0, "b": 0}}
    if name.startswith("Muon_"):
        return [[0.0] * count for count in muons]
    return [nothing.get(name, False if name.startswith("HLT") else 0) for _ in muons]


def expected(inputs: list[str], order: Sequence[str]) -> dict[str, list[Any]]:
    """Return the expected entries of all branches in all files."""
    columns: dict[str, list[Any]] = {name: [] for name in order}
    for path in inputs:
        tree = uproot.open(path)["Events"]
        muons = tree["nMuon"].array().to_list()
        for name, values in columns.items():
            values += ak.to_list(tree[name].array()) if name in tree else filling(name, muons)
    return columns


def values_of_root(root: Any, path: str | Path, name: str) -> Iterator[Any]:
    """Yield the values that ROOT's GetEntry reads from a branch of numbers."""
    file = root.TFile.Open(str(path))
    tree = file.Get("Events")
    leaf = tree.GetLeaf(name)
    for entry in range(tree.GetEntries()):
        tree.GetEntry(entry)
        values = [leaf.GetValue(index) for index in range(leaf.GetLen())]
        yield values if leaf.GetLeafCount() else values[0]
    file.Close()


def check(root: Any, path: str | Path, inputs: list[str], order: Sequence[str]) -> None:
    """Check that ROOT, uproot and Branchline read the expected values."""
    wanted = expected(inputs, order)
    by_uproot = uproot.open(path)["Events"]
    assert by_uproot.keys(recursive=False) == list(order)
    own = branchline.open(path)["Events"]
    for name, values in wanted.items():
        assert ak.to_list(by_uproot[name].array()) == values, name
        assert ak.to_list(own[name].array()) == values, name
        if name not in ("list", "words", "text", "pair"):
            assert list(values_of_root(root, path, name)) == values, name
    lists = root.RDataFrame("Events", str(path)).AsNumpy(["list"])["list"] if "list" in order else []
    assert [list(one) for one in lists] == wanted.get("list", [])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"order": "branch"},
        {"order": "offset"},
        {"codec": "zstd:3"},
        {"codec": "none"},
        {"cluster_events": 30},
        {"basket_size": 500},
    ],
)
def test_all_branches_of_all_files_are_in_the_output(
    root: Any, inputs: list[str], tmp_path: Path, options: dict[str, Any]
) -> None:
    output = tmp_path / "all.root"
    made = merge(inputs, output, fill_missing_branches=True, verify=True, **options)
    assert made.entries == 165
    check(root, output, inputs, ORDER)
    found = {branch.name: (branch.files, branch.entries) for branch in made.filled}
    assert found["HLT_B"] == (1, 45)
    assert found["HLT_D"] == (1, 70)
    assert found["Muon_new"] == (1, 70)
    assert found["words"] == (2, 115)
    assert "run" not in found
    assert FilledBranch("Events", "Tau_pt", 2, 120) in made.filled


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fill_missing_branches": True},
        {"cluster_events": 11},
        {"codec": "zstd:5"},
        {"order": "branch"},
        {"basket_size": "1 kB"},
    ],
    ids=str,
)
def test_branches_in_another_order_are_matched_by_name(
    root: Any, write: Any, tmp_path: Path, options: dict[str, Any]
) -> None:
    names = "run nMuon Muon_pt nTau Tau_mass text words pair HLT_A list"
    orders = [
        names,
        "list HLT_A pair words text nTau Tau_mass nMuon Muon_pt run",
        "HLT_A text run nMuon nTau words Tau_mass pair list Muon_pt",
    ]
    inputs = [write(tmp_path / f"{n}.root", n, 30 - 5 * n, order) for n, order in enumerate(orders)]
    made = merge(inputs, tmp_path / "all.root", verify=True, **options)
    assert made.filled == ()
    check(root, tmp_path / "all.root", inputs, names.split())
    assert verify(tmp_path / "all.root", inputs).is_same
    # The maximum values are the maxima over all files, independent of the order of the branches.
    file = root.TFile.Open(str(tmp_path / "all.root"))
    tree = file.Get("Events")
    for name in ("nMuon", "nTau"):
        largest = max(uproot.open(path)["Events"][name].array().to_numpy().max() for path in inputs)
        assert tree.GetLeaf(name).GetMaximum() == largest, name
    file.Close()


def test_branches_in_another_order_are_those_of_hadd(root: Any, write: Any, tmp_path: Path) -> None:
    inputs = [
        write(tmp_path / "0.root", 0, 30, "run nMuon Muon_pt list HLT_A"),
        write(tmp_path / "1.root", 1, 20, "HLT_A list run nMuon Muon_pt"),
    ]
    hadd = Path(root.__file__).parent / "bin" / "hadd"
    theirs = tmp_path / "theirs.root"
    subprocess.run([hadd, "-fk", "-v", "0", theirs, *inputs], check=True, capture_output=True)
    merge(inputs, tmp_path / "ours.root")
    expected, found = (uproot.open(path)["Events"] for path in (theirs, tmp_path / "ours.root"))
    assert expected.keys() == found.keys()
    assert expected.arrays().to_list() == found.arrays().to_list()


@pytest.mark.parametrize("names", ["run HLT_A", "HLT_A HLT_B run", "HLT_B run"])
def test_other_branches_in_another_order_are_refused(write: Any, tmp_path: Path, names: str) -> None:
    inputs = [write(tmp_path / "0.root", 0, 5, "run HLT_B HLT_C"), write(tmp_path / "1.root", 1, 5, names)]
    with pytest.raises(UnsupportedBranchError, match=r"branch HLT_[BC] is missing"):
        merge(inputs, tmp_path / "all.root")


@pytest.mark.parametrize("letters", ["Ii", "iI", "Bb", "sS", "Ll"])
@pytest.mark.parametrize("order", ["a b", "b a"])
def test_signed_against_unsigned_integers_are_refused(root: Any, tmp_path: Path, letters: str, order: str) -> None:
    codes = {"I": "i", "i": "I", "B": "b", "b": "B", "s": "H", "S": "h", "L": "q", "l": "Q"}
    inputs = []
    for number, letter in enumerate(letters):
        inputs.append(str(tmp_path / f"{number}.root"))
        file = root.TFile(inputs[-1], "RECREATE")
        tree = root.TTree("t", "")
        values = {"a": array("d", [0]), "b": array(codes[letter], [1])}
        for name in order.split() if number else "ab":
            tree.Branch(name, values[name], f"{name}/{letter if name == 'b' else 'D'}")
        tree.Fill()
        tree.Write()
        file.Close()
    # ROOT's type letters for unsigned integers are lowercase.
    words = "unsigned instead of signed" if letters[1].islower() else "signed instead of unsigned"
    with pytest.raises(UnsupportedBranchError, match=f"branch b has {words} integers in the leaf b"):
        merge(inputs, tmp_path / "all.root")


def test_files_without_differences_are_merged_as_without_the_option(inputs: list[str], tmp_path: Path) -> None:
    same = [inputs[0], inputs[0]]
    copy = tmp_path / "copy.root"
    copy.write_bytes(Path(inputs[0]).read_bytes())
    same[1] = str(copy)
    merge(same, tmp_path / "a.root")
    made = merge(same, tmp_path / "b.root", fill_missing_branches=True)
    assert made.filled == ()
    plain, filled = (uproot.open(tmp_path / name)["Events"] for name in ("a.root", "b.root"))
    assert plain.arrays().to_list() == filled.arrays().to_list()
    assert (tmp_path / "a.root").stat().st_size == (tmp_path / "b.root").stat().st_size


def test_files_without_entries_have_nothing_to_fill(root: Any, write: Any, tmp_path: Path) -> None:
    inputs = [
        write(tmp_path / "0.root", 0, 0, "run nMuon HLT_A"),
        write(tmp_path / "1.root", 1, 20, "run nMuon HLT_B"),
        write(tmp_path / "2.root", 2, 0, "run nMuon HLT_C"),
    ]
    made = merge(inputs, tmp_path / "all.root", fill_missing_branches=True)
    assert {branch.name: branch.files for branch in made.filled} == {"HLT_A": 1, "HLT_C": 1}
    check(root, tmp_path / "all.root", inputs, ["run", "nMuon", "HLT_A", "HLT_B", "HLT_C"])


def test_several_outputs_have_the_same_branches(root: Any, inputs: list[str], tmp_path: Path) -> None:
    made = merge(inputs, tmp_path / "all.root", fill_missing_branches=True, max_size=1000)
    assert len(made.paths) == 3
    for path, own in zip(made.paths, inputs, strict=True):
        check(root, path, [own], ORDER)
    assert {branch.name: branch.files for branch in made.filled}["words"] == 2


def test_a_merged_output_can_be_merged_again(root: Any, inputs: list[str], tmp_path: Path) -> None:
    merge(inputs[:2], tmp_path / "two.root", fill_missing_branches=True)
    both = [str(tmp_path / "two.root"), inputs[2]]
    merge(both, tmp_path / "all.root", fill_missing_branches=True)
    check(root, tmp_path / "all.root", inputs, ORDER)


def test_without_the_option_the_refusal_names_it(inputs: list[str], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedBranchError, match="HLT_B") as refused:
        merge(inputs, tmp_path / "all.root")
    assert "--fill-missing-branches" in str(refused.value)


def test_branches_of_other_types_are_refused_by_name(root: Any, write: Any, tmp_path: Path) -> None:
    one = write(tmp_path / "0.root", 0, 10, "run nMuon HLT_A")
    with uproot.recreate(tmp_path / "1.root") as file:
        file.mktree("Events", {"run": "int32", "HLT_A": "float64", "HLT_B": "bool"})
        file["Events"].extend({"run": [1], "HLT_A": [1.0], "HLT_B": [True]})
    other = str(tmp_path / "1.root")
    with pytest.raises(UnsupportedBranchError, match="branch HLT_A"):
        merge([one, other], tmp_path / "all.root", fill_missing_branches=True)
    made = merge([one, other], tmp_path / "all.root", fill_missing_branches=True, skip_bad_files=True)
    assert [(made.files, len(made.skipped))] == [(1, 1)]
    assert "HLT_A" in made.skipped[0].reason
    assert uproot.open(tmp_path / "all.root")["Events"].keys() == ["run", "nMuon", "HLT_A"]


def test_files_of_other_programs_get_branches_of_root(root: Any, write: Any, tmp_path: Path) -> None:
    one = write(tmp_path / "0.root", 0, 10, "run nMuon Muon_pt HLT_A list")
    with uproot.recreate(tmp_path / "1.root") as file:
        file.mktree("Events", {"run": "int32", "HLT_B": "bool", "nMuon": "uint32"})
        file["Events"].extend({"run": [1, 2], "HLT_B": [True, False], "nMuon": [0, 0]})
    for inputs in ([one, str(tmp_path / "1.root")], [str(tmp_path / "1.root"), one]):
        merge(inputs, tmp_path / "all.root", fill_missing_branches=True, force=True)
        order = ["run", "nMuon", "Muon_pt", "HLT_A", "list", "HLT_B"]
        if inputs[1] == one:
            order = ["run", "HLT_B", "nMuon", "Muon_pt", "HLT_A", "list"]
        check(root, tmp_path / "all.root", inputs, order)


def test_verify_knows_what_was_filled(inputs: list[str], tmp_path: Path) -> None:
    merge(inputs, tmp_path / "all.root", fill_missing_branches=True)
    found = verify(str(tmp_path / "all.root"), inputs)
    assert found.is_same, found
    assert {branch.name: branch.entries for branch in found.filled}["HLT_D"] == 70
    for name, options in {"zstd": {"codec": "zstd:3"}, "new": {"cluster_events": 30}}.items():
        merge(inputs, tmp_path / f"{name}.root", fill_missing_branches=True, **options)
        assert verify(str(tmp_path / f"{name}.root"), inputs).is_same, name


def test_verify_finds_other_values_where_zeros_belong(write: Any, tmp_path: Path) -> None:
    one = write(tmp_path / "0.root", 0, 10, "run nMuon")
    other = write(tmp_path / "1.root", 1, 10, "run nMuon HLT_A")
    with uproot.recreate(tmp_path / "all.root") as file:
        file.mktree("Events", {"run": "int32", "nMuon": "uint32", "HLT_A": "bool"})
        arrays = [uproot.open(path)["Events"] for path in (one, other)]
        columns = {name: ak.concatenate([tree[name].array() for tree in arrays]) for name in ("run", "nMuon")}
        flags = ak.concatenate([[True] * 10, arrays[1]["HLT_A"].array()])
        file["Events"].extend({**columns, "HLT_A": flags})
    found = verify(str(tmp_path / "all.root"), [one, other])
    assert not found.is_same
    assert any("HLT_A" in difference for difference in found.trees[0].differences)


def test_the_command_says_what_it_filled(inputs: list[str], tmp_path: Path) -> None:
    output = str(tmp_path / "all.root")
    done = run_command(["merge", *inputs, "-o", output, "--fill-missing-branches"])
    assert done.exit_code == 0
    assert "branch HLT_B of the tree Events, for 45 entries of 1 file without it" in done.stderr
    assert ", 11 branches filled, " in done.stdout
    verified = run_command(["verify", output, *inputs])
    assert verified.exit_code == 0
    assert "branch HLT_B of the tree Events, for 45 entries" in verified.stderr


def test_keeping_some_branches_does_not_go_with_it(inputs: list[str], tmp_path: Path) -> None:
    from branchline.writing.merging.merge import TreeSelection

    selection = TreeSelection(branches={"Events": ["run"]})
    with pytest.raises(OptionError, match="cannot be combined with a selection of branches"):
        merge(inputs, tmp_path / "a.root", fill_missing_branches=True, selection=selection)


@pytest.mark.parametrize("is_bad_first", [False, True])
def test_a_file_that_is_left_out_for_its_second_tree_adds_no_branches(tmp_path: Path, *, is_bad_first: bool) -> None:
    paths = [tmp_path / "good.root", tmp_path / "bad.root"]
    for path, names in zip(paths, (["x"], ["x", "z"]), strict=True):
        with uproot.recreate(path, compression=None) as file:
            for tree, branches in (("first", names), ("second", ["y"])):
                file.mktree(tree, dict.fromkeys(branches, "f8")).extend({one: np.arange(5.0) for one in branches})
    with uproot.open(paths[1]) as file:
        key = file.key("second")
        start = key.fSeekKey + key.fKeylen
    content = bytearray(paths[1].read_bytes())
    content[start + 60 : start + 200] = bytes(255 - one for one in content[start + 60 : start + 200])
    paths[1].write_bytes(content)
    inputs = [str(one) for one in (reversed(paths) if is_bad_first else paths)]
    made = merge(inputs, tmp_path / "all.root", fill_missing_branches=True, skip_bad_files=True)
    assert [one.path for one in made.skipped] == [str(paths[1])]
    assert made.filled == ()
    with branchline.open(tmp_path / "all.root") as file:
        assert (list(file["first"].keys()), file["first"].num_entries) == (["x"], 5)
