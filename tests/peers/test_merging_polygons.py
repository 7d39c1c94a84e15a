"""Merging adds TH2Poly and TProfile2Poly histograms like ROOT's hadd."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path
from typing import Any

import pytest

from branchline.writing.merging.merge import merge
from branchline.writing.merging.verify import verify

FILES = 3
WRITER = r"""
#ifndef BRANCHLINE_POLYGONS
#define BRANCHLINE_POLYGONS
#include <TFile.h>
#include <TF1.h>
#include <TGraph.h>
#include <TH2Poly.h>
#include <TList.h>
#include <TMultiGraph.h>
#include <TProfile2Poly.h>
#include <TRandom3.h>
void branchline_bins(TH2Poly &h, double shift = 0) {
   for (int k = 0; k < 4; ++k) h.AddBin(2 * k, 1, 2 * k + 1.5 + shift, 8);
   double x[] = {0, 5, 2}, y[] = {8.5, 8.5, 9.8}; h.AddBin(3, x, y);
   auto *two = new TMultiGraph; double x1[] = {8, 9, 8.5}, x2[] = {9.2, 9.9, 9.5}, yy[] = {1, 1, 7};
   two->Add(new TGraph(3, x1, yy)); two->Add(new TGraph(3, x2, yy)); h.AddBin(two);
}
void branchline_fill(TH2Poly &h, TRandom3 &r, bool weighted) {
   for (int k = 0; k < 200; ++k) h.Fill(r.Uniform(-1, 11), r.Uniform(-1, 11), weighted ? r.Uniform(2) : 1.);
}
void branchline_polygons(const char *path, int i) {
   TFile file(path, "RECREATE"); TRandom3 r(i + 1);
   TH2Poly plain("plain", "", 0, 10, 0, 10), weighted("weighted", "", 0, 10, 0, 10), some("some", "", 0, 10, 0, 10);
   TH2Poly cells("cells", "", 5, 0, 10, 3, 0, 10), comb("comb", "", 0, 10, 0, 10), none("none", "", 0, 10, 0, 10);
   TH2Poly empty("empty", "", 0, 10, 0, 10), fitted("fitted", "", 0, 10, 0, 10);
   comb.Honeycomb(0, 0, 1, 5, 5);
   for (TH2Poly *h : {&plain, &weighted, &some, &cells, &empty, &fitted}) branchline_bins(*h);
   branchline_fill(plain, r, false); branchline_fill(weighted, r, true); branchline_fill(some, r, i == 1);
   branchline_fill(cells, r, i == 0); branchline_fill(comb, r, false);
   if (i == 1) branchline_fill(empty, r, false);
   branchline_fill(fitted, r, false); fitted.GetListOfFunctions()->Add(new TF1("f", "x"));
   for (TH2Poly *h : {&plain, &weighted, &some, &cells, &comb, &none, &empty, &fitted}) h->Write();
   TProfile2Poly profile("profile", "", 0, 10, 0, 10), spread("spread", "", 0, 10, 0, 10);
   for (TProfile2Poly *p : {&profile, &spread}) {
      branchline_bins(*p);
      for (int k = 0; k < 300; ++k) {
         p->Fill(r.Uniform(-1, 11), r.Uniform(-1, 11), r.Gaus(3, 2), p == &spread ? r.Uniform(1, 2) : 1.);
      }
   }
   spread.SetErrorOption(kERRORSPREAD);
   profile.Write(); spread.Write();
   TList list; list.SetOwner(); list.Add(plain.Clone("in_list")); list.Add(profile.Clone("profile_in_list"));
   TH1D *one = new TH1D("one", "", 4, 0, 4); one->SetDirectory(nullptr); one->Fill(i); list.Add(one);
   list.Write("list", TObject::kSingleKey);
}
void branchline_other_polygons(const char *path, int i) {
   TFile file(path, "RECREATE");
   TH2Poly moved("moved", "", 0, 10, 0, 10), more("more", "", 0, 10, 0, 10), limits("limits", "", 0, 10 + i, 0, 10);
   branchline_bins(moved, 0.1 * i); branchline_bins(more); branchline_bins(limits);
   if (i) more.AddBin(9.95, 9, 10, 10);
   TProfile2Poly profile("profile", "", 0, 10, 0, 10); branchline_bins(profile, 0.1 * i);
   for (TH2Poly *h : std::vector<TH2Poly *>{&moved, &more, &limits, &profile}) { h->Fill(1, 2, 1.); h->Write(); }
}
#endif
"""


def contents(histogram: Any) -> list[float]:
    """Return the bins, the out-of-range bins, the errors and the statistics."""
    places = [*range(-9, 0), *range(1, histogram.GetNumberOfBins() + 1)]
    bins = [value for place in places for value in (histogram.GetBinContent(place), histogram.GetBinError(place))]
    means = [histogram.GetMean(axis) for axis in (1, 2)] + [histogram.GetStdDev(axis) for axis in (1, 2)]
    sums: list[float] = []
    if histogram.InheritsFrom("TProfile2Poly"):
        for place in places:
            sums += [histogram.GetBinEntries(place), histogram.GetBinEntriesW2(place)]
            sums += [histogram.GetBinEntriesVW(place), histogram.GetBinEntriesWV2(place)]
    return [histogram.GetEntries(), histogram.GetSumw2N(), histogram.Integral(), *means, *bins, *sums]


def seen(root: Any, path: str) -> dict[str, list[float]]:
    file, found = root.TFile.Open(path), {}
    for key in file.GetListOfKeys():
        thing = key.ReadObj()
        for one in list(thing) if thing.InheritsFrom("TList") else [thing]:
            numbers = contents(one) if one.InheritsFrom("TH2Poly") else [one.GetEntries(), one.GetMean()]
            found[f"{key.GetName()};{key.GetCycle()}/{one.GetName()}"] = numbers
    file.Close()
    return found


@pytest.fixture(scope="module")
def inputs(root: Any, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    root.gInterpreter.Declare(WRITER)
    folder = tmp_path_factory.mktemp("polygons")
    paths = [str(folder / f"{number}.root") for number in range(FILES)]
    for number, path in enumerate(paths):
        root.branchline_polygons(path, number)
    return paths


def test_histograms_of_polygons_are_those_of_hadd(root: Any, inputs: list[str], tmp_path: Path) -> None:
    theirs, ours = str(tmp_path / "theirs.root"), str(tmp_path / "ours.root")
    hadd = Path(root.__file__).parent / "bin" / "hadd"
    subprocess.run([hadd, "-fk", "-v", "0", theirs, *inputs], check=True, capture_output=True)
    made = merge(inputs, ours)
    assert not made.notes
    assert verify(ours, inputs).is_same
    expected, found = seen(root, theirs), seen(root, ours)
    assert expected.keys() == found.keys()
    assert len(expected) == 13
    for name, numbers in expected.items():
        same = [
            math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(one) and math.isnan(two))
            for one, two in zip(numbers, found[name], strict=True)
        ]
        assert all(same), name


def test_sums_of_polygons_are_filled_and_merged_on(root: Any, inputs: list[str], tmp_path: Path) -> None:
    # Keys in a folder are longer. Nothing in the object may depend on its position.
    ours, again = str(tmp_path / "ours.root"), str(tmp_path / "again.root")
    merge(inputs, ours)
    merge([ours, inputs[0]], again)
    file, first, total = (root.TFile.Open(path) for path in (again, inputs[0], ours))
    for name in ("plain", "weighted", "comb", "profile"):
        sums = [one.Get(name).GetEntries() for one in (file, total, first)]
        assert sums[0] == sums[1] + sums[2], name
    histogram = file.Get("plain")
    before = histogram.GetBinContent(1)
    assert histogram.Fill(1, 2) == 1
    assert histogram.GetBinContent(1) == before + 1
    for one in (file, first, total):
        one.Close()


def test_polygons_that_differ_are_versions(root: Any, inputs: list[str], tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{number}.root") for number in range(2)]
    for number, path in enumerate(paths):
        root.branchline_other_polygons(path, number)
    made = merge(paths, tmp_path / "versions.root")
    file = root.TFile.Open(str(tmp_path / "versions.root"))
    names = [key.GetName() for key in file.GetListOfKeys()]
    file.Close()
    assert {name: names.count(name) for name in names} == {"moved": 2, "more": 2, "limits": 2, "profile": 2}
    reasons = {note.split(" ")[0]: note for note in made.notes}
    assert "it contains TH2Poly, 3 TAxis, 7 TH2PolyBin, not TH2Poly, 3 TAxis, 6 TH2PolyBin" in reasons["more"]
    assert "its bin 1 has different limits" in reasons["moved"]
    assert "its bin 1 has different limits" in reasons["profile"]
    assert "from 0 to 11" in reasons["limits"]
