"""Merging adds histograms with different axes, and multidimensional histograms, like ROOT's hadd."""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.peers.peers import missing

from branchline.writing.merging.merge import merge
from branchline.writing.merging.verify import verify

FILES = 3
# Code for ROOT to write a file: `branchline_axes(path, number)`.
WRITER = r"""
#ifndef BRANCHLINE_MERGING_HISTOGRAMS
#define BRANCHLINE_MERGING_HISTOGRAMS
#include <TEfficiency.h>
#include <TFile.h>
#include <TGraphBentErrors.h>
#include <TH1.h>
#include <TH2.h>
#include <TH3.h>
#include <THn.h>
#include <THnSparse.h>
#include <TList.h>
#include <TNamed.h>
#include <TObjString.h>
#include <TProfile.h>
#include <TProfile2D.h>
#include <TRandom3.h>
#include <string>
#include <vector>
static const char *branchline_names[] = {"zeta", "alpha", "beta", "gamma", "delta", "eps"};
void branchline_labels(int i, TRandom3 &r) {
   TH1D grown("label_grown", "", 3, 0, 3), errors("label_errors", "", 3, 0, 3); TH1I whole("label_whole", "", 3, 0, 3);
   TH2D both("label_both", "", 3, 0, 3, 3, 0, 3), mixed("label_mixed", "", 3, 0, 3, 5, 0, 1);
   errors.Sumw2();
   for (TH1 *h : std::vector<TH1 *>{&grown, &errors, &whole, &both}) h->SetCanExtend(TH1::kAllAxes);
   mixed.SetCanExtend(TH1::kXaxis);
   for (int k = 0; k < 4 + i; ++k) {
      const char *name = branchline_names[(k + i) % 6];
      grown.Fill(name, k + 1.5); errors.Fill(name, k + i); whole.Fill(name, 1.);
      both.Fill(name, branchline_names[2 * k % 6], 1.); mixed.Fill(name, r.Rndm(), 1.);
   }
   TH1D order("label_order", "", 4, 0, 4), others("label_others", "", 4, 0, 4), empty("label_empty", "", 4, 0, 4);
   TH1D some("label_some", "", 4, 0, 4), none("label_none", "", 4, 0, 4), same("label_same", "", 4, 0, 4);
   for (int k = 0; k < 4; ++k) {
      order.GetXaxis()->SetBinLabel(k + 1, branchline_names[(k + i) % 4]); order.Fill(k + 0.5, k + 1);
      others.GetXaxis()->SetBinLabel(k + 1, branchline_names[k + i]); others.Fill(k + 0.5, k + 1);
      same.GetXaxis()->SetBinLabel(k + 1, branchline_names[k]); same.Fill(k + 0.5, k + i);
      if (i == 0) none.GetXaxis()->SetBinLabel(k + 1, branchline_names[k]); none.Fill(k + 0.5, k + 1);
      some.Fill(k + 0.5, k + 1);
      if (i) { empty.GetXaxis()->SetBinLabel(k + 1, branchline_names[k + i]); empty.Fill(k + 0.5, k + 1); }
   }
   some.GetXaxis()->SetBinLabel(1, branchline_names[i]);
   TProfile p("label_profile", "", 3, 0, 3); TProfile2D p2("label_profile2", "", 3, 0, 3, 2, 0, 2);
   for (int k = 0; k < 3; ++k) {
      p.GetXaxis()->SetBinLabel(k + 1, branchline_names[(k + i) % 3]);
      p2.GetXaxis()->SetBinLabel(k + 1, branchline_names[(k + i) % 3]);
   }
   for (int k = 0; k < 30; ++k) { p.Fill(r.Uniform(3), r.Rndm()); p2.Fill(r.Uniform(3), r.Uniform(2), r.Rndm()); }
   for (TH1 *h : std::vector<TH1 *>{&grown, &errors, &whole, &both, &mixed, &order, &others, &empty, &some, &none,
        &same, &p, &p2}) h->Write();
}
void branchline_limits(int i, TRandom3 &r) {
   TH1D shift("axis_shift", "", 10, 10 * i, 10 + 10 * i), twice("axis_twice", "", 10 * (1 + i), 0, 10);
   TH1F wide("axis_wide", "", 10, 0, 10 << i); TH1D beyond("axis_beyond", "", 10, 20 - 10 * i, 30 - 10 * i);
   TH1D grown("axis_grown", "", 10, 0, 10); grown.SetCanExtend(TH1::kAllAxes); beyond.Sumw2(i == 1);
   TH2D two("axis_two", "", 5, 5 * i, 5 + 5 * i, 4, 0, 4); TProfile p("axis_profile", "", 5, 5 * i, 5 + 5 * i);
   TH3F three("axis_three", "", 2, 0, 2, 2, 2 * i, 2 + 2 * i, 2, 2 - (2 << i), 2);
   TEfficiency e("axis_efficiency", "", 5, 5 * i, 5 + 5 * i);
   for (int k = 0; k < 50; ++k) {
      shift.Fill(r.Uniform(10 * i, 10 + 10 * i)); twice.Fill(r.Uniform(-1, 12)); wide.Fill(r.Uniform(0, 10 << i));
      beyond.Fill(r.Uniform(20 - 10 * i, 30 - 10 * i), k); grown.Fill(r.Uniform(0, 9 + 25 * i));
      double x = r.Uniform(5 * i, 5 + 5 * i), y = r.Uniform(4);
      two.Fill(x, y); p.Fill(x, y); e.Fill(y > 2, x); three.Fill(y / 2, 2 * i + y / 2, y / 2, k);
   }
   for (TObject *o : std::vector<TObject *>{&shift, &twice, &wide, &beyond, &grown, &two, &p, &three, &e}) o->Write();
}
void branchline_dimensions(int i, TRandom3 &r) {
   Int_t bins[] = {3, 4, 5}; Double_t low[] = {0, 0, 0}, high[] = {3, 4, 5};
   THnD d("n_double", "", 3, bins, low, high), weighted("n_weighted", "", 3, bins, low, high);
   THnF f("n_float", "", 3, bins, low, high); THnI n("n_int", "", 3, bins, low, high);
   THnSparseD s("sparse", "", 3, bins, low, high), none("sparse_none", "", 3, bins, low, high);
   THnSparseF sw("sparse_weighted", "", 3, bins, low, high), late("sparse_late", "", 3, bins, low, high);
   THnSparseI small("sparse_small", "", 3, bins, low, high, 7);
   weighted.Sumw2(); sw.Sumw2();
   for (int k = 0; k < 50; ++k) {
      double x[] = {r.Uniform(-0.2, 3), r.Uniform(4), r.Uniform(5.2)};
      d.Fill(x); f.Fill(x, 0.5); n.Fill(x); s.Fill(x); sw.Fill(x, k); weighted.Fill(x, k); small.Fill(x);
      if (i == 1) late.Fill(x);
   }
   for (THnBase *h : std::vector<THnBase *>{&d, &f, &n, &s, &sw, &weighted, &none, &late, &small}) h->Write();
   TList list; list.SetOwner(); list.Add(s.Clone("in_list")); list.Add(d.Clone("dense_in_list"));
   TH1D *one = new TH1D("one", "", 4, 4 * i, 4 + 4 * i); one->SetDirectory(nullptr); one->Fill(4 * i + 1);
   list.Add(one);
   list.Write("list", TObject::kSingleKey);
}
void branchline_axes(const char *path, int i) {
   TFile file(path, "RECREATE"); TRandom3 r(i + 1);
   branchline_labels(i, r); branchline_limits(i, r); branchline_dimensions(i, r);
   TGraphBentErrors bent(2); bent.SetPoint(0, i, 1); bent.SetPointError(0, 1, 2, 3, i, .1, .2, .3, .4);
   bent.Write("bent");
}
void branchline_versions(const char *path, int i) {
   TFile file(path, "RECREATE");
   double even[] = {0, 1, 3, 10}, odd[] = {0, 2, 3, 10};
   TH1D edges("edges", "", 3, i ? odd : even), bins("bins", "", 10 + i, 0, 10);
   TH1D over("over", "", 10, 10 * i, 10 + 10 * i);
   for (TH1D *h : {&edges, &bins, &over}) { h->Fill(2.5); h->Fill(11); h->Write(); }
   TList list; list.SetOwner(); list.Add(new TNamed("number", std::to_string(i).c_str()));
   list.Write("named", TObject::kSingleKey);
   TList pair; pair.SetOwner(); pair.Add(new TNamed("number", std::to_string(i).c_str()));
   TH1D *one = new TH1D("one", "", 4, 0, 4); one->SetDirectory(nullptr); one->Fill(i); pair.Add(one);
   pair.Write("pair", TObject::kSingleKey);
   TList same; same.SetOwner(); same.Add(new TNamed("number", "7")); same.Write("same", TObject::kSingleKey);
}
#endif
"""
#: Members that do not belong to the contents of an object: status bits, and the display range of an axis.
PASSING = {"fUniqueID", "fBits", "fMaxIndex", "fDatime", "fFirst", "fLast", "fFunctions"}


