"""Describes why a wagon stopped, for its author: the error, the chunk, and the line in the author's file."""

from __future__ import annotations

import inspect
import os
import re
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import awkward as ak

from branchline.base.notebook import cell_of, with_cells
from branchline.base.texts import message_of
from branchline.reading.expressions.name_filters import near_names_hint
from branchline.reading.trees.stream import Chunk
from branchline.records.sensors.record import WagonFault
from branchline.trains.wagons.wagons import Wagon

_TRAINS = Path(__file__).parents[1]

#: Name, in a worker's heartbeat, of the step in which the worker unpickles all wagons together.
UNPICKLING_STEP = "unpickling the wagons"

WAGON_STEP_PLACE = re.compile(r" in (?P<path>.*), entries (?P<start>\d+) to (?P<stop>\d+)$", re.DOTALL)

#: Parts of awkward's messages for arithmetic on records that are not vectors.
_NO_ARITHMETIC = ("cannot broadcast records in ", "overloads for custom types: ")
#: Names of the first three components of four-vectors in the package `vector`.
_COMPONENTS = ({"pt", "eta", "phi"}, {"px", "py", "pz"})
_FOUR_VECTORS = (
    "to use records as four-vectors, use the package vector: "
    'vector.register_awkward() and ak.with_name(records, "Momentum4D")'
)


def fault_of(error: BaseException, wagon: Wagon, chunk: Chunk | None = None, *, is_cut_off: bool = False) -> WagonFault:
    """Return the fault for an error, with a traceback that starts at the wagon's own code. ``is_cut_off`` means that a
    signal interrupted the wagon.
    """
    # A KeyboardInterrupt without a signal is an error in the wagon, and does not interrupt the job.
    kind = "OwnKeyboardInterrupt" if isinstance(error, KeyboardInterrupt) and not is_cut_off else type(error).__name__
    frames = error.__traceback__
    while frames is not None and _is_of_trains(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames))
    line = _line_in(frames, wagon)
    if chunk is None:
        return WagonFault(kind, reason(error), line=line, traceback=text)
    where = (chunk.place, chunk.entry_start, chunk.entry_stop)
    return WagonFault(kind, reason(error), *where, line, text)


def _is_of_trains(file: str) -> bool:
    """Return whether a file belongs to the code that runs wagons. The wagons of the demo count as user code."""
    path = Path(file)
    return path.is_relative_to(_TRAINS) and not path.is_relative_to(_TRAINS / "demo")


def because_of(needed: str, chunk: Chunk | None = None) -> WagonFault:
    """Return the fault of a wagon that cannot run because it requires a stopped wagon."""
    message = f"requires wagon {needed!r}, which stopped"
    where = () if chunk is None else (chunk.place, chunk.entry_start, chunk.entry_stop)
    return WagonFault("RequiredWagonStopped", message, *where)


def reason(error: BaseException) -> str:
    """Return the message of an error, or its type if the message is empty. For unknown fields, adds similar names; for
    failed arithmetic on records, adds how to use records as vectors.
    """
    said = message_of(error)
    is_of_records = isinstance(error, TypeError | ValueError) and any(one in said for one in _NO_ARITHMETIC)
    hint = _FOUR_VECTORS if is_of_records else _near_fields(error)
    return f"{said} ({hint})" if hint and "did you mean" not in said.lower() else said


def _near_fields(error: BaseException) -> str | None:
    """Return a hint with similar field names if the error is a request for an unknown field of an awkward array; None
    for other errors.
    """
    if type(error) is AttributeError:
        # Python stores the object and the requested name in the error.
        array, name = cast("Any", error.obj), error.name
    elif type(error).__name__ == "FieldNotFoundError":
        array, name = _asked_by_name(error.__traceback__)
    else:
        return None
    # Check the real type: shared weights (`Weights`) pretend to be an array.
    fields = list(array.fields) if issubclass(type(array), ak.Array | ak.Record) else []
    if not isinstance(name, str) or not fields:
        return None
    is_of_vectors = any(one.issubset(fields) for one in _COMPONENTS) and _vectors_have(name)
    return _FOUR_VECTORS if is_of_vectors else near_names_hint(name, fields)


def _vectors_have(name: str) -> bool:
    """Return whether vectors of the package `vector` have this attribute, such as ``deltaR``."""
    try:
        import vector
    except ImportError:
        return False
    return hasattr(vector.MomentumObject4D, name)


def _asked_by_name(frames: TracebackType | None) -> tuple[Any, Any]:
    """Return the array and the name of an unknown field from a traceback, such as ``ptt`` in ``events.Muon["ptt"]``."""
    for frame, _ in traceback.walk_tb(frames):
        asked: Any = frame.f_locals.get("self")
        where = frame.f_locals.get("where")
        if frame.f_code.co_name == "__getitem__" and issubclass(type(asked), ak.Array | ak.Record):
            names = where if isinstance(where, list | tuple) else [where]
            missing = [one for one in names if isinstance(one, str) and one not in asked.fields]
            if missing:
                return asked, missing[0]
    return None, None


def _line_in(frames: TracebackType | None, wagon: Wagon) -> str:
    """Return the innermost line of a traceback that is in the wagon's file. If there is none, return the outermost
    line.
    """
    if frames is None:
        return ""
    own_file: str | None = None
    # A class from a notebook has no file, but its method has.
    for code in (getattr(wagon.code, "process", wagon.code), wagon.code):
        with suppress(TypeError, OSError):
            own_file = inspect.getfile(code)
    found = frames
    step: TracebackType | None = frames
    while step is not None:
        if step.tb_frame.f_code.co_filename == own_file:
            found = step
        step = step.tb_next
    return f"{os.path.basename(found.tb_frame.f_code.co_filename)}, line {found.tb_lineno}"


def in_cells(fault: WagonFault) -> WagonFault:
    """Return a fault with the cells of this notebook in place of the names of their files."""
    file, _, number = fault.line.partition(", line ")
    found = re.search(rf'File "([^"\n]*{re.escape(file)})", line {number}\b', fault.traceback) if number else None
    cell = None if found is None else cell_of(found[1])
    line = fault.line if cell is None else f"{cell}, line {number}"
    return replace(fault, line=line, traceback=with_cells(fault.traceback))


def source_line(fault: WagonFault) -> str:
    """Return the line of the user's code that raised an error, with its place; empty if it is not known."""
    file, _, number = fault.line.partition(", line ")
    found = re.search(rf'{re.escape(file)}"?, line {number}\b.*\n    (.*)', fault.traceback, re.IGNORECASE)
    return f"{fault.line}: {found[1].strip()}" if number and found is not None else ""


def wagon_step(wagon: str, path: str, entry_start: int, entry_stop: int) -> str:
    """Return the name of the step in which a wagon runs on a chunk, as written to a worker's heartbeat. ``Recovery``
    parses the name if the worker dies.
    """
    return f"wagon {wagon} in {path}, entries {entry_start} to {entry_stop}"
