"""The analysis of the Analysis Grand Challenge for top quark pairs, as a processor for coffea and for Branchline.

Based on https://github.com/iris-hep/analysis-grand-challenge (cms-open-data-ttbar, without machine learning): one
lepton and at least four jets, in two regions by the number of b tags, with systematic variations of jets and weights.
"""

from __future__ import annotations

import json
from typing import Any

import awkward as ak
import correctionlib
import hist
import numpy as np
from coffea.analysis_tools import PackedSelection
from coffea.nanoevents import NanoAODSchema
from coffea.processor import ProcessorABC

BINS, LOW_GEV, HIGH_GEV = 25, 50, 550
REGIONS = ("4j1b", "4j2b")
B_TAG_MIN = 0.5
LUMINOSITY = 3378  # /pb
#: Cross sections in pb.
PROCESSES = {
    "ttbar": 729.84,
    "single_top_s_chan": 3.2942,
    "single_top_t_chan": 234.79,
    "single_top_tW": 75.842,
    "wjets": 15487.164,
}
#: The samples: processes with their variations.
SAMPLES = (
    *((process, "nominal") for process in PROCESSES),
    *(("ttbar", variation) for variation in ("scaledown", "scaleup", "ME_var", "PS_var")),
)
JET_VARIATIONS = ("pt_scale_up", "pt_res_up")


def correction_json() -> str:
    """Return the published weights for b tags and scales in the format of correctionlib."""

    def by_direction(up: Any, down: Any) -> dict[str, Any]:
        content = [{"key": "up", "value": up}, {"key": "down", "value": down}]
        return {"nodetype": "category", "input": "direction", "content": content}

    def of_pt(expression: str) -> dict[str, Any]:
        return {"nodetype": "formula", "expression": expression, "parser": "TFormula", "variables": ["pt"]}

    names = (("name", "string"), ("direction", "string"), ("pt", "real"))
    content = [
        {"key": "btag_var", "value": by_direction(of_pt("1+0.075*x/50"), of_pt("1-0.075*x/50"))},
        {"key": "scale_var", "value": by_direction(1.025, 0.975)},
    ]
    correction = {
        "name": "event_systematics",
        "version": 1,
        "inputs": [{"name": name, "type": kind} for name, kind in names],
        "output": {"name": "weight", "type": "real"},
        "data": {"nodetype": "category", "input": "name", "content": content},
    }
    return json.dumps({"schema_version": 2, "corrections": [correction]})


def resolution_factors(jets: Any) -> Any:
    """Return normally distributed factors of width 5 %, seeded by the digits of a jet's direction, so that they do not
    depend on the chunks.
    """
    bits = (np.asarray(ak.flatten(values)).view("u4").astype("u8") for values in (jets.phi, jets.eta))
    phi, eta = bits
    mixed = ((phi << 32) | eta) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> 30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> 27)) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> 31
    radius = np.sqrt(-2 * np.log(((mixed >> 40) + 1) / 2.0**24))
    angle = 2 * np.pi * ((mixed & 0xFFFFFF) / 2.0**24)
    return ak.unflatten(1 + 0.05 * radius * np.cos(angle), ak.num(jets.phi))


