"""A wagon's view of a chunk. Columns are read when they are first used, and the columns that each wagon uses are
recorded.

Varied events replace some columns. The new column is returned for each of its names, such as ``Muon_pt`` and
``Muon.pt``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn

import awkward as ak
import numpy as np

from branchline.errors import BadFileError, MissingFileError, NoSuchKeyError, StorageError, WagonError
from branchline.reading.arrays.nesting import Group
from branchline.reading.expressions.name_filters import near_names_hint
from branchline.reading.trees.stream import Chunk
from branchline.trains.wagons.clock import PhaseClock
from branchline.trains.wagons.companions import CompanionsOfEvents, OpenCompanions
from branchline.trains.wagons.shared_weights import SharedRun, Weights
from branchline.trains.wagons.views import array_view, output_view

#: Name of the column with the weights of varied events.
WEIGHT = "weight"
#: Name of the variation that leaves the events unchanged.
NOMINAL = "nominal"


class NoSuchBranchError(NoSuchKeyError, AttributeError):
    """A wagon requested a branch that the tree does not have."""


class ChunkColumns:
    """The columns of one chunk, shared by all wagons. Each column is created once. For each wagon, the branches that it
    uses are recorded (``touched``), and those among them that were not read in advance (``misses``).

    ``read_error`` is an error from reading a column while a wagon ran: the file caused the error, not the wagon.
    """

    def __init__(
        self, chunk: Chunk, clock: PhaseClock, learning: bool = False, companions: OpenCompanions | None = None
    ) -> None:
        self.chunk = chunk
        self._companions = companions
        self.touched_in_companions: dict[str, set[str]] = {}
        self.wagon = ""
        self.touched: dict[str, set[str]] = {}
        self.misses: dict[str, set[str]] = {}
        self.read_error: BadFileError | MissingFileError | StorageError | None = None
        self._clock = clock
        self._learning = learning
        self._late: set[str] = set()

    @property
    def names(self) -> list[str]:
        """The names of all branches that can be read."""
        return self.chunk.all_branches

    def array(self, name: str) -> ak.Array:
        """Return the column of a branch. Raises NoSuchBranchError, with the most similar names, if the tree has no such
        branch.
        """
        late_before = len(self.chunk.late_branches)
        try:
            with self.reading():
                array = self.chunk.array(name)
        except NoSuchBranchError as error:
            # Wagons may also request groups of branches, so suggest these as well.
            groups = [one for one, group in self.chunk.shape.groups.items() if not isinstance(group, str)]
            error.hint = near_names_hint(name, [*groups, *self.names])
            raise
        self.touched.setdefault(self.wagon, set()).add(name)
        if len(self.chunk.late_branches) > late_before:
            self._late.add(name)
        if name in self._late and not self._learning:
            self.misses.setdefault(self.wagon, set()).add(name)
        return array

    @property
    def companion_names(self) -> list[str]:
        """The names of the companions that the dataset declares."""
        return [] if self._companions is None else self._companions.names()

    def fields_of_companion(self, companion: str) -> list[str]:
        """Return the names of a companion's branches that can be read."""
        with self.reading():
            return list(self._open_companions().range(companion).companion.shape.readable)

    def of_companion(self, companion: str, name: str) -> ak.Array:
        """Return a column or a group of branches of a companion. Raises NoSuchBranchError."""
        companions = self._open_companions()

        def read(path: str) -> None:
            with self.reading():
                companions.read(companion, path)
            self.touched_in_companions.setdefault(self.wagon, set()).add(f"{companion}:{path}")

        with self.reading():
            of_chunk = companions.range(companion)
            group = of_chunk.group(name, read)
            path = of_chunk.path_of(name) if group is None else ""
        if group is not None:
            return group
        read(path)
        return of_chunk.array(path)

    @property
    def join_names(self) -> list[str]:
        """The names of the joins that the dataset declares."""
        return [] if self._companions is None else self._companions.join_names()

    def fields_of_join(self, join: str) -> list[str]:
        """Return the names of the branches of joined trees that can be read. Raises NoSuchBranchError."""
        with self.reading():
            return self._open_companions().trees_of_join(join).readable

    def joined(self, join: str) -> ak.Array:
        """Return the joined rows of each event. Raises NoSuchBranchError, and WagonError if the tree has a branch or
        group with the name of the join.
        """
        shape = self.chunk.shape
        if join in shape.outline.index_by_path or join in shape.groups:
            hint = "give the join another name"
            raise WagonError(f"the tree also has a branch {join!r}", path=self.chunk.path, hint=hint)
        companions = self._open_companions()
        with self.reading():
            of_chunk, record = companions.joined(join)

        def read(path: str) -> None:
            with self.reading():
                of_chunk.read(companions.wanted(join, path))
            self.touched_in_companions.setdefault(self.wagon, set()).add(f"{join}:{path}")

        return of_chunk.array(record, read)

    def _open_companions(self) -> OpenCompanions:
        assert self._companions is not None
        return self._companions

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Count the time of the block as reading, and record errors of the file, which are not the wagon's fault."""
        with self._clock.during("reading"):
            try:
                yield
            except NoSuchKeyError as error:
                raise NoSuchBranchError(error.what, path=error.path or self.chunk.path, hint=error.hint) from None
            except (BadFileError, MissingFileError, StorageError) as error:
                self.read_error = error
                raise


