"""Merging files that contain more than one tree, compared with ROOT's hadd."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.peers.peers import missing

import branchline
from branchline.writing.merging.merge import merge

pytestmark = pytest.mark.slow

FILES = 3
BALLAST_BASKET_BYTES = 100_000_000
LARGE_FOLDER_BYTES = 6_000_000_000
# Code for ROOT to write a file: `branchline_contents(path, number)`.
WRITER = """
#ifndef BRANCHLINE_MERGING_CONTENTS
#define BRANCHLINE_MERGING_CONTENTS
#include <TEfficiency.h>
#include <TF1.h>
#include <TFile.h>
#include <TGraphAsymmErrors.h>
#include <TGraphErrors.h>
#include <TH1.h>
#include <TH2.h>
#include <TH3.h>
#include <THStack.h>
#include <TKey.h>
#include <TList.h>
#include <TObjString.h>
#include <TParameter.h>
#include <TProfile2D.h>
#include <TProfile3D.h>
#include <TRandom3.h>
#include <TTree.h>
#include <string>
#include <vector>
template <class H> void branchline_fill(H &h, TRandom3 &r) {
   for (int k = 0; k < 200; ++k) h.Fill(r.Gaus(2), 1 + r.Rndm());
}
void branchline_histograms(int i, TRandom3 &r) {
   TH1C c("c", "", 10, 0, 5); TH1S s("s", "", 10, 0, 5); TH1I n("n", "", 10, 0, 5); TH1F f("f", "", 10, 0, 5);
   TH1D d("d", "", 10, 0, 5), weighted("weighted", "", 10, 0, 5), mixed("mixed", "", 10, 0, 5);
   weighted.Sumw2(); if (i > 0) mixed.Sumw2(); else mixed.Sumw2(false);
   for (TH1 *h : std::vector<TH1 *>{&c, &s, &n, &f, &d, &weighted, &mixed}) branchline_fill(*h, r);
   double edges[] = {0, 1, 5, 20};
   TH1D uneven("uneven", "", 3, edges); branchline_fill(uneven, r);
   TH1D labelled("labelled", "", 2, 0, 2); labelled.Fill("one", 1); labelled.Fill("two", i);
   TH1D fitted("fitted", "", 10, 0, 5); branchline_fill(fitted, r); fitted.Fit("gaus", "QN0");
   fitted.GetListOfFunctions()->Add(new TF1("curve", "[0]*x+[1]", 0, 5));
   TH2F two("two", "", 4, 0, 4, 5, 0, 5); TH3D three("three", "", 2, 0, 4, 3, 0, 5, 4, 0, 4);
   TProfile p("p", "", 5, 0, 5), spread("spread", "", 5, 0, 5, "s"), pw("pw", "", 5, 0, 5); pw.Sumw2();
   TProfile2D p2("p2", "", 3, 0, 3, 3, 0, 3); TProfile3D p3("p3", "", 2, 0, 3, 2, 0, 3, 2, 0, 3);
   TEfficiency e("e", "", 5, 0, 5);
   for (int k = 0; k < 100; ++k) {
      double x = r.Uniform(5), y = r.Uniform(4), z = r.Uniform(3);
      two.Fill(x, y, z); three.Fill(x, y, z); p.Fill(x, y); spread.Fill(x, y); pw.Fill(x, y, z);
      p2.Fill(x, y, z); p3.Fill(x, y, z, x * y); e.Fill(y > 2, x);
   }
   for (TObject *o : std::vector<TObject *>{&c, &s, &n, &f, &d, &weighted, &mixed, &uneven, &labelled, &fitted,
        &two, &three, &p, &spread, &pw, &p2, &p3, &e}) o->Write();
}
void branchline_objects(int i, TRandom3 &r) {
   TGraph g(2); g.SetPoint(0, i, 1); g.SetPoint(1, i, 2); g.Write("g");
   TGraphErrors ge(1); ge.SetPoint(0, i, 1); ge.SetPointError(0, 0.1, i); ge.Write("ge");
   TGraphAsymmErrors ga(i);
   for (int k = 0; k < i; ++k) { ga.SetPoint(k, i, k); ga.SetPointError(k, 1, 2, 3, i); }
   ga.Write("ga");
   TParameter<double>("sum", 0.5 + i).Write(); TParameter<int>("most", 3 - i, 'M').Write();
   TParameter<Long64_t>("first", i, 'f').Write(); TParameter<float>("product", 1.5f + i, '*').Write();
   TParameter<bool>("any", i == 1).Write();
   TList list; TH1D *one = new TH1D("one", "", 5, 0, 5); one->SetDirectory(nullptr); branchline_fill(*one, r);
   TList *inner = new TList; TH1F *deep = new TH1F("deep", "", 5, 0, 5); deep->SetDirectory(nullptr);
   branchline_fill(*deep, r); inner->Add(deep); inner->SetName("inner"); list.Add(one); list.Add(inner);
   list.Write("list", TObject::kSingleKey);
   THStack stack("stack", ""); TH1D *part = new TH1D("part", "", 5, 0, 5); part->SetDirectory(nullptr);
   branchline_fill(*part, r); stack.Add(part); stack.Write();
   TNamed("same", "alike").Write(); TObjString(("text " + std::to_string(i)).c_str()).Write("text");
}
void branchline_tree(const char *name, int i, int entries) {
   TTree tree(name, "a tree"); int n; std::vector<float> list; std::string text; float array[20];
   tree.Branch("n", &n, "n/I"); tree.Branch("list", &list); tree.Branch("text", &text);
   tree.Branch("array", array, "array[n]/F");
   for (int k = 0; k < entries; ++k) {
      n = (k + i) % 20; list.assign(n, k + 0.5f * i); text = std::string(k % 30, 'a' + i);
      for (int m = 0; m < n; ++m) array[m] = m * k;
      tree.Fill();
      if (entries > 100 && k == entries / 2) tree.FlushBaskets();
   }
   tree.BuildIndex("n + 100 * Entry$", "Entry$");
   tree.GetUserInfo()->Add(new TNamed("user", "info"));
   tree.SetAlias("twice", "2 * n");
   tree.Write();
}
void branchline_contents(const char *path, int i) {
   TFile file(path, "RECREATE"); TRandom3 r(i + 1);
   branchline_histograms(i, r); branchline_tree("events", i, 300);
   TDirectory *deep = file.mkdir("deep/er"); file.GetDirectory("deep/er")->cd();
   branchline_objects(i, r); branchline_tree("small", i, 7);
   file.cd(); branchline_tree("empty", i, 0);
   if (i == 1) TNamed("only", "here").Write();
}
#endif
"""


@pytest.fixture(scope="module")
def inputs(root: Any, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Write files with trees in several directories, some with embedded baskets, and with all kinds of objects that can
    be added.
    """
    root.gInterpreter.Declare(WRITER)
    folder = tmp_path_factory.mktemp("contents")
    paths = [str(folder / f"{number}.root") for number in range(FILES)]
    for number, path in enumerate(paths):
        root.branchline_contents(path, number)
    return paths