class TtbarAnalysis(ProcessorABC):
    """Fills one histogram with axes for region, process and variation."""

    schema = NanoAODSchema

    def __init__(self) -> None:
        self._corrections = correctionlib.CorrectionSet.from_string(correction_json())

    def process(self, events: Any) -> dict[str, Any]:
        process, variation = events.metadata["process"], events.metadata["variation"]
        weight = events.metadata["xsec"] * LUMINOSITY / events.metadata["nevts"]
        histogram = (
            hist.Hist.new.Reg(BINS, LOW_GEV, HIGH_GEV, name="observable")
            .StrCat(REGIONS, name="region")
            .StrCat([], name="process", growth=True)
            .StrCat([], name="variation", growth=True)
            .Weight()
        )
        events["pt_scale_up"] = 1.03
        events["pt_res_up"] = resolution_factors(events.Jet)
        of_weights = [f"btag_var_{number}" for number in range(4)] + ["scale_var"] * (process == "wjets")
        names = ["nominal", *JET_VARIATIONS, *of_weights] if variation == "nominal" else ["nominal"]
        for name in names:
            electrons, muons, jets = events.Electron, events.Muon, events.Jet
            if name in JET_VARIATIONS:
                jets["pt"] = jets.pt * events[name]
            selection, jets = self._selected(electrons, muons, jets)
            for region in REGIONS:
                chosen = selection.all(region)
                if not np.any(chosen):
                    continue
                region_jets = jets[chosen]
                observable = ak.sum(region_jets.pt, axis=-1) if region == "4j1b" else trijet_mass(region_jets)
                filled = {"observable": observable, "region": region, "process": process}
                weights = np.full(len(region_jets), weight)
                if name not in of_weights:
                    label = name if variation == "nominal" else variation
                    histogram.fill(**filled, variation=label, weight=weights)
                    continue
                for direction in ("up", "down"):
                    factors = self._factors(name, direction, region_jets)
                    histogram.fill(**filled, variation=f"{name}_{direction}", weight=weights * factors)
        return {"events": len(events), "chunks": 1, "histogram": histogram}

    def _factors(self, name: str, direction: str, jets: Any) -> Any:
        kind, _, number = name.partition("_var")
        pt = jets.pt[:, int(number.lstrip("_") or 0)]
        return self._corrections["event_systematics"].evaluate(f"{kind}_var", direction, pt)

    def _selected(self, electrons: Any, muons: Any, jets: Any) -> tuple[PackedSelection, Any]:
        electrons = electrons[
            (electrons.pt > 30) & (np.abs(electrons.eta) < 2.1) & (electrons.cutBased == 4) & (electrons.sip3d < 4)
        ]
        muons = muons[
            (muons.pt > 30) & (np.abs(muons.eta) < 2.1) & muons.tightId & (muons.sip3d < 4)
            & (muons.pfRelIso04_all < 0.15)
        ]  # fmt: skip
        jets = jets[(jets.pt > 30) & (np.abs(jets.eta) < 2.4) & jets.isTightLeptonVeto]
        tags = ak.sum(jets.btagCSVV2 > B_TAG_MIN, axis=1)
        selection = PackedSelection(dtype="uint64")
        selection.add("exactly_1l", ak.num(electrons) + ak.num(muons) == 1)
        selection.add("atleast_4j", ak.num(jets) >= 4)
        selection.add("exactly_1b", tags == 1)
        selection.add("atleast_2b", tags >= 2)
        selection.add("4j1b", selection.all("exactly_1l", "atleast_4j", "exactly_1b"))
        selection.add("4j2b", selection.all("exactly_1l", "atleast_4j", "atleast_2b"))
        return selection, jets

    def postprocess(self, accumulator: Any) -> Any:
        return accumulator


def trijet_mass(jets: Any) -> Any:
    """Return the mass of the combination of three jets with the largest pt, among combinations with a b tag."""
    trijet = ak.combinations(jets, 3, fields=["j1", "j2", "j3"])
    trijet["p4"] = trijet.j1 + trijet.j2 + trijet.j3
    tag = np.maximum(trijet.j1.btagCSVV2, np.maximum(trijet.j2.btagCSVV2, trijet.j3.btagCSVV2))
    trijet = trijet[tag > B_TAG_MIN]
    return ak.flatten(trijet["p4"][ak.argmax(trijet.p4.pt, axis=1, keepdims=True)].mass)


def fileset(paths: list[str], events: int) -> dict[str, Any]:
    """Return the samples as a fileset for Branchline and coffea, with one file of ``events`` events for each."""
    return {
        f"{process}__{variation}": {
            "files": {path: "Events"},
            "metadata": {"process": process, "variation": variation, "xsec": PROCESSES[process], "nevts": events},
        }
        for (process, variation), path in zip(SAMPLES, paths, strict=True)
    }
