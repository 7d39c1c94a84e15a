"""Why a wagon stopped, in words for its author: the error, the chunk, and the line of the author's file."""

from __future__ import annotations

import inspect
import os
import re
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import awkward as ak

from branchline.base.texts import message_of
from branchline.reading.expressions.name_filters import near_names_hint
from branchline.reading.trees.stream import Chunk
from branchline.records.sensors.record import WagonFault
from branchline.trains.wagons.wagons import Wagon

_TRAINS = Path(__file__).parents[1]

#: What a worker's heartbeat says while it unpickles all wagons together.
UNPICKLING_STEP = "unpickling the wagons"

WAGON_STEP_PLACE = re.compile(r" in (?P<path>.*), entries (?P<start>\d+) to (?P<stop>\d+)$", re.DOTALL)

#: What awkward says of records that are calculated with as if they were numbers, or vectors.
_NO_ARITHMETIC = ("cannot broadcast records in ", "overloads for custom types: ")
#: The components of four-vectors, as `vector` knows them, but for the last one.
_COMPONENTS = ({"pt", "eta", "phi"}, {"px", "py", "pz"})
_FOUR_VECTORS = (
    "records calculate as four-vectors with the package vector: "
    'vector.register_awkward() and ak.with_name(records, "Momentum4D")'
)


def fault_of(error: BaseException, wagon: Wagon, chunk: Chunk | None = None, *, is_cut_off: bool = False) -> WagonFault:
    """Return the fault with the traceback from the wagon's own code on, without our frames before it. ``is_cut_off``
    says that a signal interrupted the wagon.
    """
    # A KeyboardInterrupt that no signal caused is no interruption of the job.
    kind = "OwnKeyboardInterrupt" if isinstance(error, KeyboardInterrupt) and not is_cut_off else type(error).__name__
    frames = error.__traceback__
    while frames is not None and _is_of_trains(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames))
    line = _line_in(frames, wagon)
    if chunk is None:
        return WagonFault(kind, reason(error), line=line, traceback=text)
    where = (chunk.path, chunk.entry_start, chunk.entry_stop)
    return WagonFault(kind, reason(error), *where, line, text)


def _is_of_trains(file: str) -> bool:
    """Whether a frame's file runs wagons. The demo's wagons lie among these files, and are like any others."""
    path = Path(file)
    return path.is_relative_to(_TRAINS) and not path.is_relative_to(_TRAINS / "demo")


def because_of(needed: str, chunk: Chunk | None = None) -> WagonFault:
    """The fault of a wagon that requires one that stopped."""
    message = f"requires wagon {needed!r}, which stopped"
    where = () if chunk is None else (chunk.path, chunk.entry_start, chunk.entry_stop)
    return WagonFault("RequiredWagonStopped", message, *where)


def reason(error: BaseException) -> str:
    """What an error says, its name if it says nothing; and for a field that records do not have the nearest names, and
    for records that are no vectors what makes them such.
    """
    said = message_of(error)
    is_of_records = isinstance(error, TypeError | ValueError) and any(one in said for one in _NO_ARITHMETIC)
    hint = _FOUR_VECTORS if is_of_records else _near_fields(error)
    return f"{said} ({hint})" if hint and "did you mean" not in said.lower() else said


def _near_fields(error: BaseException) -> str | None:
    """The names of fields near to the one that an array of awkward was asked for. Looking costs only who fails."""
    if type(error) is AttributeError:
        # Python notes what was asked, and for what.
        array, name = cast("Any", error.obj), error.name
    elif type(error).__name__ == "FieldNotFoundError":
        array, name = _asked_by_name(error.__traceback__)
    else:
        return None
    # Several weights at a time only look like an array.
    fields = list(array.fields) if issubclass(type(array), ak.Array | ak.Record) else []
    if not isinstance(name, str) or not fields:
        return None
    is_of_vectors = any(one.issubset(fields) for one in _COMPONENTS) and _vectors_have(name)
    return _FOUR_VECTORS if is_of_vectors else near_names_hint(name, fields)


def _vectors_have(name: str) -> bool:
    """Whether the package `vector` calculates what has this name, as ``deltaR``."""
    try:
        import vector
    except ImportError:
        return False
    return hasattr(vector.MomentumObject4D, name)


def _asked_by_name(frames: TracebackType | None) -> tuple[Any, Any]:
    """The array that was asked for a field that it does not have, as ``events.Muon["ptt"]``, and the name."""
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
    """The innermost line of the file that the wagon is written in, else where its code was entered."""
    if frames is None:
        return ""
    own_file = _file_of(wagon)
    found = frames
    step: TracebackType | None = frames
    while step is not None:
        if step.tb_frame.f_code.co_filename == own_file:
            found = step
        step = step.tb_next
    return f"{os.path.basename(found.tb_frame.f_code.co_filename)}, line {found.tb_lineno}"


def _file_of(wagon: Wagon) -> str | None:
    try:
        return inspect.getfile(wagon.code)
    except (TypeError, OSError):
        return None  # a class of a notebook has no file


def wagon_step(wagon: str, path: str, entry_start: int, entry_stop: int) -> str:
    """What a worker's heartbeat says while a wagon runs on a chunk; ``Recovery`` reads it after the worker's death."""
    return f"wagon {wagon} in {path}, entries {entry_start} to {entry_stop}"
