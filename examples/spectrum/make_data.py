"""Generates AO2D files with collisions and tracks: the tables and columns of ALICE that the example reads."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import branchline

TRACKS_MEAN, WITHOUT_COLLISION_PART = 25, 0.1


def tables_of(collisions: int, random: np.random.Generator) -> dict[str, dict[str, np.ndarray]]:
    """Return the columns of a folder by table. Tracks without a collision are at the end, with the index -1."""
    tracks_of = random.negative_binomial(2, 2 / (2 + TRACKS_MEAN), collisions)
    index = np.repeat(np.arange(collisions, dtype="i4"), tracks_of)
    index = np.append(index, np.full(int(WITHOUT_COLLISION_PART * len(index)), -1, "i4"))
    count = len(index)
    # A power law at high momenta, as in Hagedorn's function.
    pt = 0.15 + 1.1 * (random.random(count) ** (-1 / 6.0) - 1)
    return {
        "O2collision_001": {
            "fPosZ": random.normal(0, 5.5, collisions).astype("f4"),
            "fNumContrib": tracks_of.astype("u2"),
        },
        "O2track_iu": {
            "fIndexCollisions": index,
            "fSigned1Pt": (random.choice([-1, 1], count) / pt).astype("f4"),
            "fTgl": np.sinh(random.uniform(-1.2, 1.2, count)).astype("f4"),
        },
        "O2trackextra_002": {"fTPCNClsFindable": random.binomial(159, 0.85, count).astype("u1")},
    }


def main(folder: Path, collisions_count: int, files_count: int = 2, folders_count: int = 10) -> str:
    """Write the files, and return a pattern for them."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(2009)
    for number in range(files_count):
        with branchline.recreate(folder / f"AO2D-{number}.root") as file:
            for frame in range(folders_count):
                for name, columns in tables_of(collisions_count // files_count // folders_count, random).items():
                    file.mktree(f"DF_{1000 * number + frame:016}/{name}", columns)
    return str(folder / "AO2D-*.root")


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 400_000))
