"""Trees with rewritten baskets have the values of the inputs when ROOT and uproot read them."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.command_line import run_command
from tests.peers.peers import missing
from tests.sampled import long_but

import branchline
from branchline.errors import ExpressionError, NoSuchKeyError, OptionError
from branchline.writing.merging.merge import merge
from branchline.writing.merging.skim import skim, slim
from branchline.writing.merging.verify import verify

ENTRIES = (700, 0, 1, 1300)
#: Codecs, and the compression settings by which ROOT calls them.
CODECS = {"zstd:5": 505, "zlib:1": 101, "lz4:4": 404, "lzma:1": 201, "none": 0}

WRITER = """
#include <TClonesArray.h>
#include <TFile.h>
#include <TLeaf.h>
#include <TLorentzVector.h>
#include <TNamed.h>
#include <TObjArray.h>
#include <TTree.h>
#include <string>
#include <vector>
#ifndef BRANCHLINE_REWRITING
#define BRANCHLINE_REWRITING
std::string branchline_letters(TTree *tree) {
   return static_cast<char *>(tree->GetLeaf("letters")->GetValuePointer());
}
struct BranchlinePair { int first; double second; };
void branchline_rewriting(const char *path, int number, int entries) {
   TFile file(path, "RECREATE");
   TTree tree("events", "events of a test");
   tree.SetAutoFlush(100 + 50 * number);
   int n = 0; double x = 0; float values[50]; char letters[20]; bool flag = false;
   BranchlinePair pair;
   std::vector<int> list; std::vector<std::vector<float>> lists; std::string text;
   TLorentzVector vector;
   TClonesArray clones("TLorentzVector"); TClonesArray *clones_at = &clones;
   TObjArray objects; TObjArray *objects_at = &objects;
   tree.Branch("n", &n, "n/I");
   tree.Branch("x", &x, "x/D");
   tree.Branch("flag", &flag, "flag/O");
   tree.Branch("letters", letters, "letters/C");
   tree.Branch("pair", &pair, "first/I:second/D");
   tree.Branch("values", values, "values[n]/F");
   tree.Branch("list", &list);
   tree.Branch("lists", &lists);
   tree.Branch("text", &text);
   tree.Branch("vector", &vector);
   tree.Branch("clones", &clones_at, 32000, 99);
   tree.Branch("objects", "TObjArray", &objects_at, 4000, 0);
   for (int entry = 0; entry < entries; ++entry) {
      n = (entry * 7 + number) % (5 + 10 * number);
      x = number + 0.001 * entry;
      flag = n % 2;
      snprintf(letters, sizeof letters, "%.*s", n % 12, "abcdefghijkl");
      pair = {entry, x};
      list.clear(); lists.clear(); clones.Clear(); objects.Delete();
      for (int k = 0; k < n; ++k) {
         values[k] = x + k;
         list.push_back(number * 1000 + k);
         lists.push_back(std::vector<float>(k % 3, k));
         new (clones[k]) TLorentzVector(x, k, 3, 4);
      }
      for (int k = 0; k < n % 4; ++k) {
         if (k) objects.Add(nullptr);
         objects.Add(new TNamed(TString("name ") + TString::Itoa(entry, 10), TString("title")));
         objects.Add(new TLorentzVector(entry, k, 0, 0));
      }
      vector.SetPxPyPzE(n, x, 1, 2);
      text = "entry " + std::to_string(entry) + " of file " + std::to_string(number);
      tree.Fill();
   }
   tree.Write();
}
#endif
"""


@pytest.fixture(scope="module")
def inputs(root: Any, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Write files with all kinds of entries: numbers, variable-size arrays, strings, containers, split objects, and
    unsplit objects with pointers to each other.
    """
    folder = tmp_path_factory.mktemp("inputs")
    root.gInterpreter.Declare(WRITER)
    paths = [str(folder / f"{number}.root") for number in range(len(ENTRIES))]
    for number, (path, entries) in enumerate(zip(paths, ENTRIES, strict=True)):
        root.branchline_rewriting(path, number, entries)
    return paths


@pytest.fixture(scope="module")
def expected(inputs: list[str]) -> Any:
    """Return the values that Branchline reads from the inputs. Other tests compare them with ROOT and uproot."""
    return ak.concatenate([branchline.open(path)["events"].arrays() for path in inputs])


