"""Random numbers that belong to events: the same ones however a dataset is cut into chunks, files and sub-jobs.

They come from the counter-based generator Philox 4x64 with 10 rounds (Salmon et al., "Parallel random numbers: as easy
as 1, 2, 3", SC11): a number is a function of a key and a counter, so none depends on the numbers drawn before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import awkward as ak
import numpy as np
from numpy.typing import NDArray

from branchline.base.checks import texts
from branchline.errors import OptionError

#: By this name ``events.metadata`` has the seed of the train.
SEED_NAME = "train_seed"

_ROUNDS = 10
_MULTIPLIERS = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_WEYL = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)

Words = NDArray[np.uint64]


def event_random(events: Any, by: Sequence[str] | None = None, *, stream: str = "") -> EventRandom:
    """Return random numbers for the events of a chunk, the same ones for any chunk size and number of workers.

    ``by`` names the branches that identify an event, as ``["run", "luminosityBlock", "event"]``: its numbers are then
    the same in every file. Without it they depend on the entry and on the absolute path or the URL of the file. They
    also depend on the seed of the train, ``branchline.run(..., seed=1)``; ``stream`` names uses that are to be
    independent of each other. Raises OptionError for a part of a chunk without ``by``, and for branches that are not
    integers.

        def smeared(events):
            random = branchline.event_random(events, ["run", "luminosityBlock", "event"], stream="smearing")
            pt = events.Muon.pt * random.normal(1, 0.02, counts=ak.num(events.Muon.pt))
    """
    metadata = events.metadata
    names = () if by is None else texts("by", by, '["run", "event"]')
    where = None if names else [metadata["filename"], metadata["treename"]]
    key = hashlib.sha256(repr((metadata.get(SEED_NAME, 0), stream, names, where)).encode(errors="surrogatepass"))
    if names:
        columns = [_integers(events[name], name) for name in names]
    else:
        start, stop = metadata["entrystart"], metadata["entrystop"]
        if len(events) != stop - start:
            what = f"these are {len(events)} of the {stop - start} events of the chunk, whose entries are not known"
            raise OptionError(what, hint='give all events and select numbers, or name branches: by=["run", "event"]')
        columns = [np.arange(start, stop, dtype=np.uint64)]
    return EventRandom(_words(key.digest()), _identities(columns))


class EventRandom:
    """Random numbers for the events of a chunk, see `event_random`; each call gives others. Raises what awkward raises
    for ``counts`` that do not fit the events.

        def tagged(events):
            random = branchline.event_random(events, ["run", "event"])
            return {"tagged": int(np.sum(random.uniform() < 0.7))}
    """

    def __init__(self, key: tuple[int, int], events: Words) -> None:
        self._key = key
        self._events = events
        self._calls_count = 0

    def random(self, counts: Any = None) -> Any:
        """Return numbers from 0 to before 1: one for each event, or as many lists of them as ``counts`` says."""
        return self._drawn(counts, lambda words: _unit(words[0]))

    def uniform(self, low: float = 0.0, high: float = 1.0, counts: Any = None) -> Any:
        """Return numbers from ``low`` to before ``high``."""
        return low + (high - low) * self.random(counts)

    def normal(self, loc: float = 0.0, scale: float = 1.0, counts: Any = None) -> Any:
        """Return numbers of a normal distribution, by the method of Box and Muller."""

        def normal(words: tuple[Words, ...]) -> NDArray[np.float64]:
            made: NDArray[np.float64] = np.sqrt(-2.0 * np.log1p(-_unit(words[0])))
            return made * np.cos(2.0 * np.pi * _unit(words[1]))

        return loc + scale * self._drawn(counts, normal)

    def _drawn(self, counts: Any, make: Any) -> Any:
        """A number from each counter: the event, the call, and the place in the list of the event."""
        call, self._calls_count = self._calls_count, self._calls_count + 1
        if counts is None:
            return make(self._blocks(self._events, np.zeros(len(self._events), np.uint64), call))
        lengths = np.asarray(ak.to_numpy(counts))
        if lengths.shape != self._events.shape:
            raise OptionError(f"there are {len(self._events)} events, and {lengths.size} counts", hint="use ak.num")
        begins = np.repeat(np.cumsum(lengths) - lengths, lengths)
        places = (np.arange(len(begins)) - begins).astype(np.uint64)
        return ak.unflatten(make(self._blocks(np.repeat(self._events, lengths), places, call)), lengths)

    def _blocks(self, events: Words, places: Words, call: int) -> tuple[Words, ...]:
        zeros = np.zeros(len(events), np.uint64)
        return philox((events, places, zeros + np.uint64(call), zeros), self._key)


def philox(counter: tuple[Words, Words, Words, Words], key: tuple[int, int]) -> tuple[Words, ...]:
    """Return the four words of Philox 4x64-10 for each counter, as ``numpy.random.Philox`` gives them."""
    first, second, third, fourth = counter
    low, high = key
    with np.errstate(over="ignore"):
        for _ in range(_ROUNDS):
            first_high, first_low = _product(_MULTIPLIERS[0], first)
            third_high, third_low = _product(_MULTIPLIERS[1], third)
            first, second = third_high ^ second ^ np.uint64(low), third_low
            third, fourth = first_high ^ fourth ^ np.uint64(high), first_low
            low, high = (low + _WEYL[0]) % 2**64, (high + _WEYL[1]) % 2**64
    return first, second, third, fourth


def _product(one: np.uint64, other: Words) -> tuple[Words, Words]:
    """The upper and the lower 64 bits of a product."""
    one_high, one_low, other_high, other_low = one >> _HALF, one & _LOW, other >> _HALF, other & _LOW
    low = one_low * other_low
    middle = one_high * other_low + (low >> _HALF)
    cross = one_low * other_high + (middle & _LOW)
    return one_high * other_high + (middle >> _HALF) + (cross >> _HALF), one * other


def _unit(words: Words) -> NDArray[np.float64]:
    """Numbers from 0 to before 1 with 53 bits."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _identities(columns: Sequence[Words]) -> Words:
    """One word for each event, from all that identifies it."""
    found = columns[0]
    for other in columns[1:]:
        zeros = np.zeros(len(found), np.uint64)
        found = philox((found, other, zeros, zeros), (0, 0))[0]
    return found


def _integers(column: Any, name: str) -> Words:
    values = np.asarray(ak.to_numpy(column))
    if values.dtype.kind not in "iub" or values.ndim != 1:
        raise OptionError(f"{name} has no integer for each event", hint="name branches that identify an event")
    return values.astype(np.int64).astype(np.uint64) if values.dtype.kind == "i" else values.astype(np.uint64)


def _words(digest: bytes) -> tuple[int, int]:
    return int.from_bytes(digest[:8]), int.from_bytes(digest[8:16])
