"""The same analysis with ROOT's RDataFrame, with Vary for the variations."""

import sys
import tomllib
from pathlib import Path

import numpy as np
import ROOT

ROOT.gInterpreter.Declare("""
#ifndef BRANCHLINE_EXAMPLE_TTBAR
#define BRANCHLINE_EXAMPLE_TTBAR
using Floats = ROOT::VecOps::RVec<float>;
double trijet_mass(const Floats &pt, const Floats &eta, const Floats &phi, const Floats &mass, const Floats &btag) {
  std::vector<ROOT::Math::PxPyPzMVector> jets;
  Floats tags;
  for (size_t i = 0; i < pt.size(); ++i) {
    if (!(pt[i] > 30.f)) continue;
    jets.emplace_back(ROOT::Math::PtEtaPhiMVector(pt[i], eta[i], phi[i], mass[i]));
    tags.push_back(btag[i]);
  }
  double best = -1, found = -1;
  for (size_t i = 0; i < jets.size(); ++i)
    for (size_t j = i + 1; j < jets.size(); ++j)
      for (size_t k = j + 1; k < jets.size(); ++k) {
        if (!(std::max({tags[i], tags[j], tags[k]}) > 0.5f)) continue;
        const auto together = jets[i] + jets[j] + jets[k];
        if (together.Pt() > best) { best = together.Pt(); found = together.M(); }
      }
  return found;
}
#endif
""")
BINS = {"4j1b": ("ht", 20, 100.0, 700.0), "4j2b": ("mass", 20, 50.0, 550.0)}


def book(paths, is_data):
    """Book the histograms of a sample, with their variations if it is simulated, and return them by region."""
    frame = ROOT.RDataFrame("Events", paths)
    frame = frame.Define("weight", "1.0" if is_data else "genWeight").Filter("Sum(Muon_pt > 25.0) == 1")
    if not is_data:
        frame = frame.Vary(
            "Jet_pt",
            "ROOT::RVec<ROOT::RVecF>{Jet_pt * 1.03f, Jet_pt * 0.97f}",
            variationTags=["up", "down"],
            variationName="jes",
        )
        frame = frame.Vary(
            "weight",
            "ROOT::RVecD{weight * puUp, weight * puDown}",
            variationTags=["up", "down"],
            variationName="pileup",
        )
    frame = frame.Filter("Sum(Jet_pt > 30.f) >= 4").Define("tagged", "Sum(Jet_btag[Jet_pt > 30.f] > 0.5f)")
    one = frame.Filter("tagged == 1").Define("ht", "Sum(Jet_pt[Jet_pt > 30.f])")
    two = frame.Filter("tagged >= 2").Define("mass", "trijet_mass(Jet_pt, Jet_eta, Jet_phi, Jet_mass, Jet_btag)")
    booked = {}
    for region, selected in (("4j1b", one), ("4j2b", two)):
        name, count, low, high = BINS[region]
        booked[region] = selected.Histo1D(ROOT.RDF.TH1DModel(region, "", count, low, high), name, "weight")
    return {name: one if is_data else ROOT.RDF.Experimental.VariationsFor(one) for name, one in booked.items()}


def values(histogram, factor=1.0):
    return factor * np.array([histogram.GetBinContent(place) for place in range(histogram.GetNbinsX() + 2)])


def run(list_of_samples, workers=1):
    """Return the scaled bin contents by sample, variation and region."""
    if workers > 1:
        ROOT.EnableImplicitMT(workers)
    samples = tomllib.loads(Path(list_of_samples).read_text(encoding="utf-8"))
    folder = Path(list_of_samples).parent
    found = {
        name: sorted(path for one in about["files"] for path in folder.glob(one)) for name, about in samples.items()
    }
    files = {name: [str(path) for path in paths] for name, paths in found.items()}
    booked = {name: book(paths, name == "data") for name, paths in files.items()}
    luminosity_per_fb = samples["data"]["sample"]["luminosity_per_fb"]
    results = {}
    for name, regions in booked.items():
        if name == "data":
            results[name] = {"nominal": {region: values(one.GetValue()) for region, one in regions.items()}}
            continue
        total = ROOT.RDataFrame("Runs", files[name]).Sum("genEventSumw").GetValue()
        factor = 1000 * samples[name]["sample"]["cross_section_pb"] * luminosity_per_fb / total
        results[name] = {}
        for region, varied in regions.items():
            for key in varied.GetKeys():
                variation = str(key).replace(":", "_")
                results[name].setdefault(variation, {})[region] = values(varied[key], factor)
    return results


if __name__ == "__main__":
    print(run(sys.argv[1]))
