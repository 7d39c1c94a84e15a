"""The same queries with ROOT's RDataFrame, over one read."""

import glob
import sys

import numpy as np
import ROOT

ROOT.gInterpreter.Declare("""
#ifndef BRANCHLINE_EXAMPLE_ADL
#define BRANCHLINE_EXAMPLE_ADL
using Floats = ROOT::VecOps::RVec<float>;
using Ints = ROOT::VecOps::RVec<int>;
using Momenta = std::vector<ROOT::Math::PxPyPzMVector>;

Momenta momenta(const Floats &pt, const Floats &eta, const Floats &phi, const Floats &mass) {
  Momenta found;
  for (size_t i = 0; i < pt.size(); ++i)
    found.emplace_back(ROOT::Math::PtEtaPhiMVector(pt[i], eta[i], phi[i], mass[i]));
  return found;
}

bool has_z(const Momenta &muons, const Ints &charge) {
  for (size_t i = 0; i < muons.size(); ++i)
    for (size_t j = i + 1; j < muons.size(); ++j) {
      const double mass = (muons[i] + muons[j]).M();
      if (charge[i] != charge[j] && mass > 60 && mass < 120) return true;
    }
  return false;
}

// The momentum of the three jets nearest to the mass of the top, and their largest b tag.
Floats top(const Momenta &jets, const Floats &btag) {
  double closest = 1e9;
  Floats found{0, 0};
  for (size_t i = 0; i < jets.size(); ++i)
    for (size_t j = i + 1; j < jets.size(); ++j)
      for (size_t k = j + 1; k < jets.size(); ++k) {
        const auto together = jets[i] + jets[j] + jets[k];
        if (std::abs(together.M() - 172.5) >= closest) continue;
        closest = std::abs(together.M() - 172.5);
        found = {float(together.Pt()), std::max({btag[i], btag[j], btag[k]})};
      }
  return found;
}

// The sum of the momenta of jets that are not near a lepton, or -1 without such jets.
double away_from_leptons(const Floats &pt, const Floats &eta, const Floats &phi, const Floats &lepton_pt,
                         const Floats &lepton_eta, const Floats &lepton_phi) {
  double total = -1;
  for (size_t i = 0; i < pt.size(); ++i) {
    bool is_near = !(pt[i] > 30);
    for (size_t j = 0; j < lepton_pt.size(); ++j)
      is_near |= lepton_pt[j] > 10 && ROOT::VecOps::DeltaR(eta[i], lepton_eta[j], phi[i], lepton_phi[j]) < 0.4;
    if (!is_near) total = std::max(total, 0.) + pt[i];
  }
  return total;
}

// The transverse mass of the missing momentum and the leading lepton outside the pair nearest to the Z, or -1.
double transverse(const Momenta &leptons, const Floats &pt, const Floats &phi, const Ints &charge, int muons, float met,
                  float met_phi) {
  double closest = 1e9;
  size_t one = 0, other = 0;
  for (size_t i = 0; i < leptons.size(); ++i)
    for (size_t j = i + 1; j < leptons.size(); ++j) {
      if (charge[i] == charge[j] || (int(i) < muons) != (int(j) < muons)) continue;
      const double away = std::abs((leptons[i] + leptons[j]).M() - 91.2);
      if (away < closest) closest = away, one = i, other = j;
    }
  if (leptons.size() < 3 || one == other) return -1;
  int best = -1;
  for (size_t i = 0; i < leptons.size(); ++i)
    if (i != one && i != other && (best < 0 || pt[i] > pt[best])) best = i;
  return std::sqrt(2 * met * pt[best] * (1 - std::cos(met_phi - phi[best])));
}
#endif
""")


def run(files, workers=1):
    """Return the bin contents by query."""
    if workers > 1:
        ROOT.EnableImplicitMT(workers)
    frame = ROOT.RDataFrame("Events", sorted(glob.glob(files)))
    for one in ("pt", "eta", "phi", "mass", "charge"):
        frame = frame.Define(f"Lepton_{one}", f"Concatenate(Muon_{one}, Electron_{one})")
    for name in ("Jet", "Muon", "Lepton"):
        columns = ", ".join(f"{name}_{one}" for one in ("pt", "eta", "phi", "mass"))
        frame = frame.Define(name, f"momenta({columns})")
    three = frame.Filter("Jet.size() >= 3").Define("top", "top(Jet, Jet_btag)")
    three = three.Define("top_pt", "top[0]").Define("top_btag", "top[1]")
    jets = ", ".join(f"{name}_{one}" for name in ("Jet", "Lepton") for one in ("pt", "eta", "phi"))
    away = frame.Define("total", f"away_from_leptons({jets})").Filter("total >= 0")
    leptons = "Lepton, Lepton_pt, Lepton_phi, Lepton_charge, int(Muon.size()), MET_pt, MET_phi"
    booked = {
        "q1": histogram(frame, "MET_pt", 0, 200),
        "q2": histogram(frame, "Jet_pt", 15, 60),
        "q3": histogram(frame.Define("central", "Jet_pt[abs(Jet_eta) < 1]"), "central", 15, 60),
        "q4": histogram(frame.Filter("Sum(Jet_pt > 40) >= 2"), "MET_pt", 0, 200),
        "q5": histogram(frame.Filter("has_z(Muon, Muon_charge)"), "MET_pt", 0, 200),
        "q6": {"pt": histogram(three, "top_pt", 15, 140), "btag": histogram(three, "top_btag", 0, 1)},
        "q7": histogram(away, "total", 15, 200),
        "q8": histogram(frame.Define("mt", f"transverse({leptons})").Filter("mt >= 0"), "mt", 0, 250),
    }
    return {
        query: {name: values(two) for name, two in one.items()} if isinstance(one, dict) else values(one)
        for query, one in booked.items()
    }


def histogram(frame, column, low, high):
    return frame.Histo1D(ROOT.RDF.TH1DModel("x", "", 100, float(low), float(high)), column)


def values(histogram):
    return np.array([histogram.GetBinContent(place) for place in range(histogram.GetNbinsX() + 2)])


if __name__ == "__main__":
    print(run(sys.argv[1]))
