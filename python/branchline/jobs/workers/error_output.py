"""What a worker process writes to its standard error: passed on, and its end kept for the record of its death."""

from __future__ import annotations

import os
from contextlib import suppress

from branchline.base.limits import FAILED_LOG_BYTES

_READ_BYTES = 65536
_STANDARD_ERROR = 2


class ErrorOutput:
    """A pipe that is the standard error of a process."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._end = b""
        #: Whether anything more may come.
        self.is_open = True

    def fileno(self) -> int:
        """The end to read from, for a selector."""
        return self._reader

    def handed_over(self) -> None:
        """The process has its end."""
        os.close(self.writer)

    def pass_on(self) -> None:
        """Writes what has come to our own standard error."""
        with suppress(BlockingIOError):
            while self.is_open:
                content = os.read(self._reader, _READ_BYTES)
                self.is_open = bool(content)
                self._end = (self._end + content)[-FAILED_LOG_BYTES:]
                # Where nobody reads our standard error the record still has the end.
                with suppress(OSError):
                    os.write(_STANDARD_ERROR, content)

    def end(self) -> str:
        """The last that it wrote."""
        self.pass_on()
        return self._end.decode(errors="replace")

    def close(self) -> None:
        """Nothing more is read."""
        os.close(self._reader)