@pytest.fixture(scope="module")
def merged(inputs: list[str]) -> tuple[str, str]:
    """Return the output of hadd and the output of Branchline."""
    import ROOT

    folder = Path(inputs[0]).parent
    hadd = Path(ROOT.__file__).parent / "bin" / "hadd"
    if not os.access(hadd, os.X_OK):
        missing(f"the command {hadd}")
    theirs, ours = str(folder / "theirs.root"), str(folder / "ours.root")
    subprocess.run([hadd, "-fk", "-v", "0", theirs, *inputs], check=True, capture_output=True)
    merge(inputs, ours, verify=True)
    return theirs, ours


def numbers(thing: Any, path: str = "") -> dict[str, Any]:
    """Return all numbers and strings in an object and in its nested objects, by their path."""
    found: dict[str, Any] = {}
    members = thing.all_members if hasattr(thing, "all_members") else {}
    for name, value in members.items():
        place = f"{path}.{name}"
        if isinstance(value, np.ndarray):
            found[place] = value.tolist()
        elif isinstance(value, str):
            found[place] = str(value)
        elif isinstance(value, (int, float)):
            found[place] = value
        elif hasattr(value, "all_members") and name not in ("fLabels", "fFunctions"):
            found |= numbers(value, place)
    if "fN" in members and hasattr(thing, "__iter__"):
        found[path + "[]"] = [float(value) for value in thing]
    for index, value in enumerate(thing) if "fSize" in members else ():
        found |= numbers(value, f"{path}[{index}]")
    return {name: value for name, value in found.items() if not name.endswith(("fBits", "fUniqueID"))}


