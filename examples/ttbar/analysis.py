"""The analysis: histograms of the scalar sum of jet momenta and of the mass of three jets, in events with one muon.

branchline run examples/ttbar/analysis.py:selected DATA/samples.toml -o out
branchline plot out
"""

import tempfile

import awkward as ak
import hist
import numpy as np
import vector

import branchline

BTAG = 0.5


def select(events, pt_min: float = 30.0):
    """Return the histograms of the two regions of the fit: four or more jets, with one or at least two b tags."""
    muons = ak.num(events.Muon.pt[events.Muon.pt > 25.0]) == 1
    jets = events.Jet[events.Jet.pt > pt_min]
    tagged = ak.sum(jets.btag > BTAG, axis=1)
    four = muons & (ak.num(jets.pt) >= 4)
    one, two = four & (tagged == 1), four & (tagged >= 2)
    trijets = hist.Hist.new.Reg(20, 50, 550, name="mass", label="m(jjj) [GeV]").Weight()
    momenta = hist.Hist.new.Reg(20, 100, 700, name="ht", label="H_T [GeV]").Weight()
    return {
        "4j1b": momenta.fill(ak.sum(jets.pt[one], axis=1), weight=events.weight[one]),
        "4j2b": trijets.fill(trijet_mass(jets[two]), weight=events.weight[two]),
    }


def trijet_mass(jets):
    """Return the mass of the combination of three jets with the largest pt, among combinations with a b tag."""
    jets = ak.with_name(jets, "Momentum4D", behavior=vector.backends.awkward.behavior)
    three = ak.combinations(jets, 3, fields=["a", "b", "c"])
    three = three[np.maximum(three.a.btag, np.maximum(three.b.btag, three.c.btag)) > BTAG]
    together = three.a + three.b + three.c
    return ak.flatten(together.mass[ak.argmax(together.pt, axis=1, keepdims=True)], axis=None)


def weight(events):
    return events.genWeight


def pileup_up(events):
    return events.puUp


def pileup_down(events):
    return events.puDown


def jes_up(events):
    return events.Jet.pt * np.float32(1.03)


def jes_down(events):
    return events.Jet.pt * np.float32(0.97)


selected = branchline.varied(
    select,
    weight=weight,
    weights={"pileup_up": pileup_up, "pileup_down": pileup_down},
    columns={"jes_up": {"Jet.pt": jes_up}, "jes_down": {"Jet.pt": jes_down}},
)
selected.name = "selected"
selected.by_dataset = True
wagons = [selected]


def run(list_of_samples):
    """Return the scaled histograms by sample, variation and region."""
    with tempfile.TemporaryDirectory() as out:
        branchline.run(wagons, list_of_samples, out, workers=0, pictures="none")
        return branchline.load(out).normalised("selected")
