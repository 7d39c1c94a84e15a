"""The eight queries of the ADL benchmark as array functions, shared by Branchline and coffea.

From "Analysis description language" benchmarks of IRIS-HEP, https://github.com/iris-hep/adl-benchmarks-index. Each
function computes the values of its histogram from columns named as in NanoAOD.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import combinations
from operator import add
from typing import Any

import awkward as ak
import hist
import numpy as np

#: The binning of each query: number of bins, lowest and highest edge in GeV.
BINS = {
    "Q1": (100, 0, 200),
    "Q2": (100, 15, 60),
    "Q3": (100, 15, 60),
    "Q4": (100, 0, 200),
    "Q5": (100, 0, 200),
    "Q6": (100, 15, 140),
    "Q7": (100, 15, 200),
    "Q8": (100, 0, 250),
}
TITLES = {
    "Q1": "missing momentum of all events",
    "Q2": "pt of all jets",
    "Q3": "pt of jets with |eta| < 1",
    "Q4": "missing momentum of events with two jets of pt > 40 GeV",
    "Q5": "missing momentum of events with an opposite-charge muon pair of mass 60 to 120 GeV",
    "Q6": "pt of the three jets with a mass nearest to 172.5 GeV",
    "Q7": "sum of pt of jets above 30 GeV, except near a lepton above 10 GeV",
    "Q8": "transverse mass of missing momentum and the leading lepton outside the pair nearest to the Z",
}


def collection(events: Any, name: str, *parts: str) -> Any:
    return ak.zip({part: events[f"{name}_{part}"] for part in parts})


def cartesian(one: Any) -> dict[str, Any]:
    px, py, pz = one.pt * np.cos(one.phi), one.pt * np.sin(one.phi), one.pt * np.sinh(one.eta)
    return {"px": px, "py": py, "pz": pz, "energy": np.sqrt(px**2 + py**2 + pz**2 + one.mass**2)}


def together(first: Any, *others: Any) -> dict[str, Any]:
    """Return the sum of several particles."""
    return {name: reduce(add, (one[name] for one in others), first[name]) for name in ("px", "py", "pz", "energy")}


def mass_of(one: Any) -> Any:
    return np.sqrt(np.maximum(one["energy"] ** 2 - one["px"] ** 2 - one["py"] ** 2 - one["pz"] ** 2, 0))


def turned(angle: Any) -> Any:
    """Return an angle in the range -pi to pi."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


def q1(events: Any) -> Any:
    return events["MET_pt"]


def q2(events: Any) -> Any:
    return ak.flatten(events["Jet_pt"])


def q3(events: Any) -> Any:
    return ak.flatten(events["Jet_pt"][abs(events["Jet_eta"]) < 1])


def q4(events: Any) -> Any:
    return events["MET_pt"][ak.sum(events["Jet_pt"] > 40, axis=1) >= 2]


def q5(events: Any) -> Any:
    muons = collection(events, "Muon", "pt", "eta", "phi", "mass", "charge")
    several = ak.num(muons.pt) >= 2
    one, other = ak.unzip(ak.combinations(muons[several], 2))
    opposite = one.charge != other.charge
    one, other = one[opposite], other[opposite]
    mass = mass_of(together(cartesian(one), cartesian(other)))
    return events["MET_pt"][several][ak.any((mass > 60) & (mass < 120), axis=1)]


def q6(events: Any) -> Any:
    jets = cartesian(collection(events, "Jet", "pt", "eta", "phi", "mass"))
    counts = ak.to_numpy(ak.num(events["Jet_pt"]))
    found = np.zeros(len(counts), np.float32)
    # Group events by their number of jets: combining columns of a table takes half the time of combining lists.
    for count in np.unique(counts[counts >= 3]):
        chosen = counts == count
        tables = {name: ak.to_numpy(values[chosen]) for name, values in jets.items()}
        columns = np.transpose(list(combinations(range(count), 3)))
        three = together(*({name: table[:, one] for name, table in tables.items()} for one in columns))
        best = np.argmin(abs(mass_of(three) - 172.5), axis=1, keepdims=True)
        px, py = (np.take_along_axis(three[name], best, axis=1)[:, 0] for name in ("px", "py"))
        found[chosen] = np.sqrt(px**2 + py**2)
    return found[counts >= 3]


def q7(events: Any) -> Any:
    jets = collection(events, "Jet", "pt", "eta", "phi")
    jets = jets[jets.pt > 30]
    is_near = ak.zeros_like(jets.pt, dtype=bool)
    for name in ("Muon", "Electron"):
        leptons = collection(events, name, "pt", "eta", "phi")
        jet, lepton = ak.unzip(ak.cartesian([jets, leptons[leptons.pt > 10]], nested=True))
        away = (jet.eta - lepton.eta) ** 2 + turned(jet.phi - lepton.phi) ** 2
        is_near = is_near | ak.any(away < 0.4**2, axis=2)
    kept = jets.pt[~is_near]
    return ak.sum(kept, axis=1)[ak.num(kept) > 0]


def q8(events: Any) -> Any:
    parts = ("pt", "eta", "phi", "mass", "charge")
    muons, electrons = (collection(events, name, *parts) for name in ("Muon", "Electron"))
    several = ak.num(muons.pt) + ak.num(electrons.pt) >= 3
    muons, electrons = muons[several], electrons[several]
    leptons = ak.concatenate([ak.with_field(muons, 13, "kind"), ak.with_field(electrons, 11, "kind")], axis=1)
    one, other = ak.unzip(ak.argcombinations(leptons, 2))
    first, second = leptons[one], leptons[other]
    pairs = (first.kind == second.kind) & (first.charge != second.charge)
    one, other, first, second = one[pairs], other[pairs], first[pairs], second[pairs]
    has_pair = ak.num(one) > 0
    leptons, one, other = leptons[has_pair], one[has_pair], other[has_pair]
    away = abs(mass_of(together(cartesian(first[has_pair]), cartesian(second[has_pair]))) - 91.2)
    best = ak.argmin(away, axis=1, keepdims=True)
    positions = ak.local_index(leptons.pt)
    rest = leptons[(positions != ak.flatten(one[best])) & (positions != ak.flatten(other[best]))]
    leading = rest[ak.argmax(rest.pt, axis=1, keepdims=True)]
    pt, phi = ak.flatten(leading.pt), ak.flatten(leading.phi)
    missing, angle = events["MET_pt"][several][has_pair], events["MET_phi"][several][has_pair]
    return np.sqrt(2 * missing * pt * (1 - np.cos(turned(angle - phi))))


QUERIES: dict[str, Callable[[Any], Any]] = {f"Q{n}": q for n, q in enumerate((q1, q2, q3, q4, q5, q6, q7, q8), 1)}


def filled(query: str, events: Any) -> Any:
    """Return the filled histogram of a query."""
    number, low, high = BINS[query]
    histogram = hist.Hist(hist.axis.Regular(number, low, high, name="x"), storage=hist.storage.Int64())
    return histogram.fill(QUERIES[query](events))
