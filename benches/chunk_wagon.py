"""The analysis of `benches.chunk_sizes`: top quarks with one lepton, 15 branches of NanoAOD, in each framework."""

from __future__ import annotations

from typing import Any

#: The same selection in C++ for RDataFrame.
DECLARATIONS = """
using ROOT::RVecF;
double mass_of_three(const RVecF &pt, const RVecF &eta, const RVecF &phi, const RVecF &m, const RVecF &b)
{
    const size_t n = std::min<size_t>(pt.size(), 6);
    std::vector<double> x(n), y(n), z(n), e(n);
    for (size_t i = 0; i < n; i++) {
        x[i] = pt[i] * std::cos(phi[i]); y[i] = pt[i] * std::sin(phi[i]); z[i] = pt[i] * std::sinh(eta[i]);
        e[i] = std::sqrt(x[i] * x[i] + y[i] * y[i] + z[i] * z[i] + m[i] * m[i]);
    }
    double best = -2, mass = -1;
    for (size_t i = 0; i < n; i++) for (size_t j = i + 1; j < n; j++) for (size_t k = j + 1; k < n; k++) {
        const double px = x[i] + x[j] + x[k], py = y[i] + y[j] + y[k], pz = z[i] + z[j] + z[k];
        const double pt3 = std::max({b[i], b[j], b[k]}) > 0.5 ? std::sqrt(px * px + py * py) : -1;
        const double en = e[i] + e[j] + e[k];
        if (pt3 > best) { best = pt3; mass = std::sqrt(std::max(0., en * en - px * px - py * py - pz * pz)); }
    }
    return mass;
}
"""

JET = ("pt", "eta", "phi", "mass", "btagCSVV2")


class Top:
    """Fills histograms of HT, of the mass of three jets, and of missing momentum."""

    def process(self, events: Any) -> dict[str, Any]:
        import awkward as ak
        import hist
        import numpy as np

        electrons = events.Electron[(events.Electron.pt > 30) & (abs(events.Electron.eta) < 2.1)]
        muons = events.Muon[(events.Muon.pt > 30) & (abs(events.Muon.eta) < 2.1)]
        muons = muons[muons.tightId & (muons.pfRelIso04_all < 0.15)]
        jets = events.Jet[(events.Jet.pt > 25) & (abs(events.Jet.eta) < 2.4)]
        chosen = (ak.num(electrons) + ak.num(muons) == 1) & (ak.num(jets) >= 4)
        jets = jets[chosen]
        weight = events.genWeight[chosen] / abs(events.genWeight[chosen])
        first = jets[:, :6]
        px, py, pz = first.pt * np.cos(first.phi), first.pt * np.sin(first.phi), first.pt * np.sinh(first.eta)
        energy = np.sqrt(px**2 + py**2 + pz**2 + first.mass**2)
        one = ak.zip({"x": px, "y": py, "z": pz, "e": energy, "b": first.btagCSVV2})
        three = ak.combinations(one, 3, fields=["a", "b", "c"])
        x, y, z, e = (three.a[part] + three.b[part] + three.c[part] for part in "xyze")
        is_tagged = np.maximum(three.a.b, np.maximum(three.b.b, three.c.b)) > 0.5
        best = ak.argmax(np.where(is_tagged, np.sqrt(x**2 + y**2), -1.0), axis=1, keepdims=True)
        mass = ak.fill_none(ak.flatten(np.sqrt(np.maximum(0, e**2 - x**2 - y**2 - z**2))[best]), -1)
        of_events = hist.Hist.new.Reg(25, 50, 550, name="value")
        return {
            "ht": of_events.Weight().fill(ak.sum(jets.pt, axis=-1), weight=weight),
            "mass": hist.Hist.new.Reg(25, 50, 550, name="value").Weight().fill(mass, weight=weight),
            "met": hist.Hist.new.Reg(25, 0, 250, name="value").Weight().fill(events.MET.pt[chosen], weight=weight),
            "chunks": 1,
        }

    def postprocess(self, total: Any) -> Any:
        """Return the sums unchanged; coffea requires this method."""
        return total


def with_root(paths: list[str]) -> dict[str, list[float]]:
    """Run the same analysis with RDataFrame and return the bin contents of each histogram."""
    import ROOT

    ROOT.gInterpreter.Declare(DECLARATIONS)
    frame = ROOT.RDataFrame("Events", paths)
    muon = "Muon_pt > 30 && abs(Muon_eta) < 2.1 && Muon_tightId && Muon_pfRelIso04_all < 0.15"
    frame = (
        frame.Define("leptons", f"Sum(Electron_pt > 30 && abs(Electron_eta) < 2.1) + Sum({muon})")
        .Define("good", "Jet_pt > 25 && abs(Jet_eta) < 2.4")
        .Filter("leptons == 1 && Sum(good) >= 4")
        .Define("weight", "genWeight / std::abs(genWeight)")
        .Define("ht", "Sum(Jet_pt[good])")
        .Define("mass", f"mass_of_three({', '.join(f'Jet_{name}[good]' for name in JET)})")
    )
    wanted = {"ht": ("ht", 50, 550), "mass": ("mass", 50, 550), "met": ("MET_pt", 0, 250)}
    made = {
        name: frame.Histo1D((name, "", 25, *limits), column, "weight") for name, (column, *limits) in wanted.items()
    }
    return {name: [one.GetBinContent(number) for number in range(1, 26)] for name, one in made.items()}
