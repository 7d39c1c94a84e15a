"""Runs all wagons of a train on one chunk, each after the wagons it requires, and adds up the wagons' outputs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from branchline.errors import BranchlineError, TableError
from branchline.jobs.interruption import Interruption
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.sources import reading_for
from branchline.reading.trees.stream import Chunk
from branchline.records.sensors.record import WagonFault
from branchline.trains.subjobs.share_result import (
    CannotPickleError,
    PackedWagons,
    WagonShare,
    pickled_bytes,
    send_and_return,
)
from branchline.trains.sums.accumulators import CannotAddError, Total, shares_objects
from branchline.trains.tables.piece_writer import TableWriters
from branchline.trains.tables.table import Table, found
from branchline.trains.wagons.clock import PhaseClock
from branchline.trains.wagons.coffea_events import ProcessorEvents
from branchline.trains.wagons.companions import OpenCompanions
from branchline.trains.wagons.event_random import SEED_NAME
from branchline.trains.wagons.events import ChunkColumns, Events
from branchline.trains.wagons.faults import UNPICKLING_STEP, because_of, fault_of, wagon_step
from branchline.trains.wagons.luminosity import Keys, LumiSections, sections_noted
from branchline.trains.wagons.views import output_view, without_shared
from branchline.trains.wagons.wagons import Wagon
from branchline.trains.worker.isolation import (
    CHILD_RETURNED,
    ForkedChildren,
    ProcessState,
    SharedFunctions,
    StandardFiles,
    seeded,
)
from branchline.trains.worker.python_lines import PythonLines
from branchline.trains.worker.warm_up import CompiledCode, WarmUp


class UnreadableColumnError(Exception):
    """A column could not be read while a wagon ran. No wagon counts the chunk. ``cause`` is the read error."""

    def __init__(self, cause: BranchlineError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Coupling:
    """The wagons of a worker, and the sums of their outputs. After each chunk, the outputs of all wagons are added; if
    the worker is interrupted, none of them is added.
    """

    def __init__(
        self,
        wagons: tuple[Wagon, ...],
        clock: PhaseClock,
        interruption: Interruption,
        access: Access,
        at: Callable[[str], None] | None = None,
        out_of_memory: Callable[[], None] | None = None,
        tables: TableWriters | None = None,
        seed: int = 0,
        packed: PackedWagons | None = None,
        compiled: CompiledCode | None = None,
    ) -> None:
        """Prepare to run the wagons.

        - ``at`` is called with the name of each step before the step starts.
        - ``out_of_memory`` is called when a wagon runs out of memory. It does not return if the sub-job can be retried
          with less memory.
        - ``tables`` writes the tables that wagons return. Without it, the rows of tables are only counted.
        - ``seed`` is the seed of the wagons' random numbers.
        - ``packed`` has the pickled wagons if ``wagons`` contain no user objects.
        - ``compiled`` is the compiled code that the workers of this machine share.
        """
        self._packed = packed
        self._loaded: dict[str, Wagon] = {}
        self._seed = seed
        self._tables = tables or TableWriters()
        self._at = at
        self._out_of_memory = out_of_memory
        self._wagons = wagons
        self._clock = clock
        self._interruption = interruption
        self._stopped: frozenset[str] = frozenset()
        self._totals: dict[str, Total] = {}
        self._dataset = ""
        # The luminosity sections that wagons have processed in this chunk, by wagon.
        self._sections: dict[str, list[Keys]] = {}
        self._previous: dict[str, object] = {}
        self._processor_events: ProcessorEvents | None = None
        #: The companions and joins of the current file; None until a file with companions or joins has been read.
        self.companions: OpenCompanions | None = None
        self._access = access
        self._last_place: dict[str, Any] = {}
        self._files = StandardFiles()
        self._state = ProcessState(self._files)
        self._functions = SharedFunctions()
        # Wagons whose setup() was called, by name.
        self._ready: dict[str, Wagon] = {}
        self._warm_up = WarmUp(clock, compiled)
        self._python_lines = PythonLines()
        self._forked = ForkedChildren([one.name for one in wagons])
        #: Names of the branches that each wagon has used, by wagon.
        self.touched: dict[str, set[str]] = {}
        # Bytes per event read from companions: the maximum over all chunks used for learning.
        self.companion_bytes_per_event = 0.0

    def begin(self, stopped: frozenset[str], index: int = 0, *, counts_only: bool = False) -> dict[str, WagonShare]:
        """Start sub-job ``index`` without the wagons in ``stopped``, and return the new, empty results of all wagons.
        With ``counts_only``, rows of tables are counted but not written.
        """
        self._tables.begin(index, counts_only=counts_only)
        self._stopped = stopped
        self._totals = {wagon.name: Total() for wagon in self._wagons}
        for wagon in self._wagons:
            if wagon.name not in stopped:
                self.touched.setdefault(wagon.name, set())
        return {wagon.name: WagonShare(requires=wagon.requires) for wagon in self._wagons}

    def settle(self, shares: dict[str, WagonShare]) -> None:
        """Store the sums in the shares at the end of a sub-job. If a sum cannot be pickled, or a table cannot be
        written, the wagon is stopped.
        """
        for name in self._forked.take():
            share = shares[name]
            share.error = share.error or WagonFault("ChildProcessError", CHILD_RETURNED, **self._last_place)
        for wagon in self._wagons:
            share = shares[wagon.name]
            self._at_wagon(wagon, **self._last_place)
            try:
                share.total = self._tables.settle(wagon.name, self._totals[wagon.name].value)
                pickled_bytes(share.total)
            except (CannotAddError, CannotPickleError, TableError) as error:
                fault = share.error or replace(fault_of(error, self._loaded.get(wagon.name, wagon)), **self._last_place)
                shares[wagon.name] = replace(share, total=None, events=0, chunks=0, error=fault)
        if self._at is not None:
            self._at("handing over a result")

    def all_stopped(self, shares: dict[str, WagonShare]) -> bool:
        """Return whether all wagons have stopped. In this case, the remaining chunks of a sub-job need not be read."""
        return all(name in self._stopped or share.error is not None for name, share in shares.items())

    def use(self, clock: PhaseClock) -> PhaseClock:
        """Switch to another clock, and return that clock."""
        self._clock, self._warm_up = clock, WarmUp(clock)
        return clock

    def run(self, chunk: Chunk, file: DataFile, shares: dict[str, WagonShare], *, learning: bool) -> None:
        """Run the wagons on a chunk. Raises UnreadableColumnError and KeyboardInterrupt; after either error, the sums
        are unchanged.
        """
        has_others = bool(file.companions or file.joins)
        if has_others:
            self.companions = self.companions or OpenCompanions(self._access)
            self.companions.begin(file, chunk)
        self._dataset = file.dataset
        columns = ChunkColumns(chunk, self._clock, learning, self.companions if has_others else None)
        metadata = metadata_of(chunk, file, self._seed)
        outputs: dict[str, object] = {}
        faults: dict[str, WagonFault] = {}
        self._state = ProcessState(self._files)
        for wagon in self._wagons:
            if wagon.name in self._stopped or shares[wagon.name].error is not None:
                continue
            missing = [name for name in wagon.requires if name not in outputs]
            if missing:
                faults[wagon.name] = because_of(missing[0], chunk)
                continue
            self._run_one(wagon, columns, metadata, shares[wagon.name], outputs, faults)
            if columns.read_error is not None:
                raise UnreadableColumnError(columns.read_error)
        for name in self._forked.take():
            outputs.pop(name, None)
            place = (chunk.place, chunk.entry_start, chunk.entry_stop)
            faults.setdefault(name, WagonFault("ChildProcessError", CHILD_RETURNED, *place))
        with self._clock.during("merge"), self._interruption.held():
            self._add(chunk, shares, outputs, faults)
            self._note_touches(columns, shares)
        if learning and has_others and self.companions is not None:
            per_event = self.companions.size_bytes / max(1, len(chunk))
            self.companion_bytes_per_event = max(self.companion_bytes_per_event, per_event)
        self._last_place = {"path": chunk.place, "entry_start": chunk.entry_start, "entry_stop": chunk.entry_stop}

    def _run_one(
        self,
        wagon: Wagon,
        columns: ChunkColumns,
        metadata: Mapping[str, object],
        share: WagonShare,
        outputs: dict[str, object],
        faults: dict[str, WagonFault],
    ) -> None:
        columns.wagon = wagon.name
        self._at_wagon(wagon, columns.chunk.place, columns.chunk.entry_start, columns.chunk.entry_stop)
        seconds_before = self._clock.spent("wagons")
        cpu_before_s, core_wait_before_s = self._clock.wagons_cpu_s, self._clock.wagons_core_wait_s
        try:
            with (
                self._clock.during("wagons"),
                self._interruption.allowed(),
                reading_for(wagon.name),
                self._forked.ended(wagon.name),
                self._state.kept(),
                self._functions.kept(),
                self._warm_up.measured(),
                seeded(self._seed, wagon.name, columns.chunk.path, columns.chunk.tree_name, columns.chunk.entry_start),
            ):
                if wagon.name not in self._ready:
                    self._ready[wagon.name] = self._loaded.get(wagon.name, wagon).set_up()
                wagon = self._ready[wagon.name]
                if wagon.gets_array:
                    self._processor_events = self._processor_events or ProcessorEvents()
                    events = self._processor_events.of(columns, metadata, wagon.schema)
                else:
                    needed = {name: output_view(outputs[name]) for name in wagon.requires}
                    events = Events(columns, copy.deepcopy(metadata), needed)
                with self._python_lines.counted(wagon.name, len(columns.chunk)), sections_noted() as sections:
                    output = wagon.process(events)
                self._sections[wagon.name] = sections
            self._refuse_same_object(wagon.name, output)
            kept = without_shared(output)
            # At the first chunk, check that the output can be pickled. Tables are never pickled: their rows stay in
            # this process.
            if share.chunks == 0 and not found(kept, Table):
                with self._clock.during("merge"):
                    send_and_return(kept)
            outputs[wagon.name] = output
        except BaseException as error:  # a wagon may raise anything, and only this wagon stops
            if isinstance(error, KeyboardInterrupt) and self._interruption.asked:
                raise
            if isinstance(error, MemoryError) and self._out_of_memory is not None:
                self._out_of_memory()
            faults[wagon.name] = fault_of(error, wagon, columns.chunk)
        if self._python_lines.lines:
            share.python_lines += self._python_lines.lines
            share.python_events += len(columns.chunk)
        share.seconds += self._clock.spent("wagons") - seconds_before
        share.cpu_s += self._clock.wagons_cpu_s - cpu_before_s
        share.core_wait_s += self._clock.wagons_core_wait_s - core_wait_before_s

    def load(self, stopped: frozenset[str]) -> None:
        """Unpickle the wagons that run in a sub-job.

        The wagons are unpickled together. If some wagons are stopped, the others are unpickled one at a time, so that
        ``Recovery`` can tell which wagon kills the process.
        """
        if self._packed is None or (wanted := {one.name for one in self._wagons} - stopped) <= self._loaded.keys():
            return
        if not stopped and self._at is not None:
            self._at(UNPICKLING_STEP)
        with self._clock.during("start"), ProcessState(self._files).kept():
            if not stopped:
                self._loaded = {one.name: one for one in self._packed.unpacked()} | self._loaded
                return
            for index, wagon in enumerate(self._wagons):
                if wagon.name in wanted and wagon.name not in self._loaded:
                    self._at_wagon(wagon)
                    self._loaded[wagon.name] = self._packed.one(index)

    def _at_wagon(self, wagon: Wagon, path: str = "", entry_start: int = 0, entry_stop: int = 0) -> None:
        """Report that a wagon's code starts to run. ``Recovery`` stops the wagon if this code does not return."""
        if self._at is not None:
            self._at(wagon_step(wagon.name, path, entry_start, entry_stop))

    def _refuse_same_object(self, name: str, output: object) -> None:
        if shares_objects(self._previous.get(name), output):
            raise CannotAddError(
                "process() returned the same object as for the previous chunk, so its content would count twice; "
                "create a new object in process()"
            )
        self._previous[name] = output

    def _add(
        self, chunk: Chunk, shares: dict[str, WagonShare], outputs: dict[str, object], faults: dict[str, WagonFault]
    ) -> None:
        for wagon in self._wagons:
            share = shares[wagon.name]
            if wagon.name in faults:
                share.error = faults[wagon.name]
            elif wagon.name in outputs:
                stopped = [name for name in wagon.requires if shares[name].error is not None]
                if stopped:
                    share.error = because_of(stopped[0], chunk)
                else:
                    self._add_output(wagon, share, outputs[wagon.name], chunk)

    def _add_output(self, wagon: Wagon, share: WagonShare, output: object, chunk: Chunk) -> None:
        # Adding outputs may run code of the wagon.
        self._at_wagon(wagon, chunk.place, chunk.entry_start, chunk.entry_stop)
        place = f"{chunk.place}, entries {chunk.entry_start} to {chunk.entry_stop}"
        try:
            kept = wagon.for_dataset(without_shared(output), self._dataset)
            taken = self._tables.take(wagon.name, kept, place)
            commit = self._totals[wagon.name].prepared(taken.output)
            taken.write()
            commit()
        except Exception as error:  # noqa: BLE001 - keys and outputs of a wagon may raise anything
            share.error = fault_of(error, self._loaded.get(wagon.name, wagon), chunk)
            return
        share.events += len(chunk)
        share.chunks += 1
        if sections := self._sections.pop(wagon.name, []):
            share.add_sections(self._dataset, LumiSections(np.concatenate(sections)))

    def _note_touches(self, columns: ChunkColumns, shares: dict[str, WagonShare]) -> None:
        for name, touched in columns.touched.items():
            shares[name].touched |= touched
            self.touched.setdefault(name, set()).update(touched)
        for name, touched in columns.touched_in_companions.items():
            shares[name].touched |= touched
        for name, missed in columns.misses.items():
            misses = shares[name].misses
            for branch in missed:
                misses[branch] = misses.get(branch, 0) + 1


def metadata_of(chunk: Chunk, file: DataFile, seed: int = 0) -> dict[str, object]:
    """Return the value of ``events.metadata`` for a chunk."""
    return {
        **file.metadata,
        "dataset": file.dataset,
        "filename": chunk.path,
        "treename": chunk.tree_name,
        "entrystart": chunk.entry_start,
        "entrystop": chunk.entry_stop,
        SEED_NAME: seed,
    }
