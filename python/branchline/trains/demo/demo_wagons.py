"""The demo's train: three wagons (light, medium and heavy) over the same collisions, written as users would write them.

Each wagon is an object with `process(events)`, where `events.px` is an awkward array of the branch `px`. The return
values of `process` are added up over the dataset, and `postprocess` converts the sum to the result. Momenta are in
GeV/c. The weight of an event is a cross-section in mb, so a histogram of weights, divided by the number of generated
events, gives a cross-section too.
"""

from __future__ import annotations

from typing import Any

import awkward as ak
import fastjet
import hist
import numba as nb
import numpy as np
import vector

vector.register_awkward()
# Prevent each worker from printing FastJet's banner.
fastjet._swig.ClusterSequence.set_fastjet_banner_stream(None)


def cross_section(filled: hist.Hist, events_count: int, label: str) -> hist.Hist:
    """Return the differential cross-section in mb per unit of the axis, from a histogram of the weights of
    `events_count` events.

    Underflow and overflow bins contain cross-sections in mb.
    """
    scaled = filled * (1 / events_count)
    widths: Any = filled.axes[0].widths
    bins: Any = scaled.view()
    bins["value"] /= widths
    bins["variance"] /= widths**2
    scaled.label = label
    return scaled


class Spectra:
    """Light wagon: the number of charged particles, and spectra of their transverse momentum and pseudorapidity."""

    name = "spectra"

    def process(self, events: Any) -> dict[str, object]:
        charged = (events.status > 0) & (events.charge != 0)
        px, py, pz = events.px[charged], events.py[charged], events.pz[charged]
        pt = np.hypot(px, py)
        eta = np.arcsinh(pz / pt)
        central = abs(eta) < 2.5
        weight = ak.broadcast_arrays(events.weight, pt)[0]

        multiplicity = hist.Hist.new.Reg(75, 0, 300, label=r"charged particles, $|\eta| < 2.5$").Weight()
        multiplicity.fill(ak.sum(central, axis=1), weight=events.weight)
        pt_spectrum = hist.Hist.new.Reg(
            60, 0.05, 200, transform=hist.axis.transform.log, label="$p_T$ [GeV/c]"
        ).Weight()
        pt_spectrum.fill(ak.flatten(pt[central]), weight=ak.flatten(weight[central]))
        eta_spectrum = hist.Hist.new.Reg(80, -10, 10, label=r"$\eta$ of charged particles").Weight()
        eta_spectrum.fill(ak.flatten(eta), weight=ak.flatten(weight))
        return {
            "events": len(events),
            "weights_sum_mb": float(ak.sum(events.weight)),
            "multiplicity": multiplicity,
            "pt": pt_spectrum,
            "eta": eta_spectrum,
        }

    def postprocess(self, total: dict[str, Any]) -> dict[str, object]:
        """Return the total cross-section and the differential cross-sections."""
        events_count = total["events"]
        return {
            "events": events_count,
            "cross_section_mb": total["weights_sum_mb"] / events_count,
            "multiplicity": cross_section(total["multiplicity"], events_count, r"$d\sigma/dN_{ch}$ [mb]"),
            "pt": cross_section(total["pt"], events_count, r"$d\sigma/dp_T$ [mb/(GeV/c)]"),
            "eta": cross_section(total["eta"], events_count, r"$d\sigma/d\eta$ [mb]"),
        }


class Jets:
    """Medium wagon: anti-kt jets with R = 0.4, from all particles that a calorimeter detects."""

    name = "jets"
    radius = 0.4
    pt_min = 10.0
    eta_max = 4.5

    def process(self, events: Any) -> dict[str, object]:
        flavour = abs(events.id)
        seen = (events.status > 0) & (flavour != 12) & (flavour != 14) & (flavour != 16)  # no neutrinos
        particles = ak.zip(
            {"px": events.px[seen], "py": events.py[seen], "pz": events.pz[seen], "E": events.e[seen]},
            with_name="Momentum4D",
        )
        particles = particles[abs(particles.eta) < self.eta_max + self.radius]
        clusters = fastjet.ClusterSequence(particles, fastjet.JetDefinition(fastjet.antikt_algorithm, self.radius))
        jets = ak.with_name(clusters.inclusive_jets(min_pt=self.pt_min), "Momentum4D")
        jets = jets[abs(jets.eta) < self.eta_max]
        jets = jets[ak.argsort(jets.pt, ascending=False)]
        weight = ak.flatten(ak.broadcast_arrays(events.weight, jets.pt)[0])

        pt_axis = hist.axis.Regular(40, self.pt_min, 300, transform=hist.axis.transform.log, label="jet $p_T$ [GeV/c]")
        leading = ak.num(jets) > 0
        return {
            "events": len(events),
            "number": hist.Hist.new.Int(0, 15, label="jets").Weight().fill(ak.num(jets), weight=events.weight),
            "pt": hist.Hist(pt_axis, storage=hist.storage.Weight()).fill(ak.flatten(jets.pt), weight=weight),
            "leading_pt": hist.Hist(pt_axis, storage=hist.storage.Weight()).fill(
                ak.flatten(jets.pt[leading][:, :1]), weight=events.weight[leading]
            ),
            "mass": hist.Hist.new.Reg(50, 0, 50, label="jet mass [GeV/$c^2$]")
            .Weight()
            .fill(ak.flatten(jets.mass), weight=weight),
            "eta": hist.Hist.new.Reg(45, -4.5, 4.5, label=r"jet $\eta$")
            .Weight()
            .fill(ak.flatten(jets.eta), weight=weight),
        }

    def postprocess(self, total: dict[str, Any]) -> dict[str, object]:
        """Return the differential cross-sections."""
        units = {
            "number": r"$d\sigma/dN_{jets}$ [mb]",
            "pt": r"$d\sigma/dp_T$ [mb/(GeV/c)]",
            "leading_pt": r"$d\sigma/dp_T$ of the leading jet [mb/(GeV/c)]",
            "mass": r"$d\sigma/dm$ [mb/(GeV/$c^2$)]",
            "eta": r"$d\sigma/d\eta$ [mb]",
        }
        spectra = {key: cross_section(total[key], total["events"], label) for key, label in units.items()}
        return {"events": total["events"], **spectra}


