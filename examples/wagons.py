"""A train of three wagons, to start from: branchline run examples/wagons.py 'demo-data/*.root' -o out

`particles` selects once what the other two need; `Spectrum` names what it reads, `Balance` lets Branchline find out.
"""

import awkward as ak
import hist
import numpy as np

import branchline


class Particles:
    """Charged particles of the final state, for the wagons that require them."""

    name = "particles"
    branches = ("px", "py", "pz", "charge", "status")

    def process(self, events):
        kept = (events.status > 0) & (events.charge != 0)
        selected = ak.zip({name: events[name][kept] for name in ("px", "py", "pz")})
        # Only for wagons that require this one; of all chunks together the number is kept.
        return {"selected": branchline.Shared(selected), "count": int(ak.count(selected.px))}


class Spectrum:
    """Transverse momenta of the selected particles."""

    name = "spectrum"
    requires = ("particles",)
    branches = ()

    def process(self, events):
        particles = events.outputs["particles"]["selected"]  # of this same chunk
        pt = np.hypot(particles.px, particles.py)
        return hist.Hist.new.Reg(50, 0, 5, label="$p_T$ [GeV/c]").Double().fill(ak.flatten(pt))


class Balance:
    """How well the momenta of an event cancel; the branches are those that it touches."""

    name = "balance"

    def process(self, events):
        final = events.status > 0
        px, py = ak.sum(events.px[final], axis=1), ak.sum(events.py[final], axis=1)
        return {"events": len(events), "largest_imbalance_GeV": Largest(ak.max(np.hypot(px, py)))}


class Largest(float):
    """A number that adds up to the larger one."""

    def __add__(self, other):
        return Largest(max(self, other))


wagons = [Particles(), Spectrum(), Balance()]
