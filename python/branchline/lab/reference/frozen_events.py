"""The events of the reference job. Each value is a hash of its event and its branch, so any number of events can be
generated on any machine, and all values are integers that float32 represents exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

import awkward as ak
import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

TREE = "events"
#: The branches that the job reads: two numbers per event, and the numbers of its particles.
OF_EVENT, OF_PARTICLE = ("event", "met"), ("px", "py", "pz", "e", "charge", "status")
BRANCHES = (*OF_EVENT, *(f"particle_{name}" for name in OF_PARTICLE))
#: Maximum number of particles of an event. Particle ``j`` of event ``i`` has the index ``i * PARTICLES_MAX + j``.
PARTICLES_MAX = 8
#: Number of events that are generated, and written as one cluster, at a time.
CLUSTER_EVENTS = 100_000
# The constants of SplitMix64 (G L Steele et al., "Fast splittable pseudorandom number generators", OOPSLA 2014).
_STEP, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def clusters(events_count: int) -> Iterator[dict[str, ak.Array]]:
    """Yield the values of `BRANCHES`, one cluster at a time."""
    for begin in range(0, events_count, CLUSTER_EVENTS):
        yield _branches(begin, min(begin + CLUSTER_EVENTS, events_count))


def as_written(branches: dict[str, ak.Array]) -> dict[str, ak.Array]:
    """Return the branches with the particles as one group, so that the file has one branch with their numbers."""
    particles = ak.zip({name: branches[f"particle_{name}"] for name in OF_PARTICLE})
    return {**{name: branches[name] for name in OF_EVENT}, "particle": particles}


def _branches(begin: int, stop: int) -> dict[str, ak.Array]:
    """Return the branches of the events from ``begin`` to ``stop``."""
    event = np.arange(begin, stop, dtype=np.int64)
    of_event = _hashes(2 * event)
    counts = _bits(of_event, 0, 3)
    first = np.cumsum(counts) - counts
    number_in_event = np.arange(counts.sum()) - np.repeat(first, counts)
    of_particle = _hashes(2 * (np.repeat(event * PARTICLES_MAX, counts) + number_in_event) + 1)
    px, py = _bits(of_particle, 0, 14) - 2**13, _bits(of_particle, 14, 14) - 2**13
    pz = _bits(of_particle, 28, 16) - 2**15
    particles = {
        "px": px.astype(np.float32),
        "py": py.astype(np.float32),
        "pz": pz.astype(np.float32),
        # Not below the momentum.
        "e": (abs(px) + abs(py) + abs(pz) + 1).astype(np.float32),
        "charge": (2 * _bits(of_particle, 44, 1) - 1).astype(np.int8),
        "status": _bits(of_particle, 45, 3).astype(np.int32),
    }
    found = {"event": ak.Array(event), "met": ak.Array(_bits(of_event, 8, 14).astype(np.float32))}
    return found | {f"particle_{name}": ak.unflatten(values, counts) for name, values in particles.items()}


def _hashes(numbers: NDArray[np.int64]) -> Hashes:
    """Return the SplitMix64 hash of each number. Products wrap around."""
    found = (numbers.astype(np.uint64) + np.uint64(1)) * _STEP
    found = (found ^ (found >> np.uint64(30))) * _FIRST
    found = (found ^ (found >> np.uint64(27))) * _SECOND
    return found ^ (found >> np.uint64(31))


def _bits(hashes: Hashes, first: int, count: int) -> NDArray[np.int64]:
    """Return ``count`` bits of each hash, from bit ``first`` on, as integers."""
    return ((hashes >> np.uint64(first)) & np.uint64(2**count - 1)).astype(np.int64)
