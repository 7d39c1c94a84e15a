"""The analysis of the benchmark of systematic variations: a wagon for Branchline, and a processor for coffea."""

from __future__ import annotations

from typing import Any

import awkward as ak
import hist
import numpy as np

import branchline

#: Numbers of variations of weights and of columns. Columns are varied up and down.
WEIGHTS, COLUMNS = 60, 40
AXES = {"ht": (50, 0, 1000), "jets": (10, 0, 10), "muon": (50, 0, 250), "mass": (50, 0, 1000)}


def histogram(name: str) -> Any:
    """Return an empty histogram."""
    return hist.Hist.new.Reg(*AXES[name], name=name).Weight()


def is_muon(muons: Any) -> Any:
    """Return which muons are good."""
    return (muons.pt > 25) & (abs(muons.eta) < 2.1)


def is_jet(jets: Any) -> Any:
    """Return which jets are good."""
    return (jets.pt > 30) & (abs(jets.eta) < 2.4)


def observables(jets: Any, muons: Any) -> dict[str, Any]:
    """Return the filled values of events with at least four jets and one muon."""
    first, second = jets[:, 0], jets[:, 1]
    angle = np.cosh(first.eta - second.eta) - np.cos(first.phi - second.phi)
    mass = np.sqrt(2 * first.pt * second.pt * angle)
    return {"ht": ak.sum(jets.pt, axis=1), "jets": ak.num(jets), "muon": muons.pt[:, 0], "mass": mass}


def selected(events: Any) -> dict[str, Any]:
    """Return the histograms: what a physicist writes without variations."""
    events = events[ak.sum(is_muon(events.Muon), axis=1) == 1]
    jets, muons = events.Jet[is_jet(events.Jet)], events.Muon[is_muon(events.Muon)]
    four = ak.num(jets) >= 4
    values = observables(jets[four], muons[four])
    return {name: histogram(name).fill(one, weight=events.weight[four]) for name, one in values.items()}


class Pdf:
    """The factor of a variation of the weight."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, events: Any) -> Any:
        """Return the factors."""
        return events.pdf[:, self.number]


class Scale:
    """The momenta of jets in a variation."""

    def __init__(self, size: float) -> None:
        self.size = np.float32(size)

    def __call__(self, events: Any) -> Any:
        """Return the momenta."""
        return varied_pt(events.Jet, self.size)


def varied_pt(jets: Any, size: Any) -> Any:
    """Return the momenta of jets, varied in proportion to 1 plus the absolute pseudorapidity."""
    return jets.pt * (1 + size * (1 + abs(jets.eta)))


def sizes() -> dict[str, Any]:
    """Return the sizes of the variations of columns."""
    numbers = range(1, COLUMNS // 2 + 1)
    return {f"jes{k}_{side}": np.float32(sign * 0.001) * k for k in numbers for side, sign in (("up", 1), ("down", -1))}


def weight(events: Any) -> Any:
    """Return the nominal weight."""
    return events.genWeight


def wagon() -> Any:
    """Return the wagon with all variations."""
    return branchline.varied(
        selected,
        weight=weight,
        weights={f"pdf_{k}": Pdf(k) for k in range(WEIGHTS)},
        columns={name: {"Jet.pt": Scale(size)} for name, size in sizes().items()},
    )


def varied_by_hand(events: Any) -> dict[str, Any]:
    """Return the histograms by variation, for coffea: everything that is not varied is computed once."""
    events = events[ak.sum(is_muon(events.Muon), axis=1) == 1]
    muons, jets, pdf, nominal = events.Muon[is_muon(events.Muon)], events.Jet, events.pdf, events.genWeight
    results: dict[str, Any] = {}
    for name, size in {"nominal": None, **sizes()}.items():
        pt = jets.pt if size is None else varied_pt(jets, size)
        shifted = ak.zip({"pt": pt, "eta": jets.eta, "phi": jets.phi})
        good = shifted[is_jet(shifted)]
        four = ak.num(good) >= 4
        values = {one: ak.to_numpy(value) for one, value in observables(good[four], muons[four]).items()}
        weights = {name: ak.to_numpy(nominal[four])}
        if size is None:
            weights |= {f"pdf_{k}": weights[name] * ak.to_numpy(pdf[four][:, k]) for k in range(WEIGHTS)}
        for variation, own in weights.items():
            results[variation] = {one: histogram(one).fill(value, weight=own) for one, value in values.items()}
    return results
