"""Why a wagon stopped, in words for its author: the error, the chunk, and the line of the author's file."""

from __future__ import annotations

import inspect
import os
import traceback
from types import TracebackType

from branchline.sensors.record import WagonFault
from branchline.train.wagons import Wagon
from branchline.tree import Chunk


def fault_of(error: BaseException, wagon: Wagon, chunk: Chunk | None = None) -> WagonFault:
    """The fault with the traceback from the wagon's own code on, without our frames before it."""
    frames = error.__traceback__
    while frames is not None and "branchline/train/" in frames.tb_frame.f_code.co_filename:
        frames = frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames))
    line = _line_in(frames, wagon)
    if chunk is None:
        return WagonFault(type(error).__name__, reason(error), line=line, traceback=text)
    where = (chunk.path, chunk.entry_start, chunk.entry_stop)
    return WagonFault(type(error).__name__, reason(error), *where, line, text)


def because_of(needed: str, chunk: Chunk | None = None) -> WagonFault:
    """The fault of a wagon that requires one that stopped."""
    message = f"requires wagon {needed!r}, which stopped"
    where = () if chunk is None else (chunk.path, chunk.entry_start, chunk.entry_stop)
    return WagonFault("RequiredWagonStopped", message, *where)


def reason(error: BaseException) -> str:
    """What an error says; its name if it says nothing."""
    return str(error) or type(error).__name__


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
