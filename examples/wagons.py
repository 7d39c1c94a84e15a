"""A train of three wagons as a template: branchline run examples/wagons.py 'demo-data/*.root' -o out

`Spectrum` uses the selection of `Particles`. `Particles` declares its branches; Branchline detects those of `Balance`.
"""

import awkward as ak
import hist
import numpy as np

import branchline


class Particles:
    """Selects charged particles of the final state, for the wagons that require them."""

    name = "particles"
    branches = ("px", "py", "pz", "charge", "status")

    def process(self, events):
        kept = (events.status > 0) & (events.charge != 0)
        selected = ak.zip({name: events[name][kept] for name in ("px", "py", "pz")})
        # A Shared value is only passed to wagons that require this one. The counts of all chunks are added up.
        return {"selected": branchline.Shared(selected), "count": int(ak.count(selected.px))}


class Spectrum:
    """Fills a histogram of the transverse momenta of the selected particles."""

    name = "spectrum"
    requires = ("particles",)
    branches = ()

    def process(self, events):
        particles = events.outputs["particles"]["selected"]  # the selection in the same chunk
        pt = np.hypot(particles.px, particles.py)
        return hist.Hist.new.Reg(50, 0, 5, label="$p_T$ [GeV/c]").Double().fill(ak.flatten(pt))


class Balance:
    """Finds the largest sum of transverse momenta in an event. Branchline detects which branches are used."""

    name = "balance"

    def process(self, events):
        final = events.status > 0
        px, py = ak.sum(events.px[final], axis=1), ak.sum(events.py[final], axis=1)
        return {"events": len(events), "largest_imbalance_GeV": Largest(ak.max(np.hypot(px, py)))}


class Largest(float):
    """A number whose sum with another number is the larger of the two, to merge maxima."""

    def __add__(self, other):
        return Largest(max(self, other))


wagons = [Particles(), Spectrum(), Balance()]
