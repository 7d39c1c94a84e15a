"""Trees and streams that stay open from one sub-job of a worker to the next.

A worker often gets several parts of a file in turn: `KeptTree` keeps its tree open. `StreamPart` is one of several
sub-jobs that one stream reads, so that files far away are requested early, across the borders of sub-jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.sources import ReaderWait, SkippedFile, StreamRecords
from branchline.reading.trees.stream import Chunk, ChunkStream
from branchline.reading.trees.tree import Tree
from branchline.trains.subjobs.shares import Share, open_tree


class KeptTree:
    """The tree of the last part of a file. Streams over it count their own reads, the first also its opening."""

    def __init__(self) -> None:
        self._tree: Tree | None = None
        self._opened_for: tuple[DataFile, Access, int, dict[str, str]] | None = None

    def open(self, share: Share, access: Access, identities: dict[str, str]) -> tuple[Tree, bool]:
        """The tree of the share's file, and whether it was opened now: not if the last one was of the same file, with
        the same ``identities``, read in the same way. Raises what opening raises.
        """
        wanted = (share.files[0], access, share.replicas_skipped, identities)
        if self._tree is not None and wanted == self._opened_for:
            return self._tree, False
        # Not both at once: each may hold a copy of its file on a local disk.
        self.forget()
        self._tree, self._opened_for = open_tree(share.files[0], access), wanted
        return self._tree, True

    def forget(self) -> None:
        """Lets go of the tree: it is opened again, from another replica if there is one."""
        self._tree = self._opened_for = None


class StreamPart:
    """The sources of one sub-job in a stream that goes on with those of others: its chunks, records and skipped files
    are as those of a stream of its own. Parts are used in their order, each is closed before the next, and with the
    last one the stream.
    """

    def __init__(self, shared: _SharedStream, first: int, stops: Sequence[int | None], *, is_last: bool) -> None:
        self._shared = shared
        self._first = first
        self._stops = stops
        self._is_last = is_last
        self._is_over = False
        self._read: StreamRecords | None = None

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        while not self._is_over:
            chunk = self._shared.pull()
            if chunk is None or chunk.source_index >= self._first + len(self._stops):
                self._shared.waiting, self._is_over = chunk, True
            elif chunk.source_index >= self._first:
                chunk.source_index -= self._first
                self._is_over = is_last(chunk, self._stops)
                return chunk
        raise StopIteration

    @property
    def skipped(self) -> list[SkippedFile]:
        """Its files that were left out."""
        return [one for one in self._shared.stream.skipped if self._holds(one.source_index)]

    def records(self) -> StreamRecords:
        """What was read of its files so far, and what it cost since the part before was closed."""
        return self._since_the_last_part(self._shared.stream.records()) if self._read is None else self._read

    def close(self) -> None:
        """What is read from here on is another part's."""
        if self._read is None:
            if self._is_last:
                self._shared.stream.close()
            read = self._shared.stream.records()
            self._read = self._since_the_last_part(read)
            self._shared.recorded = read

    def _holds(self, source_index: int) -> bool:
        return 0 <= source_index - self._first < len(self._stops)

    def _since_the_last_part(self, read: StreamRecords) -> StreamRecords:
        return read.since(self._shared.recorded, lambda file: self._holds(file.source_index))


class _SharedStream:
    """A stream, its chunk that belongs to the next part, and what it had recorded when the last part was closed."""

    def __init__(self, stream: ChunkStream) -> None:
        self.stream = stream
        self.waiting: Chunk | None = None
        self.recorded = StreamRecords([], [], ReaderWait(), 0)

    def pull(self) -> Chunk | None:
        chunk, self.waiting = self.waiting, None
        return next(self.stream, None) if chunk is None else chunk


def parts_of(stream: ChunkStream, stops: Sequence[Sequence[int | None]]) -> list[StreamPart]:
    """The parts of a stream: for each the entries at which its sources stop, None for their ends."""
    shared = _SharedStream(stream)
    firsts = [sum(len(one) for one in stops[:number]) for number in range(len(stops))]
    return [StreamPart(shared, first, own, is_last=own is stops[-1]) for first, own in zip(firsts, stops, strict=True)]


def is_last(chunk: Chunk, stops: Sequence[int | None]) -> bool:
    """Whether nothing comes behind a chunk of sources that stop at these entries."""
    if chunk.source_index != len(stops) - 1:
        return False
    stop = stops[-1]
    return bool(chunk.entry_stop >= (chunk.tree_entries if stop is None else min(stop, chunk.tree_entries)))