@pytest.fixture(scope="module")
def merged(root: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], str, str]:
    """Return files of ROOT, the output of hadd, and the output of Branchline."""
    root.gInterpreter.Declare(WRITER)
    folder = tmp_path_factory.mktemp("axes")
    inputs = [str(folder / f"{number}.root") for number in range(FILES)]
    for number, path in enumerate(inputs):
        root.branchline_axes(path, number)
    hadd = Path(root.__file__).parent / "bin" / "hadd"
    if not os.access(hadd, os.X_OK):
        missing(f"the command {hadd}")
    theirs, ours = str(folder / "theirs.root"), str(folder / "ours.root")
    subprocess.run([hadd, "-fk", "-v", "0", theirs, *inputs], check=True, capture_output=True)
    merge(inputs, ours)
    return inputs, theirs, ours


def numbers(value: Any, path: str = "") -> dict[str, Any]:
    """Return all numbers and strings in an object, by their path."""
    if isinstance(value, dict):
        parts = [(f"{path}.{name}", part) for name, part in value.items() if name not in PASSING]
    elif isinstance(value, list):
        parts = [(f"{path}[{index}]", part) for index, part in enumerate(value)]
    else:
        return {path: value}
    return {name: number for place, part in parts for name, number in numbers(part, place).items()}