def check(root: Any, path: Path, expected: Any) -> None:
    """Check the values of every branch, read with Branchline, uproot and ROOT."""
    with branchline.open(path) as file:
        found = file["events"].arrays()
    assert ak.fields(found) == ak.fields(expected)
    for name in ak.fields(expected):
        assert ak.to_list(found[name]) == ak.to_list(expected[name]), name
    with uproot.open(path) as file:
        tree = file["events"]
        for name in ("n", "x", "flag", "values", "list", "lists", "text", "pair"):
            assert ak.to_list(tree[name].array()) == ak.to_list(expected[name]), name
    check_with_root(root, path, expected)


def check_with_root(root: Any, path: Path, expected: Any) -> None:
    file = root.TFile.Open(str(path))
    tree = file.Get("events")
    assert tree.GetEntries() == len(expected)
    tree.SetCacheSize(1 << 20)
    columns = {name: ak.to_list(expected[name]) for name in ("n", "text", "values", "lists", "letters")}
    for entry in range(len(expected)):
        assert tree.GetEntry(entry) > 0
        assert str(tree.text) == columns["text"][entry]
        assert list(tree.values) == columns["values"][entry]
        assert str(root.branchline_letters(tree)) == columns["letters"][entry]
        n = columns["n"][entry]
        assert [list(one) for one in tree.lists] == columns["lists"][entry]
        assert tree.vector.X() == n
        assert tree.clones.GetEntriesFast() == n
        if n:
            assert tree.clones.At(n - 1).Y() == n - 1
        named = [one for one in tree.objects if one]
        assert [one.ClassName() for one in named] == ["TNamed", "TLorentzVector"] * (n % 4)
        if named:
            assert named[0].GetName() == f"name {expected['pair', 'first'][entry]}"
            assert named[-1].X() == expected["pair", "first"][entry]
    file.Close()
    frame = root.RDataFrame("events", str(path))
    assert frame.Sum("x").GetValue() == pytest.approx(ak.sum(expected["x"]))


@pytest.mark.parametrize("codec", long_but(CODECS, ["zstd:5", "none"]))
def test_a_recompressed_tree_is_read_like_its_inputs(
    root: Any, inputs: list[str], expected: Any, tmp_path: Path, codec: str
) -> None:
    output = tmp_path / "merged.root"
    made = merge(inputs, output, codec=codec)
    assert (made.entries, made.size_bytes) == (sum(ENTRIES), output.stat().st_size)
    check(root, output, expected)
    file = root.TFile.Open(str(output))
    tree = file.Get("events")
    inputs_at = [root.TFile.Open(path) for path in inputs]
    trees = [one.Get("events") for one in inputs_at]
    assert file.GetCompressionSettings() == CODECS[codec]
    assert tree.GetTotBytes() == sum(one.GetTotBytes() for one in trees)
    stored = 0
    for branch in tree.GetListOfBranches():
        assert branch.GetCompressionSettings() == CODECS[codec]
        stored += branch.GetZipBytes("*")
    assert stored == tree.GetZipBytes() == made.basket_bytes
    for one in (*inputs_at, file):
        one.Close()


def test_every_basket_has_the_codec_that_was_asked_for(inputs: list[str], tmp_path: Path) -> None:
    output = tmp_path / "merged.root"
    for codec, magic in (("zstd:5", b"ZS"), ("lz4:4", b"L4"), ("none", None)):
        merge(inputs, output, codec=codec, force=True)
        assert codecs_of(output) == ({magic} if magic else set()), codec


def codecs_of(path: Path) -> set[bytes]:
    """Return the magic bytes of the compressed baskets of the tree "events"."""
    content, found = path.read_bytes(), set()
    for branch in uproot.open(path)["events"].itervalues():
        for number in range(branch.num_baskets):
            seek = branch.member("fBasketSeek")[number]
            size, _, plain_size, _, key_size = struct.unpack_from(">ihiIh", content, seek)
            assert size == branch.member("fBasketBytes")[number]
            if size - key_size < plain_size:
                found.add(content[seek + key_size : seek + key_size + 2])
    return found


def test_new_baskets_of_files_by_uproot_are_compressed_as_they_were(tmp_path: Path) -> None:
    # The metadata of the branches declare no compression (TBranch::fCompress is 0), although their baskets are
    # compressed.
    paths = [tmp_path / "one.root", tmp_path / "two.root"]
    for path in paths:
        with uproot.recreate(path, compression=uproot.ZSTD(3)) as file:
            file.mktree("events", {"n": "int32"}).extend({"n": np.arange(5000, dtype="int32")})
    output = tmp_path / "merged.root"
    merge([str(path) for path in paths], output, cluster_events=2500)
    assert codecs_of(output) == {b"ZS"}
    assert output.stat().st_size < 1.2 * sum(path.stat().st_size for path in paths)


