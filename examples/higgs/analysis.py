"""The analysis: the mass of four leptons in three channels, with the cuts of CMS's example for its open data.

branchline run examples/higgs/analysis.py:four_leptons DATA/samples.toml -o out
python examples/higgs/fit.py out
"""

import tempfile

import awkward as ak
import hist
import numpy as np
import vector

import branchline

Z_GEV = 91.2
CHANNELS = {"4mu": 4, "4e": 0, "2e2mu": 2}


def good(leptons, pt_min, eta_max, isolation):
    """Return leptons that are isolated and come from the collision point."""
    impact = np.hypot(leptons.dxy, leptons.dz) / np.hypot(leptons.dxyErr, leptons.dzErr)
    chosen = (leptons.pt > pt_min) & (abs(leptons.eta) < eta_max) & (isolation < 0.4) & (impact < 4)
    return leptons[chosen & (abs(leptons.dxy) < 0.5) & (abs(leptons.dz) < 1)]


def four_leptons(events):
    """Return a histogram of the mass of the four leptons for each channel."""
    muons = good(events.Muon, 5, 2.4, events.Muon.pfRelIso04_all)
    electrons = good(events.Electron, 7, 2.5, events.Electron.pfRelIso03_all)
    four = ak.num(muons) + ak.num(electrons) == 4
    muons, electrons = muons[four], electrons[four]
    leptons = ak.concatenate([momenta(muons, True), momenta(electrons, False)], axis=1)
    momentum = ak.sort(leptons.pt, axis=1, ascending=False)
    hard = (momentum[:, 0] > 20) & (momentum[:, 1] > 10)
    leptons, numbers = leptons[hard], ak.num(muons)[hard]
    pairs = ak.combinations(leptons, 2, fields=["a", "b"])
    is_z = (pairs.a.charge != pairs.b.charge) & (pairs.a.is_muon == pairs.b.is_muon)
    mass = (pairs.a + pairs.b).mass
    # Of six pairs of four leptons, the first and last have no lepton in common, and so on.
    both = is_z & is_z[:, ::-1]
    best = ak.argmin(ak.where(both, abs(mass - Z_GEV), np.inf), axis=1, keepdims=True)
    first, second = mass[best][:, 0], mass[:, ::-1][best][:, 0]
    chosen = ak.any(both, axis=1) & (first > 40) & (first < 120) & (second > 12) & (second < 120)
    leptons, numbers = leptons[chosen], numbers[chosen]
    total = (leptons[:, 0] + leptons[:, 1] + leptons[:, 2] + leptons[:, 3]).mass
    return {name: spectrum().fill(total[numbers == count]) for name, count in CHANNELS.items()}


def momenta(leptons, is_muon):
    fields = {name: leptons[name] for name in ("pt", "eta", "phi", "mass", "charge")}
    fields["is_muon"] = ak.full_like(leptons.charge, is_muon, dtype=bool)
    return ak.zip(fields, with_name="Momentum4D", behavior=vector.backends.awkward.behavior)


def spectrum():
    return hist.Hist.new.Reg(92, 70, 300, name="mass", label="m(4l) [GeV]").Weight()


four_leptons.by_dataset = True
wagons = [four_leptons]


def run(list_of_samples):
    """Return the scaled histograms by sample and channel."""
    with tempfile.TemporaryDirectory() as out:
        branchline.run(wagons, list_of_samples, out, workers=0, pictures="none")
        return branchline.load(out).normalised("four_leptons")
