"""Generates small NanoAOD-like samples for the example: top pairs, single top, W with jets, and data of all three."""

from __future__ import annotations

import sys
from pathlib import Path

import awkward as ak
import numpy as np

import branchline

LUMINOSITY_PER_FB = 3.0
# The cross section in pb, the mean number of jets, the mean pt of jets above 20 GeV, and the fraction of b-tagged jets.
SAMPLES = {
    "ttbar": (0.83, 4.6, 55.0, 0.32),
    "single_top": (0.25, 3.4, 48.0, 0.22),
    "wjets": (1.6, 3.0, 38.0, 0.05),
}
SUM_OF_WEIGHTS_PART = 0.8  # fraction of the generated events that passed a filter


def events_of(name: str, count: int, random: np.random.Generator) -> dict[str, ak.Array]:
    """Return the columns of ``count`` random events of a simulated sample."""
    _, jets_mean, hardness, b_part = SAMPLES[name]
    numbers = random.poisson(jets_mean, count)
    size = int(numbers.sum())
    tops = random.normal(172.5, 12, size) / 3 if name == "ttbar" else random.exponential(40, size)

    def jagged(values: np.ndarray) -> ak.Array:
        return ak.unflatten(values.astype(np.float32), numbers)

    pt = 20 + random.exponential(hardness, size)
    jets = {
        "pt": jagged(pt),
        "eta": jagged(random.normal(0, 1.2, size)),
        "phi": jagged(random.uniform(-np.pi, np.pi, size)),
        "mass": jagged(np.abs(tops) * 0.2),
        "btag": jagged(np.where(random.random(size) < b_part, 0.9, 0.1)),
    }
    muons = random.poisson(0.9, count)
    pileup = random.poisson(30, count)
    return {
        "Jet": ak.zip(jets),
        "Muon": ak.zip({"pt": ak.unflatten((15 + random.exponential(30, muons.sum())).astype(np.float32), muons)}),
        "genWeight": random.choice([1.0, 1.0, 1.0, -0.2], count),
        "puUp": 1 + 0.004 * (pileup - 30.0),
        "puDown": 1 - 0.004 * (pileup - 30.0),
    }


def write(path: Path, events: dict[str, ak.Array], sum_of_weights: float | None) -> None:
    """Write a file with the tree Events, and for simulation also the tree Runs with the sum of weights."""
    with branchline.recreate(path) as file:
        file.mktree("Events", events)
        if sum_of_weights is not None:
            file.mktree("Runs", {"genEventSumw": np.array([sum_of_weights])})


def main(folder: Path, events_count: int, files_count: int = 2) -> Path:
    """Write the files and the list of samples, and return the path of the list."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(2026)
    # Patterns are relative to the folder of the list.
    text = '[data]\ntree = "Events"\nfiles = ["data_*.root"]\n'
    text += f'sample = {{kind = "data", luminosity_per_fb = {LUMINOSITY_PER_FB}}}\n'
    drawn = []
    for name, (cross_section_pb, *_) in SAMPLES.items():
        for number in range(files_count):
            events = events_of(name, events_count // files_count, random)
            sum_of_weights = float(ak.sum(events["genWeight"])) / SUM_OF_WEIGHTS_PART
            write(folder / f"{name}_{number}.root", events, sum_of_weights)
        kind = "signal" if name == "ttbar" else "background"
        text += f'\n[{name}]\ntree = "Events"\nfiles = ["{name}_*.root"]\n[{name}.sample]\nkind = "{kind}"\n'
        text += f'cross_section_pb = {cross_section_pb}\nsum_of_weights = "Runs:genEventSumw"\n'
        # The data contains a random number of events of each process, with the expected number as its mean.
        expected = 1000 * cross_section_pb * LUMINOSITY_PER_FB * SUM_OF_WEIGHTS_PART
        drawn.append(events_of(name, random.poisson(expected), random))
    data = {name: ak.concatenate([one[name] for one in drawn]) for name in ("Jet", "Muon")}
    write(folder / "data_0.root", data, None)
    path = folder / "samples.toml"
    path.write_text(text, encoding="utf-8")
    return path


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 200_000))
