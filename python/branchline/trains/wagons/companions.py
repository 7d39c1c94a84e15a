"""Companion files, which are opened and read when a wagon first uses them. Missing entries are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol

import awkward as ak

from branchline.base.limits import MISSING_NAMED
from branchline.base.plain import record_of
from branchline.errors import NoSuchKeyError
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.trees.companion_trees import CompanionFile, CompanionRange
from branchline.reading.trees.stream import Chunk
from branchline.records.sensors.record import FileRecord, MissingCompanion
from branchline.trains.wagons.views import array_view


class OpenCompanions:
    """The open companions of one file of the dataset, and the companions' entries for the current chunk.

    Once a branch has been used, all used branches of its companion are read together.
    """

    def __init__(self, access: Access | None = None) -> None:
        self._access = access
        self._file: DataFile | None = None
        self._open: dict[str, CompanionFile] = {}
        self._wanted: dict[str, list[str]] = {}
        self._ranges: dict[str, CompanionRange] = {}
        self._limits = (0, 0)
        self._records: list[FileRecord] = []
        self._missing: dict[str, MissingCompanion] = {}

    def begin(self, file: DataFile, chunk: Chunk) -> None:
        """Start a chunk. Closes the companions if the chunk is from a different file than the previous chunk."""
        if self._file is None or (self._file.path, self._file.companions) != (file.path, file.companions):
            self._close()
            self._file = file
        self._ranges = {}
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
                self._open[name] = CompanionFile(*companion.path_for(file.path), self._access)
            of_chunk = self._open[name].range(*self._limits)
            missing = of_chunk.missing
            if missing:
                known = self._missing.setdefault(name, MissingCompanion(name))
                known.events_missing += len(missing)
                known.first += [f"{of_chunk.companion.path}: entry {entry}" for entry in missing[:MISSING_NAMED]]
                del known.first[MISSING_NAMED:]
            self._ranges[name] = of_chunk
        return self._ranges[name]

    def read(self, name: str, path: str) -> CompanionRange:
        """Read a branch of a companion, and return the entries of the companion that belong to the chunk."""
        wanted = self._wanted.setdefault(name, [])
        if path not in wanted:
            wanted.append(path)
        of_chunk = self.range(name)
        of_chunk.read([one for one in wanted if one in of_chunk.companion.shape.readable_set])
        return of_chunk

    def _close(self) -> None:
        for companion in self._open.values():
            record = companion.record()
            if record is not None:
                self._records.append(replace(record_of(FileRecord, record), entries=None))
        self._open, self._ranges = {}, {}

    @property
    def size_bytes(self) -> int:
        """Number of bytes read from companions for the current chunk."""
        return sum(one.size_bytes for one in self._ranges.values())

    def take_records(self) -> list[FileRecord]:
        """Close the companions, and return one record per companion file."""
        self._close()
        records, self._records, self._file = self._records, [], None
        return records

    def take_missing(self) -> list[MissingCompanion]:
        """Return, for each incomplete companion, the number of its missing events and the names of the first few."""
        missing, self._missing = list(self._missing.values()), {}
        return missing


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
