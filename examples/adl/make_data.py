"""Generates events with the columns of NanoAOD that the eight queries read."""

from __future__ import annotations

import sys
from pathlib import Path

import awkward as ak
import numpy as np

import branchline

#: Mean number per event, and mean transverse momentum in GeV.
COLLECTIONS = {"Jet": (4.0, 28.0), "Muon": (1.2, 22.0), "Electron": (0.8, 20.0)}
MASSES_GEV = {"Muon": 0.10566, "Electron": 0.000511}


def events_of(count: int, random: np.random.Generator) -> dict[str, ak.Array]:
    """Return the columns of random events."""
    columns = {
        "MET_pt": random.exponential(35, count).astype("f4"),
        "MET_phi": random.uniform(-np.pi, np.pi, count).astype("f4"),
    }
    for name, (mean, momentum) in COLLECTIONS.items():
        numbers = random.poisson(mean, count)
        size = int(numbers.sum())
        pt = random.exponential(momentum, size) + 5
        fields = {"pt": pt, "eta": random.normal(0, 1.8, size), "phi": random.uniform(-np.pi, np.pi, size)}
        if name == "Jet":
            fields |= {"mass": pt * random.uniform(0.05, 0.2, size), "btag": random.random(size)}
        else:
            fields |= {"mass": np.full(size, MASSES_GEV[name]), "charge": random.choice([-1, 1], size)}
        kinds = {"charge": "i4"}
        columns[name] = ak.zip(
            {key: ak.unflatten(value.astype(kinds.get(key, "f4")), numbers) for key, value in fields.items()}
        )
    return columns


def main(folder: Path, events_count: int, files_count: int = 2) -> str:
    """Write the files, and return a pattern for them."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(2021)
    for number in range(files_count):
        with branchline.recreate(folder / f"events_{number}.root") as file:
            file.mktree("Events", events_of(events_count // files_count, random))
    return str(folder / "events_*.root")


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000))
