"""The same analysis with ROOT: an RDataFrame for each folder of AO2D files, and TTree::Draw for ESD files, because
RDataFrame cannot compile expressions with branches such as `PrimaryVertex.AliVertex.fPosition[3]`.
"""

import glob
import sys

import numpy as np
import ROOT

ROOT.gInterpreter.Declare("""
#ifndef BRANCHLINE_EXAMPLE_SPECTRUM
#define BRANCHLINE_EXAMPLE_SPECTRUM
// The positions of the collisions in the current folder.
std::vector<float> &positions() {
  static auto *found = new std::vector<float>;
  return *found;
}

void set_positions(const float *values, size_t count) { positions().assign(values, values + count); }

// Rows without a collision have the index -1.
bool is_central(int collision) { return collision >= 0 && std::abs(positions()[collision]) < 10; }
#endif
""")
EDGES_GEV = np.array([0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 7, 10])


def from_ao2d(path):
    file = ROOT.TFile.Open(path)
    total, collisions = np.zeros(len(EDGES_GEV) + 1), 0
    for folder in [key.GetName() for key in file.GetListOfKeys()]:
        position = ROOT.RDataFrame(file.Get(f"{folder}/O2collision_001")).AsNumpy(["fPosZ"])["fPosZ"]
        ROOT.set_positions(position, len(position))
        collisions += np.sum(abs(position) < 10)
        tracks = file.Get(f"{folder}/O2track_iu")
        tracks.AddFriend(file.Get(f"{folder}/O2trackextra_002"), "extra")
        frame = ROOT.RDataFrame(tracks).Filter("is_central(fIndexCollisions)")
        frame = frame.Filter("std::abs(std::asinh(fTgl)) < 0.8f && extra.fTPCNClsFindable >= 70")
        total += values(frame.Define("pt", "1 / std::abs(fSigned1Pt)").Histo1D(model(), "pt"))
    return {"pt": total, "collisions": collisions}


def from_esd(paths):
    chain = ROOT.TChain("esdTree")
    for path in paths:
        chain.Add(path)
    central = "abs(PrimaryVertex.AliVertex.fPosition[2]) < 10"
    chosen = "abs(asinh(Tracks.fP[][3])) < 0.8 && Tracks.fTPCncls >= 70"
    spectrum = ROOT.TH1D("spectrum", "", len(EDGES_GEV) - 1, EDGES_GEV)
    chain.Draw("1 / abs(Tracks.fP[][4]) >> spectrum", f"{central} && {chosen}", "goff")
    return {"pt": values(spectrum), "collisions": chain.GetEntries(central)}


def model():
    return ROOT.RDF.TH1DModel("pt", "", len(EDGES_GEV) - 1, EDGES_GEV)


def values(histogram):
    return np.array([histogram.GetBinContent(place) for place in range(len(EDGES_GEV) + 1)])


def run(files, workers=1):
    """Return the spectrum and the number of collisions."""
    if workers > 1:
        ROOT.EnableImplicitMT(workers)
    paths = sorted(glob.glob(files))
    if "AliESDs" in files:
        return from_esd(paths)
    found = [from_ao2d(path) for path in paths]
    return {name: sum(one[name] for one in found) for name in ("pt", "collisions")}


if __name__ == "__main__":
    print(run(sys.argv[1]))
