"""Streams of chunks from Parquet files, in order: a thread fetches and decodes the next chunk while one is in use."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from branchline.base.limits import PARQUET_CHUNK_PART, PARQUET_PIECE_BYTES, PARQUET_TEXTS_MAX, PARQUET_TEXTS_MIN
from branchline.base.quantities import size
from branchline.errors import BadFileError, BranchlineError, MemoryLimitError, NoSuchKeyError, UnsupportedBranchError
from branchline.reading.arrays.layouts import LaidColumn
from branchline.reading.parquet.parquet_columns import Column, packs_texts, plain_bytes_of, plain_table, range_of
from branchline.reading.parquet.parquet_file import DAMAGE, ParquetFile, ParquetTree, naming
from branchline.reading.parquet.parquet_ranges import DecodedCounts, RangeReadCounts, StoredBytes
from branchline.reading.request import StreamRequest, check_entries
from branchline.reading.sources import BranchReading, Failure, FileReading, ReaderWait, Source, StreamRecords


@dataclass
class _OpenSource:
    """A source that is being read, by one thread at a time, with its counters."""

    index: int
    tree: ParquetTree
    entries: int = 0
    stop: int = 0
    step: int = 1
    late_reads: int = 0
    #: For each branch that was read late: the next entry, and an iterator over the tables from this entry on.
    late: dict[str, tuple[int, Iterator[Any]]] = field(default_factory=dict)
    #: Seconds of fetching and decoding that earlier streams of the same file took.
    before_s: tuple[float, float] = (0.0, 0.0)

    @property
    def counts(self) -> RangeReadCounts:
        """Totals of reading from the open file by all streams."""
        return self.tree.file.counts

    @property
    def decoded(self) -> DecodedCounts:
        """Totals of decoding the open file by all streams."""
        return self.tree.file.decoded


class ParquetChunk:
    """A range of entries, with the interface of `branchline._core.Chunk`."""

    recovered_count = 0

    def __init__(
        self, stream: ParquetStream, source: _OpenSource, entry_start: int, columns: dict[str, LaidColumn], count: int
    ) -> None:
        self._stream, self._source, self._columns = stream, source, columns
        self._names = list(columns)
        self.source_index = source.index
        self.path = source.tree.file.path
        self.tree_path = source.tree.path
        self.tree_entries = source.tree.entries_count
        self.entry_start, self.entry_stop = entry_start, entry_start + count

    def branches(self) -> list[str]:
        """The paths of the branches that were read."""
        return self._names

    def tree(self) -> ParquetTree:
        """The tree of the chunk."""
        return self._source.tree

    def take_columns(self) -> list[LaidColumn]:
        """The columns, in the order of ``branches``. Can be called only once."""
        taken, self._columns = list(self._columns.values()), {}
        return taken

    def read_late(self, name: str) -> LaidColumn:
        """Read another branch for the entries of this chunk."""
        source = self._source
        column = source.tree.column_of(name)
        source.late_reads += 1
        entry, tables = source.late.pop(column.path, (-1, iter(())))
        is_whole_step = len(self) == source.step
        if entry != self.entry_start or not is_whole_step:
            stop = source.stop if is_whole_step else self.entry_stop
            tables = self._stream.tables(source, [column], self.entry_start, stop)
        table = next(tables)
        if is_whole_step:
            source.late[column.path] = (self.entry_stop, tables)
        return self._stream.column(source, column, table)

    def __len__(self) -> int:
        return self.entry_stop - self.entry_start


class ParquetStream:
    """Streams over Parquet files, with the interface of `branchline._core.Stream`."""

    def __init__(self, sources: Sequence[Source], request: StreamRequest) -> None:
        self._request = request
        self._sources = list(sources)
        self._open: list[_OpenSource] = []
        self._branches: dict[str, DecodedCounts] = {}
        self._wait = ReaderWait()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="branchline-parquet")
        self._chunks = self._all_chunks()
        self._next: Future[Any] | None = self._thread.submit(next, self._chunks, None)

    def next(self) -> ParquetChunk | Failure | None:
        """Return the next chunk, or a source that could not be read; None at the end."""
        if self._next is None:
            return None
        begin_s, spent = time.perf_counter(), self._spent_s()
        item: ParquetChunk | Failure | None = self._next.result()
        waited = time.perf_counter() - begin_s
        fetch, decode = (now - before for now, before in zip(self._spent_s(), spent, strict=True))
        part = waited / max(fetch + decode, 1e-9)
        self._wait = self._wait.plus(ReaderWait(waited, fetch_s=fetch * part, decode_s=decode * part))
        self._next = None if item is None else self._thread.submit(next, self._chunks, None)
        return item

    def _spent_s(self) -> tuple[float, float]:
        """Total seconds of fetching and of decoding."""
        fetch = sum(one.counts.fetch_s - one.before_s[0] for one in self._open)
        return fetch, sum(one.decoded.decode_s - one.before_s[1] for one in self._open)

    def close(self) -> None:
        """Stop prefetching, and wait for the current read to end."""
        pending, self._next = self._next, None
        if pending is not None and not pending.cancel():
            wait([pending])
        # The garbage collector may call this in a thread that is starting and holds a lock of `threading`, on which
        # joining a thread would deadlock.
        self._thread.shutdown(wait=False)

    def _all_chunks(self) -> Iterator[ParquetChunk | Failure]:
        for index, source in enumerate(self._sources):
            chunk = None
            try:
                for chunk in self._chunks_of(index, source):
                    yield chunk
            except BranchlineError as error:
                rest = None
                if chunk is not None:  # the entries after it are lost
                    rest = ParquetChunk(self, self._open[-1], chunk.entry_stop, {}, 0)
                yield Failure(index, error, rest)

    def _chunks_of(self, index: int, source: Source) -> Iterator[ParquetChunk]:
        core: Any = None if source.open_tree is None else source.open_tree.core
        if isinstance(core, ParquetTree):
            opened = _OpenSource(index, core.counted_apart() if source.counts_apart else core)
            opened.before_s = (opened.counts.fetch_s, opened.decoded.decode_s)
        else:
            file = ParquetFile(source.path, self._request.access)
            opened = _OpenSource(index, file.tree(source.tree))
        self._open.append(opened)
        tree = opened.tree
        columns = self._columns(tree)
        start, stop = check_entries(source.entry_start, source.entry_stop, tree.entries_count)
        opened.stop, opened.step = stop, self._step(tree, columns, stop - start)
        # A chunk may end early at the maximum size, unless the caller requested a number of entries.
        for table in self.tables(opened, columns, start, stop, ends_early=self._request.step.entries is None):
            made = {one.path: self.column(opened, one, table) for one in columns}
            count = len(table) if columns else min(opened.step, stop - start)
            yield ParquetChunk(self, opened, start, made, count)
            opened.entries += count
            start += count
            del table, made

    def _columns(self, tree: ParquetTree) -> list[Column]:
        """The branches to read. Raises NoSuchKeyError, UnsupportedBranchError."""
        if self._request.branches is None:
            return [one for one in tree.columns if one.parent is None and one.reason is None]
        found: dict[str, Column] = {}
        for name in self._request.branches:
            try:
                column = tree.column_of(name)
            except (NoSuchKeyError, UnsupportedBranchError):
                if name not in self._request.optional:
                    raise
                continue
            found[column.path] = column
        return list(found.values())

    def _step(self, tree: ParquetTree, columns: Sequence[Column], entries: int) -> int:
        """Number of entries per chunk. Raises MemoryLimitError if they exceed the memory limit."""
        # If the request names no branches, any branch may be read late.
        wanted = columns or [one for one in tree.columns if one.parent is None]
        per_entry = max(tree.bytes_per_entry([tree.find(one.path) for one in wanted]).plain, 1e-9)
        limit, step = self._limit_bytes, self._request.step
        wanted_entries = step.entries_in(entries)
        if wanted_entries is None:
            return max(1, min(entries, int(min(step.size_bytes, limit) / per_entry)))
        if columns and min(wanted_entries, entries) * per_entry > limit:
            raise self._too_large(tree, wanted_entries, wanted_entries * per_entry)
        return max(1, min(entries, wanted_entries))

    @property
    def _limit_bytes(self) -> float:
        """Maximum size of a chunk. Unlimited if the caller keeps all values, since small chunks save no memory then."""
        if self._request.keeps_values:
            return math.inf
        return self._request.memory_limit_bytes / self._request.memory_parts / PARQUET_CHUNK_PART

    def _too_large(self, tree: ParquetTree, entries: int, size_bytes: float) -> MemoryLimitError:
        limit = size(int(self._limit_bytes))
        hint = f"the memory limit allows {limit} per Parquet chunk; reduce step_size or increase memory_limit"
        return MemoryLimitError(
            f"chunks of {entries} entries take {size(int(size_bytes))}", path=tree.file.path, hint=hint
        )

    def tables(
        self, source: _OpenSource, columns: Sequence[Column], start: int, stop: int, *, ends_early: bool = False
    ) -> Iterator[Any]:
        """Yield tables of these branches with ``step`` entries each; the last one may be shorter. With ``ends_early``,
        a table that would exceed the maximum size of a chunk ends sooner. Otherwise, MemoryLimitError is raised.
        """
        if not columns:
            yield from (None for _ in range(start, stop, source.step))
            return
        pending: list[pa.Table] = []
        count = held_bytes = 0
        for piece in self._pieces(source, columns, start, stop):
            if pending and held_bytes + piece.nbytes > self._limit_bytes:
                if not ends_early:
                    raise self._too_large(source.tree, count + len(piece), held_bytes + piece.nbytes)
                yield pa.concat_tables(pending)
                pending, count, held_bytes = [], 0, 0
            pending.append(piece)
            count += len(piece)
            held_bytes += piece.nbytes
            while count >= source.step:
                whole = pa.concat_tables(pending)
                pending, count = [whole.slice(source.step)], count - source.step
                held_bytes = pending[0].nbytes
                yield whole.slice(0, source.step)
                del whole
        if count:
            yield pa.concat_tables(pending)

    def _pieces(self, source: _OpenSource, columns: Sequence[Column], start: int, stop: int) -> Iterator[pa.Table]:
        """Yield the decoded pieces within the range of entries, row group by row group."""
        starts = source.tree.group_starts
        stored = StoredBytes(source.tree.file.stored, source.counts)
        for group, (first, last) in enumerate(pairwise(starts)):
            if first >= stop or last <= start or first == last:
                continue
            entry = first
            for piece in self._group(source, columns, group, stored):
                begin, end = max(start - entry, 0), min(stop - entry, len(piece))
                entry += len(piece)
                if begin < end:
                    yield piece.slice(begin, end - begin)
                if entry >= stop:
                    break
            if entry < min(stop, last) or entry > last:
                what = f"row group {group} has {entry - first} entries, but the metadata state {last - first}"
                raise BadFileError(what, path=source.tree.file.path)
            stored.drop()

    def _group(
        self, source: _OpenSource, columns: Sequence[Column], group: int, stored: StoredBytes
    ) -> Iterator[pa.Table]:
        """Decode a row group. Its bytes are fetched together if they fit into memory, else piece by piece."""
        metadata = source.tree.metadata
        chunks = {leaf: metadata.row_group(group).column(leaf) for one in columns for leaf in one.leaves}
        for chunk in chunks.values():
            source.decoded.add(chunk)
        shares = {one: sum(self._of(one).add(chunks[leaf]) for leaf in one.leaves) for one in columns}
        try:
            ranges = [range_of(chunk) for chunk in chunks.values()]
        except BadFileError as error:
            error.path = source.tree.file.path
            raise
        limit = self._request.memory_limit_bytes / self._request.memory_parts / PARQUET_CHUNK_PART
        if sum(length for _, length in ranges) <= limit:
            stored.hold(ranges)
        entries = self._piece_entries(source, group, list(chunks.values()))
        try:
            batches = self._batches(source, columns, group, stored, entries)
            while (piece := self._decoded(source, batches, shares)) is not None:
                yield piece
        except DAMAGE as error:
            if isinstance(error, BranchlineError):
                raise
            raise self._damaged(source, columns, group, stored, error) from None

    def _piece_entries(self, source: _OpenSource, group: int, chunks: Sequence[Any]) -> int:
        """Number of entries of a row group to decode at a time, so that the decoded values are not much larger than a
        chunk.
        """
        count = max(1, source.tree.metadata.row_group(group).num_rows)
        limit = self._request.memory_limit_bytes / self._request.memory_parts / PARQUET_CHUNK_PART
        entries = min(source.step, limit / max(sum(map(plain_bytes_of, chunks)) / count, 1e-9))
        for chunk in filter(packs_texts, chunks):
            # All entries may refer to one string in a dictionary, and this string may be as large as the column chunk.
            surely = limit / max(1, chunk.total_uncompressed_size)
            entries = min(entries, max(surely, PARQUET_TEXTS_MIN), PARQUET_TEXTS_MAX)
        return max(1, int(entries))

    def _batches(
        self, source: _OpenSource, columns: Sequence[Column], group: int, stored: StoredBytes, entries: int
    ) -> Iterator[object]:
        metadata = source.tree.metadata
        parquet = pq.ParquetFile(
            pa.PythonFile(stored, mode="r"),
            metadata=metadata,
            buffer_size=0 if stored.is_holding else PARQUET_PIECE_BYTES,
            pre_buffer=False,
            page_checksum_verification=True,
        )
        names = [metadata.schema.column(leaf).path for one in columns for leaf in one.leaves]
        batches: Iterator[Any] = parquet.iter_batches(
            entries, row_groups=[group], columns=names, use_threads=self._request.threads > 1
        )
        return batches

    def _damaged(
        self, source: _OpenSource, columns: Sequence[Column], group: int, stored: StoredBytes, error: Exception
    ) -> BadFileError:
        """The error for a row group that pyarrow cannot decode. Decodes each branch separately to find the damaged
        one.
        """
        reason, found = error, [one.path for one in columns]
        for column in columns if len(columns) > 1 else ():
            try:
                for _ in self._batches(source, [column], group, stored, PARQUET_TEXTS_MIN):
                    pass
            except DAMAGE as alone:
                if isinstance(alone, BranchlineError):
                    break
                reason, found = alone, [column.path]
                break
        first, last = source.tree.group_starts[group : group + 2]
        text = next(iter(str(reason).strip().splitlines()), type(reason).__name__)
        what = f"row group {group} of branch {', '.join(found)}, entries {first} to {last}, cannot be decoded: {text}"
        hint = "read other branches, or limit the entries with entry_start and entry_stop"
        return BadFileError(what, path=source.tree.file.path, hint=hint)

    def _decoded(self, source: _OpenSource, batches: Iterator[object], shares: dict[Column, int]) -> pa.Table | None:
        """Decode the next piece. Its columns are decoded together, so each column gets a share of the time in
        proportion to its bytes.
        """
        begin_s, fetched_s = time.perf_counter(), source.counts.fetch_s
        batch = next(batches, None)
        took = max(0.0, time.perf_counter() - begin_s - (source.counts.fetch_s - fetched_s))
        source.decoded.decode_s += took
        total = sum(shares.values()) or 1
        for column, plain_bytes in shares.items():
            self._of(column).decode_s += took * plain_bytes / total
        return None if batch is None else plain_table(batch)

    def _of(self, column: Column) -> DecodedCounts:
        return self._branches.setdefault(column.path, DecodedCounts())

    def column(self, source: _OpenSource, column: Column, table: Any) -> LaidColumn:
        """Extract a branch from a table."""
        begin_s = time.perf_counter()
        with naming(source.tree.file.path, f"branch {column.path} cannot be converted to an array"):
            laid = LaidColumn(source.tree.layout(column, table.column(source.tree.file.schema.field(column.top).name)))
        took = time.perf_counter() - begin_s
        source.decoded.decode_s += took
        self._of(column).decode_s += took
        return laid

    def records(self) -> StreamRecords:
        """Records of the data read until now, and of the cost."""
        branches = [
            BranchReading(name, one.codec, one.baskets, one.compressed_bytes, one.plain_bytes, 0.0, one.decode_s)
            for name, one in list(self._branches.items())
        ]
        return StreamRecords(list(map(_reading_of, self._open)), branches, self._wait, self._request.threads)


def _reading_of(source: _OpenSource) -> FileReading:
    file, counts, decoded = source.tree.file, source.counts, source.decoded
    return FileReading(
        source_index=source.index,
        path=file.path,
        store=file.store,
        size_bytes=file.size_bytes,
        identity=file.stored.identity,
        remarks=list(file.stored.remarks),
        replicas=[],
        entries=source.entries,
        codec=decoded.codec,
        bytes_asked=counts.bytes_asked,
        gap_bytes=max(0, counts.bytes_read - counts.bytes_asked),
        bytes_read=counts.bytes_read,
        cached_bytes=0,
        read_calls=counts.read_calls,
        fetch_s=counts.fetch_s,
        open_s=counts.open_s,
        baskets=decoded.baskets,
        compressed_bytes=decoded.compressed_bytes,
        plain_bytes=decoded.plain_bytes,
        decompress_s=0.0,
        decode_s=decoded.decode_s,
        late_reads=source.late_reads,
    )
