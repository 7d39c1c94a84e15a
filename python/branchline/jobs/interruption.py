"""Ctrl-C and SIGTERM handling that never leaves a sum half added.

A signal interrupts immediately where that is safe, otherwise after the current step. Batch systems send SIGTERM when a
job reaches its time limit, a few seconds before they kill the job.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Delay before a swallowed KeyboardInterrupt is repeated. By then, the callback that swallowed it has returned.
AGAIN_AFTER_S = 0.01


class Interruption:
    """Turns signals into the flag ``asked``.

    A signal raises KeyboardInterrupt inside ``allowed()``; a repeated signal also raises it inside ``waiting()``. Code
    outside of these blocks is never interrupted.
    """

    def __init__(self) -> None:
        self.asked = False
        self.when_asked: Callable[[], None] | None = None
        self._count = 0
        # From this number of signals on, KeyboardInterrupt is also raised outside of ``allowed()``; None means never.
        self._enough: int | None = None
        self._allowed = False
        self._held = False
        self._kept_waiting = False
        self._in_hook = False

    @contextmanager
    def installed(self) -> Iterator[Interruption]:
        """Handle signals inside the ``with`` block. Does nothing outside the main thread, where Python does not allow
        handlers.
        """
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        previous = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        hook, sys.unraisablehook = sys.unraisablehook, self._coming_again_or(sys.unraisablehook)
        try:
            yield self
        finally:
            sys.unraisablehook = hook
            for number, handler in previous.items():
                signal.signal(number, handler)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Let a signal raise KeyboardInterrupt immediately inside the ``with`` block. If a signal arrived earlier,
        KeyboardInterrupt is raised on entering the block.
        """
        self._allowed = True
        try:
            if self.asked:
                raise KeyboardInterrupt
            yield
        finally:
            self._allowed = False

    @contextmanager
    def waiting(self, *, enough: int = 2) -> Iterator[None]:
        """Raise KeyboardInterrupt inside the ``with`` block once ``enough`` signals have arrived in total.

        With the default, a second Ctrl-C skips the graceful shutdown.
        """
        self._enough = enough
        try:
            yield
        finally:
            self._enough = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Defer KeyboardInterrupt until the end of the ``with`` block."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._kept_waiting:
            self._kept_waiting = False
            raise KeyboardInterrupt

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        again = self.asked
        self.asked = True
        self._count += 1
        if self.when_asked is not None and not again:
            self.when_asked()
        is_enough = self._enough is not None and self._count >= self._enough
        if self._in_hook or not (self._allowed or is_enough):
            return
        if self._held:
            self._kept_waiting = True
        else:
            raise KeyboardInterrupt

    def _coming_again_or(self, hook: Callable[[UnraisableHookArgs], object]) -> Callable[[UnraisableHookArgs], None]:
        """Return an ``unraisablehook`` that repeats a KeyboardInterrupt which Python could not raise, for example in a
        weakref callback. Other errors are passed to ``hook``.

        The signal is sent again after the hook has returned, because inside the hook it would be lost again.
        """

        def come_again() -> None:
            while self._in_hook:
                time.sleep(AGAIN_AFTER_S)
            if signal.getsignal(signal.SIGINT) == self._on_signal:
                os.kill(os.getpid(), signal.SIGINT)

        def unraisable(what: UnraisableHookArgs) -> None:
            if not issubclass(what.exc_type, KeyboardInterrupt):
                hook(what)
                return
            self._in_hook = True
            try:
                threading.Timer(AGAIN_AFTER_S, come_again).start()
            finally:
                self._in_hook = False

        return unraisable


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Block the signals in processes that are started inside the ``with`` block; the processes have to unblock them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
