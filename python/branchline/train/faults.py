"""Why a wagon stopped, in words for its author: the error, the chunk, and the line of his file."""

from __future__ import annotations

import inspect
import os
import traceback
from dataclasses import dataclass
from types import TracebackType

from branchline.train.wagons import Wagon
from branchline.tree import Chunk


@dataclass(frozen=True)
class WagonFault:
    """Why a wagon stopped: in which chunk of which file (None if it did not get so far), in which line of which of the
    author's files (empty if none raised), and the traceback in his own code.
    """

    type: str
    message: str
    path: str | None = None
    entry_start: int | None = None
    entry_stop: int | None = None
    line: str = ""
    traceback: str = ""

    def as_dict(self) -> dict[str, object]:
        """For job.json."""
        return dict(vars(self))

    def sentence(self, name: str) -> str:
        """All of it in a sentence about the wagon of this name."""
        where = f" at {self.path}, entries {self.entry_start} to {self.entry_stop}" if self.path else ""
        line = f" ({self.line})" if self.line else ""
        return f"wagon {name} stopped{where}: {self.type}: {self.message}{line}"


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
        return inspect.getfile(type(wagon.thing))
    except (TypeError, OSError):
        return None  # a class of a notebook has no file
