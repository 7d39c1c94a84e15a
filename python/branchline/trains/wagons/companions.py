"""Companion files and joined trees, which are opened and read when a wagon first uses them. Missing entries, and rows
that belong to no event, are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol

import awkward as ak

from branchline.base.limits import MISSING_NAMED
from branchline.base.plain import record_of
from branchline.errors import NoSuchKeyError
from branchline.reading.access import Access
from branchline.reading.arrays.lazy import LazyRecord
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.joins import folder_of
from branchline.reading.trees.companion_trees import CompanionFile, CompanionRange, reading_of
from branchline.reading.trees.file import File
from branchline.reading.trees.joined_trees import JoinedRange, JoinedTrees
from branchline.reading.trees.stream import Chunk
from branchline.records.sensors.record import FileRecord
from branchline.records.sensors.record_parts import JoinRecord, MissingCompanion
from branchline.trains.wagons.views import array_view


class OpenCompanions:
    """The open companions and joined trees of one file of the dataset, and their entries for the current chunk.

    Once a branch has been used, all used branches of its companion or join are read together. Files stay open until a
    chunk of another file begins.
    """

    def __init__(self, access: Access | None = None) -> None:
        self._access = access
        self._file: DataFile | None = None
        self._tree = ("", 0)
        self._files: dict[str, File] = {}
        # A tree of each open file of which the path is known.
        self._open_trees: dict[str, str] = {}
        self._open: dict[str, CompanionFile] = {}
        self._joined: dict[str, JoinedTrees] = {}
        # The joins whose rows in the current folder are counted.
        self._counted: set[str] = set()
        # The records of joins by name, with the branches for which they were made.
        self._rows: dict[str, tuple[list[str], LazyRecord]] = {}
        self._joined_ranges: dict[str, JoinedRange] = {}
        self._join_records: dict[str, JoinRecord] = {}
        self._wanted: dict[str, list[str]] = {}
        self._ranges: dict[str, CompanionRange] = {}
        self._limits = (0, 0)
        self._records: list[FileRecord] = []
        self._missing: dict[str, MissingCompanion] = {}

    def begin(self, file: DataFile, chunk: Chunk) -> None:
        """Start a chunk. Closes the companions if the chunk is from a different file than the previous chunk."""
        tree = (chunk.tree_name, chunk.tree_entries)
        if self._file is None or (self._file.path, self._file.companions, self._file.joins) != (
            file.path,
            file.companions,
            file.joins,
        ):
            self._close()
        elif tree != self._tree:
            self._open, self._joined, self._counted = {}, {}, set()
        self._file, self._tree = file, tree
        self._ranges, self._joined_ranges = {}, {}
        self._limits = (chunk.entry_start, chunk.entry_stop)

    def names(self) -> list[str]:
        """Return the names of the companions that the dataset declares."""
        return [] if self._file is None else [one.name for one in self._file.companions]

    def range(self, name: str) -> CompanionRange:
        """Return the entries of a companion that belong to the chunk. Raises errors from opening the companion."""
        if name not in self._ranges:
            if name not in self._open:
                file = self._file
                assert file is not None
                companion = next(one for one in file.companions if one.name == name)
                path, tree = companion.path_for(file.path, self._tree[0])
                self._open[name] = CompanionFile(path, tree, self._access, partial(self._opened, path))
                if tree is not None and not self._open[name].is_by_entry:
                    self._open_trees[path] = self._open[name].whole.path
            of_chunk = self._open[name].range(*self._limits)
            missing = of_chunk.missing
            if missing:
                known = self._missing.setdefault(name, MissingCompanion(name))
                known.events_missing += len(missing)
                known.first += [f"{of_chunk.companion.path}: entry {entry}" for entry in missing[:MISSING_NAMED]]
                del known.first[MISSING_NAMED:]
            self._ranges[name] = of_chunk
        return self._ranges[name]

    def _opened(self, path: str) -> File:
        """Return an open file, which companions and joins share. Raises the errors of opening."""
        if path not in self._files:
            own = self._file
            # The main file may have replicas.
            location = own.opens if own is not None and path == own.path else path
            self._files[path] = File(location, self._access)
        return self._files[path]

    def join_names(self) -> list[str]:
        """Return the names of the joins that the dataset declares."""
        return [] if self._file is None else [one.name for one in self._file.joins]

    def trees_of_join(self, name: str) -> JoinedTrees:
        """Return the trees of a join in the folder of the chunk. Raises the errors of opening."""
        if name not in self._joined:
            file = self._file
            assert file is not None
            join = next(one for one in file.joins if one.name == name)
            self._joined[name] = JoinedTrees(join, self._opened(file.path), *self._tree)
            self._open_trees[file.path] = join.trees_in(folder_of(self._tree[0]))[0]
        return self._joined[name]

    def joined(self, name: str) -> tuple[JoinedRange, LazyRecord]:
        """Return the joined rows of the chunk's events, and the record of a row. Raises the errors of opening, and of
        reading the index column.
        """
        trees = self.trees_of_join(name)
        if name not in self._joined_ranges:
            self._joined_ranges[name] = trees.range(*self._limits, self._wanted.get(name, ()))
            if name not in self._counted:
                self._counted.add(name)
                known = self._join_records.setdefault(name, JoinRecord(name))
                known.rows += len(trees.rows.entries)
                known.negative += trees.rows.negative_count
        branches, record = self._rows.get(name, ([], None))
        if record is None or branches != trees.readable:
            record = trees.record()
            self._rows[name] = trees.readable, record
        return self._joined_ranges[name], record

    def wanted(self, name: str, path: str) -> list[str]:
        """Return the branches of a companion or join that have been used, including this branch."""
        wanted = self._wanted.setdefault(name, [])
        if path not in wanted:
            wanted.append(path)
        return wanted

    def read(self, name: str, path: str) -> CompanionRange:
        """Read a branch of a companion, and return the entries of the companion that belong to the chunk."""
        of_chunk = self.range(name)
        of_chunk.read([one for one in self.wanted(name, path) if one in of_chunk.companion.shape.readable_set])
        return of_chunk

    def _close(self) -> None:
        for path, file in self._files.items():
            record = reading_of(file, self._open_trees.get(path))
            if record is not None:
                self._records.append(replace(record_of(FileRecord, record), entries=None))
        self._files, self._open_trees, self._open, self._joined, self._ranges = {}, {}, {}, {}, {}
        self._joined_ranges, self._counted = {}, set()

    @property
    def size_bytes(self) -> int:
        """Number of bytes read from companions and joined trees for the current chunk."""
        joined = sum(one.size_bytes for one in self._joined_ranges.values())
        return joined + sum(one.size_bytes for one in self._ranges.values())

    def take_records(self) -> list[FileRecord]:
        """Close the companions, and return one record per companion file."""
        self._close()
        records, self._records, self._file = self._records, [], None
        return records

    def take_missing(self) -> list[MissingCompanion]:
        """Return, for each incomplete companion, the number of its missing events and the names of the first few."""
        missing, self._missing = list(self._missing.values()), {}
        return missing

    def take_joins(self) -> list[JoinRecord]:
        """Return the numbers of joined rows since the last call."""
        joins, self._join_records = list(self._join_records.values()), {}
        return joins


# A function that reads a branch or group of a companion. Its arguments are the names of the companion and of the
# branch.
Read = Callable[[str, str], ak.Array]


class CompanionEvents:
    """A companion of the events of a chunk: ``events.companion["Kinematics"].Particles`` has one element per event.

    If each event has its own tree in the companion, the element is the list of the tree's values; empty if the tree is
    missing. Otherwise the element is the value of the companion's entry with the same index as the event, or None if
    the companion has fewer entries.
    """

    __slots__ = ("_names", "_read", "_select", "name")

    def __init__(
        self, name: str, read: Read, names: Callable[[str], list[str]], select: Callable[[ak.Array], ak.Array]
    ) -> None:
        self.name = name
        self._read = read
        self._names = names
        self._select = select

    @property
    def fields(self) -> list[str]:
        """The names of the companion's branches that can be read."""
        return self._names(self.name)

    def __getattr__(self, name: str) -> ak.Array:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> ak.Array:
        return self._select(array_view(self._read(self.name, name)))

    def __repr__(self) -> str:
        return f"<CompanionEvents {self.name}>"


class _ChunkColumns(Protocol):
    """The members of ChunkColumns that companions use."""

    @property
    def chunk(self) -> Chunk: ...
    @property
    def companion_names(self) -> list[str]: ...
    def fields_of_companion(self, companion: str) -> list[str]: ...
    def of_companion(self, companion: str, name: str) -> ak.Array: ...


class CompanionsOfEvents(Mapping[str, CompanionEvents]):
    """The companions of a chunk's events, by name."""

    def __init__(self, columns: _ChunkColumns, select: Callable[[ak.Array], ak.Array]) -> None:
        self._columns = columns
        self._select = select

    def __getitem__(self, name: str) -> CompanionEvents:
        names = self._columns.companion_names
        if name not in names:
            hint = f"choose one of {', '.join(names)}" if names else 'pass run(..., companions=["Kinematics.root"])'
            raise NoSuchKeyError(f"the dataset has no companion {name!r}", path=self._columns.chunk.path, hint=hint)
        return CompanionEvents(name, self._columns.of_companion, self._columns.fields_of_companion, self._select)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns.companion_names)

    def __len__(self) -> int:
        return len(self._columns.companion_names)
