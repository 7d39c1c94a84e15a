"""Ranges of bytes, as they are given to storage: by the compiled module, by libraries, and by replayed traces."""

from __future__ import annotations

from typing import NamedTuple


class ByteRange(NamedTuple):
    """A range of a file: ``length`` bytes from ``offset`` on."""

    offset: int
    length: int
