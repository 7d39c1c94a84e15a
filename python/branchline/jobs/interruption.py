"""Ctrl-C that never leaves a sum half added: it stops at once where that is harmless, else after the step at hand."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interruption:
    """Turns SIGINT into ``asked``, and into KeyboardInterrupt only inside ``allowed()`` (or when asked twice)."""

    def __init__(self) -> None:
        self.asked = False
        self.when_asked: Callable[[], None] | None = None
        self._allowed = False

    @contextmanager
    def installed(self) -> Iterator[Interruption]:
        """Listens to SIGINT inside the block; outside the main thread, where Python does not allow it, does nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        previous = signal.signal(signal.SIGINT, self._on_signal)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, previous)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Inside this block a Ctrl-C raises KeyboardInterrupt at once; one that came before raises on entering."""
        if self.asked:
            raise KeyboardInterrupt
        self._allowed = True
        try:
            yield
        finally:
            self._allowed = False

    def _on_signal(self, _number: int, _frame: FrameType | None) -> Any:
        again = self.asked
        self.asked = True
        if self.when_asked is not None and not again:
            self.when_asked()
        if self._allowed or again:
            raise KeyboardInterrupt