def test_hadd_merges_a_recompressed_file_on(inputs: list[str], expected: Any, tmp_path: Path, root: Any) -> None:
    hadd = Path(root.__file__).parent / "bin" / "hadd"
    if not os.access(hadd, os.X_OK):
        missing(f"the command {hadd}")
    merged, whole = tmp_path / "merged.root", tmp_path / "whole.root"
    merge(inputs[:2], merged, codec="lz4:1")
    subprocess.run([hadd, "-ff", "-v", "0", whole, merged, *inputs[2:]], check=True, capture_output=True)
    check(root, whole, expected)


SLOW = (
    {"cluster_events": 250},
    {"cluster_bytes": 20_000, "codec": "lz4:1"},
    {"basket_size": 2000, "cluster_events": 64},
)


@pytest.mark.parametrize("options", long_but(SLOW, SLOW[1:2]), ids=lambda options: "-".join(options))
def test_a_tree_with_new_baskets_is_read_like_its_inputs(
    root: Any, inputs: list[str], expected: Any, tmp_path: Path, options: dict[str, Any]
) -> None:
    output = tmp_path / "merged.root"
    made = merge(inputs, output, verify=True, **options)
    assert (made.entries, made.size_bytes) == (sum(ENTRIES), output.stat().st_size)
    check(root, output, expected)
    file = root.TFile.Open(str(output))
    tree = file.Get("events")
    cluster = options.get("cluster_events", tree.GetAutoFlush())
    assert tree.GetAutoFlush() == cluster
    starts, clusters = [], tree.GetClusterIterator(0)
    while (start := clusters()) < tree.GetEntries():
        starts.append(start)
    assert starts == list(range(0, sum(ENTRIES), cluster))
    stored = plain = 0
    for branch in uproot.open(output)["events"].itervalues():
        count = branch.num_baskets
        if not count:
            continue
        firsts = set(branch.member("fBasketEntry")[:count].tolist())
        assert firsts >= set(starts), branch.name
        if "basket_size" in options:
            assert branch.member("fBasketSize") == 2000
            assert len(firsts) > len(starts) or branch.name not in ("lists", "objects")
        else:
            assert firsts == set(starts), branch.name
        stored += branch.compressed_bytes
        plain += branch.uncompressed_bytes
    assert (tree.GetZipBytes(), tree.GetTotBytes()) == (stored, plain)
    file.Close()


