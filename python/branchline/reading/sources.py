"""The sources of a stream: ranges of entries of trees in files, what was read of them, and what it cost.

The compiled module makes the records from its counters. Times are wall seconds of one thread each: several threads
together may spend more than the clock shows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeVar

from branchline import _core


class OpenTree(Protocol):
    """A tree that is open already."""

    @property
    def core(self) -> _core.Tree:
        """The engine's handle."""
        ...


@dataclass(frozen=True)
class Source:
    """A range of entries of a tree in a file; ``tree`` None is the only tree, ``entry_stop`` None its end.

    ``open_tree`` is a Tree that is open already and need not be opened again. Its file counts what all streams over it
    read, and each says all of that; those that ``counts_apart`` say what they read alone, the first also the opening.
    """

    path: str
    tree: str | None = None
    entry_start: int = 0
    entry_stop: int | None = None
    open_tree: OpenTree | None = None
    counts_apart: bool = False


@dataclass(frozen=True)
class SkippedFile:
    """A file that was left out, or out from some entry on. ``entries_lost`` is None if it cannot be known."""

    path: str
    entries_lost: int | None
    error: str
    #: Which of the sources of its stream it was.
    source_index: int = 0


@dataclass(frozen=True)
class Failure:
    """A source that a stream over Parquet files could not read, or not from ``chunk`` on."""

    source_index: int
    error: Exception
    chunk: Any = None


@dataclass(frozen=True)
class ReplicaReading:
    """What was read of one replica of a file: its bytes, how often it failed, and the last failure."""

    path: str
    bytes_read: int
    failures: int
    error: str


@dataclass(frozen=True)
class FileReading:
    """What was read of a file.

    ``source_index`` is its source, ``store`` the storage element, ``identity`` differs between versions of the file
    (None where the storage has none), ``entries`` are those that were delivered and
    ``codec`` is that of its last basket, None where there was none. ``bytes_asked`` are the bytes that were wanted,
    ``gap_bytes`` those between them that were read along, ``bytes_read`` what the store moved, ``cached_bytes`` what
    came from a copy on this machine. ``replicas`` are those of a file that has several.
    ``late_reads`` are branches that were read after their chunk was delivered.
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
    """What decoding a branch took, over all files; ``codec`` is that of its last basket, None where there was none."""

    name: str
    codec: str | None = None
    baskets: int = 0
    compressed_bytes: int = 0
    plain_bytes: int = 0
    decompress_s: float = 0.0
    decode_s: float = 0.0


@dataclass(frozen=True)
class ReaderWait:
    """Seconds for which the reader of a stream waited: all, and its parts by what the decoders did meanwhile. They had
    no data (``fetch_s``), or decompressed, or decoded. The parts add up to ``whole_s``.
    """

    whole_s: float = 0.0
    fetch_s: float = 0.0
    decompress_s: float = 0.0
    decode_s: float = 0.0

    def plus(self, other: ReaderWait) -> ReaderWait:
        """The sums of both."""
        sums = {one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)}
        return ReaderWait(**sums)


Counts = TypeVar("Counts", BranchReading, ReaderWait)


@dataclass(frozen=True)
class StreamRecords:
    """All that a stream has recorded so far: its files in the order of the sources, its branches, the wait of its
    reader, and the number of its decoding threads.
    """

    files: list[FileReading]
    branches: list[BranchReading]
    wait: ReaderWait
    threads: int

    def plus(self, later: StreamRecords) -> StreamRecords:
        """These together with those of a stream over other sources."""
        branches = {one.name: one for one in self.branches}
        for one in later.branches:
            branches[one.name] = _more(branches[one.name], one) if one.name in branches else one
        return replace(
            self, files=self.files + later.files, branches=list(branches.values()), wait=self.wait.plus(later.wait)
        )

    def since(self, earlier: StreamRecords, is_wanted: Callable[[FileReading], bool]) -> StreamRecords:
        """The wanted files, and what was spent on branches and on waiting since an earlier record of the stream."""
        before = {one.name: one for one in earlier.branches}
        branches = [_less(one, before.get(one.name, BranchReading(one.name))) for one in self.branches]
        return replace(
            self,
            files=[one for one in self.files if is_wanted(one)],
            branches=[one for one in branches if one.baskets],
            wait=_less(self.wait, earlier.wait),
        )


def _more(one: BranchReading, other: BranchReading) -> BranchReading:
    """Both together, with the codec of the later one."""
    numbers = [name.name for name in fields(one) if isinstance(getattr(one, name.name), int | float)]
    sums = {name: getattr(one, name) + getattr(other, name) for name in numbers}
    return replace(one, codec=other.codec or one.codec, **sums)


def _less(now: Counts, before: Counts) -> Counts:
    """The numbers of a record without those that were in it before."""
    numbers = [one.name for one in fields(now) if isinstance(getattr(now, one.name), int | float)]
    return replace(now, **{name: getattr(now, name) - getattr(before, name) for name in numbers})


@contextmanager
def reading_for(wagon: str) -> Iterator[None]:
    """While inside, the trace, if there is one, attributes what this thread reads to a wagon, which runs inside."""
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
