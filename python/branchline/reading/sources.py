"""Sources of a stream (entry ranges of trees in files), and records of the reads and their cost.

The compiled module creates the records from its counters. Times are wall seconds per thread, added up over threads, so
they may exceed elapsed time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeVar

from branchline import _core


class OpenTree(Protocol):
    """An open tree."""

    @property
    def core(self) -> _core.Tree:
        """The engine's handle."""
        ...


@dataclass(frozen=True)
class Source:
    """A range of entries of a tree in a file. ``tree`` None means the only tree, ``entry_stop`` None the tree's end.

    ``open_tree`` is an open Tree to reuse. By default, a stream over an open tree reports the reads of all streams over
    its file. With ``counts_apart``, it reports only its own reads; the first stream also reports the file's opening.
    """

    path: str
    tree: str | None = None
    entry_start: int = 0
    entry_stop: int | None = None
    open_tree: OpenTree | None = None
    counts_apart: bool = False


@dataclass(frozen=True)
class SkippedSource:
    """A skipped file, or the skipped end of a file. ``entries_lost`` is None if unknown."""

    path: str
    entries_lost: int | None
    error: str
    #: Index of the source in its stream.
    source_index: int = 0


@dataclass(frozen=True)
class Failure:
    """A source that a stream over Parquet files failed to read. Entries before ``chunk``, if given, were read."""

    source_index: int
    error: Exception
    chunk: Any = None


@dataclass(frozen=True)
class ReplicaReading:
    """Bytes read from one replica of a file, its number of failures, and the last failure."""

    path: str
    bytes_read: int
    failures: int
    error: str


@dataclass(frozen=True)
class FileReading:
    """Reads of one file.

    ``store`` is the storage element, ``identity`` differs between versions of the file (None if the storage has no
    such value), ``entries`` is the number of delivered entries, ``codec`` the codec of the last basket (None without
    baskets). ``bytes_asked`` counts the requested bytes, ``gap_bytes`` the bytes read between them, ``bytes_read`` the
    bytes transferred by the store, ``cached_bytes`` the bytes served from a local copy. ``replicas`` is empty for files
    with a single replica. ``late_reads`` counts branches read after their chunk was delivered.
    """

    source_index: int
    path: str
    store: str
    size_bytes: int
    identity: str | None
    remarks: list[str]
    replicas: list[ReplicaReading]
    entries: int
    codec: str | None
    bytes_asked: int
    gap_bytes: int
    bytes_read: int
    cached_bytes: int
    read_calls: int
    fetch_s: float
    open_s: float
    baskets: int
    compressed_bytes: int
    plain_bytes: int
    decompress_s: float
    decode_s: float
    late_reads: int


@dataclass(frozen=True)
class BranchReading:
    """Cost of decoding a branch over all files; ``codec`` is the codec of its last basket, None without baskets."""

    name: str
    codec: str | None = None
    baskets: int = 0
    compressed_bytes: int = 0
    plain_bytes: int = 0
    decompress_s: float = 0.0
    decode_s: float = 0.0


@dataclass(frozen=True)
class ReaderWait:
    """Seconds that the reader of a stream waited, split by what the decoders did meanwhile: waiting for data
    (``fetch_s``), decompressing, or decoding. The parts add up to ``whole_s``.
    """

    whole_s: float = 0.0
    fetch_s: float = 0.0
    decompress_s: float = 0.0
    decode_s: float = 0.0

    def plus(self, other: ReaderWait) -> ReaderWait:
        """Return the sum of both."""
        return ReaderWait(
            self.whole_s + other.whole_s,
            self.fetch_s + other.fetch_s,
            self.decompress_s + other.decompress_s,
            self.decode_s + other.decode_s,
        )


Counts = TypeVar("Counts", BranchReading, ReaderWait)


@dataclass(frozen=True)
class StreamRecords:
    """The records of a stream so far: files in source order, branches, reader wait, and number of decoding threads."""

    files: list[FileReading]
    branches: list[BranchReading]
    wait: ReaderWait
    threads: int

    def plus(self, later: StreamRecords) -> StreamRecords:
        """Combine with the records of a stream over other sources."""
        branches = {one.name: one for one in self.branches}
        for one in later.branches:
            branches[one.name] = _more(branches[one.name], one) if one.name in branches else one
        return replace(
            self, files=self.files + later.files, branches=list(branches.values()), wait=self.wait.plus(later.wait)
        )

    def since(self, earlier: StreamRecords, is_wanted: Callable[[FileReading], bool]) -> StreamRecords:
        """Return the wanted files, and the cost of branches and waiting since ``earlier``, which are earlier records of
        this stream.
        """
        before = {one.name: one for one in earlier.branches}
        branches = [_less(one, before.get(one.name, BranchReading(one.name))) for one in self.branches]
        return replace(
            self,
            files=[one for one in self.files if is_wanted(one)],
            branches=[one for one in branches if one.baskets],
            wait=_less(self.wait, earlier.wait),
        )


def _more(one: BranchReading, other: BranchReading) -> BranchReading:
    """Add two records of a branch; the codec is the codec of ``other``, if known."""
    numbers = [name.name for name in fields(one) if isinstance(getattr(one, name.name), int | float)]
    sums = {name: getattr(one, name) + getattr(other, name) for name in numbers}
    return replace(one, codec=other.codec or one.codec, **sums)


def _less(now: Counts, before: Counts) -> Counts:
    """Return the record ``now`` minus the numbers of the earlier record ``before``."""
    numbers = [one.name for one in fields(now) if isinstance(getattr(now, one.name), int | float)]
    return replace(now, **{name: getattr(now, name) - getattr(before, name) for name in numbers})


@contextmanager
def reading_for(wagon: str) -> Iterator[None]:
    """Attribute this thread's reads to a wagon in the active trace, if any."""
    if not _core.trace_is_on():
        yield
        return
    begin_s = time.perf_counter()
    _core.trace_wagon(wagon)
    try:
        yield
    finally:
        _core.trace_wagon("")
        _core.trace_did("wagon", wagon, time.perf_counter() - begin_s)
