"""An open Parquet file and its only tree, with the interface of the engine's files and trees."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from branchline import _core
from branchline.errors import BadFileError, BranchlineError, NoSuchKeyError, UnsupportedBranchError
from branchline.reading.access import Access, access_of
from branchline.reading.arrays.layouts import LaidColumn
from branchline.reading.parquet.parquet_columns import (
    Column,
    codec_of,
    columns_of,
    has_no_missing,
    layout_of_arrow,
    member_of,
    plain_bytes_of,
    plain_schema,
    range_of,
    root_setting,
    trimmed,
)
from branchline.reading.parquet.parquet_ranges import DecodedCounts, RangeReadCounts, StoredBytes

#: Name of the tree if the file's metadata contain no name.
USUAL_NAME = "Events"
CLASS = "Parquet"
#: Exceptions that pyarrow raises for damaged data.
DAMAGE = (pa.ArrowException, OSError, UnicodeError, OverflowError)


@contextmanager
def naming(path: str, what: str = "not a readable Parquet file") -> Iterator[None]:
    """Convert pyarrow's errors about damaged data to BadFileError with the path. Other errors of Branchline pass
    through.
    """
    try:
        yield
    except BranchlineError:
        raise
    except DAMAGE as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise BadFileError(f"{what}: {reason[0]}", path=path) from None


@dataclass(frozen=True)
class ParquetKey:
    """The key of the tree, with the interface of `branchline._core.Key`."""

    path: str
    title: str
    cycle: int = 1
    class_name: str = CLASS
    is_tree: bool = True


@dataclass(frozen=True)
class Row:
    """A branch in the hierarchy, with the interface of `branchline._core.OutlineRow`."""

    name: str
    parent: int | None
    kind: Literal["data", "group", "unreadable"]
    counter: int | None = None


@dataclass(frozen=True)
class Facts:
    """The metadata of a branch, with the interface of `branchline._core.BranchFacts`."""

    path: str
    name: str
    kind: str
    reason: str | None
    typename: str
    is_part: bool
    entries_count: int
    baskets_count: int
    compressed_bytes: int
    plain_bytes: int
    compress: int
    title: str = ""
    class_name: str = ""
    container_class: str = ""


@dataclass(frozen=True)
class PlacedChunks:
    """The locations of column chunks, with the interface of `branchline._core.Extents`."""

    branch: np.ndarray
    offset: np.ndarray
    size: np.ndarray
    entry_start: np.ndarray
    entry_stop: np.ndarray


@dataclass(frozen=True)
class PerEntry:
    """Bytes per entry, with the interface of `branchline._core.BytesPerEntry`."""

    stored: float
    plain: float


class ParquetFile:
    """An open Parquet file; opening it only reads the footer. Raises BadFileError, MissingFileError, StorageError."""

    recovered_count = 0
    root_version = 0

    def __init__(self, path: str, access: Access | None = None) -> None:
        self.opened = path
        self.access = access_of(access)
        begin_s = time.perf_counter()
        self.stored = store = _core.Store(path, self.access)
        self.path, self.store, self.size_bytes = store.path, store.name, store.size_bytes
        #: Totals of reading and decoding since the file was opened, shared by all streams as in the engine.
        self.counts, self.decoded = RangeReadCounts(), DecodedCounts()
        with naming(self.path):
            self.metadata = pq.read_metadata(pa.PythonFile(StoredBytes(store, self.counts), mode="r"))
            self.schema = plain_schema(self.metadata.schema.to_arrow_schema())
        counts = [self.metadata.row_group(group).num_rows for group in range(self.metadata.num_row_groups)]
        if min(counts, default=0) < 0 or sum(counts) != self.metadata.num_rows:
            what = f"its row groups have {sum(counts)} entries, but its metadata state {self.metadata.num_rows}"
            raise BadFileError(what, path=self.path)
        self.uuid = blake2b(f"{store.path} {store.identity}".encode(), digest_size=16).digest()
        self.compress = 0
        texts = self.schema.metadata or {}
        self._name: str | None = texts.get(b"name", b"").decode(errors="replace") or None
        self._title: str = texts.get(b"title", b"").decode(errors="replace")
        self.counts.open_s = time.perf_counter() - begin_s

    def _key(self, name: str | None = None) -> ParquetKey:
        return ParquetKey(self._name or name or USUAL_NAME, self._title)

    def keys_below(self, path: str) -> list[ParquetKey]:
        """The keys of a directory and its subdirectories. Same as `keys_in`, because there are no subdirectories."""
        return self.keys_in(path)

    def keys_in(self, path: str) -> list[ParquetKey]:
        """The key of the tree, which is in the root directory."""
        return [] if path else [self._key()]

    def find(self, path: str) -> list[ParquetKey]:
        """The key of the tree, if ``path`` is the name of the tree. A tree without a stored name matches every name."""
        if self._name is None and path and not set(path) & set("/;:"):
            return [self._key(path)]
        return [self._key()] if path == self._name else []

    def object(self, path: str) -> Any:
        """Raise UnsupportedBranchError: a Parquet file only contains a tree."""
        raise UnsupportedBranchError(f"a Parquet file only contains a tree, and no object {path!r}", path=self.path)

    def tree_members(self, path: str) -> Any:
        """Raise UnsupportedBranchError: a Parquet table has no TTree whose members could be read."""
        raise UnsupportedBranchError(f"{path} is a Parquet table, which has no members of a TTree", path=self.path)

    def lineage(self, class_name: str) -> list[str]:
        """The class itself; it has no base classes."""
        return [class_name]

    def tree(self, path: str | None = None) -> ParquetTree:
        """Return the tree. If the file stores no name of the tree, the tree gets the name ``path``.

        Raises NoSuchKeyError if the file stores a different name.
        """
        name = (path or "").partition(";")[0]
        if name and self._name is not None and name != self._name:
            raise NoSuchKeyError(f"no tree {name!r}: the table is named {self._name!r}", path=self.path)
        return ParquetTree(self, self._key(name or None))


class ParquetTree:
    """The table of a Parquet file as a tree whose clusters are the row groups. Entries are numbered from 0."""

    separator = "."
    nests = True
    has_relatives = False

    def __init__(self, file: ParquetFile, key: ParquetKey) -> None:
        self.file = file
        self.path, self.title = key.path, key.title
        self.metadata = file.metadata
        self.entries_count: int = file.metadata.num_rows
        self.columns: list[Column] = columns_of(file.schema)
        self._index = {column.path: index for index, column in enumerate(self.columns)}
        self._whole: dict[range, bool] = {}
        self._is_counted = False

    def counted_apart(self) -> ParquetTree:
        """Return this tree with its own counters, for one of several streams. The first call returns the tree itself,
        whose counters include the opening of the file.
        """
        if not self._is_counted:
            self._is_counted = True
            return self
        tree = copy(self)
        tree.file = copy(self.file)
        tree.file.counts, tree.file.decoded = RangeReadCounts(), DecodedCounts()
        return tree

    @cached_property
    def group_starts(self) -> list[int]:
        """The first entry of each row group, followed by the number of entries."""
        counts = [self.metadata.row_group(group).num_rows for group in range(self.metadata.num_row_groups)]
        return [0, *np.cumsum(counts, dtype="i8").tolist()]

    def paths(self) -> list[str]:
        """The paths of all branches."""
        return list(self._index)

    def outline(self) -> list[Row]:
        """The hierarchy of the branches."""
        return [Row(column.name, column.parent, column.kind) for column in self.columns]

    def readable(self) -> list[str]:
        """The paths of the readable branches."""
        return [column.path for column in self.columns if column.reason is None]

    def find(self, name: str) -> int:
        """The index of the branch whose path is ``name``, or of the only branch whose path ends with ``name``. Raises
        NoSuchKeyError.
        """
        path = name.replace("/", self.separator)
        for one in (name, path):
            if one in self._index:
                return self._index[one]
        ends = [index for one, index in self._index.items() if one.endswith(f".{path}")]
        if len(ends) == 1:
            return ends[0]
        if ends:
            hint = f"choose from {', '.join(self.columns[index].path for index in ends)}"
            raise NoSuchKeyError(f"branch name {name!r} is ambiguous", path=self.file.path, hint=hint)
        raise NoSuchKeyError(f"tree {self.path} has no branch {name!r}", path=self.file.path)

    def check_readable(self, name: str) -> None:
        """Raise the error that reading the branch would raise."""
        column = self.columns[self.find(name)]
        if column.reason is not None:
            what = f"branch {column.path!r} of type {column.field.type} cannot be read: {column.reason}"
            raise UnsupportedBranchError(what, path=self.file.path)

    def column_of(self, name: str) -> Column:
        """A readable branch. Raises NoSuchKeyError, UnsupportedBranchError."""
        self.check_readable(name)
        return self.columns[self.find(name)]

    def layout(self, column: Column, array: object) -> ak.contents.Content:
        """Convert the Arrow array of a top-level column to the layout of a branch. Raises UnsupportedBranchError."""
        if column.leaves not in self._whole:
            self._whole[column.leaves] = all(has_no_missing(self.metadata, leaf) for leaf in column.leaves)
        field = trimmed(self.file.schema.field(column.top), column.members)
        try:
            layout = layout_of_arrow(array, field, is_whole=self._whole[column.leaves])
        except (BadFileError, UnsupportedBranchError) as error:
            error.path = self.file.path
            raise
        return member_of(layout, column.members)

    def empty_columns(self, names: Sequence[str]) -> list[LaidColumn]:
        """Columns of length 0 with the types of these branches."""
        empty = []
        for column in map(self.column_of, names):
            field = trimmed(self.file.schema.field(column.top), column.members)
            empty.append(LaidColumn(self.layout(column, pa.array([], field.type))))
        return empty

    def chunks_of(self, index: int) -> Iterator[tuple[int, Any]]:
        """The column chunks of a branch with the indices of their row groups."""
        for leaf in self.columns[index].leaves:
            for group in range(self.metadata.num_row_groups):
                yield group, self.metadata.row_group(group).column(leaf)

    def branch(self, index: int) -> Facts:
        """The metadata of a branch."""
        column = self.columns[index]
        chunks = [chunk for _, chunk in self.chunks_of(index)]
        return Facts(
            path=column.path,
            name=column.name,
            kind=column.kind,
            reason=column.reason,
            typename=str(column.field.type),
            is_part=column.parent is not None,
            entries_count=self.entries_count,
            baskets_count=len(chunks),
            compressed_bytes=sum(one.total_compressed_size for one in chunks),
            plain_bytes=sum(map(plain_bytes_of, chunks)),
            compress=root_setting(chunks[0]) if chunks else 0,
        )

    def bytes_per_entry(self, indices: Sequence[int]) -> PerEntry:
        """Mean number of bytes per entry of these branches."""
        chunks = [chunk for index in indices for _, chunk in self.chunks_of(index)]
        entries = max(1, self.entries_count)
        stored = sum(one.total_compressed_size for one in chunks)
        return PerEntry(stored / entries, sum(map(plain_bytes_of, chunks)) / entries)

    def memory_needs(self, indices: Sequence[int]) -> tuple[float, int]:
        """Mean decoded bytes per entry, and the size of the largest decoded column chunk."""
        sizes = [plain_bytes_of(chunk) for index in indices for _, chunk in self.chunks_of(index)]
        return self.bytes_per_entry(indices).plain, max(sizes, default=0)

    def codecs_in_baskets(self, indices: Sequence[int]) -> list[str | None]:
        """The codecs of the first column chunks of these branches; None without column chunks."""
        return [next((codec_of(chunk) for _, chunk in self.chunks_of(index)), None) for index in indices]

    def entry_offsets(self, _index: int) -> list[int]:
        """The first entry of each row group, followed by the number of entries."""
        return self.group_starts

    def basket_borders(self) -> list[int]:
        """The first entry of each row group."""
        return self.group_starts[:-1]

    def extents(self, indices: Sequence[int]) -> PlacedChunks:
        """The locations of the column chunks of these branches."""
        rows = []
        for index in indices:
            for group, chunk in self.chunks_of(index):
                rows.append((index, *range_of(chunk), *self.group_starts[group : group + 2]))
        columns = np.array(rows, dtype="i8").reshape(-1, 5).T
        return PlacedChunks(*(np.ascontiguousarray(one) for one in columns))
