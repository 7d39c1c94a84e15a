"""The eight queries of the ADL benchmark (https://github.com/iris-hep/adl-benchmarks-index), as wagons over one read.

branchline run examples/adl/analysis.py "DATA/events_*.root:Events" -o out
"""

import awkward as ak
import hist
import numpy as np
import vector

import branchline

TOP_GEV, Z_GEV = 172.5, 91.2


def q1(events):
    """Return the missing momentum of all events."""
    return histogram(0, 200).fill(events.MET_pt)


def q2(events):
    """Return the momenta of all jets."""
    return histogram(15, 60).fill(ak.flatten(events.Jet.pt))


def q3(events):
    """Return the momenta of central jets."""
    return histogram(15, 60).fill(ak.flatten(events.Jet.pt[abs(events.Jet.eta) < 1]))


def q4(events):
    """Return the missing momentum of events with two jets above 40 GeV."""
    return histogram(0, 200).fill(events.MET_pt[ak.sum(events.Jet.pt > 40, axis=1) >= 2])


def q5(events):
    """Return the missing momentum of events with a muon pair of opposite charges near the mass of the Z."""
    one, other = ak.unzip(ak.combinations(momenta(events.Muon), 2))
    mass = (one + other).mass
    return histogram(0, 200).fill(
        events.MET_pt[ak.any((one.charge != other.charge) & (mass > 60) & (mass < 120), axis=1)]
    )


def q6(events):
    """Return the momentum of the three jets with a mass nearest to that of the top, and their largest b tag."""
    one, two, three = ak.unzip(ak.combinations(momenta(events.Jet), 3))
    together = one + two + three
    best = ak.argmin(abs(together.mass - TOP_GEV), axis=1, keepdims=True)
    tag = np.maximum(np.maximum(one.btag, two.btag), three.btag)
    return {
        "pt": histogram(15, 140).fill(ak.drop_none(ak.flatten(together.pt[best]))),
        "btag": histogram(0, 1).fill(ak.drop_none(ak.flatten(tag[best]))),
    }


def q7(events):
    """Return the sum of the momenta of jets above 30 GeV that are not near a lepton above 10 GeV."""
    jets = momenta(events.Jet[events.Jet.pt > 30])
    leptons = ak.concatenate(
        [events.Muon[["pt", "eta", "phi", "mass"]], events.Electron[["pt", "eta", "phi", "mass"]]], axis=1
    )
    jet, lepton = ak.unzip(ak.cartesian([jets, momenta(leptons[leptons.pt > 10])], nested=True))
    jets = jets[~ak.any(jet.deltaR(lepton) < 0.4, axis=2)]
    return histogram(15, 200).fill(ak.sum(jets.pt, axis=1)[ak.num(jets) > 0])


def q8(events):
    """Return the transverse mass of the missing momentum and the leading lepton outside the pair nearest to the Z."""
    muons, electrons = momenta(events.Muon), momenta(events.Electron)
    leptons = ak.concatenate(
        [ak.with_field(muons, True, "is_muon"), ak.with_field(electrons, False, "is_muon")], axis=1
    )
    first, second = ak.unzip(ak.argcombinations(leptons, 2))
    one, other = leptons[first], leptons[second]
    is_pair = (one.charge != other.charge) & (one.is_muon == other.is_muon)
    away = ak.where(is_pair, abs((one + other).mass - Z_GEV), np.inf)
    chosen = (ak.num(leptons) >= 3) & ak.any(is_pair, axis=1)
    best = ak.argmin(away[chosen], axis=1, keepdims=True)
    leptons, index = leptons[chosen], ak.local_index(leptons.pt[chosen])
    rest = leptons[(index != first[chosen][best][:, 0]) & (index != second[chosen][best][:, 0])]
    lepton = rest[ak.argmax(rest.pt, axis=1, keepdims=True)][:, 0]
    missing, phi = events.MET_pt[chosen], events.MET_phi[chosen]
    return histogram(0, 250).fill(np.sqrt(2 * missing * lepton.pt * (1 - np.cos(phi - lepton.phi))))


def momenta(particles):
    return ak.with_name(particles, "Momentum4D", behavior=vector.backends.awkward.behavior)


def histogram(low, high):
    return hist.Hist.new.Reg(100, low, high, name="x").Double()


wagons = [q1, q2, q3, q4, q5, q6, q7, q8]


def run(files):
    """Return the histograms by query."""
    return dict(branchline.run(wagons, files, tree="Events", workers=0).outputs)
