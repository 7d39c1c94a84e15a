"""Generates events named as in NanoAOD for the ADL queries, with random values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np

from benches.data import TREE, Progress, rewritten

EVENTS_PER_FILE = 1_250_000
#: Mean number per event, and mean transverse momentum in GeV.
COLLECTIONS = {"Jet": (4.0, 28.0), "Muon": (1.2, 22.0), "Electron": (0.8, 20.0)}


def made(events: int, seed: int) -> dict[str, Any]:
    """Generate columns of events."""
    random = np.random.default_rng(seed)

    def floats(values: Any) -> Any:
        # The precision of NanoAOD: ten bits of the mantissa.
        return (values.astype("f4").view("u4") & np.uint32(0xFFFFE000)).view("f4")

    columns: dict[str, Any] = {
        "MET_pt": floats(random.exponential(35, events)),
        "MET_phi": floats(random.uniform(-np.pi, np.pi, events)),
    }
    for name, (mean, momentum) in COLLECTIONS.items():
        counts = random.poisson(mean, events)
        total = int(counts.sum())
        of_all = {
            "pt": floats(random.exponential(momentum, total) + 5),
            "eta": floats(random.normal(0, 1.8, total)),
            "phi": floats(random.uniform(-np.pi, np.pi, total)),
        }
        if name == "Jet":
            of_all["mass"] = floats(of_all["pt"] * random.uniform(0.05, 0.2, total))
            of_all["btag"] = floats(random.random(total))
        else:
            of_all["mass"] = np.full(total, 0.10566 if name == "Muon" else 0.000511, "f4")
            of_all["charge"] = random.choice(np.array([-1, 1], "i4"), total)
        columns |= {f"{name}_{part}": ak.unflatten(values, counts) for part, values in of_all.items()}
    return columns


def make(cache: Path, events: int, progress: Progress) -> list[Path]:
    """Write the files with ROOT in zstd level 5, unless they exist."""
    import branchline

    folder = cache / f"queries-{events}"
    folder.mkdir(parents=True, exist_ok=True)
    sources = []
    for number, start in enumerate(range(0, events, EVENTS_PER_FILE)):
        sources.append(folder / f"events-{number}.root")
        if not sources[-1].exists():
            progress(f"generating events from {start} of {events}")
            with branchline.recreate(sources[-1]) as file:
                file.mktree(TREE, made(min(EVENTS_PER_FILE, events - start), seed=number))
    return rewritten(sources, "zstd", cache, progress)
