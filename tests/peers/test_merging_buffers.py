"""Merging adds histograms whose entries are still in buffers, with or without axis limits, like ROOT's hadd."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.peers.peers import missing
from tests.peers.test_merging_histograms import differences, numbers, seen

from branchline.writing.merging.merge import merge
from branchline.writing.merging.verify import verify

FILES = 3
# Code for ROOT to write a file, `branchline_buffers(path, number)`, and to fill the expected profiles with all entries.
WRITER = r"""
#ifndef BRANCHLINE_MERGING_BUFFERS
#define BRANCHLINE_MERGING_BUFFERS
#include <TFile.h>
#include <TH1.h>
#include <TH2.h>
#include <TH3.h>
#include <TProfile.h>
#include <TProfile2D.h>
#include <TProfile3D.h>
#include <TRandom3.h>
#include <cmath>
#include <vector>
void branchline_one_dimension(int i, TRandom3 &r) {
   TH1D open("open", "", 20, 0., 0.); TH1F weighted("weighted", "", 20, 0., 0.); TH1D set("set", "", 10, 0, 5);
   TH1D counted("counted", "", 10, 0, 5), grown("grown", "", 10, 0, 5), late("late", "", 10, 0, i == 2 ? 5 : 0.);
   TH1D mixed("mixed", "", 10, 0, i == 1 ? 5 : 0.), none("none", "", 10, 0., 0.), few("few", "", 10, 0., 0.);
   TH1I whole("whole", "", 10, 0., 0.); TH1S small("small", "", 4, 0, 5); TH1D many("many", "", 10, 0., 0.);
   TH1D wide("wide", "", 10, 0., 0.), odd("odd", "", 5, 0., 0.), unfilled("unfilled", "", 5, 0., 0.);
   TH1D flat("flat", "", 5, 0., 0.);
   double edges[] = {0, 1, 3, 4.5}; TH1D uneven("uneven", "", 3, edges), later("later", "", 3, edges);
   if (i == 0) later = TH1D("later", "", 3, 0., 0.);
   if (i == 1) mixed.Sumw2();
   whole.GetXaxis()->SetBit(TAxis::kIsInteger); wide.SetCanExtend(TH1::kAllAxes);
   grown.SetCanExtend(TH1::kAllAxes); counted.SetStatOverflows(TH1::EStatOverflows::kConsider);
   for (TH1 *h : std::vector<TH1 *>{&set, &counted, &grown, &uneven, &small}) h->SetBuffer(1000);
   for (int k = 0; k < 50 + i; ++k) {
      open.Fill(r.Gaus(3 + i)); weighted.Fill(r.Gaus(3 + i), 1 + i); set.Fill(r.Gaus(3 + i), 2);
      counted.Fill(r.Gaus(3 + i, 3)); grown.Fill(r.Gaus(3 - 9 * i)); late.Fill(r.Gaus(3)); mixed.Fill(r.Gaus(3));
      whole.Fill(r.Integer(30) + i); small.Fill(r.Uniform(-1, 6)); uneven.Fill(r.Uniform(-1, 6), r.Rndm());
      later.Fill(r.Uniform(-1, 6)); flat.Fill(7);
   }
   if (i) few.Fill(i);
   for (int k = 0; k < 600; ++k) { many.Fill(r.Gaus(3 + 5 * i), 1 + i); wide.Fill(r.Gaus(3 + 50 * i)); }
   for (double x : {1., std::nan(""), double(INFINITY), 2. + i}) odd.Fill(x);
   for (TH1 *h : std::vector<TH1 *>{&open, &weighted, &set, &counted, &grown, &late, &mixed, &none, &few, &whole,
        &small, &many, &wide, &odd, &uneven, &later, &flat}) h->Write();
   if (i == 2) for (int k = 0; k < 9; ++k) unfilled.Fill(k);
   unfilled.Write();
}
void branchline_more_dimensions(int i, TRandom3 &r) {
   TH2D two("two", "", 10, 0., 0., 5, 0., 0.); TH2F half("half", "", 10, 0., 0., 5, 0, 5);
   TH2D set("set2", "", 4, 0, 5, 3, 0, 5), many("many2", "", 4, 0., 0., 3, 0., 0.); set.SetBuffer(1000);
   TH2D along("along", "", 4, 0, 5, 3, 0, 5); along.SetCanExtend(TH1::kXaxis); along.SetBuffer(1000);
   TH3D three("three", "", 3, 0., 0., 4, 0., 0., 5, 0., 0.), set3("set3", "", 3, 0, 5, 3, 0, 5, 3, 0, 1);
   set3.SetBuffer(1000);
   for (int k = 0; k < 500; ++k) {
      double x = r.Gaus(3 + i), y = r.Gaus(2 * i), z = r.Rndm();
      many.Fill(x, y);
      if (k % 10) continue;
      two.Fill(x, y); half.Fill(x, y, 2); set.Fill(x, y, z); along.Fill(3 * x, y); three.Fill(x, y, z);
      set3.Fill(x, y, z, k);
   }
   for (TH1 *h : std::vector<TH1 *>{&two, &half, &set, &many, &along, &three, &set3}) h->Write();
}
void branchline_fill_profiles(const std::vector<TH1 *> &all, int i) {
   TRandom3 r(100 + i);
   for (int k = 0; k < 500; ++k) {
      double x = r.Gaus(3 + i), y = r.Gaus(2), z = r.Rndm(), w = 1 + k % 3;
      if (k % 10 == 0) {
         ((TProfile *)all[0])->Fill(x, y, w); ((TProfile2D *)all[1])->Fill(x, y, z, w);
         ((TProfile3D *)all[2])->Fill(x, y, z, x * y, w); ((TProfile *)all[4])->Fill(x, y, w);
         ((TProfile *)all[5])->Fill(x, y);
      }
      ((TProfile *)all[3])->Fill(x, y);
   }
}
std::vector<TH1 *> branchline_profiles() {
   std::vector<TH1 *> all{new TProfile("p", "", 10, 0., 0.), new TProfile2D("p2", "", 5, 0., 0., 4, 0., 0.),
      new TProfile3D("p3", "", 2, 0., 0., 2, 0., 0., 2, 0., 0.), new TProfile("p_many", "", 10, 0., 0.),
      new TProfile("p_set", "", 5, 0, 6), new TProfile("p_taken", "", 5, 0, 6, 1, 3)};
   all[4]->Sumw2(); all[4]->SetBuffer(1000); all[5]->SetBuffer(1000);
   return all;
}
void branchline_buffers(const char *path, int i) {
   TFile file(path, "RECREATE"); TRandom3 r(i + 1);
   branchline_one_dimension(i, r); branchline_more_dimensions(i, r);
   auto all = branchline_profiles(); branchline_fill_profiles(all, i);
   for (TH1 *h : all) h->Write();
}
void branchline_all_profiles(const char *path, int count) {
   TFile file(path, "RECREATE"); auto all = branchline_profiles();
   for (int i = 0; i < count; ++i) branchline_fill_profiles(all, i);
   for (TH1 *h : all) h->Write();
}
#endif
"""


@pytest.fixture(scope="module")
def merged(root: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], str, str, str]:
    """Return files of ROOT, the output of hadd, the output of Branchline, and profiles filled with all entries."""
    root.gInterpreter.Declare(WRITER)
    folder = tmp_path_factory.mktemp("buffers")
    inputs = [str(folder / f"{number}.root") for number in range(FILES)]
    for number, path in enumerate(inputs):
        root.branchline_buffers(path, number)
    hadd = Path(root.__file__).parent / "bin" / "hadd"
    if not os.access(hadd, os.X_OK):
        missing(f"the command {hadd}")
    theirs, ours, profiles = (str(folder / f"{name}.root") for name in ("theirs", "ours", "profiles"))
    root.branchline_all_profiles(profiles, FILES)
    subprocess.run([hadd, "-fk", "-v", "0", theirs, *inputs], check=True, capture_output=True)
    merge(inputs, ours)
    return inputs, theirs, ours, profiles


def settled(found: dict[str, Any]) -> dict[str, Any]:
    """Remove buffers whose entries are already in the cells. hadd keeps some of these buffers, unlike Branchline."""
    if found.get(".fBuffer[0]", 0) > 0:
        return found
    return {name: value for name, value in found.items() if not name.startswith(".fBuffer")}


def test_entries_in_buffers_are_those_of_hadd(root: Any, merged: tuple[list[str], str, str, str]) -> None:
    inputs, *outputs, _ = merged
    theirs, ours = (seen(root, path) for path in outputs)
    assert theirs.keys() == ours.keys()
    waiting = [sum(one.get(".fBuffer[0]", 0) > 0 for one in of.values()) for of in (seen(root, inputs[2]), ours)]
    assert waiting[0] > 20 > waiting[1] > 3
    for name, expected in theirs.items():
        # In the buffers of profiles, hadd misreads values as weights.
        if not name.startswith("p"):
            assert not differences(settled(expected), settled(ours[name])), name


def test_profiles_with_entries_in_buffers_are_those_of_all_entries(
    root: Any, merged: tuple[list[str], str, str, str]
) -> None:
    files = [root.TFile.Open(path) for path in merged[2:]]
    for name in ("p", "p2", "p3", "p_many", "p_set", "p_taken"):
        profiles = [file.Get(name) for file in files]
        for profile in profiles:
            profile.BufferEmpty(1)
        ours, expected = (numbers(json.loads(str(root.TBufferJSON.ToJSON(profile, 3)))) for profile in profiles)
        assert not differences(expected, ours), name
        assert ours[".fEntries"] > 50, name
    for file in files:
        file.Close()


def test_what_was_merged_is_verified_and_merges_on(
    root: Any, merged: tuple[list[str], str, str, str], tmp_path: Path
) -> None:
    inputs, _, ours, _ = merged
    assert verify(ours, inputs).is_same
    again = str(tmp_path / "again.root")
    merge([ours, inputs[0]], again)
    file, part, first = (root.TFile.Open(path) for path in (again, ours, inputs[0]))
    for name in ("open", "set", "late", "mixed", "two", "three", "p", "p_set"):
        sums = [one.Get(name).GetEntries() for one in (file, part, first)]
        assert sums[0] == sums[1] + sums[2], name
    for one in (file, part, first):
        one.Close()
