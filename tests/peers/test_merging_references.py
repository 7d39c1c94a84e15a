"""Merging keeps TRef and TRefArray references valid between objects that several processes wrote."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.peers.peers import missing

from branchline.writing.merging.merge import merge
from branchline.writing.merging.skim import skim
from branchline.writing.merging.verify import verify

# Each process has its own identifier, which is stored as a TProcessID in the files that it writes.
WRITER = """
#include <TClonesArray.h>
#include <TFile.h>
#include <TNamed.h>
#include <TRef.h>
#include <TRefArray.h>
#include <TTree.h>
void branchline_references(const char *path, int number, int entries) {
   TFile file(path, "RECREATE");
   TTree tree("events", "");
   TClonesArray things("TNamed"); TClonesArray *things_at = &things;
   TObjArray loose; TObjArray *loose_at = &loose;
   TRefArray chosen; TRefArray *chosen_at = &chosen;
   TRef first; TRef *first_at = &first;
   tree.Branch("things", &things_at, 4000, 0);
   tree.Branch("loose", "TObjArray", &loose_at, 4000, 0);
   tree.Branch("chosen", "TRefArray", &chosen_at, 4000, 0);
   tree.Branch("first", "TRef", &first_at, 4000, 0);
   tree.SetAutoFlush(7 + number);
   auto count = TProcessID::GetObjectCount();
   for (int entry = 0; entry < entries; ++entry) {
      things.Clear(); loose.Delete(); chosen.Clear(); TProcessID::SetObjectCount(count);
      for (int k = 0; k < 1 + entry % 4; ++k) {
         new (things[k]) TNamed(TString::Format("thing %d %d %d", number, entry, k), TString());
         loose.Add(new TNamed(TString::Format("loose %d %d %d", number, entry, k), TString()));
         chosen.Add(k % 2 ? loose.At(k) : things[k]);
      }
      first = loose.At(entry % 2 ? 0 : loose.GetLast());
      tree.Fill();
   }
   tree.Write();
}
"""
PROCESS = """
import sys
import ROOT
ROOT.gROOT.SetBatch(True)
ROOT.gInterpreter.Declare(sys.argv[1])
for path in sys.argv[2:]:
    ROOT.branchline_references(path, int(path[-6]), int(sys.argv.index(path)) * 7 + 20)
"""
READER = """
#ifndef BRANCHLINE_REFERENCES
#define BRANCHLINE_REFERENCES
#include <TClonesArray.h>
#include <TFile.h>
#include <TNamed.h>
#include <TRef.h>
#include <TRefArray.h>
#include <TTree.h>
#include <string>
#include <vector>
std::vector<std::string> branchline_referred(const char *path) {
   std::vector<std::string> found;
   TFile file(path);
   TTree *tree = file.Get<TTree>("events");
   TClonesArray *things = nullptr; TObjArray *loose = nullptr; TRefArray *chosen = nullptr; TRef *first = nullptr;
   tree->SetBranchAddress("things", &things); tree->SetBranchAddress("loose", &loose);
   tree->SetBranchAddress("chosen", &chosen); tree->SetBranchAddress("first", &first);
   for (Long64_t entry = 0; entry < tree->GetEntries(); ++entry) {
      tree->GetEntry(entry);
      std::string line = first->GetObject() ? first->GetObject()->GetName() : "nothing";
      for (int k = 0; k < chosen->GetEntriesFast(); ++k)
         line += std::string(", ") + (chosen->At(k) ? chosen->At(k)->GetName() : "nothing");
      found.push_back(line);
      loose->Delete();
   }
   return found;
}
#endif
"""


@pytest.fixture(scope="module")
def inputs(root: Any, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Write three files from two processes."""
    folder = tmp_path_factory.mktemp("references")
    paths = [str(folder / f"{number}.root") for number in range(3)]
    for of_process in (paths[:2], paths[2:]):
        subprocess.run([sys.executable, "-c", PROCESS, WRITER, *of_process], check=True, capture_output=True)
    root.gInterpreter.Declare(READER)
    return paths


def referred(root: Any, path: str | Path) -> list[str]:
    return [str(line) for line in root.branchline_referred(str(path))]


def test_references_are_resolved_as_those_of_hadd(root: Any, inputs: list[str], tmp_path: Path) -> None:
    hadd = Path(root.__file__).parent / "bin" / "hadd"
    if not os.access(hadd, os.X_OK):
        missing(f"the command {hadd}")
    inputs = [inputs[2], inputs[0], inputs[1]]
    theirs = tmp_path / "theirs.root"
    subprocess.run([hadd, "-fk", "-v", "0", theirs, *inputs], check=True, capture_output=True)
    expected = referred(root, theirs)
    assert expected == [line for path in inputs for line in referred(root, path)]
    assert not [line for line in expected if "nothing" in line]
    ours = tmp_path / "ours.root"
    for options in ({}, {"codec": "lz4:1", "order": "branch"}, {"cluster_events": 5}, {"basket_size": 900}):
        merge(inputs, ours, verify=True, force=True, **options)
        assert referred(root, ours) == expected, options
        assert verify(ours, inputs).is_same, options
    again = tmp_path / "again.root"
    merge([str(ours), inputs[0]], again, cluster_events=11)
    assert referred(root, again) == expected + referred(root, inputs[0])
    skim(inputs, ours, where=lambda events: [number % 3 == 0 for number in range(len(events))], force=True)
    kept = [line for path in inputs for line in referred(root, path)[::3]]
    assert referred(root, ours) == kept
