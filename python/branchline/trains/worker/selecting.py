"""Selects events for a skim with a wagon. The wagon sees the same chunks as in a train."""

from __future__ import annotations

from collections.abc import Sequence

from branchline.base.texts import message_of
from branchline.errors import WagonError
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.trees.stream import Chunk
from branchline.trains.wagons.clock import PhaseClock
from branchline.trains.wagons.coffea_events import ProcessorEvents
from branchline.trains.wagons.companions import OpenCompanions
from branchline.trains.wagons.events import ChunkColumns, Events
from branchline.trains.wagons.views import output_view
from branchline.trains.wagons.wagons import Wagon, with_required
from branchline.trains.worker.chunk_run import metadata_of
from branchline.trains.worker.isolation import (
    CHILD_RETURNED,
    ForkedChildren,
    ProcessState,
    SharedFunctions,
    StandardFiles,
    seeded,
)


class WagonSelection:
    """Selects events of a chunk with a wagon's ``select(events)`` method or, without that method, with
    ``process(events)``.

    The required wagons run first, and their outputs are in ``events.outputs``. Raises WagonError.
    """

    def __init__(self, wagons: Sequence[Wagon], name: str, access: Access) -> None:
        by_name = {one.name: one for one in wagons}
        if name not in by_name:
            raise WagonError(f"unknown wagon {name!r}", hint=f"choose one of {', '.join(by_name)}")
        self._chain = with_required(by_name[name], by_name)
        self._companions = OpenCompanions(access)
        self._ready: dict[str, Wagon] = {}
        self._processor_events = ProcessorEvents()
        self._state = ProcessState(StandardFiles())
        self._functions = SharedFunctions()
        self._forked = ForkedChildren([one.name for one in self._chain])

    def __call__(self, chunk: Chunk, file: DataFile) -> object:
        """Return one boolean per event of the chunk. Raises WagonError, and read errors."""
        self._companions.begin(file, chunk)
        columns = ChunkColumns(chunk, PhaseClock("other"), learning=True, companions=self._companions)
        outputs: dict[str, object] = {}
        for wagon in self._chain:
            outputs[wagon.name] = self._output(wagon, columns, metadata_of(chunk, file), outputs)
        return outputs[self._chain[-1].name]

    def _output(
        self, wagon: Wagon, columns: ChunkColumns, metadata: dict[str, object], outputs: dict[str, object]
    ) -> object:
        is_last, chunk = wagon is self._chain[-1], columns.chunk
        try:
            with (
                self._forked.ended(wagon.name),
                self._state.kept(),
                self._functions.kept(),
                seeded(0, wagon.name, chunk.path, chunk.tree_name, chunk.entry_start),
            ):
                if wagon.name not in self._ready:
                    self._ready[wagon.name] = wagon.set_up()
                wagon = self._ready[wagon.name]
                if wagon.gets_array:
                    events = self._processor_events.of(columns, metadata, wagon.schema)
                else:
                    events = Events(columns, metadata, {name: output_view(outputs[name]) for name in wagon.requires})
                call = getattr(wagon.thing, "select", wagon.process) if is_last else wagon.process
                output = call(events)
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:
            if columns.read_error is not None:
                raise columns.read_error from None
            what = f"wagon {wagon.name!r} failed: {type(error).__name__}: {message_of(error)}"
            raise WagonError(what, path=chunk.path) from error
        if self._forked.take():
            raise WagonError(f"wagon {wagon.name!r} failed: {CHILD_RETURNED}", path=chunk.path)
        return output
