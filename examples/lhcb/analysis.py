"""The analysis: masses of B+ and B- candidates from three kaons, and where the kaons lie in the Dalitz plot.

branchline run examples/lhcb/analysis.py:candidates "DATA/B2HHH_*.root" -o out
python examples/lhcb/fit.py out
"""

import hist
import numpy as np

import branchline

KAON_MEV = 493.677
MASS_MEV, WINDOW_MEV = 5279.3, 60.0


def candidates(events):
    """Return histograms of the mass of B+ and B-, and of the two squared masses of kaon pairs in the signal window."""
    chosen = (events.B_FlightDistance > 2) & (events.B_VertexChi2 < 9)
    for one in ("H1", "H2", "H3"):
        chosen = (
            chosen & (events[f"{one}_ProbK"] > 0.5) & (events[f"{one}_ProbPi"] < 0.5) & (events[f"{one}_isMuon"] == 0)
        )
    kaons = [kaon(events, one, chosen) for one in ("H1", "H2", "H3")]
    total = mass(*kaons)
    charge = sum(np.asarray(events[f"{one}_Charge"][chosen]) for one in ("H1", "H2", "H3"))
    signal = abs(total - MASS_MEV) < WINDOW_MEV
    pairs = [mass(kaons[0], kaons[1])[signal] ** 2 / 1e6, mass(kaons[1], kaons[2])[signal] ** 2 / 1e6]
    return {
        "plus": spectrum().fill(total[charge > 0]),
        "minus": spectrum().fill(total[charge < 0]),
        "dalitz": dalitz().fill(np.minimum(*pairs), np.maximum(*pairs)),
    }


def kaon(events, name, chosen):
    """Return energy and momentum of a particle as a kaon, with shape (4, candidates)."""
    momentum = np.stack([np.asarray(events[f"{name}_P{axis}"][chosen]) for axis in "XYZ"])
    return np.concatenate([[np.sqrt(KAON_MEV**2 + np.sum(momentum**2, axis=0))], momentum])


def mass(*particles):
    energy, *momentum = np.sum(particles, axis=0)
    return np.sqrt(energy**2 - np.sum(np.square(momentum), axis=0))


def spectrum():
    return hist.Hist.new.Reg(100, 5050, 5650, name="mass", label="m(KKK) [MeV]").Double()


def dalitz():
    axes = hist.Hist.new.Reg(30, 0, 15, name="low", label="$m^2$(KK) low [GeV$^2$]")
    return axes.Reg(30, 0, 30, name="high", label="$m^2$(KK) high [GeV$^2$]").Double()


wagons = [candidates]


def run(files):
    """Return the histograms by name."""
    return branchline.run(wagons, files, tree="DecayTree", workers=0).outputs["candidates"]
