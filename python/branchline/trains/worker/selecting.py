"""The events that a wagon selects, for skims: the wagon sees chunks as it does in a train."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from branchline.base.texts import message_of
from branchline.errors import WagonError
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.trees.stream import Chunk
from branchline.trains.wagons.clock import PhaseClock
from branchline.trains.wagons.coffea_events import ProcessorEvents
from branchline.trains.wagons.companions import OpenCompanions
from branchline.trains.wagons.events import Columns, Events
from branchline.trains.wagons.views import output_view
from branchline.trains.wagons.wagons import Wagon, with_required
from branchline.trains.worker.chunk_run import metadata_of
from branchline.trains.worker.isolation import (
    MESSAGE,
    ForkedChildren,
    ProcessState,
    SharedFunctions,
    StandardFiles,
    seeded,
)


class WagonSelection:
    """Which events of a chunk a wagon wants: what its ``select(events)`` returns, or without one its ``process``.

    The wagons that it requires run before it, and it finds their results in ``events.outputs``. Raises WagonError.
    """

    def __init__(self, wagons: Sequence[Wagon], name: str, access: Access) -> None:
        by_name = {one.name: one for one in wagons}
        if name not in by_name:
            raise WagonError(f"there is no wagon {name!r}", hint=f"there are {', '.join(by_name)}")
        self._chain = with_required(by_name[name], by_name)
        self._companions = OpenCompanions(access)
        self._ready: dict[str, Wagon] = {}
        self._processor_events = ProcessorEvents()
        self._state = ProcessState(StandardFiles())
        self._functions = SharedFunctions()
        self._forked = ForkedChildren([one.name for one in self._chain])

    def __call__(self, chunk: Chunk, file: DataFile) -> Any:
        """One truth value for each event of the chunk. Raises WagonError, and what reading raises."""
        self._companions.begin(file, chunk)
        columns = Columns(chunk, PhaseClock("other"), learning=True, companions=self._companions)
        outputs: dict[str, Any] = {}
        for wagon in self._chain:
            outputs[wagon.name] = self._output(wagon, columns, metadata_of(chunk, file), outputs)
        return outputs[self._chain[-1].name]

    def _output(self, wagon: Wagon, columns: Columns, metadata: dict[str, Any], outputs: dict[str, Any]) -> Any:
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
                    events: Any = self._processor_events.of(columns, metadata, wagon.schema)
                else:
                    events = Events(columns, metadata, {name: output_view(outputs[name]) for name in wagon.requires})
                call = getattr(wagon.thing, "select", wagon.process) if is_last else wagon.process
                output = call(events)
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:
            if columns.read_error is not None:
                raise columns.read_error from None
            what = f"wagon {wagon.name!r} fails: {type(error).__name__}: {message_of(error)}"
            raise WagonError(what, path=chunk.path) from error
        if self._forked.take():
            raise WagonError(f"wagon {wagon.name!r} fails: {MESSAGE}", path=chunk.path)
        return output
