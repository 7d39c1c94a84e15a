"""The companions of a chunk's file as wagons see them: opened and read when a wagon touches them, and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

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
    """The companions that a worker has open: those of one file of the dataset, with what belongs to the current chunk.

    A branch that was touched once is read with the others of its companion from then on, in one go.
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
        """Starts a chunk. Closes the companions if the chunk is of another file."""
        if self._file is None or (self._file.path, self._file.companions) != (file.path, file.companions):
            self._close()
            self._file = file
        self._ranges = {}
        self._limits = (chunk.entry_start, chunk.entry_stop)

    def names(self) -> list[str]:
        """The companions that the dataset declares."""
        return [] if self._file is None else [one.name for one in self._file.companions]

    def range(self, name: str) -> CompanionRange:
        """What belongs to the chunk. Raises what opening raises."""
        if name not in self._ranges:
            range_of_chunk = self._companion(name).range(*self._limits)
            self._count_missing(name, range_of_chunk)
            self._ranges[name] = range_of_chunk
        return self._ranges[name]

    def read(self, name: str, path: str) -> CompanionRange:
        """What belongs to the chunk, with a branch read."""
        wanted = self._wanted.setdefault(name, [])
        if path not in wanted:
            wanted.append(path)
        of_chunk = self.range(name)
        of_chunk.read([one for one in wanted if one in of_chunk.companion.shape.readable_set])
        return of_chunk

    def _companion(self, name: str) -> CompanionFile:
        file = self._file
        if name not in self._open:
            assert file is not None
            companion = next(one for one in file.companions if one.name == name)
            self._open[name] = CompanionFile(*companion.path_for(file.path), self._access)
        return self._open[name]

    def _count_missing(self, name: str, of_chunk: CompanionRange) -> None:
        missing = of_chunk.missing
        if missing:
            known = self._missing.setdefault(name, MissingCompanion(name))
            known.events_missing += len(missing)
            known.first += [f"{of_chunk.companion.path}: entry {entry}" for entry in missing[:MISSING_NAMED]]
            del known.first[MISSING_NAMED:]

    def _close(self) -> None:
        for companion in self._open.values():
            record = companion.record()
            if record is not None:
                self._records.append(replace(record_of(FileRecord, record), entries=None))
        self._open, self._ranges = {}, {}

    @property
    def size_bytes(self) -> int:
        """Bytes of what was read for the current chunk."""
        return sum(one.size_bytes for one in self._ranges.values())

    def take_records(self) -> list[FileRecord]:
        """Closes the files and gives what was read of them, a record for each file."""
        self._close()
        records, self._records, self._file = self._records, [], None
        return records

    def take_missing(self) -> list[MissingCompanion]:
        """How many events had nothing in each companion, and the first of them."""
        missing, self._missing = list(self._missing.values()), {}
        return missing


# Reads the branch or group of a companion that a wagon names.
Read = Callable[[str, str], Any]


class CompanionEvents:
    """A companion of the events of a chunk: ``events.companion["Kinematics"].Particles`` has an element for each event.

    If each event has a tree of its own, that is the list of what its entries hold, empty where the tree is missing;
    else what the entry of the same number holds, None behind the end of a tree that is shorter.
    """

    __slots__ = ("_names", "_read", "_select", "name")

    def __init__(self, name: str, read: Read, names: Callable[[str], list[str]], select: Callable[[Any], Any]) -> None:
        self.name = name
        self._read = read
        self._names = names
        self._select = select

    @property
    def fields(self) -> list[str]:
        """The names of the branches that can be read."""
        return self._names(self.name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Any:
        return self._select(array_view(self._read(self.name, name)))

    def __repr__(self) -> str:
        return f"<CompanionEvents {self.name}>"


class CompanionsOfEvents(Mapping[str, CompanionEvents]):
    """The companions of events by their names."""

    def __init__(self, columns: Any, select: Callable[[Any], Any]) -> None:
        self._columns = columns
        self._select = select

    def __getitem__(self, name: str) -> CompanionEvents:
        names = self._columns.companion_names
        if name not in names:
            hint = f"there is {', '.join(names)}" if names else 'say which: run(..., companions=["Kinematics.root"])'
            raise NoSuchKeyError(f"the dataset has no companion {name!r}", path=self._columns.chunk.path, hint=hint)
        return CompanionEvents(name, self._columns.of_companion, self._columns.fields_of_companion, self._select)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns.companion_names)

    def __len__(self) -> int:
        return len(self._columns.companion_names)
