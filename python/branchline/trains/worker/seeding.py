"""Seeds of the global random generators: a wagon draws the same numbers wherever and beside whatever it runs."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy.random


@contextmanager
def seeded(seed: int, wagon: str, path: str, tree: str, entry_start: int) -> Iterator[None]:
    """Seed ``random`` and ``numpy.random`` for a wagon on a chunk; behind the block they go on as before."""
    digest = hashlib.sha256(repr((seed, wagon, path, tree, entry_start)).encode(errors="surrogatepass")).digest()
    state, numpy_state = random.getstate(), numpy.random.get_state()  # noqa: NPY002
    random.seed(int.from_bytes(digest))
    numpy.random.seed(int.from_bytes(digest[:4]))  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(state)
        numpy.random.set_state(numpy_state)  # noqa: NPY002