@nb.njit
def count_pairs(
    triggers: np.ndarray, partners: np.ndarray, weights: np.ndarray, counts: np.ndarray, eta_width: float
) -> None:
    """Count pairs of each event's triggers and partners in `counts`, by difference in eta and in phi."""
    eta_bins, phi_bins = counts.shape
    for event in range(len(triggers)):
        for trigger in triggers[event]:
            for partner in partners[event]:
                delta_eta = trigger.eta - partner.eta
                turns = (trigger.phi - partner.phi) / (2 * np.pi) + 0.25
                turns -= np.floor(turns)
                eta_bin = int(np.floor((delta_eta / eta_width + 1) / 2 * eta_bins))
                phi_bin = min(int(turns * phi_bins), phi_bins - 1)
                if 0 <= eta_bin < eta_bins:
                    counts[eta_bin, phi_bin] += weights[event]


class Correlations:
    """Heavy wagon: correlations of charged particles in delta eta and delta phi. The background comes from pairs of
    particles from different events.
    """

    name = "correlations"
    eta_max = 2.5
    delta_eta_max = 4.0
    trigger_pt_min = 1.0
    partner_pt_min = 0.3
    # Maximum number of earlier events with which each event is paired. A larger number gives a smoother background.
    mixed_events = 100

    def process(self, events: Any) -> dict[str, object]:
        charged = (events.status > 0) & (events.charge != 0)
        px, py, pz = events.px[charged], events.py[charged], events.pz[charged]
        pt = np.hypot(px, py)
        tracks = ak.zip({"pt": pt, "eta": np.arcsinh(pz / pt), "phi": np.arctan2(py, px)})
        tracks = tracks[abs(tracks.eta) < self.eta_max]
        triggers = tracks[tracks.pt > self.trigger_pt_min]
        partners = tracks[(tracks.pt > self.partner_pt_min) & (tracks.pt < self.trigger_pt_min)]
        weights = ak.to_numpy(events.weight)

        same, mixed = np.zeros((2, 40, 36))
        count_pairs(triggers, partners, weights, same, self.delta_eta_max)
        for shift in range(1, 1 + min(self.mixed_events, len(events) - 1)):
            both = weights[shift:] * weights[:-shift]
            count_pairs(triggers[shift:], partners[:-shift], both, mixed, self.delta_eta_max)
        return {
            "triggers": float(np.sum(ak.num(triggers) * weights)),
            "same_event": self.histogram(same, "pairs, sum of weights"),
            "mixed_event": self.histogram(mixed, "mixed pairs, sum of weights"),
        }

    def postprocess(self, total: dict[str, Any]) -> dict[str, object]:
        """Return the yield of partners per trigger, corrected for the acceptance in eta."""
        same, mixed = total["same_event"].values(), total["mixed_event"].values()
        middle = mixed.shape[0] // 2
        acceptance = mixed / mixed[middle - 1 : middle + 1].mean()
        bin_area = np.prod([axis.widths[0] for axis in total["same_event"].axes])
        with np.errstate(divide="ignore", invalid="ignore"):
            per_trigger = np.nan_to_num(same / acceptance / total["triggers"] / bin_area, posinf=0.0)
        label = r"$1/N_{trig}\;\;d^2N/d\Delta\eta\,d\Delta\varphi$"
        return total | {"per_trigger_yield": self.histogram(per_trigger, label)}

    def histogram(self, counts: np.ndarray, label: str) -> hist.Hist:
        filled = (
            hist.Hist.new.Reg(
                counts.shape[0], -self.delta_eta_max, self.delta_eta_max, name="delta_eta", label=r"$\Delta\eta$"
            )
            .Reg(counts.shape[1], -0.5 * np.pi, 1.5 * np.pi, name="delta_phi", label=r"$\Delta\varphi$")
            .Double(label=label)
        )
        filled.view()[:] = counts
        return filled


wagons = [Spectra(), Jets(), Correlations()]
