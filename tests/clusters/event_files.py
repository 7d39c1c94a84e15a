"""The files that trains of these tests run over."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import numpy as np
import uproot


def write_events(folder: Path, files: int, events_per_file: int) -> None:
    """Writes them: the events of each have its number as their run."""
    for index in range(files):
        random = np.random.default_rng(index)
        counts = random.poisson(3, events_per_file)
        with uproot.recreate(folder / f"f{index}.root", compression=uproot.ZLIB(1)) as file:
            tree = file.mktree("events", {"px": "float64", "run": "int32", "pt": "var * float64"})
            pt = ak.unflatten(random.exponential(size=counts.sum()), counts)
            run = np.full(events_per_file, index, "i4")
            tree.extend({"px": random.normal(size=events_per_file), "run": run, "pt": pt})
