"""The same analysis with coffea's Runner."""

import sys
import tomllib
from pathlib import Path

import awkward as ak
import hist
import numpy as np
import vector
from coffea import processor
from coffea.nanoevents import BaseSchema

Z_GEV = 91.2
CHANNELS = {"4mu": 4, "4e": 0, "2e2mu": 2}
FIELDS = ("pt", "eta", "phi", "mass", "charge", "dxy", "dz", "dxyErr", "dzErr")


class FourLeptons(processor.ProcessorABC):
    def process(self, events):
        sample = events.metadata["dataset"]
        muons = self.good(self.leptons(events, "Muon", events.Muon_pfRelIso04_all, True), 5, 2.4)
        electrons = self.good(self.leptons(events, "Electron", events.Electron_pfRelIso03_all, False), 7, 2.5)
        four = ak.num(muons) + ak.num(electrons) == 4
        muons, electrons = muons[four], electrons[four]
        leptons = ak.concatenate([muons, electrons], axis=1)
        momentum = ak.sort(leptons.pt, axis=1, ascending=False)
        hard = (momentum[:, 0] > 20) & (momentum[:, 1] > 10)
        leptons, numbers = leptons[hard], ak.num(muons)[hard]
        pairs = ak.combinations(leptons, 2, fields=["a", "b"])
        is_z = (pairs.a.charge != pairs.b.charge) & (pairs.a.is_muon == pairs.b.is_muon)
        mass = (pairs.a + pairs.b).mass
        both = is_z & is_z[:, ::-1]
        best = ak.argmin(ak.where(both, abs(mass - Z_GEV), np.inf), axis=1, keepdims=True)
        first, second = mass[best][:, 0], mass[:, ::-1][best][:, 0]
        chosen = ak.any(both, axis=1) & (first > 40) & (first < 120) & (second > 12) & (second < 120)
        leptons, numbers = leptons[chosen], numbers[chosen]
        total = (leptons[:, 0] + leptons[:, 1] + leptons[:, 2] + leptons[:, 3]).mass
        filled = {name: self.spectrum().fill(total[numbers == count]) for name, count in CHANNELS.items()}
        return {sample: {"events": len(events), "histograms": filled}}

    def leptons(self, events, name, isolation, is_muon):
        fields = {field: events[f"{name}_{field}"] for field in FIELDS}
        fields |= {"isolation": isolation, "is_muon": ak.full_like(fields["charge"], is_muon, dtype=bool)}
        return ak.zip(fields, with_name="Momentum4D", behavior=vector.backends.awkward.behavior)

    def good(self, leptons, pt_min, eta_max):
        impact = np.hypot(leptons.dxy, leptons.dz) / np.hypot(leptons.dxyErr, leptons.dzErr)
        chosen = (leptons.pt > pt_min) & (abs(leptons.eta) < eta_max) & (leptons.isolation < 0.4) & (impact < 4)
        return leptons[chosen & (abs(leptons.dxy) < 0.5) & (abs(leptons.dz) < 1)]

    def spectrum(self):
        return hist.Hist.new.Reg(92, 70, 300, name="mass", label="m(4l) [GeV]").Weight()

    def postprocess(self, accumulator):
        return accumulator


def run(list_of_samples, workers=1):
    """Return the scaled bin contents by sample and channel."""
    samples = tomllib.loads(Path(list_of_samples).read_text(encoding="utf-8"))
    folder = Path(list_of_samples).parent
    found = {
        name: sorted(path for one in about["files"] for path in folder.glob(one)) for name, about in samples.items()
    }
    files = {name: {"files": {str(path): "Events" for path in paths}} for name, paths in found.items()}
    executor = processor.IterativeExecutor() if workers == 1 else processor.FuturesExecutor(workers=workers)
    results = processor.Runner(executor=executor, schema=BaseSchema)(files, FourLeptons())
    luminosity_per_fb = samples["data"]["sample"]["luminosity_per_fb"]
    scaled = {}
    for name, result in results.items():
        cross_section_pb = samples[name]["sample"].get("cross_section_pb")
        factor = 1000 * cross_section_pb * luminosity_per_fb / result["events"] if cross_section_pb else 1.0
        scaled[name] = {channel: factor * one.values(flow=True) for channel, one in result["histograms"].items()}
    return scaled


if __name__ == "__main__":
    print(run(sys.argv[1]))
