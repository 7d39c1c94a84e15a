"""Generates decays B -> h h h with the columns of LHCb's open data: B mesons with an asymmetry, and background."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import branchline

B_MEV, KAON_MEV = 5279.3, 493.677
#: Fraction of signal decays that are decays of B+; equal numbers would be 0.5.
PLUS_PART = 0.49


def three_bodies(mass: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return the momenta of three kaons from decays of particles with given masses, with shape (3, events, 3)."""
    # The mass of the first two is drawn uniformly between its limits.
    pair = random.uniform(2 * KAON_MEV, mass - KAON_MEV)
    third = _directions(len(mass), random) * _momentum(mass, pair, KAON_MEV)[:, None]
    first = _directions(len(mass), random) * _momentum(pair, KAON_MEV, KAON_MEV)[:, None]
    energy = np.sqrt(pair**2 + np.sum(third**2, axis=1))
    beta = -third / energy[:, None]
    return np.stack([_boosted(first, KAON_MEV, beta), _boosted(-first, KAON_MEV, beta), third])


def _momentum(mass, one, other):
    """Return the momentum of both products of a two-body decay."""
    return np.sqrt((mass**2 - (one + other) ** 2) * (mass**2 - (one - other) ** 2)) / (2 * mass)


def _directions(count, random):
    cosine, phi = random.uniform(-1, 1, count), random.uniform(-np.pi, np.pi, count)
    sine = np.sqrt(1 - cosine**2)
    return np.stack([sine * np.cos(phi), sine * np.sin(phi), cosine], axis=1)


def _boosted(momentum, mass, beta):
    energy = np.sqrt(mass**2 + np.sum(momentum**2, axis=1))
    squared = np.sum(beta**2, axis=1)
    gamma = 1 / np.sqrt(1 - squared)
    along = np.sum(beta * momentum, axis=1)
    return momentum + beta * ((gamma - 1) * along / squared + gamma * energy)[:, None]


def events_of(count: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the columns of random candidates, of which a third are decays of B mesons."""
    is_signal = random.random(count) < 1 / 3
    mass = np.where(is_signal, random.normal(B_MEV, 20, count), 5000 + random.exponential(700, count) % 1000)
    products = three_bodies(mass, random)
    # B mesons fly forward with about 100 GeV.
    forward = np.stack(
        [random.normal(0, 4e3, count), random.normal(0, 4e3, count), random.exponential(8e4, count) + 3e4]
    )
    beta = (forward / np.sqrt(mass**2 + np.sum(forward**2, axis=0))).T
    is_plus = random.random(count) < np.where(is_signal, PLUS_PART, 0.5)
    columns = {
        "B_FlightDistance": random.exponential(8, count) + 1,
        "B_VertexChi2": random.exponential(np.where(is_signal, 2, 6)),
    }
    for number, momentum in enumerate(products, start=1):
        lab = _boosted(momentum, KAON_MEV, beta)
        is_kaon = is_signal | (random.random(count) < 0.4)
        columns |= {f"H{number}_P{axis}": lab[:, index] for index, axis in enumerate("XYZ")}
        columns |= {
            f"H{number}_ProbK": np.where(is_kaon, random.beta(5, 1.5, count), random.beta(1.5, 5, count)),
            f"H{number}_ProbPi": np.where(is_kaon, random.beta(1.5, 5, count), random.beta(5, 1.5, count)),
            f"H{number}_Charge": np.where(is_plus ^ (number == 2), 1, -1).astype("i4"),
            f"H{number}_IPChi2": random.exponential(400, count),
            f"H{number}_isMuon": (random.random(count) < 0.01).astype("i4"),
        }
    return columns


def main(folder: Path, events_count: int, files_count: int = 2) -> str:
    """Write the files, and return a pattern for them."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(2026)
    for number in range(files_count):
        with branchline.recreate(folder / f"B2HHH_{number}.root") as file:
            file.mktree("DecayTree", events_of(events_count // files_count, random))
    return str(folder / "B2HHH_*.root")


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2_000_000))
