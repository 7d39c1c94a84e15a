"""Proton collisions at 14 TeV, simulated by Pythia 8: the whole particle record of every event.

Most events are what a beam crossing gives: soft, non-diffractive collisions. Jets are rare among these, so one event
in five is a hard scattering, with a weight that says how rare it is. The two kinds do not overlap: soft events whose
hardest scattering reaches the threshold of the hard ones are dropped. Spectra filled with `weight` therefore come out
as cross-sections: the sum of the weights of a file, divided by its number of events, is the cross-section in mb.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np

from branchline.errors import BranchlineError

if TYPE_CHECKING:
    from collections.abc import Mapping

ENERGY_GEV = 14_000.0
# The transverse momentum of the hardest scattering that parts soft events from hard ones, in GeV/c.
THRESHOLD_GEV = 20.0
# The share of hard events in a file, where nature has about one in a hundred.
HARD_SHARE = 0.2
# Pythia takes seeds from 1 up to this number.
PYTHIA_SEED_MAX = 900_000_000

SOFT = ("SoftQCD:nonDiffractive = on",)
HARD = ("HardQCD:all = on", f"PhaseSpace:pTHatMin = {THRESHOLD_GEV}")

# Branches with one number per particle, and the type they are written as. The names are Pythia's.
PARTICLE_TYPES: Mapping[str, str] = {
    "id": "i4",
    "status": "i4",
    "mother1": "i4",
    "mother2": "i4",
    "daughter1": "i4",
    "daughter2": "i4",
    "col": "i4",
    "acol": "i4",
    "px": "f4",
    "py": "f4",
    "pz": "f4",
    "e": "f4",
    "m": "f4",
    "scale": "f4",
    "charge": "f4",
    "xProd": "f4",
    "yProd": "f4",
    "zProd": "f4",
    "tProd": "f4",
    "tau": "f4",
}

# Branches with one number per event.
EVENT_TYPES: Mapping[str, str] = {
    "event": "i8",
    "process": "i4",
    "weight": "f8",
    "ptHat": "f8",
    "q2": "f8",
    "x1": "f8",
    "x2": "f8",
}


class SimulationError(BranchlineError):
    """Pythia could not be set up or gave up on an event."""


@dataclass
class Generator:
    """A Pythia of one kind of events, and the events taken from it."""

    pythia: Any
    drop_above_gev: float
    tried: int = 0
    taken: int = 0
    batches: list[Any] = field(default_factory=list)

    def next_event(self) -> tuple[Any, dict[str, float]]:
        """One event of this kind: its record as an awkward array of length one, and the numbers of the event."""
        while True:
            batch = self.pythia.nextBatch(1, "fail")
            self.tried += 1
            info = self.pythia.infoPython()
            if info.pTHat() < self.drop_above_gev:
                break
        self.taken += 1
        return batch, {
            "process": info.code(),
            "ptHat": info.pTHat(),
            "q2": info.Q2Fac(),
            "x1": info.x1(),
            "x2": info.x2(),
        }

    def cross_section_mb(self) -> float:
        """Cross-section of the events that were not dropped."""
        return float(self.pythia.infoPython().sigmaGen()) * self.taken / self.tried


def new_generator(settings: tuple[str, ...], seed: int, drop_above_gev: float) -> Generator:
    """A Pythia with these settings, ready to give events."""
    try:
        import pythia8mc
    except ImportError as error:
        hint = "it comes with the extra: pip install 'branchline[demo]'"
        raise SimulationError("Pythia 8 is not installed", hint=hint) from error
    pythia = pythia8mc.Pythia("", False)
    base = ("Print:quiet = on", f"Beams:eCM = {ENERGY_GEV}", "Random:setSeed = on", f"Random:seed = {seed}")
    for setting in base + settings:
        if not pythia.readString(setting):
            raise SimulationError(f"Pythia does not take the setting {setting!r}")
    if not pythia.init():
        raise SimulationError(f"Pythia cannot start with {', '.join(settings)}; its messages above say why")
    return Generator(pythia, drop_above_gev)


def simulate(seed: int, events_count: int) -> dict[str, ak.Array]:
    """The branches of `events_count` events: awkward arrays, jagged for the particles.

    The same seed and number give the same events. Momenta, energies, masses and scales are in GeV, production vertices
    and proper lifetimes in mm and mm/c, weights in mb.
    """
    soft_seed, hard_seed, order_seed = np.random.SeedSequence(seed).generate_state(3)
    soft = new_generator(SOFT, 1 + int(soft_seed) % PYTHIA_SEED_MAX, THRESHOLD_GEV)
    hard = new_generator(HARD, 1 + int(hard_seed) % PYTHIA_SEED_MAX, np.inf)
    is_hard = np.arange(events_count) < round(HARD_SHARE * events_count)
    np.random.default_rng(int(order_seed)).shuffle(is_hard)

    records, numbers = [], []
    for hard_now in is_hard:
        record, event_numbers = (hard if hard_now else soft).next_event()
        records.append(record)
        numbers.append(event_numbers)

    events = {name: np.array([row[name] for row in numbers]) for name in numbers[0]}
    events["event"] = np.arange(events_count)
    events["weight"] = weights_mb(is_hard, soft, hard)
    branches = {name: ak.Array(events[name].astype(dtype)) for name, dtype in EVENT_TYPES.items()}
    return branches | particle_branches(ak.concatenate(records).prt, soft.pythia.particleData)


def weights_mb(is_hard: np.ndarray, soft: Generator, hard: Generator) -> np.ndarray:
    """What each event stands for: the cross-section of its kind, over that kind's share among the events."""
    weights = np.empty(len(is_hard))
    for kind, generator in ((is_hard, hard), (~is_hard, soft)):
        if kind.any():
            weights[kind] = generator.cross_section_mb() / kind.mean()
    return weights


def particle_branches(particles: ak.Array, particle_data: Any) -> dict[str, ak.Array]:
    """The branches of `PARTICLE_TYPES`, from the records as Pythia gives them."""
    counts = ak.num(particles)
    flat = ak.flatten(particles)
    # A particle made in the collision itself has no vertex of its own: it starts where the beams meet.
    vertex = ak.fill_none(flat.vProd, {"px": 0.0, "py": 0.0, "pz": 0.0, "e": 0.0}, axis=0)
    columns = {
        "px": flat.p.px,
        "py": flat.p.py,
        "pz": flat.p.pz,
        "e": flat.p.e,
        "charge": charges(ak.to_numpy(flat.id), particle_data),
        "xProd": vertex.px,
        "yProd": vertex.py,
        "zProd": vertex.pz,
        "tProd": vertex.e,
    }
    branches = {}
    for name, dtype in PARTICLE_TYPES.items():
        column = columns[name] if name in columns else flat[name]
        branches[name] = ak.unflatten(ak.to_numpy(column).astype(dtype), counts)
    return branches


def charges(ids: np.ndarray, particle_data: Any) -> np.ndarray:
    """Electric charges in units of e of particles with these numbers in the scheme of the Particle Data Group."""
    kinds, kind_of_particle = np.unique(ids, return_inverse=True)
    by_kind = np.array([particle_data.charge(int(kind)) for kind in kinds])
    return by_kind[kind_of_particle]
