"""Generates samples with the columns of CMS's reduced NanoAOD: Higgs to four leptons, ZZ, and data of both."""

from __future__ import annotations

import sys
from pathlib import Path

import awkward as ak
import numpy as np

import branchline

LUMINOSITY_PER_FB = 11.58
#: The cross section times branching ratio and acceptance in pb, by sample.
SAMPLES = {"higgs": 0.002, "zz_4mu": 0.012, "zz_4e": 0.012, "zz_2e2mu": 0.024}
CHANNELS = {"zz_4mu": [4], "zz_4e": [0], "zz_2e2mu": [2], "higgs": [0, 2, 2, 4]}
MUON_GEV, ELECTRON_GEV = 0.10566, 0.000511


def pair(mass: np.ndarray, energy: np.ndarray, direction: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return the momenta of two massless leptons from decays of particles, with shape (2, events, 3)."""
    own = _directions(len(mass), random) * mass[:, None] / 2
    gamma = energy / mass
    beta = direction * np.sqrt(1 - 1 / gamma**2)[:, None]
    factor = (gamma**2 / (gamma + 1))[:, None]
    leptons = []
    for momentum in (own, -own):
        along = np.sum(beta * momentum, axis=1)[:, None]
        leptons.append(momentum + beta * (factor * along + (gamma * mass / 2)[:, None]))
    return np.stack(leptons)


def _directions(count: int, random: np.random.Generator) -> np.ndarray:
    cosine, phi = random.uniform(-1, 1, count), random.uniform(-np.pi, np.pi, count)
    sine = np.sqrt(1 - cosine**2)
    return np.stack([sine * np.cos(phi), sine * np.sin(phi), cosine], axis=1)


def masses(name: str, count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the masses of the four leptons and of both pairs, in GeV."""
    first = np.clip(random.normal(91.2, 2.5, count), 80, 102)
    if name == "higgs":
        return np.full(count, 125.0), first.clip(80, 95), random.uniform(12.5, 29, count)
    # A fifth are decays of single Z bosons to four leptons, the others pairs of Z bosons.
    is_single = random.random(count) < 0.2
    single = first, random.uniform(50, 65, count), random.uniform(12.5, 14, count)
    second = np.clip(random.normal(91.2, 2.5, count), 80, 102)
    pairs = first + second + random.exponential(50, count), first, second
    return tuple(np.where(is_single, one, other) for one, other in zip(single, pairs, strict=True))


def events_of(name: str, count: int, random: np.random.Generator) -> dict[str, ak.Array]:
    """Return the columns of random events of a sample."""
    total, first, second = masses(name, count, random)
    direction = _directions(count, random)
    momentum = np.sqrt((total**2 - (first + second) ** 2) * (total**2 - (first - second) ** 2)) / (2 * total)
    one = pair(first, np.sqrt(first**2 + momentum**2), direction, random)
    other = pair(second, np.sqrt(second**2 + momentum**2), -direction, random)
    muons = random.choice(CHANNELS[name], count)
    # Pairs with one flavour: both are muons, both electrons, or one of each, in either order.
    swap = random.random(count) < 0.5
    is_muon = np.stack([(muons == 4) | ((muons == 2) & swap), (muons == 4) | ((muons == 2) & ~swap)])
    leptons = np.concatenate([one, other])
    smeared = leptons * random.normal(1, 0.012, (4, count))[:, :, None]
    charges = np.concatenate([[sign, -sign] for sign in random.choice([-1, 1], (2, count))])
    columns = {}
    for flavour, mass, cone, is_own in (
        ("Muon", MUON_GEV, "04", np.repeat(is_muon, 2, axis=0)),
        ("Electron", ELECTRON_GEV, "03", ~np.repeat(is_muon, 2, axis=0)),
    ):
        numbers = is_own.sum(axis=0)
        px, py, pz = np.moveaxis(smeared, 2, 0)
        pt = np.hypot(px, py)
        size = int(numbers.sum())
        values = {
            "pt": pt.T[is_own.T],
            "eta": np.arcsinh(pz / pt).T[is_own.T],
            "phi": np.arctan2(py, px).T[is_own.T],
            "mass": np.full(size, mass),
            f"pfRelIso{cone}_all": random.exponential(0.06, size),
            "dxy": random.normal(0, 0.004, size),
            "dz": random.normal(0, 0.01, size),
            "dxyErr": np.full(size, 0.004),
            "dzErr": np.full(size, 0.01),
        }
        fields = {key: ak.unflatten(value.astype("f4"), numbers) for key, value in values.items()}
        columns[flavour] = ak.zip({**fields, "charge": ak.unflatten(charges.T[is_own.T].astype("i4"), numbers)})
    return columns


def main(folder: Path, events_count: int, files_count: int = 2) -> Path:
    """Write the files and the list of samples, and return the path of the list."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(2012)
    text = '[data]\ntree = "Events"\nfiles = ["data_*.root"]\n'
    text += f'sample = {{kind = "data", luminosity_per_fb = {LUMINOSITY_PER_FB}}}\n'
    drawn = []
    for name, cross_section_pb in SAMPLES.items():
        for number in range(files_count):
            with branchline.recreate(folder / f"{name}_{number}.root") as file:
                file.mktree("Events", events_of(name, events_count // files_count, random))
        kind = "signal" if name == "higgs" else "background"
        # Without a sum of weights, events are counted.
        text += f'\n[{name}]\ntree = "Events"\nfiles = ["{name}_*.root"]\n'
        text += f'sample = {{kind = "{kind}", cross_section_pb = {cross_section_pb}}}\n'
        drawn.append(events_of(name, random.poisson(1000 * cross_section_pb * LUMINOSITY_PER_FB), random))
    with branchline.recreate(folder / "data_0.root") as file:
        file.mktree("Events", {name: ak.concatenate([one[name] for one in drawn]) for name in drawn[0]})
    path = folder / "samples.toml"
    path.write_text(text, encoding="utf-8")
    return path


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 400_000))
