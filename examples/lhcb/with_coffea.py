"""The same analysis with coffea's Runner."""

import glob
import sys

import hist
import numpy as np
from coffea import processor
from coffea.nanoevents import BaseSchema

KAON_MEV = 493.677
MASS_MEV, WINDOW_MEV = 5279.3, 60.0


class Candidates(processor.ProcessorABC):
    def process(self, events):
        chosen = (events.B_FlightDistance > 2) & (events.B_VertexChi2 < 9)
        for one in ("H1", "H2", "H3"):
            chosen = chosen & (events[f"{one}_ProbK"] > 0.5) & (events[f"{one}_ProbPi"] < 0.5)
            chosen = chosen & (events[f"{one}_isMuon"] == 0)
        events = events[chosen]
        kaons = [self.kaon(events, one) for one in ("H1", "H2", "H3")]
        total = self.mass(*kaons)
        charge = sum(np.asarray(events[f"{one}_Charge"]) for one in ("H1", "H2", "H3"))
        signal = abs(total - MASS_MEV) < WINDOW_MEV
        pairs = [self.mass(kaons[0], kaons[1])[signal] ** 2 / 1e6, self.mass(kaons[1], kaons[2])[signal] ** 2 / 1e6]
        axes = hist.Hist.new.Reg(30, 0, 15, name="low", label="$m^2$(KK) low [GeV$^2$]")
        dalitz = axes.Reg(30, 0, 30, name="high", label="$m^2$(KK) high [GeV$^2$]").Double()
        return {
            "plus": self.spectrum().fill(total[charge > 0]),
            "minus": self.spectrum().fill(total[charge < 0]),
            "dalitz": dalitz.fill(np.minimum(*pairs), np.maximum(*pairs)),
        }

    def kaon(self, events, name):
        momentum = np.stack([np.asarray(events[f"{name}_P{axis}"]) for axis in "XYZ"])
        return np.concatenate([[np.sqrt(KAON_MEV**2 + np.sum(momentum**2, axis=0))], momentum])

    def mass(self, *particles):
        energy, *momentum = np.sum(particles, axis=0)
        return np.sqrt(energy**2 - np.sum(np.square(momentum), axis=0))

    def spectrum(self):
        return hist.Hist.new.Reg(100, 5050, 5650, name="mass", label="m(KKK) [MeV]").Double()

    def postprocess(self, accumulator):
        return accumulator


def run(files, workers=1):
    """Return the histograms by name."""
    executor = processor.IterativeExecutor() if workers == 1 else processor.FuturesExecutor(workers=workers)
    runner = processor.Runner(executor=executor, schema=BaseSchema)
    return runner({"data": {"files": dict.fromkeys(sorted(glob.glob(files)), "DecayTree")}}, Candidates())


if __name__ == "__main__":
    print(run(sys.argv[1]))
