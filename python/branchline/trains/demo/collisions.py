"""Proton collisions at 14 TeV, simulated by Pythia 8, with the complete particle record of each event.

Most events are soft, non-diffractive collisions, as in a beam crossing. Jets are rare among these, so one event in five
is a hard scattering, with a weight that accounts for its rarity. The two kinds do not overlap: a soft event is dropped
if the transverse momentum of its hardest scattering exceeds the threshold for hard events.

Spectra filled with `weight` give cross-sections: the sum of the weights in a file, divided by the number of events in
the file, is the cross-section in mb.
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
# Threshold between soft and hard events, in GeV/c: the transverse momentum of the hardest scattering.
THRESHOLD_GEV = 20.0
# Fraction of hard events in a file; in nature it is about one in a hundred.
HARD_SHARE = 0.2
# Maximum seed that Pythia accepts; the minimum is 1.
PYTHIA_SEED_MAX = 900_000_000

SOFT = ("SoftQCD:nonDiffractive = on",)
HARD = ("HardQCD:all = on", f"PhaseSpace:pTHatMin = {THRESHOLD_GEV}")

# Branches with one number per particle, and their types in the file. The names are those of Pythia.
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

# Branches with one number per event, and their types in the file.
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
    """Pythia could not be initialised or failed to generate an event."""


@dataclass
class Generator:
    """A Pythia instance for one kind of events. `tried` and `taken` count the generated and the accepted events."""

    pythia: Any
    drop_above_gev: float
    tried: int = 0
    taken: int = 0
    batches: list[Any] = field(default_factory=list)

    def next_event(self) -> tuple[Any, dict[str, float]]:
        """Return an event: its particle record as an awkward array of length one, and the event's own numbers, such as
        ``ptHat``, by name.
        """
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
        """Return the cross-section of the events that were not dropped."""
        return float(self.pythia.infoPython().sigmaGen()) * self.taken / self.tried


def new_generator(settings: tuple[str, ...], seed: int, drop_above_gev: float) -> Generator:
    """Return an initialised Pythia instance with these settings. Soft events above ``drop_above_gev`` will be
    dropped.
    """
    try:
        import pythia8mc
    except ImportError as error:
        hint = "it comes with the extra: pip install 'branchline[demo]'"
        raise SimulationError("Pythia 8 is not installed", hint=hint) from error
    pythia = pythia8mc.Pythia("", False)
    base = ("Print:quiet = on", f"Beams:eCM = {ENERGY_GEV}", "Random:setSeed = on", f"Random:seed = {seed}")
    for setting in base + settings:
        if not pythia.readString(setting):
            raise SimulationError(f"Pythia rejects the setting {setting!r}")
    if not pythia.init():
        raise SimulationError(f"Pythia cannot start with {', '.join(settings)}; its messages above say why")
    return Generator(pythia, drop_above_gev)


def simulate(seed: int, events_count: int) -> dict[str, ak.Array]:
    """Return the branches of `events_count` events as awkward arrays, with one list per event for particles.

    The same arguments give the same events. Momenta, energies, masses and scales are in GeV, production vertices in mm,
    proper lifetimes in mm/c, weights in mb.
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
    """Return the weight of each event: the cross-section of its kind, divided by the fraction of events of this
    kind.
    """
    weights = np.empty(len(is_hard))
    for kind, generator in ((is_hard, hard), (~is_hard, soft)):
        if kind.any():
            weights[kind] = generator.cross_section_mb() / kind.mean()
    return weights


def particle_branches(particles: ak.Array, particle_data: object) -> dict[str, ak.Array]:
    """Return the branches in `PARTICLE_TYPES`, made from Pythia's particle records."""
    counts = ak.num(particles)
    flat = ak.flatten(particles)
    # Particles without a production vertex start at the interaction point.
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
    """Return the electric charges, in units of e, of particles with these Particle Data Group IDs."""
    kinds, kind_of_particle = np.unique(ids, return_inverse=True)
    by_kind = np.array([particle_data.charge(int(kind)) for kind in kinds])
    return by_kind[kind_of_particle]
