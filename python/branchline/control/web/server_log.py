"""What the server writes to its terminal, bounded: whoever reaches the port could fill a disk with it otherwise."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from branchline.base.limits import LOG_LINES_MAX, LOG_SPAN_S


class BoundedLines(logging.Filter):
    """Lets through LOG_LINES_MAX messages in LOG_SPAN_S, and says of those before it how many it has left out."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._began_s = now_s()
        self._count = 0
        self._left_out = 0
        self._turn = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a message is written."""
        with self._turn:
            if self._now_s() - self._began_s > LOG_SPAN_S:
                self._began_s, self._count = self._now_s(), 0
            self._count += 1
            if self._count > LOG_LINES_MAX:
                self._left_out += 1
                return False
            left_out, self._left_out = self._left_out, 0
        if left_out:
            record.msg, record.args = f"{record.getMessage()} ({left_out} messages before it were left out)", ()
        return True
