"""Ends child processes that a wagon forked and that return from it, which would run the rest of the job once more."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

MESSAGE = "a process that it forked returned from it; end such a process with os._exit()"


class ForkedChildren:
    """The children that wagons of this process fork. A child marks its wagon in shared memory before it is ended."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._pid = os.getpid()
        self._marks = mmap.mmap(-1, max(1, len(names)))

    @contextmanager
    def ended(self, name: str) -> Iterator[None]:
        """Ends a child at the end of this block, in which the wagon runs."""
        try:
            yield
        finally:
            if os.getpid() != self._pid:
                self._end_child(name)

    def _end_child(self, name: str) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, SystemExit):
            # As it would end in a script of its own.
            os._exit(error.code if isinstance(error.code, int) else int(error.code is not None))
        self._marks[self._names.index(name)] = 1
        os._exit(1)

    def take(self) -> list[str]:
        """Return the wagons whose children were ended since the last call."""
        if not any(self._marks[:]):
            return []
        found = [name for position, name in enumerate(self._names) if self._marks[position]]
        self._marks[:] = bytes(len(self._marks))
        return found
