"""Kinds of objects for which a merge can choose between several results, compared with ROOT's hadd.

Histograms without statistics, averages, entry lists, vectors and matrices, extended axes, and objects of different
classes with the same name. docs/moving/from-hadd.md documents the choices.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.peers.peers import missing
from tests.peers.test_merging_histograms import differences
from tests.peers.test_merging_objects import versions

from branchline.writing.merging.merge import MergeResult, merge
from branchline.writing.merging.verify import verify

FILES = 3
# Code for ROOT to write a file: `branchline_kinds(path, number)`.
WRITER = r"""
#ifndef BRANCHLINE_MERGING_KINDS
#define BRANCHLINE_MERGING_KINDS
#include <TEntryList.h>
#include <TEventList.h>
#include <TFile.h>
#include <TGraph.h>
#include <TH1.h>
#include <TH2.h>
#include <TH3.h>
#include <TMatrixD.h>
#include <TMatrixDSym.h>
#include <TNamed.h>
#include <TObjString.h>
#include <TProfile.h>
#include <TTree.h>
#include <TVectorD.h>
#include <TVectorF.h>
#include <string>
template <class H> void branchline_by_hand(const char *name, int i) {
   H set(name, "", 4, 0, 4);
   for (int bin = 0; bin < 6; ++bin) set.SetBinContent(bin, bin + i);
   set.Write();
   H errors((std::string(name) + "_errors").c_str(), "", 4, 0, 4); errors.Sumw2();
   for (int bin = 0; bin < 6; ++bin) { errors.SetBinContent(bin, bin + i); errors.SetBinError(bin, i + 0.5); }
   errors.Write();
   H entries((std::string(name) + "_entries").c_str(), "", 4, 0, 4);
   for (int bin = 1; bin < 5; ++bin) entries.SetBinContent(bin, bin + i);
   entries.SetEntries(100 + i); entries.Write();
   H mixed((std::string(name) + "_mixed").c_str(), "", 4, 0, 4);
   if (i == 1) mixed.SetBinContent(2, 5); else { mixed.Fill(1.5); mixed.Fill(2.25, 3); }
   mixed.Write();
   H cleared((std::string(name) + "_scaled").c_str(), "", 4, 0, 4);
   cleared.Fill(1.5); cleared.Fill(2.5, 2.); cleared.Scale(0.5 * (i + 1)); cleared.Write();
   H range((std::string(name) + "_range").c_str(), "", 4, 0, 4);
   range.Fill(1.25); range.Fill(3.75); range.GetXaxis()->SetRange(1, 2); range.Write();
}
void branchline_averages(int i) {
   TH1D average("average", "", 4, 0, 4), plain("average_plain", "", 4, 0, 4), unequal("average_unequal", "", 4, 0, 4);
   TH2D two("average_two", "", 2, 0, 2, 2, 0, 2); TProfile profile("average_profile", "", 4, 0, 4);
   average.Sumw2(); two.Sumw2();
   for (int bin = 1; bin <= 4; ++bin) {
      average.SetBinContent(bin, bin * (i + 1)); average.SetBinError(bin, 0.5 + i); plain.SetBinContent(bin, bin + i);
      two.SetBinContent(bin % 2 + 1, bin / 2, bin + i); two.SetBinError(bin % 2 + 1, bin / 2, 1 + i);
      profile.Fill(bin - 0.5, bin * i); unequal.Fill(bin - 0.5, i);
   }
   average.SetBit(TH1::kIsAverage); plain.SetBit(TH1::kIsAverage); two.SetBit(TH1::kIsAverage);
   profile.SetBit(TH1::kIsAverage); if (i) unequal.SetBit(TH1::kIsAverage);
   for (TH1 *h : std::initializer_list<TH1 *>{&average, &plain, &two, &profile, &unequal}) h->Write();
}
void branchline_lists(int i) {
   TEventList events("events", ""); events.Enter(3 + i); events.Enter(10 * i); events.Enter(7); events.Write();
   TEntryList entries("entries", "", "Events", "f.root");
   entries.Enter(1 + i); entries.Enter(70000 * i); entries.Write();
   TEntryList files("entries_files", "", "Events", (std::string("f") + char('0' + i) + ".root").c_str());
   files.Enter(5); files.Enter(2 * i); files.Write();
}
void branchline_vectors(int i) {
   TVectorD d(3); TVectorF f(2); TMatrixD m(2, 2); TMatrixDSym s(2); TVectorD longer(2 + i), same(2);
   for (int k = 0; k < 2; ++k) { d[k] = k + i; f[k] = i; m(k, 0) = i; s(k, k) = i + 1; same[k] = k; longer[k] = i; }
   d.Write("vector"); f.Write("vector_float"); m.Write("matrix"); s.Write("matrix_symmetric");
   longer.Write("vector_longer"); same.Write("vector_same");
}
void branchline_growing(int i) {
   TH1D x("grown", "", 4, 0, 4), shifted("grown_shifted", "", 4, 100. * i, 100. * i + 4);
   TH1D late("grown_late", "", 4, 0, 4);
   TH2D two("grown_two", "", 4, 0, 4, 4, 0, 4); TH3D three("grown_three", "", 2, 0, 2, 2, 0, 2, 2, 0, 2);
   TProfile p("grown_profile", "", 4, 0, 4); TH1F automatic("grown_automatic", "", 4, 1, 0);
   x.SetCanExtend(TH1::kAllAxes); shifted.SetCanExtend(TH1::kAllAxes); two.SetCanExtend(TH1::kXaxis);
   three.SetCanExtend(TH1::kAllAxes); p.SetCanExtend(TH1::kAllAxes);
   if (i) late.SetCanExtend(TH1::kAllAxes);
   for (int k = 0; k < 20; ++k) {
      x.Fill(k * (1 + 7 * i)); shifted.Fill(100. * i + k); late.Fill(k); two.Fill(k * (1 + i), k % 4);
      three.Fill(k, k * i, 1); p.Fill(k * (1 + 3 * i), k); automatic.Fill(k + 5 * i);
   }
   automatic.BufferEmpty(1);
   for (TH1 *h : std::initializer_list<TH1 *>{&x, &shifted, &late, &two, &three, &p, &automatic}) h->Write();
}
void branchline_classes(int i) {
   if (i == 1) { TH1D("classes", "", 4, 0, 4).Write(); } else { TH1F("classes", "", 4, 0, 4).Write(); }
   TH1D h("other", "", 4, 0, 4); h.Fill(i);
   if (i == 1) TNamed("other", "a text").Write(); else h.Write();
   TNamed text("swapped", "a text"); if (i == 0) text.Write(); else h.Write("swapped");
   TH2D two("dimensions", "", 2, 0, 2, 2, 0, 2); if (i == 2) two.Write(); else h.Write("dimensions");
}
void branchline_two_classes(const char *path, int i) { TFile file(path, "RECREATE"); branchline_classes(i); }
void branchline_kinds(const char *path, int i) {
   TFile file(path, "RECREATE");
   branchline_by_hand<TH1D>("hand_double", i); branchline_by_hand<TH1F>("hand_float", i);
   branchline_by_hand<TH1I>("hand_int", i); branchline_by_hand<TH1S>("hand_short", i);
   TH2D two("hand_two", "", 2, 0, 2, 2, 0, 2); two.SetBinContent(1, 2, 3 + i); two.Write();
   TH3F three("hand_three", "", 2, 0, 2, 2, 0, 2, 2, 0, 2); three.SetBinContent(1, 2, 1, 3 + i); three.Write();
   branchline_averages(i); branchline_lists(i); branchline_vectors(i); branchline_growing(i);
}
#endif
"""


@pytest.fixture(scope="module")
def merged(root: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], str, MergeResult]:
    """Return files of ROOT, the output of hadd, and the result of Branchline's merge."""
    root.gInterpreter.Declare(WRITER)
    folder = tmp_path_factory.mktemp("kinds")
    inputs = [str(folder / f"{number}.root") for number in range(FILES)]
    for number, path in enumerate(inputs):
        root.branchline_kinds(path, number)
    hadd = Path(root.__file__).parent / "bin" / "hadd"
    if not os.access(hadd, os.X_OK):
        missing(f"the command {hadd}")
    theirs = str(folder / "theirs.root")
    # hadd reports axes that it cannot join, and continues.
    subprocess.run([hadd, "-fk", "-v", "0", theirs, *inputs], check=True, capture_output=True)
    return inputs, theirs, merge(inputs, folder / "ours.root")


