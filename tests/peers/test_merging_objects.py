"""Merging keeps or adds objects other than trees and histograms like hadd, in several cycles and files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.peers.peers import missing
from tests.peers.test_merging_histograms import differences, seen

from branchline.writing.merging.merge import merge
from branchline.writing.merging.verify import verify

FILES = 3
# Code for ROOT to write a file: `branchline_others(path, number)`.
WRITER = r"""
#ifndef BRANCHLINE_MERGING_OBJECTS
#define BRANCHLINE_MERGING_OBJECTS
#include <TCanvas.h>
#include <TCutG.h>
#include <TF1.h>
#include <TFile.h>
#include <TGraph.h>
#include <TGraph2D.h>
#include <TH1.h>
#include <THStack.h>
#include <TMap.h>
#include <TMultiGraph.h>
#include <TNamed.h>
#include <TObjString.h>
#include <TParameter.h>
#include <TVectorD.h>
#include <string>
void branchline_parameters(int i) {
   TParameter<double>("sum", i + 1).Write(); TParameter<double>("product", i + 2, '*').Write();
   TParameter<int>("most", 5 - i, 'M').Write(); TParameter<int>("least", 5 - i, 'm').Write();
   TParameter<Long64_t>("first", 5 - i, 'f').Write(); TParameter<float>("last", 5 - i, 'l').Write();
   TParameter<bool>("any", i == 1).Write(); TParameter<bool>("all", i != 1, '*').Write();
}
void branchline_cycles(int i) {
   TH1D h("histogram", "", 5, 0, 5);
   for (int k = 0; k < 3; ++k) {
      h.Fill(i); h.Write();
      TNamed("named", (std::to_string(i) + "/" + std::to_string(k)).c_str()).Write();
      TNamed("alike", std::to_string(k % 2).c_str()).Write();
      TObjString(std::to_string(i / 2 + k).c_str()).Write("text");
      if (i == 0) TNamed("once", std::to_string(k).c_str()).Write();
   }
}
void branchline_others(const char *path, int i) {
   TFile file(path, "RECREATE"); branchline_parameters(i); branchline_cycles(i);
   TDirectory *below = file.mkdir("below"); below->cd(); branchline_cycles(i); file.cd();
   TGraph2D surface(1); surface.SetName("surface"); surface.SetPoint(0, i, 1, 2); surface.Write();
   double xs[] = {i + 0., i + 1.}, ys[] = {1, 2};
   TMultiGraph graphs("graphs", ""); graphs.Add(new TGraph(2, xs, ys)); graphs.Write();
   TCutG cut("cut", 2); cut.SetPoint(0, i, 0); cut.SetPoint(1, 1, i); cut.SetVarX("x"); cut.Write();
   TF1 curve("curve", "[0]*x", 0, 1); curve.SetParameter(0, i); curve.Write();
   TMap map; map.Add(new TObjString("key"), new TObjString(std::to_string(i).c_str()));
   map.Write("map", TObject::kSingleKey);
   TNamed("long", std::string(5000, 'a' + i).c_str()).Write();
   TVectorD vector(2); vector[0] = i; vector.Write("vector");
   THStack stack("stack", ""); TH1D *part = new TH1D("part", "", 5, 0, 5); part->SetDirectory(nullptr); part->Fill(i);
   TH1D *other = new TH1D("other", "", 5, 0, 5); other->SetDirectory(nullptr); other->Fill(i / 2); stack.Add(part);
   stack.Add(other); stack.Write();
}
#endif
"""


@pytest.fixture(scope="module")
def merged(root: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], str, str]:
    """Return files of ROOT, the output of hadd, and the output of Branchline."""
    root.gInterpreter.Declare(WRITER)
    folder = tmp_path_factory.mktemp("others")
    inputs = [str(folder / f"{number}.root") for number in range(FILES)]
    for number, path in enumerate(inputs):
        root.branchline_others(path, number)
    hadd = Path(root.__file__).parent / "bin" / "hadd"
    if not os.access(hadd, os.X_OK):
        missing(f"the command {hadd}")
    theirs, ours = str(folder / "theirs.root"), str(folder / "ours.root")
    subprocess.run([hadd, "-fk", "-v", "0", theirs, *inputs], check=True, capture_output=True)
    merge(inputs, ours)
    return inputs, theirs, ours


def versions(root: Any, path: str, folder: str = "") -> dict[str, list[dict[str, Any]]]:
    """Return the distinct versions of each object that ROOT reads from a file, by name, in cycle order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, content in seen(root, path, folder).items():
        name, cycle = name.removesuffix("/0").split(";")
        found.setdefault(name, []).append({"cycle": int(cycle), **content})
    for name, contents in found.items():
        ordered = sorted(contents, key=lambda content: content.pop("cycle"))
        found[name] = [one for place, one in enumerate(ordered) if one not in ordered[:place]]
    return found


@pytest.mark.parametrize("folder", ["", "below"])
def test_objects_and_their_cycles_are_those_of_hadd(root: Any, merged: tuple[list[str], str, str], folder: str) -> None:
    theirs, ours = (versions(root, path, folder) for path in merged[1:])
    assert theirs.keys() == ours.keys()
    assert [len(ours[name]) for name in ("named", "alike", "text", "once", "histogram")] == [9, 2, 4, 3, 1]
    for name, expected in theirs.items():
        assert len(expected) == len(ours[name]), name
        for one, two in zip(expected, ours[name], strict=True):
            assert not differences(one, two), name


def test_cycles_are_verified_and_stay_when_they_are_merged_again(
    root: Any, merged: tuple[list[str], str, str], tmp_path: Path
) -> None:
    inputs, _, ours = merged
    assert verify(ours, inputs).is_same
    again = tmp_path / "again.root"
    made = merge([ours], again)
    assert versions(root, str(again)) == versions(root, ours)
    assert verify(again, inputs).is_same
    assert made.left_out == ()
    some = tmp_path / "some.root"
    merge(inputs[:2], some)
    assert not verify(some, inputs).is_same


def test_objects_that_hadd_compressed_in_another_way_are_the_same(
    root: Any, merged: tuple[list[str], str, str], tmp_path: Path
) -> None:
    hadd = Path(root.__file__).parent / "bin" / "hadd"
    output = tmp_path / "plain.root"
    subprocess.run([hadd, "-f0", "-v", "0", output, *merged[0]], check=True, capture_output=True)
    # ROOT may write functions, and graphs with a function, differently than it read them, depending on what the process
    # did before.
    assert {difference.split(" ")[0] for difference in verify(output, merged[0]).differences} <= {"curve", "surface"}
