"""Counts the lines of Python that a wagon executes in a chunk, which tells loops over events from array operations."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

#: Counting stops after these lines, in addition to two lines per event. A wagon that works on whole arrays rarely
#: executes more in a chunk.
LINES_MAX = 10_000
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_PACKAGE = str(Path(__file__).parents[2])


class PythonLines:
    """Counts lines once per wagon, in the second chunk that it processes: in the first one, packages are imported and
    functions compiled.
    """

    def __init__(self) -> None:
        self._chunks: dict[str, int] = {}
        self.lines = 0

    @contextmanager
    def counted(self, wagon: str, events: int) -> Iterator[None]:
        """Count the lines that the block executes in the user's code, if it is the wagon's second chunk. ``lines`` then
        has the number, otherwise 0.

        The thread must not be traced already, for example by a debugger.
        """
        self.lines = 0
        chunk = self._chunks[wagon] = self._chunks.get(wagon, 0) + 1
        if chunk != 2 or not events or sys.gettrace() is not None:
            yield
            return
        most = LINES_MAX + 2 * events

        def line(_frame: FrameType, event: str, _: object) -> object:
            if event == "line":
                self.lines += 1
                if self.lines >= most:
                    sys.settrace(None)
                    return None
            return line

        def call(frame: FrameType, _event: str, _: object) -> object:
            return line if _is_of_user(frame.f_code.co_filename) else None

        sys.settrace(call)  # type: ignore[arg-type]  # typeshed expects an unnamed callback type
        try:
            yield
        finally:
            # The wagon may have set another function.
            if sys.gettrace() is call:
                sys.settrace(None)


@cache
def _is_of_user(file: str) -> bool:
    """Return whether a file is neither of an installed package nor of Branchline, and not generated code."""
    return not file.startswith(("<frozen", "<string>", "<__", _PACKAGE, *_LIBRARIES))
