"""The same analysis with coffea's Runner."""

import sys
import tomllib
from pathlib import Path

import awkward as ak
import hist
import numpy as np
import uproot
import vector
from coffea import processor
from coffea.nanoevents import BaseSchema

BTAG = 0.5


def trijet_mass(jets):
    three = ak.combinations(jets, 3, fields=["a", "b", "c"])
    three = three[np.maximum(three.a.btag, np.maximum(three.b.btag, three.c.btag)) > BTAG]
    together = three.a + three.b + three.c
    return ak.flatten(together.mass[ak.argmax(together.pt, axis=1, keepdims=True)], axis=None)


class Ttbar(processor.ProcessorABC):
    def process(self, events):
        sample = events.metadata["dataset"]
        is_data = sample == "data"
        nominal = np.ones(len(events)) if is_data else events.genWeight
        weights = {"nominal": nominal}
        if not is_data:
            weights |= {"pileup_up": nominal * events.puUp, "pileup_down": nominal * events.puDown}
        results = self.regions(events, events.Jet_pt, weights)
        if not is_data:
            results |= self.regions(events, events.Jet_pt * np.float32(1.03), {"jes_up": nominal})
            results |= self.regions(events, events.Jet_pt * np.float32(0.97), {"jes_down": nominal})
        return {sample: results}

    def regions(self, events, pt, weights):
        """Apply the selection once, and return the histograms of both regions for each weight."""
        jets = ak.zip(
            {"pt": pt, "eta": events.Jet_eta, "phi": events.Jet_phi, "mass": events.Jet_mass, "btag": events.Jet_btag},
            with_name="Momentum4D",
            behavior=vector.backends.awkward.behavior,
        )
        muons = ak.num(events.Muon_pt[events.Muon_pt > 25.0]) == 1
        jets = jets[jets.pt > 30.0]
        tagged = ak.sum(jets.btag > BTAG, axis=1)
        four = muons & (ak.num(jets.pt) >= 4)
        one, two = four & (tagged == 1), four & (tagged >= 2)
        ht, mass = ak.sum(jets.pt[one], axis=1), trijet_mass(jets[two])
        results = {}
        for variation, weight in weights.items():
            trijets = hist.Hist.new.Reg(20, 50, 550, name="mass", label="m(jjj) [GeV]").Weight()
            momenta = hist.Hist.new.Reg(20, 100, 700, name="ht", label="H_T [GeV]").Weight()
            results[variation] = {
                "4j1b": momenta.fill(ht, weight=weight[one]),
                "4j2b": trijets.fill(mass, weight=weight[two]),
            }
        return results

    def postprocess(self, accumulator):
        return accumulator


def run(list_of_samples, workers=1):
    """Return the scaled bin contents by sample, variation and region."""
    samples = tomllib.loads(Path(list_of_samples).read_text(encoding="utf-8"))
    folder = Path(list_of_samples).parent
    found = {
        name: sorted(path for one in about["files"] for path in folder.glob(one)) for name, about in samples.items()
    }
    files = {name: [str(path) for path in paths] for name, paths in found.items()}
    executor = processor.IterativeExecutor() if workers == 1 else processor.FuturesExecutor(workers=workers)
    runner = processor.Runner(executor=executor, schema=BaseSchema)
    results = runner({name: {"files": dict.fromkeys(paths, "Events")} for name, paths in files.items()}, Ttbar())
    luminosity_per_fb = samples["data"]["sample"]["luminosity_per_fb"]
    factors = {"data": 1.0}
    for name, about in samples.items():
        if name != "data":
            sums = [uproot.open(f"{path}:Runs")["genEventSumw"].array().to_numpy().sum() for path in files[name]]
            factors[name] = 1000 * about["sample"]["cross_section_pb"] * luminosity_per_fb / sum(sums)
    return {
        sample: {
            variation: {region: factors[sample] * one.values(flow=True) for region, one in regions.items()}
            for variation, regions in variations.items()
        }
        for sample, variations in results.items()
    }


if __name__ == "__main__":
    print(run(sys.argv[1]))
