"""A file object for pyarrow, which serves reads from ranges that were fetched in advance, or from the store."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from branchline import _core
from branchline.reading.access import ByteRange
from branchline.reading.parquet.parquet_columns import codec_of, plain_bytes_of


@dataclass
class RangeReadCounts:
    """Totals of reading from a file. Times are in seconds, summed over threads."""

    bytes_asked: int = 0
    bytes_read: int = 0
    read_calls: int = 0
    fetch_s: float = 0.0
    open_s: float = 0.0
    reading: threading.Lock = field(default_factory=threading.Lock, repr=False)


@dataclass
class DecodedCounts:
    """Totals of decoding a file or a branch."""

    baskets: int = 0
    compressed_bytes: int = 0
    plain_bytes: int = 0
    decode_s: float = 0.0
    codec: str | None = None

    def add(self, chunk: Any) -> int:
        """Count a column chunk; return its decoded size in bytes."""
        plain = plain_bytes_of(chunk)
        self.baskets += 1
        self.compressed_bytes += chunk.total_compressed_size
        self.plain_bytes += plain
        self.codec = codec_of(chunk)
        return plain


class StoredBytes(io.RawIOBase):
    """A file object for pyarrow, which reads from the engine's store and counts the reads."""

    def __init__(self, store: _core.Store, counts: RangeReadCounts) -> None:
        super().__init__()
        self.store = store
        self.counts = counts
        self._held: list[tuple[int, memoryview]] = []
        self._position = 0

    def hold(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Fetch ranges together; they replace the ranges held before. Raises BadFileError, StorageError."""
        self._held = []
        wanted = [ByteRange(offset, size) for offset, size in sorted(set(ranges)) if size]
        contents = self._fetch(wanted)
        self._held = [(one.offset, content) for one, content in zip(wanted, contents, strict=True)]

    @property
    def is_holding(self) -> bool:
        """Whether any ranges are held."""
        return bool(self._held)

    def drop(self) -> None:
        """Free the held ranges."""
        self._held = []

    def _fetch(self, wanted: list[ByteRange]) -> list[memoryview]:
        if not wanted:
            return []
        begin_s = time.perf_counter()
        read = self.store.read(wanted)
        took = time.perf_counter() - begin_s
        counts = self.counts
        with counts.reading:
            counts.fetch_s += took
            counts.bytes_asked += sum(one.length for one in wanted)
            counts.bytes_read += read.bytes_read
            counts.read_calls += read.read_calls
        return read.contents

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The current offset."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Change the current offset."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.store.size_bytes}[whence]
        self._position = max(0, start + offset)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Read the next bytes, from held ranges or from the store. Raises StorageError."""
        left = max(0, self.store.size_bytes - self._position)
        length = left if size is None or size < 0 else min(size, left)
        start, self._position = self._position, self._position + length
        for offset, content in self._held:
            if offset <= start and start + length <= offset + len(content):
                return bytes(content[start - offset : start - offset + length])
        return bytes(self._fetch([ByteRange(start, length)])[0]) if length else b""
