"""Trees and streams that stay open between sub-jobs of a worker.

A worker often runs several parts of a file in a row, so `KeptTree` keeps the file's tree open. Several sub-jobs share a
stream, so that remote files are requested early; `StreamPart` is the part of the stream that belongs to one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.sources import ReaderWait, SkippedSource, StreamRecords
from branchline.reading.trees.stream import Chunk, ChunkStream
from branchline.reading.trees.tree import Tree
from branchline.trains.subjobs.shares import Share, open_tree


class KeptTree:
    """Keeps the tree of the last opened file open. Each stream over the tree counts its own reads; the first stream
    also counts the reads for opening the tree.
    """

    def __init__(self) -> None:
        self._tree: Tree | None = None
        self._opened_for: tuple[DataFile, Access, int, dict[str, str]] | None = None

    def open(self, share: Share, access: Access, identities: dict[str, str]) -> tuple[Tree, bool]:
        """Return the tree of the share's file, and whether the tree was newly opened.

        The last tree is reused if it belongs to the same file, with the same ``identities`` and access. Raises errors
        from opening the tree.
        """
        wanted = (share.files[0], access, share.replicas_skipped, identities)
        if self._tree is not None and wanted == self._opened_for:
            return self._tree, False
        # Release the previous tree before opening the next one: each tree may hold a copy of its file on a local disk.
        self.forget()
        self._tree, self._opened_for = open_tree(share.files[0], access), wanted
        return self._tree, True

    def forget(self) -> None:
        """Drop the tree. When it is needed again, it is reopened, from another replica if one exists."""
        self._tree = self._opened_for = None


class StreamPart:
    """The sources of one sub-job in a stream that is shared with other sub-jobs.

    Chunks, records and skipped files are the same as if the sub-job had its own stream. Parts must be used in order,
    and each part must be closed before the next one is used. Closing the last part closes the stream.
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
    def skipped(self) -> list[SkippedSource]:
        """The skipped files of this part."""
        return [one for one in self._shared.stream.skipped if self._holds(one.source_index)]

    def records(self) -> StreamRecords:
        """Return the read records of this part's files. Costs that belong to no file are counted from the end of the
        previous part.
        """
        return self._since_the_last_part(self._shared.stream.records()) if self._read is None else self._read

    def close(self) -> None:
        """End this part. Later reads belong to the next part."""
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
    """A stream, a chunk that was pulled but belongs to the next part, and the stream's records when the previous part
    was closed.
    """

    def __init__(self, stream: ChunkStream) -> None:
        self.stream = stream
        self.waiting: Chunk | None = None
        self.recorded = StreamRecords([], [], ReaderWait(), 0)

    def pull(self) -> Chunk | None:
        chunk, self.waiting = self.waiting, None
        return next(self.stream, None) if chunk is None else chunk


def parts_of(stream: ChunkStream, stops: Sequence[Sequence[int | None]]) -> list[StreamPart]:
    """Split a stream into parts. ``stops`` has, for each part, the stop entries of the part's sources; None means the
    end of a source.
    """
    shared = _SharedStream(stream)
    firsts = [sum(len(one) for one in stops[:number]) for number in range(len(stops))]
    return [StreamPart(shared, first, own, is_last=own is stops[-1]) for first, own in zip(firsts, stops, strict=True)]


def is_last(chunk: Chunk, stops: Sequence[int | None]) -> bool:
    """Return whether a chunk is the last chunk of sources with these stop entries."""
    if chunk.source_index != len(stops) - 1:
        return False
    stop = stops[-1]
    return bool(chunk.entry_stop >= (chunk.tree_entries if stop is None else min(stop, chunk.tree_entries)))
