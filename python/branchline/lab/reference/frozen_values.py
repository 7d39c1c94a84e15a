"""The analysis of the reference job: sums of all branches and two spectra, in exact integers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import awkward as ak
import numpy as np
from numpy.typing import NDArray

from branchline.lab.reference.frozen_events import OF_PARTICLE

Integers = NDArray[np.int64]

_BINS = 64
#: Widths of bins as powers of 2: squares of transverse momenta are at most 2^27, squares of masses at most 2^36.
_PT2_SHIFT, _MASS2_SHIFT = 21, 30
#: Weights of events are their numbers modulo this prime number, so that exchanged events change the sum of weights.
_WEIGHTS = 1009


@dataclass
class FrozenValues:
    """What the analysis finds: the number of events, the sum of each branch, a sum that depends on the order of the
    events, the spectrum of squared transverse momenta, and that of squared invariant masses of neighbouring particles
    with opposite charges.
    """

    events: int = 0
    sums: dict[str, int] = field(default_factory=dict)
    ordered_sum: int = 0
    pt2: list[int] = field(default_factory=lambda: [0] * _BINS)
    mass2: list[int] = field(default_factory=lambda: [0] * _BINS)

    def add(self, branches: Mapping[str, ak.Array]) -> None:
        """Analyse consecutive events, given as awkward arrays by branch."""
        counts = ak.to_numpy(ak.num(branches["particle_px"])).astype(np.int64)
        flat = {name: _integers(values) for name, values in branches.items()}
        self.events += len(counts)
        for name, values in flat.items():
            self.sums[name] = self.sums.get(name, 0) + int(values.sum())
        self.ordered_sum += int(((flat["event"] % _WEIGHTS + 1) * (flat["met"] + 1)).sum())
        px, py, pz, e, charge, _ = (flat[f"particle_{name}"] for name in OF_PARTICLE)
        self.pt2 = _filled(self.pt2, px * px + py * py, _PT2_SHIFT)
        has_next = np.ones(len(px), dtype=bool)
        has_next[np.cumsum(counts)[counts > 0] - 1] = False
        first = np.flatnonzero(has_next[:-1] & (charge[:-1] != charge[1:]))
        pair = [one[first] + one[first + 1] for one in (e, px, py, pz)]
        self.mass2 = _filled(self.mass2, pair[0] ** 2 - pair[1] ** 2 - pair[2] ** 2 - pair[3] ** 2, _MASS2_SHIFT)

    @property
    def digest(self) -> str:
        """A hash of all values."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def _integers(values: ak.Array) -> Integers:
    flat: Integers = ak.to_numpy(values if values.ndim == 1 else ak.flatten(values)).astype(np.int64)
    return flat


def _filled(spectrum: list[int], values: Integers, shift: int) -> list[int]:
    bins = np.clip(values >> shift, 0, _BINS - 1)
    return [before + int(more) for before, more in zip(spectrum, np.bincount(bins, minlength=_BINS), strict=True)]
