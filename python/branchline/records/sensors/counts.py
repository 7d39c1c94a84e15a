"""Counters of reading that records of files, branches, storage elements and jobs have in common, and their sums."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(kw_only=True)
class RequestCounts:
    """What was read from storage; ``fetch_s`` is thread time inside its read calls."""

    bytes_read: int = 0
    cached_bytes: int = 0
    read_calls: int = 0
    fetch_s: float = 0.0

    def add_requests(self, other: RequestCounts) -> None:
        """Adds what else was read."""
        self.bytes_read += other.bytes_read
        self.cached_bytes += other.cached_bytes
        self.read_calls += other.read_calls
        self.fetch_s += other.fetch_s


@dataclass(kw_only=True)
class BasketCounts:
    """What baskets took: sizes before and after decompression, and thread times."""

    baskets: int = 0
    compressed_bytes: int = 0
    plain_bytes: int = 0
    decompress_s: float = 0.0
    decode_s: float = 0.0

    def add_baskets(self, other: BasketCounts) -> None:
        """Adds what other baskets took."""
        self.baskets += other.baskets
        self.compressed_bytes += other.compressed_bytes
        self.plain_bytes += other.plain_bytes
        self.decompress_s += other.decompress_s
        self.decode_s += other.decode_s


@dataclass(kw_only=True)
class ReadCounts(RequestCounts, BasketCounts):
    """What reading took, from requests to arrays. ``bytes_asked`` are those that were wanted of ``bytes_read``."""

    bytes_asked: int = 0

    def add(self, other: ReadCounts) -> None:
        """Adds what reading something else took."""
        self.bytes_asked += other.bytes_asked
        self.add_requests(other)
        self.add_baskets(other)