#: Histograms with a display range (TAxis::SetRange). ROOT computes their statistics only from the bins in this range,
#: although the entries were filled.
SHOWN_RANGE = ("hand_double_range", "hand_float_range", "hand_int_range", "hand_short_range")
#: Lists of entry numbers that do not name their tree. ROOT merges them.
LISTS = ("events", "entries", "entries_files")
#: Histograms with axes that ROOT cannot join. ROOT keeps the first histogram and prints a message.
NOT_JOINED = ("grown_shifted", "grown_late", "grown_automatic")


def test_all_that_adds_up_is_what_hadd_makes(root: Any, merged: tuple[list[str], str, MergeResult]) -> None:
    _, theirs, ours = merged
    expected, found = (versions(root, path) for path in (theirs, ours.path))
    assert expected.keys() == found.keys()
    others = expected.keys() - {*SHOWN_RANGE, *LISTS, *NOT_JOINED}
    assert len(others) == 37
    for name in others:
        assert len(expected[name]) == len(found[name]), name
        for one, two in zip(expected[name], found[name], strict=True):
            assert not differences(one, two), name


@pytest.mark.parametrize("name", ["hand_double", "hand_int_mixed", "hand_two", "average"])
def test_bins_that_were_set_by_hand_count_for_the_mean(
    root: Any, merged: tuple[list[str], str, MergeResult], name: str
) -> None:
    inputs, _, ours = merged
    file = root.TFile.Open(ours.path)
    mean = file.Get(name).GetMean()
    file.Close()
    weights = means = 0.0
    for path in inputs:
        file = root.TFile.Open(path)
        stats = root.std.vector["double"](20)
        file.Get(name).GetStats(stats.data())
        weights, means = weights + stats[0], means + stats[2]
        file.Close()
    assert mean == pytest.approx(means / weights)