@pytest.mark.parametrize("order", long_but(["offset", "branch", "entry"], ["entry"]))
def test_new_baskets_of_a_cluster_lie_in_the_order_that_was_asked_for(
    root: Any, inputs: list[str], expected: Any, tmp_path: Path, order: str
) -> None:
    output = tmp_path / "merged.root"
    merge(inputs, output, order=order, cluster_events=500, basket_size=3000, verify=True)
    check(root, output, expected)
    baskets = []
    for number, branch in enumerate(uproot.open(output)["events"].itervalues()):
        count = branch.num_baskets
        starts = [*branch.member("fBasketEntry")[:count].tolist(), len(expected)]
        for first, behind, seek in zip(starts, starts[1:], branch.member("fBasketSeek"), strict=False):
            place = {"entry": (first, number), "branch": (number, first), "offset": (behind, number)}[order]
            baskets.append((first // 500, *place, int(seek)))
    assert len(baskets) > 100
    seeks = [seek for *_, seek in sorted(baskets)]
    assert seeks == sorted(seeks)


COUNTED_WRITER = """
#include <TFile.h>
#include <TTree.h>
#include <ROOT/TIOFeatures.hxx>
#ifndef BRANCHLINE_COUNTED
#define BRANCHLINE_COUNTED
void branchline_counted(const char *path, int number) {
   TFile file(path, "RECREATE");
   TTree tree("events", "");
   ROOT::TIOFeatures features;
   features.Set(ROOT::Experimental::EIOFeatures::kGenerateOffsetMap);
   tree.SetIOFeatures(features);
   int n = 0; Char_t m = 0; float values[20]; double pairs[8][2]; bool flags[20];
   tree.Branch("n", &n, "n/I"); tree.Branch("m", &m, "m/B");
   tree.Branch("values", values, "values[n]/F"); tree.Branch("pairs", pairs, "pairs[m][2]/D");
   tree.Branch("flags", flags, "flags[n]/O");
   tree.SetAutoFlush(70 + number);
   for (int entry = 0; entry < 500; ++entry) {
      n = (entry * 7 + number) % 19; m = entry % 8;
      for (int k = 0; k < 20; ++k) { values[k] = entry + 0.01f * k; flags[k] = (entry + k) % 3 == 0; }
      for (int k = 0; k < 8; ++k) { pairs[k][0] = entry; pairs[k][1] = k + number; }
      tree.Fill();
   }
   tree.Write();
}
#endif
"""


def test_baskets_that_leave_to_a_counter_where_entries_begin_are_rewritten(root: Any, tmp_path: Path) -> None:
    root.gInterpreter.Declare(COUNTED_WRITER)
    inputs = [str(tmp_path / f"{number}.root") for number in range(2)]
    for number, path in enumerate(inputs):
        root.branchline_counted(path, number)
    expected = ak.concatenate([branchline.open(path)["events"].arrays() for path in inputs])
    output = tmp_path / "out.root"
    for options in ({"cluster_events": 33}, {"basket_size": 700, "codec": "zstd:1"}, {}):
        kept = slice(None)
        if options:
            merge(inputs, output, force=True, verify=True, **options)
        else:
            skim(inputs, output, where="n > 9", force=True, verify=True)
            kept = expected["n"] > 9
        assert ak.to_list(uproot.open(output)["events"].arrays()) == ak.to_list(expected[kept])
        assert ak.to_list(branchline.open(output)["events"].arrays()) == ak.to_list(expected[kept])
        wanted = ak.to_list(expected[kept])
        file = root.TFile.Open(str(output))
        tree = file.Get("events")
        for entry, event in enumerate(wanted):
            assert tree.GetEntry(entry) > 0
            for name in ("values", "flags", "pairs"):
                leaf = tree.GetLeaf(name)
                flat = ak.to_list(ak.flatten(event[name], axis=None)) if event[name] else []
                assert [leaf.GetValue(place) for place in range(leaf.GetLen())] == flat, (options, entry, name)
        file.Close()
        assert verify(output, inputs).is_same == (options != {})


def test_hadd_merges_a_file_with_new_baskets_on(inputs: list[str], expected: Any, tmp_path: Path, root: Any) -> None:
    hadd = Path(root.__file__).parent / "bin" / "hadd"
    if not os.access(hadd, os.X_OK):
        missing(f"the command {hadd}")
    merged, whole = tmp_path / "merged.root", tmp_path / "whole.root"
    merge(inputs[:2], merged, cluster_events=77, codec="lz4:1")
    # If the compression differs, hadd reads and writes entries. If it copied baskets, it would keep the buffer size of
    # the first file for strings.
    subprocess.run([hadd, "-ff", "-v", "0", whole, merged, *inputs[2:]], check=True, capture_output=True)
    check(root, whole, expected)
    again = tmp_path / "again.root"
    merge([str(merged), *inputs[2:]], again, cluster_events=300)
    check(root, again, expected)


def test_options_of_new_baskets_that_do_not_go_are_refused(inputs: list[str], tmp_path: Path) -> None:
    with pytest.raises(OptionError):
        merge(inputs, tmp_path / "merged.root", cluster_events=0)
    assert not list(tmp_path.iterdir())


def test_a_skim_has_the_entries_that_root_copies(root: Any, inputs: list[str], expected: Any, tmp_path: Path) -> None:
    output, by_root = tmp_path / "skim.root", tmp_path / "root.root"
    made = skim(inputs, output, where="(n > 3) & (x < 3.5)", verify=True)
    wanted = expected[(expected["n"] > 3) & (expected["x"] < 3.5)]
    assert made.entries == len(wanted) > 100
    check(root, output, wanted)
    chain = root.TChain("events")
    for path in inputs:
        chain.Add(path)
    file = root.TFile.Open(str(by_root), "RECREATE")
    copied = chain.CopyTree("n > 3 && x < 3.5")
    copied.Write()
    file.Close()
    with branchline.open(by_root) as file:
        ours = branchline.open(output)["events"].arrays()
        for name in ("n", "x", "letters", "values", "text", "lists", "objects"):
            assert ak.to_list(file["events"][name].array()) == ak.to_list(ours[name]), name


def test_a_function_selects_entries_and_none_may_be_left(
    root: Any, inputs: list[str], expected: Any, tmp_path: Path
) -> None:
    output = tmp_path / "skim.root"
    skim(inputs, output, where=lambda events: ak.sum(events["values"], axis=1) > 50, codec="zstd:1", cluster_events=20)
    check(root, output, expected[ak.sum(expected["values"], axis=1) > 50])
    assert skim(inputs, output, where="n < 0", force=True).entries == 0
    assert len(uproot.open(output)["events"]["n"].array()) == 0
    with pytest.raises(ExpressionError, match="one truth value for each"):
        skim(inputs, output, where="values > 3", force=True)


@pytest.mark.parametrize("way", [{}, {"codec": "lz4:1"}, {"cluster_events": 100}], ids=("fast", "recompress", "slow"))
def test_a_slimmed_tree_has_the_branches_that_are_wanted_and_those_that_count_them(
    root: Any, inputs: list[str], expected: Any, tmp_path: Path, way: dict[str, Any]
) -> None:
    output = tmp_path / "slim.root"
    for options, names in (
        ({"branches": ["values", "text", "clones"]}, {"n", "values", "text", "clones"}),
        ({"drop": ["n", "l*", "objects", "clones"]}, {"n", "x", "flag", "pair", "values", "text", "vector"}),
    ):
        slim(inputs, output, verify=True, force=True, **options, **way)
        tree = uproot.open(output)["events"]
        assert {branch.name for branch in tree.branches} == names
        with branchline.open(output) as file:
            found = file["events"].arrays()
        for name in found.fields:
            assert ak.to_list(found[name]) == ak.to_list(expected[name]), name
        for name in names & {"n", "x", "values", "text", "pair"}:
            assert ak.to_list(tree[name].array()) == ak.to_list(expected[name]), name
        file = root.TFile.Open(str(output))
        tree = file.Get("events")
        assert {leaf.GetBranch().GetName().split(".")[0] for leaf in tree.GetListOfLeaves()} >= names - {"vector"}
        for entry in range(0, len(expected), 7):
            assert tree.GetEntry(entry) > 0
            assert list(tree.values) == ak.to_list(expected["values"][entry])
            assert str(tree.text) == expected["text"][entry]
        assert tree.GetZipBytes() == sum(branch.GetZipBytes("*") for branch in tree.GetListOfBranches())
        assert root.RDataFrame("events", str(output)).Sum("n").GetValue() == ak.sum(expected["n"])
        file.Close()


def test_names_that_no_branch_has_are_refused(inputs: list[str], tmp_path: Path) -> None:
    output = tmp_path / "slim.root"
    with pytest.raises(NoSuchKeyError, match="no branch of tree events matches 'nothing'"):
        slim(inputs, output, branches=["n", "nothing"])
    with pytest.raises(OptionError, match="all branches of the tree events would be dropped"):
        slim(inputs, output, drop=["*"])
    assert not list(tmp_path.iterdir())


def test_the_commands_make_what_the_functions_make(inputs: list[str], expected: Any, tmp_path: Path) -> None:
    output = tmp_path / "out.root"
    wagons = tmp_path / "wagons.py"
    wagons.write_text("class Many:\n    def process(self, events):\n        return events.n > 3\n")
    for arguments, entries in (
        (["reorder", "--order", "branch"], len(expected)),
        (["recompress", "--codec", "lz4:4"], len(expected)),
        (["slim", "--branches", "n,val*"], len(expected)),
        (["skim", "--where", "n > 3"], int(ak.sum(expected["n"] > 3))),
        (["skim", "--wagon", f"{wagons}:Many", "--cluster-events", "50"], int(ak.sum(expected["n"] > 3))),
    ):
        command = [*arguments, *inputs, "-o", str(output), "--force", "--verify"]
        result = run_command(command)
        assert result.exit_code == 0, (command, result.output)
        tree = uproot.open(output)["events"]
        assert tree.num_entries == entries, command
        wanted = expected if entries == len(expected) else expected[expected["n"] > 3]
        assert ak.to_list(tree["values"].array()) == ak.to_list(wanted["values"]), command
    assert run_command(["skim", *inputs, "-o", str(output), "--force"]).exit_code != 0


def test_a_codec_that_there_is_not_is_refused(inputs: list[str], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"invalid compression .gzip.*zstd:5"):
        merge(inputs, tmp_path / "merged.root", codec="gzip")
    assert not list(tmp_path.iterdir())
