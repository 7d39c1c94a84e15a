"""Files like ALICE's AO2D: folders ``DF_<16 digits>``, whose tables refer to each other's rows by index columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import uproot
from numpy.typing import NDArray


@dataclass(frozen=True)
class Folder:
    """The content of a folder: columns by table."""

    name: str
    tables: dict[str, dict[str, Any]]

    def tracks_of(self, column: str, index: str = "fIndexCollisions", table: str = "O2track_iu") -> list[list[float]]:
        """The values of a column for each collision, taken one by one in the order of the rows."""
        found: list[list[float]] = [[] for _ in self.tables["O2collision_001"]["fPosZ"]]
        for collision, value in zip(self.tables["O2track_iu"][index], self.tables[table][column], strict=True):
            if collision >= 0:
                found[int(collision)].append(float(value))
        return found


def folder(number: int, collisions: int, *, order: str = "sorted", seed: int = 1) -> Folder:
    """A folder with about ten tracks per collision, a tenth of which belong to no collision.

    ``order`` says where these are: after all others (``sorted``, as ALICE writes them), ``first``, ``between`` the
    others; or the tracks are ``shuffled``.
    """
    random = np.random.default_rng([seed, number])
    counts = random.poisson(10, collisions)
    index = np.repeat(np.arange(collisions, dtype="i4"), counts)
    lost = np.full(len(index) // 9, -1, "i4")
    if order == "first":
        index = np.concatenate([lost, index])
    elif order == "between":
        index = np.insert(index, random.integers(0, len(index) + 1, len(lost)), lost)
    else:
        index = np.concatenate([index, lost])
    if order == "shuffled":
        random.shuffle(index)
    tracks = len(index)
    daughters = np.sort(random.integers(0, max(1, tracks), (tracks // 5, 2)), axis=1).astype("i4")
    tables: dict[str, dict[str, Any]] = {
        "O2bc_001": {
            "fRunNumber": np.full(collisions + 3, 500_000 + number, "i4"),
            "fGlobalBC": np.arange(collisions + 3),
        },
        "O2collision_001": {
            "fIndexBCs": np.arange(collisions, dtype="i4"),
            "fPosZ": random.normal(0, 5, collisions).astype("f4"),
            "fNumContrib": counts.astype("u2"),
        },
        "O2track_iu": {
            "fIndexCollisions": index,
            "fSigned1Pt": random.normal(0, 1, tracks).astype("f4"),
            "fTgl": random.normal(0, 1, tracks).astype("f4"),
        },
        "O2trackextra_002": {"fTPCNCls": random.integers(60, 160, tracks).astype("u1"), "fChi2": random.random(tracks)},
        "O2v0_002": {
            "fIndexCollisions": np.sort(random.integers(0, max(1, collisions), tracks // 20)).astype("i4"),
            "fIndexTracks_Pos": random.integers(0, max(1, tracks), tracks // 20).astype("i4"),
            "fIndexTracks_Neg": random.integers(0, max(1, tracks), tracks // 20).astype("i4"),
        },
        "O2mcparticle_001": {"fIndexSlice_Daughters": daughters, "fPt": random.exponential(1, len(daughters))},
    }
    return Folder(f"DF_{2_261_906_000_000_000 + number:016}", tables)


def write_ao2d(path: Path, folders: Sequence[Folder]) -> Path:
    """Write folders to a file with uproot."""
    with uproot.recreate(path) as file:
        for one in folders:
            for name, columns in one.tables.items():
                arrays = {column: np.asarray(values) for column, values in columns.items()}
                tree = file.mktree(f"{one.name}/{name}", {column: _type(values) for column, values in arrays.items()})
                if len(next(iter(arrays.values()))):
                    tree.extend(arrays)
    return path


def _type(values: NDArray[Any]) -> Any:
    return np.dtype((values.dtype, values.shape[1:])) if values.ndim > 1 else values.dtype


def flat(values: Any) -> list[float]:
    """The numbers in nested lists, in order."""
    return [float(one) for one in ak.flatten(ak.Array(values), axis=None)]