def test_a_range_for_drawing_does_not_take_entries_from_the_sum(
    root: Any, merged: tuple[list[str], str, MergeResult]
) -> None:
    _, theirs, ours = merged
    expected, found = (versions(root, path) for path in (theirs, ours.path))
    for name in SHOWN_RANGE:
        differing = differences(expected[name][0], found[name][0])
        assert set(differing) == {".fTsumw", ".fTsumw2", ".fTsumwx", ".fTsumwx2"}
        # Each of the three files has two entries. ROOT counts only the entry in the range.
        assert differing[".fTsumw"] == (3, 6)


def test_lists_of_entries_and_axes_that_cannot_be_joined_are_kept_as_they_are(
    root: Any, merged: tuple[list[str], str, MergeResult]
) -> None:
    inputs, _, ours = merged
    found = versions(root, ours.path)
    for name in (*LISTS, *NOT_JOINED):
        own = [versions(root, path)[name][0] for path in inputs]
        expected = [one for place, one in enumerate(own) if one not in own[:place]]
        if name in LISTS:
            assert found[name] == expected, name
        assert any(note.startswith(f"{name} ") for note in ours.notes), name
    assert verify(ours.path, inputs).is_same


def test_objects_of_one_name_and_two_classes_are_all_kept(root: Any, tmp_path: Path) -> None:
    root.gInterpreter.Declare(WRITER)
    inputs = [str(tmp_path / f"{number}.root") for number in range(FILES)]
    for number, path in enumerate(inputs):
        root.branchline_two_classes(path, number)
    hadd = Path(root.__file__).parent / "bin" / "hadd"
    command = [hadd, "-fk", "-v", "0", tmp_path / "theirs.root", *inputs]
    assert subprocess.run(command, check=False, capture_output=True).returncode != 0
    made = merge(inputs, tmp_path / "ours.root")
    file = root.TFile.Open(made.path)
    classes: dict[str, set[str]] = {}
    for key in file.GetListOfKeys():
        classes.setdefault(key.GetName(), set()).add(key.GetClassName())
    file.Close()
    assert classes == {
        "classes": {"TH1D", "TH1F"},
        "other": {"TH1D", "TNamed"},
        "swapped": {"TH1D", "TNamed"},
        "dimensions": {"TH1D", "TH2D"},
    }
    assert verify(made.path, inputs).is_same