class Events:
    """A chunk of events: ``events.px`` and ``events["px"]`` are awkward arrays with one element per event.

    ``events[["px", "py"]]`` is a record array, and ``events[mask]`` and ``events[:100]`` are selections. Branches that
    belong together by their names and counters form records: ``events.Muon.pt`` is ``Muon_pt``, and
    ``events.Tracks.fP`` is ``Tracks/Tracks.fP[5]``. Only columns that are used are read.

    - ``events.metadata`` is the origin of the events (dataset, filename, treename, entrystart, entrystop), and the
      metadata of the fileset.
    - ``events.outputs`` are the outputs of the required wagons for this chunk.
    - ``events.companion["Kinematics"]`` are the entries of a companion file.
    - ``events.Tracks`` are the rows of a join ``Tracks``, one list of records per event.
    - ``events.variation`` is the name of the current variation, by default ``"nominal"``.
    - ``events.weight`` is the weight from ``branchline.varied``.

    Each wagon has its own events: assignments such as ``events.Muon["pt"] = ...`` and changes to ``events.outputs`` or
    ``events.metadata`` are not visible to other wagons.
    """

    __slots__ = (
        "_asked_for_variation",
        "_columns",
        "_made",
        "_originals",
        "_selections",
        "_variation",
        "_varied",
        "metadata",
        "outputs",
    )

    def __init__(
        self,
        columns: ChunkColumns,
        metadata: Mapping[str, object],
        outputs: Mapping[str, object] | None = None,
        selections: tuple[object, ...] = (),
        varied: VariedColumns | SharedColumns | None = None,
        variation: str = NOMINAL,
    ) -> None:
        self._columns = columns
        self._varied = varied
        self._variation = variation
        self._asked_for_variation: Callable[[], object] | None = None
        self._selections = selections
        self._made: dict[str, ak.Array] = {}
        # Columns of the whole chunk, shared with variations and selections of these events.
        self._originals: dict[str, ak.Array] = {}
        self.metadata = metadata
        self.outputs = outputs or {}

    @property
    def variation(self) -> str:
        """The name of the current variation."""
        if self._asked_for_variation is not None:
            self._asked_for_variation()
        return self._variation

    def when_asked_for_variation(self, call: Callable[[], object]) -> None:
        """Call a function whenever the name of the variation is requested."""
        self._asked_for_variation = call

    def __len__(self) -> int:
        return (
            len(self._selected(np.arange(len(self._columns.chunk)))) if self._selections else len(self._columns.chunk)
        )

    @property
    def fields(self) -> list[str]:
        """The names of all branches that can be read."""
        return [*self._columns.names, *self._columns.join_names]

    @property
    def companion(self) -> CompanionsOfEvents:
        """The companions of these events, by name. Entries are read on first use."""
        return CompanionsOfEvents(self._columns, self._selected)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self.fields]

    def __getattr__(self, name: str) -> ak.Array:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._column(name)

    def __getitem__(self, where: object) -> ak.Array:
        if isinstance(where, str):
            return self._column(where)
        if isinstance(where, (list, tuple)) and where and all(isinstance(name, str) for name in where):
            return ak.zip({name: self._column(name) for name in where}, depth_limit=1)
        if isinstance(where, (int, np.integer, tuple)):
            raise TypeError(
                "events are selected by a mask, a slice or an array of positions: events[i:i+1], not events[i]"
            )
        return self._changed((*self._selections, where), self._varied, self._variation)

    def shared(self, columns: SharedColumns) -> Events:
        """Return these events with columns that have one array per variation."""
        return self._as_variation(columns, NOMINAL)

    @property
    def columns_of_variation(self) -> VariedColumns | None:
        """The varied columns of these events."""
        return None if self._varied is None else self._of_one_variation()

    def varied_columns(self, columns: Mapping[str, object]) -> VariedColumns:
        """Return the columns of ``varied``. Raises the same errors."""
        with self._columns.reading():
            return self._of_one_variation().with_columns(columns)

    def _of_one_variation(self) -> VariedColumns:
        if isinstance(self._varied, SharedColumns):
            self._varied.run.end()
        return self._varied or VariedColumns(self._columns)

    def varied(self, variation: str, columns: Mapping[str, object]) -> Events:
        """Return these events as a named variation, with new arrays for some columns.

        ``columns`` has arrays for all events of the chunk. The keys are branches (``"MET_pt"``), groups (``"Jet"``), or
        members of groups (``"Jet.pt"``). The new array also replaces the column under its other names. The column
        ``"weight"`` need not exist before.

        Raises NoSuchBranchError for unknown columns, and WagonError for arrays of the wrong length.

            shifted = events.varied("jes_up", {"Jet.pt": events.Jet.pt * 1.02})
        """
        return self._as_variation(self.varied_columns(columns), variation)

    def _as_variation(self, columns: VariedColumns | SharedColumns, variation: str) -> Events:
        """Return these events with other columns, and with copies of everything that a wagon may change."""
        events = self._changed(self._selections, columns, variation)
        events.metadata = copy.deepcopy(self.metadata)
        events.outputs = {name: output_view(output) for name, output in self.outputs.items()}
        return events

    def __iter__(self) -> Iterator[NoReturn]:
        raise TypeError("events are columns: loop over events.px or over events[['px', 'py']], not over events")

    def __repr__(self) -> str:
        return f"<Events: {len(self)} events, {len(self.fields)} branches>"

    def _column(self, name: str) -> ak.Array:
        if name not in self._made:
            if self._varied is None:
                whole = self._original(name)
            else:
                with self._columns.reading():
                    whole = self._varied.array(name, self._original)
            self._made[name] = self._selected(array_view(whole))
        return self._made[name]

    def _original(self, name: str) -> ak.Array:
        if name not in self._originals:
            is_join = name in self._columns.join_names
            group = self._columns.joined(name) if is_join else self._columns.chunk.group(name, self._columns.array)
            if group is None:
                return self._columns.array(name)
            self._originals[name] = group
        return self._originals[name]

    def _changed(
        self, selections: tuple[object, ...], varied: VariedColumns | SharedColumns | None, variation: str
    ) -> Events:
        events = Events(self._columns, self.metadata, self.outputs, selections, varied, variation)
        events._asked_for_variation = self._asked_for_variation
        events._originals = self._originals
        return events

    def _selected(self, array: ak.Array) -> ak.Array:
        for selection in self._selections:
            array = array[selection]
        return array


