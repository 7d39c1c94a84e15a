"""The same analysis with ROOT's RDataFrame."""

import sys
import tomllib
from pathlib import Path

import numpy as np
import ROOT

ROOT.gInterpreter.Declare("""
#ifndef BRANCHLINE_EXAMPLE_HIGGS
#define BRANCHLINE_EXAMPLE_HIGGS
using Floats = ROOT::VecOps::RVec<float>;
using Ints = ROOT::VecOps::RVec<int>;

Ints good(const Floats &pt, const Floats &eta, const Floats &isolation, const Floats &dxy, const Floats &dz,
          const Floats &dxyErr, const Floats &dzErr, float pt_min, float eta_max) {
  const auto impact = sqrt(dxy * dxy + dz * dz) / sqrt(dxyErr * dxyErr + dzErr * dzErr);
  return pt > pt_min && abs(eta) < eta_max && isolation < 0.4f && impact < 4 && abs(dxy) < 0.5f && abs(dz) < 1;
}

// The mass of four leptons, or -1 if they fail the cuts on the momenta and on the masses of both pairs.
double four_leptons(const Floats &pt, const Floats &eta, const Floats &phi, const Floats &mass, const Ints &charge,
                    int muons) {
  auto momentum = Sort(pt, [](float a, float b) { return a > b; });
  if (!(momentum[0] > 20 && momentum[1] > 10)) return -1;
  std::vector<ROOT::Math::PxPyPzMVector> leptons;
  for (int i = 0; i < 4; ++i) leptons.emplace_back(ROOT::Math::PtEtaPhiMVector(pt[i], eta[i], phi[i], mass[i]));
  auto is_z = [&](int i, int j) { return charge[i] != charge[j] && (i < muons) == (j < muons); };
  const int pairs[6][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {0, 3, 1, 2}, {1, 2, 0, 3}, {1, 3, 0, 2}, {2, 3, 0, 1}};
  double first = -1, second = -1, closest = 1e9;
  for (const auto &p : pairs) {
    if (!is_z(p[0], p[1]) || !is_z(p[2], p[3])) continue;
    const double own = (leptons[p[0]] + leptons[p[1]]).M();
    if (std::abs(own - 91.2) >= closest) continue;
    closest = std::abs(own - 91.2);
    first = own;
    second = (leptons[p[2]] + leptons[p[3]]).M();
  }
  if (!(first > 40 && first < 120 && second > 12 && second < 120)) return -1;
  return (leptons[0] + leptons[1] + leptons[2] + leptons[3]).M();
}
#endif
""")
CHANNELS = {"4mu": 4, "4e": 0, "2e2mu": 2}
CUTS = {"Muon": ("pfRelIso04_all", 5, 2.4), "Electron": ("pfRelIso03_all", 7, 2.5)}


def book(paths):
    """Book the histogram of each channel, and the number of events."""
    frame = ROOT.RDataFrame("Events", paths)
    count = frame.Count()
    for name, (isolation, pt_min, eta_max) in CUTS.items():
        columns = ", ".join(f"{name}_{one}" for one in ("pt", "eta", isolation, "dxy", "dz", "dxyErr", "dzErr"))
        frame = frame.Define(f"{name}_good", f"good({columns}, {pt_min}, {eta_max})")
    frame = frame.Define("muons", "int(Sum(Muon_good))").Filter("muons + Sum(Electron_good) == 4")
    for one in ("pt", "eta", "phi", "mass", "charge"):
        frame = frame.Define(one, f"Concatenate(Muon_{one}[Muon_good], Electron_{one}[Electron_good])")
    frame = frame.Define("total", "four_leptons(pt, eta, phi, mass, charge, muons)").Filter("total > 0")
    model = ROOT.RDF.TH1DModel("mass", "", 92, 70.0, 300.0)
    booked = {name: frame.Filter(f"muons == {number}").Histo1D(model, "total") for name, number in CHANNELS.items()}
    return count, booked


def run(list_of_samples, workers=1):
    """Return the scaled bin contents by sample and channel."""
    if workers > 1:
        ROOT.EnableImplicitMT(workers)
    samples = tomllib.loads(Path(list_of_samples).read_text(encoding="utf-8"))
    folder = Path(list_of_samples).parent
    booked = {
        name: book([str(path) for one in about["files"] for path in sorted(folder.glob(one))])
        for name, about in samples.items()
    }
    luminosity_per_fb = samples["data"]["sample"]["luminosity_per_fb"]
    results = {}
    for name, (count, channels) in booked.items():
        cross_section_pb = samples[name]["sample"].get("cross_section_pb")
        factor = 1000 * cross_section_pb * luminosity_per_fb / count.GetValue() if cross_section_pb else 1.0
        results[name] = {channel: values(one.GetValue(), factor) for channel, one in channels.items()}
    return results


def values(histogram, factor):
    return factor * np.array([histogram.GetBinContent(place) for place in range(histogram.GetNbinsX() + 2)])


if __name__ == "__main__":
    print(run(sys.argv[1]))
