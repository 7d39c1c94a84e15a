"""The same queries with coffea's Runner, in one processor."""

import glob
import sys

import awkward as ak
import hist
import numpy as np
import vector
from coffea import processor
from coffea.nanoevents import BaseSchema

TOP_GEV, Z_GEV = 172.5, 91.2
MOMENTUM = ("pt", "eta", "phi", "mass")


class Queries(processor.ProcessorABC):
    def process(self, events):
        jets = momenta(events, "Jet", *MOMENTUM, "btag")
        muons = momenta(events, "Muon", *MOMENTUM, "charge")
        electrons = momenta(events, "Electron", *MOMENTUM, "charge")
        missing = events.MET_pt
        return {
            "q1": histogram(0, 200).fill(missing),
            "q2": histogram(15, 60).fill(ak.flatten(jets.pt)),
            "q3": histogram(15, 60).fill(ak.flatten(jets.pt[abs(jets.eta) < 1])),
            "q4": histogram(0, 200).fill(missing[ak.sum(jets.pt > 40, axis=1) >= 2]),
            "q5": self.q5(missing, muons),
            "q6": self.q6(jets),
            "q7": self.q7(jets, muons, electrons),
            "q8": self.q8(missing, events.MET_phi, muons, electrons),
        }

    def q5(self, missing, muons):
        one, other = ak.unzip(ak.combinations(muons, 2))
        mass = (one + other).mass
        is_z = (one.charge != other.charge) & (mass > 60) & (mass < 120)
        return histogram(0, 200).fill(missing[ak.any(is_z, axis=1)])

    def q6(self, jets):
        one, two, three = ak.unzip(ak.combinations(jets, 3))
        together = one + two + three
        best = ak.argmin(abs(together.mass - TOP_GEV), axis=1, keepdims=True)
        tag = np.maximum(np.maximum(one.btag, two.btag), three.btag)
        return {
            "pt": histogram(15, 140).fill(ak.drop_none(ak.flatten(together.pt[best]))),
            "btag": histogram(0, 1).fill(ak.drop_none(ak.flatten(tag[best]))),
        }

    def q7(self, jets, muons, electrons):
        jets = jets[jets.pt > 30]
        leptons = ak.concatenate([muons, electrons], axis=1)
        jet, lepton = ak.unzip(ak.cartesian([jets, leptons[leptons.pt > 10]], nested=True))
        jets = jets[~ak.any(jet.deltaR(lepton) < 0.4, axis=2)]
        return histogram(15, 200).fill(ak.sum(jets.pt, axis=1)[ak.num(jets) > 0])

    def q8(self, missing, phi, muons, electrons):
        muons, electrons = ak.with_field(muons, True, "is_muon"), ak.with_field(electrons, False, "is_muon")
        leptons = ak.concatenate([muons, electrons], axis=1)
        first, second = ak.unzip(ak.argcombinations(leptons, 2))
        one, other = leptons[first], leptons[second]
        is_pair = (one.charge != other.charge) & (one.is_muon == other.is_muon)
        away = ak.where(is_pair, abs((one + other).mass - Z_GEV), np.inf)
        chosen = (ak.num(leptons) >= 3) & ak.any(is_pair, axis=1)
        best = ak.argmin(away[chosen], axis=1, keepdims=True)
        leptons, index = leptons[chosen], ak.local_index(leptons.pt[chosen])
        rest = leptons[(index != first[chosen][best][:, 0]) & (index != second[chosen][best][:, 0])]
        lepton = rest[ak.argmax(rest.pt, axis=1, keepdims=True)][:, 0]
        angle = phi[chosen] - lepton.phi
        return histogram(0, 250).fill(np.sqrt(2 * missing[chosen] * lepton.pt * (1 - np.cos(angle))))

    def postprocess(self, accumulator):
        return accumulator


def momenta(events, name, *fields):
    columns = {field: events[f"{name}_{field}"] for field in fields}
    return ak.zip(columns, with_name="Momentum4D", behavior=vector.backends.awkward.behavior)


def histogram(low, high):
    return hist.Hist.new.Reg(100, low, high, name="x").Double()


def run(files, workers=1):
    """Return the histograms by query."""
    executor = processor.IterativeExecutor() if workers == 1 else processor.FuturesExecutor(workers=workers)
    runner = processor.Runner(executor=executor, schema=BaseSchema)
    return runner({"data": {"files": dict.fromkeys(sorted(glob.glob(files)), "Events")}}, Queries())


if __name__ == "__main__":
    print(run(sys.argv[1]))