class VariedColumns:
    """Arrays that replace columns for all events of a chunk, by branch path or group name."""

    def __init__(self, columns: ChunkColumns, arrays: Mapping[str, object] | None = None) -> None:
        self._columns = columns
        self._chunk = columns.chunk
        self._arrays = dict(arrays or {})

    def array(self, name: str, original: Callable[[str], ak.Array]) -> ak.Array:
        """Return the array of a branch or group. ``original`` is a function that returns the array from the file.
        Raises NoSuchKeyError.
        """
        if name in self._arrays:
            return self._arrays[name]
        key, parts = self._parts(name)
        if key in self._arrays:
            return self._arrays[key]
        varied = {where: self._arrays[path] for where, path in parts.items() if path in self._arrays}
        whole = original(name)
        for where, array in varied.items():
            whole = ak.with_field(whole, array, list(where))
        return whole

    def with_columns(self, columns: Mapping[str, object]) -> VariedColumns:
        """Return a copy in which further columns are replaced. Raises NoSuchKeyError for unknown columns, and
        WagonError for arrays of the wrong length.
        """
        varied = VariedColumns(self._columns, self._arrays)
        for name, array in columns.items():
            length = len(array) if hasattr(array, "__len__") else 0
            if length != len(self._chunk):
                raise WagonError(
                    f"the array for the column {name!r} has {length} entries, but there are {len(self._chunk)} events",
                    hint="pass one value or one list per event",
                )
            varied._vary(name, array)
        return varied

    def _vary(self, name: str, array: ak.Array) -> None:
        key, parts = (name, {}) if name == WEIGHT else self._parts(name)
        self._arrays[key] = array
        for where, path in parts.items():
            if where[0] in ak.fields(array):
                self._arrays[path] = array[where]
        group = self._chunk.shape.group(key)
        if group is not None and group.counter is not None:
            self._arrays[group.counter] = ak.num(array)
        for whole in [one for one in self._arrays if one not in (key, WEIGHT)]:
            for where, path in self._parts(whole)[1].items():
                if path == key:
                    self._arrays[whole] = ak.with_field(self._arrays[whole], array, list(where))

    def _parts(self, name: str) -> tuple[str, dict[tuple[str, ...], str]]:
        """Return the group name or branch path to which a name refers, and the paths of its members by name.

        Raises NoSuchKeyError.
        """
        shape = self._chunk.shape
        group = shape.group(name)
        if group is not None:
            return name, dict(_members(group))
        first, *others = name.split(".")
        if first in self._columns.join_names:
            return self._parts_of_join(name, first, others)
        group = shape.group(first)
        if group is None or name in shape.outline.index_by_path:
            path = self._chunk.path_of(name)
            return path, dict(self._below(path))
        path = dict(_members(group)).get(tuple(others), "")
        if not path:
            raise NoSuchKeyError(
                f"no group {first!r} with a member {'.'.join(others)!r}",
                hint=f"its members are {', '.join(group.members)}",
            )
        return path, {}

    def _parts_of_join(self, name: str, join: str, member: Sequence[str]) -> tuple[str, dict[tuple[str, ...], str]]:
        """Return the key of a join or of a branch of it, and for a join its varied branches by name."""
        names = self._columns.fields_of_join(join)
        if member and ".".join(member) not in names:
            near = near_names_hint(".".join(member), names)
            raise NoSuchKeyError(f"the join {join!r} has no branch {'.'.join(member)!r}", hint=near)
        varied: dict[tuple[str, ...], str] = {}
        if not member:
            varied = {(one.partition(".")[2],): one for one in self._arrays if one.startswith(f"{join}.")}
        return name, varied

    def _below(self, path: str, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
        outline = self._chunk.shape.outline
        for child in outline.children(outline.index_by_path[path]):
            where = (*above, outline.names[child])
            yield where, outline.paths[child]
            yield from self._below(outline.paths[child], where)


class SharedColumns:
    """The columns of several variations at a time, in a shared run. ``by_variation`` is None for a variation without
    varied columns.
    """

    def __init__(self, run: SharedRun, by_variation: Sequence[VariedColumns | None]) -> None:
        self.run = run
        self._by_variation = by_variation
        self._found: dict[str, object] = {}

    def set_weights(self, weights: Sequence[ak.Array], events_count: int) -> None:
        """Set the weights of all variations."""
        if any(len(one) != events_count for one in weights):
            self.run.end()
        self._found[WEIGHT] = self._joined(weights)

    def array(self, name: str, original: Callable[[str], ak.Array]) -> object:
        """Return the array of a branch or group, or one for each variation if it is varied. Raises NoSuchKeyError."""
        if name in self._found:
            return self._found[name]
        whole = original(name)
        found: dict[int, object] = {id(None): array_view(whole)}
        for columns in self._by_variation:
            if columns is not None:
                array = columns.array(name, lambda _: whole)
                found[id(columns)] = found[id(None)] if array is whole else array_view(array)
        self._found[name] = self._joined([found[id(columns)] for columns in self._by_variation])
        return self._found[name]

    def _joined(self, arrays: Sequence[object]) -> object:
        return arrays[0] if all(one is arrays[0] for one in arrays) else Weights(self.run, list(arrays))


def _members(group: Group, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, member in group.members.items():
        if isinstance(member, Group):
            yield from _members(member, (*above, name))
        else:
            yield (*above, name), member