def differences(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """Return the values that differ by more than rounding errors."""

    def is_same(one: Any, two: Any) -> bool:
        if isinstance(one, (int, float)) and isinstance(two, (int, float)):
            return math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-12)
        return bool(one == two)

    pairs = {name: (theirs.get(name), ours.get(name)) for name in theirs.keys() | ours.keys()}
    return {name: pair for name, pair in pairs.items() if not is_same(*pair)}


def bins_of(root: Any, histogram: Any) -> dict[str, Any]:
    """Return the filled bins of a sparse histogram, by their coordinates."""
    found = {}
    for index in range(histogram.GetNbins()):
        place = root.std.vector["int"](histogram.GetNdimensions())
        content = histogram.GetBinContent(index, place.data())
        found[str(list(place))] = [content, histogram.GetBinError2(index)]
    assert len(found) == histogram.GetNbins()
    return {**found, "entries": histogram.GetEntries(), "weights": histogram.GetWeightSum()}


def seen(root: Any, path: str, folder: str = "") -> dict[str, dict[str, Any]]:
    """Return all objects except folders that ROOT reads from a folder of a file, by name and cycle."""
    file, found = root.TFile.Open(path), {}
    for key in (file.GetDirectory(folder) if folder else file).GetListOfKeys():
        if key.GetClassName() == "TDirectoryFile":
            continue
        thing, name = key.ReadObj(), f"{key.GetName()};{key.GetCycle()}"
        things = list(thing) if thing.InheritsFrom("TList") else [thing]
        for index, one in enumerate(things):
            sparse = one.InheritsFrom("THnSparse")
            content = bins_of(root, one) if sparse else json.loads(str(root.TBufferJSON.ToJSON(one, 3)))
            found[f"{name}/{index}"] = numbers(content)
    file.Close()
    return found


def test_histograms_with_other_axes_are_those_of_hadd(root: Any, merged: tuple[list[str], str, str]) -> None:
    theirs, ours = (seen(root, path) for path in merged[1:])
    assert theirs.keys() == ours.keys()
    assert len(theirs) > 30
    for name, expected in theirs.items():
        assert not differences(expected, ours[name]), name


def test_what_was_merged_is_verified_and_merges_on(
    root: Any, merged: tuple[list[str], str, str], tmp_path: Path
) -> None:
    inputs, _, ours = merged
    assert verify(ours, inputs).is_same
    again = str(tmp_path / "again.root")
    merge([ours, inputs[0]], again)
    file, part, first = (root.TFile.Open(path) for path in (again, ours, inputs[0]))
    for name in ("label_grown", "axis_shift", "axis_two", "n_weighted", "sparse", "sparse_small"):
        sums = [one.Get(name).GetEntries() for one in (file, part, first)]
        assert sums[0] == sums[1] + sums[2], name
    alpha = [
        one.Get("label_grown").GetBinContent(one.Get("label_grown").GetXaxis().FindFixBin("alpha"))
        for one in (file, part, first)
    ]
    assert alpha[0] == alpha[1] + alpha[2]
    for one in (file, part, first):
        one.Close()


def test_what_does_not_add_up_is_kept_in_all_versions(root: Any, tmp_path: Path) -> None:
    root.gInterpreter.Declare(WRITER)
    inputs = [str(tmp_path / f"{number}.root") for number in range(FILES)]
    for number, path in enumerate(inputs):
        root.branchline_versions(path, number)
    made = merge(inputs, tmp_path / "versions.root")
    file = root.TFile.Open(str(tmp_path / "versions.root"))
    cycles = [(key.GetName(), key.GetCycle()) for key in file.GetListOfKeys()]
    counts = {name: sum(name == other for other, _ in cycles) for name, _ in cycles}
    assert counts == {"edges": 2, "bins": 3, "over": 3, "named": 3, "pair": 1, "same": 1}
    titles = {file.Get(f"named;{cycle}").At(0).GetTitle() for cycle in (1, 2, 3)}
    assert titles == {"0", "1", "2"}
    pair = file.Get("pair")
    assert (pair.At(0).GetTitle(), pair.At(1).GetEntries()) == ("0", 3)
    file.Close()
    assert {note.split(" ")[0] for note in made.notes} == {"edges", "bins", "over", "named", "pair"}