def differences(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """Return the values that differ by more than rounding errors."""

    def is_same(one: Any, two: Any) -> bool:
        if one is None or two is None or isinstance(one, str):
            return bool(one == two)
        return np.shape(one) == np.shape(two) and np.allclose(one, two, rtol=1e-12, atol=0, equal_nan=True)

    names = theirs.keys() | ours.keys()
    pairs = {name: (theirs.get(name), ours.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if not is_same(*pair)}


def test_objects_add_up_as_hadd_adds_them(merged: tuple[str, str]) -> None:
    theirs, ours = (uproot.open(path) for path in merged)
    skipped = ("TTree", "TDirectory")
    names = {name for name, kind in theirs.classnames().items() if kind not in skipped}
    assert names == {name for name, kind in ours.classnames().items() if kind not in skipped} | {
        f"deep/er/same;{cycle}" for cycle in range(2, FILES + 1)
    }
    for name in sorted(names):
        if name.startswith("deep/er/same") or theirs.classnames()[name] in ("TList", "TObjString", "TEfficiency"):
            continue
        one, two = theirs[name], ours[name]
        assert not differences(numbers(one), numbers(two)), name
        if hasattr(one, "values") and not name.startswith("deep"):
            assert np.array_equal(one.values(flow=True), two.values(flow=True)), name
            assert np.allclose(one.errors(flow=True), two.errors(flow=True), rtol=1e-12), name


def test_lists_and_what_root_computes_are_those_of_hadd(root: Any, merged: tuple[str, str]) -> None:
    def seen(path: str) -> dict[str, Any]:
        file = root.TFile.Open(path)
        listed = file.Get("deep/er/list")
        one, inner = listed.At(0), listed.At(1)
        fitted = file.Get("fitted")
        result = {
            "one": [one.GetBinContent(cell) for cell in range(7)],
            "deep": [inner.At(0).GetBinContent(cell) for cell in range(7)],
            "mean": [file.Get(name).GetMean() for name in ("d", "weighted", "two", "three", "p", "p2")],
            "deviation": [file.Get(name).GetStdDev() for name in ("f", "mixed", "p3", "spread")],
            "curve": fitted.GetListOfFunctions().FindObject("curve").GetTitle(),
            "efficiency": [file.Get("e").GetEfficiency(cell) for cell in range(1, 6)],
            "index": [file.Get("events").GetEntryNumberWithIndex(100 * k + (k + 1) % 20, k) for k in (0, 5, 299)],
            "user": [user.GetTitle() for user in file.Get("events").GetUserInfo()],
            "alias": file.Get("events").GetAlias("twice"),
            "cycles": sorted((key.GetName(), key.GetCycle()) for key in file.Get("deep/er").GetListOfKeys())[-1],
        }
        file.Close()
        return result

    theirs, ours = (seen(path) for path in merged)
    for name, value in theirs.items():
        assert ours[name] == (
            pytest.approx(value, rel=1e-12) if isinstance(value, list) and name != "user" else value
        ), name


@pytest.mark.parametrize("tree", ["events", "deep/er/small", "empty"])
def test_trees_of_all_directories_are_those_of_hadd(root: Any, merged: tuple[str, str], tree: str) -> None:
    theirs, ours = (uproot.open(path)[tree] for path in merged)
    assert ak.array_equal(ours.arrays(), theirs.arrays())
    files = [root.TFile.Open(path) for path in merged]
    trees = [file.Get(tree) for file in files]
    for name in ("GetEntries", "GetTotBytes", "GetZipBytes"):
        assert len({getattr(one, name)() for one in trees}) == 1, name
    for branch in ("n", "list", "text", "array"):
        pair = [one.GetBranch(branch) for one in trees]
        assert len({one.GetTotBytes() for one in pair}) == 1, branch
        assert len({one.GetZipBytes() for one in pair}) == 1, branch
        assert len({one.GetWriteBasket() for one in pair}) == 1, branch
        count = pair[0].GetWriteBasket()
        entries = [[one.GetBasketEntry()[index] for index in range(count + 1)] for one in pair]
        assert entries[0] == entries[1], branch
    for entry in range(trees[1].GetEntries()):
        assert trees[1].GetEntry(entry) == trees[0].GetEntry(entry) > 0
    for file in files:
        file.Close()


def write_ballast(path: Path, bytes_count: int) -> None:
    """Write a file with a tree whose baskets have a total size of ``bytes_count``. They are uncompressed zeros and take
    no disk space.
    """
    with uproot.recreate(path, compression=None) as file:
        file.mktree("ballast", {"zeros": "u1"})
        for start in range(0, bytes_count, BALLAST_BASKET_BYTES):
            size = min(BALLAST_BASKET_BYTES, bytes_count - start)
            file["ballast"].extend({"zeros": np.zeros(size, "u1")})
    subprocess.run(["fallocate", "--dig-holes", path], check=False, capture_output=True)


@pytest.fixture
def large_folder(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder for files of 4 GB. The folder is in memory if there is enough space, because writing to a disk may
    take minutes.
    """
    memory = Path("/dev/shm")
    if not memory.is_dir() or shutil.disk_usage(memory).free < LARGE_FOLDER_BYTES:
        memory = tmp_path
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


# With ballast of these sizes after the first input, the records of the other inputs are on both sides of the offset at
# which ROOT switches to 64-bit offsets (2 000 000 000, TFile::kStartBigFile), or all beyond it.
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ballast_bytes", [2_000_000_000 - 60_000, 2_100_000_000])
def test_places_behind_two_gigabytes_are_written_as_root_reads_them(
    root: Any, inputs: list[str], merged: tuple[str, str], large_folder: Path, ballast_bytes: int
) -> None:
    ballast, output = large_folder / "ballast.root", large_folder / "large.root"
    write_ballast(ballast, ballast_bytes)
    made = merge([inputs[0], str(ballast), *inputs[1:]], output, verify=True, sync=False)
    ballast.unlink()
    assert made.size_bytes == output.stat().st_size > 2_000_000_000
    check_large_output(root, str(output), merged[1])


def check_large_output(root: Any, output: str, small_output: str) -> None:
    """Check that an output has the same contents as the output without ballast."""
    ours, small = uproot.open(output), uproot.open(small_output)
    assert ours.classnames() == {**small.classnames(), "ballast;1": "TTree"}
    for name in ("events", "deep/er/small", "empty"):
        assert ak.array_equal(ours[name].arrays(), small[name].arrays()), name
    with branchline.open(output) as file:
        assert ak.to_list(file["events/text"].array()) == ak.to_list(small["events/text"].array())
        assert file["deep/er/text;3"] == branchline.open(small_output)["deep/er/text;3"]
    files = [root.TFile.Open(path) for path in (output, small_output)]
    for name in ("c", "two", "p3", "fitted"):
        cells = [[file.Get(name).GetBinContent(cell) for cell in range(30)] for file in files]
        assert cells[0] == cells[1], name
    trees = [file.Get("events") for file in files]
    assert all(trees[0].GetEntry(entry) == trees[1].GetEntry(entry) > 0 for entry in range(900))
    assert files[0].Get("deep/er/list").At(0).GetEntries() == 600
    for file in files:
        file.Close()
    update = root.TFile.Open(output, "UPDATE")
    root.TNamed("more", "written behind").Write()
    update.Close()
    assert uproot.open(output)["more"].member("fTitle") == "written behind"


def test_hadd_adds_what_was_merged_on(inputs: list[str], merged: tuple[str, str], tmp_path: Path) -> None:
    import ROOT

    hadd = Path(ROOT.__file__).parent / "bin" / "hadd"
    twice = tmp_path / "twice.root"
    subprocess.run([hadd, "-fk", "-v", "0", twice, merged[1], inputs[0]], check=True, capture_output=True)
    file, parts = uproot.open(twice), [uproot.open(path) for path in (merged[1], inputs[0])]
    assert np.array_equal(file["d"].values(), sum(part["d"].values() for part in parts))
    assert file["events"].num_entries == sum(part["events"].num_entries for part in parts)


def test_damaged_inputs_are_told_or_merged_and_never_panic(inputs: list[str], tmp_path: Path) -> None:
    seed = 20261121
    rng = np.random.default_rng(seed)
    content = np.frombuffer(Path(inputs[1]).read_bytes(), np.uint8)
    damaged, output = tmp_path / "damaged.root", tmp_path / "output.root"
    messages: list[str] = []
    for _ in range(40):
        changed = content.copy()
        places = rng.integers(len(changed), size=rng.choice([1, 2, 20]))
        changed[places] = rng.choice([0, 1, 0x40, 0x7F, 0x80, 0xFF], size=len(places))
        damaged.write_bytes(changed[: rng.integers(len(changed)) if rng.random() < 0.1 else None].tobytes())
        try:
            merge([inputs[0], str(damaged)], output, force=True)
        except branchline.BranchlineError as error:
            messages.append(str(error))
        else:
            assert uproot.open(output)["events"].num_entries > 0
    assert messages, seed
    assert [error for error in messages if "mistake" in error or "damaged.root" not in error] == [], seed
