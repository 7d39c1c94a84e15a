"""Ctrl-C and SIGTERM that never leave a sum half added: they stop at once where that is harmless, else after the step.

SIGTERM is what batch systems send when the time of a job is up, some seconds before they kill it.
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
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Long enough for any callback that swallowed an interruption to be over.
AGAIN_AFTER_S = 0.01


class Interruption:
    """Turns the signals into ``asked``, and into KeyboardInterrupt only inside ``allowed()``, or in ``waiting()`` when
    they are repeated. Elsewhere it never raises, so what is between two such blocks is done to its end.
    """

    def __init__(self) -> None:
        self.asked = False
        self.when_asked: Callable[[], None] | None = None
        self._count = 0
        # How often it must be asked to raise outside of ``allowed()``; None if it does not.
        self._enough: int | None = None
        self._allowed = False
        self._held = False
        self._kept_waiting = False
        self._in_hook = False

    @contextmanager
    def installed(self) -> Iterator[Interruption]:
        """Listens to the signals inside the block; outside the main thread, where Python does not allow it, does
        nothing.
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
        """Inside this block a signal raises KeyboardInterrupt at once; one that came before raises on entering."""
        self._allowed = True
        try:
            if self.asked:
                raise KeyboardInterrupt
            yield
        finally:
            self._allowed = False

    @contextmanager
    def waiting(self, *, enough: int = 2) -> Iterator[None]:
        """Inside this block KeyboardInterrupt is raised from the signal number ``enough`` on: whoever asks so often
        does not want to wait for those who end in good order.
        """
        self._enough = enough
        try:
            yield
        finally:
            self._enough = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside this block nothing is raised; what would have been is raised behind it."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._kept_waiting:
            self._kept_waiting = False
            raise KeyboardInterrupt

    def _on_signal(self, _number: int, _frame: FrameType | None) -> Any:
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

    def _coming_again_or(self, hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Where Python cannot let a KeyboardInterrupt out, as in a weak reference's callback, it prints and forgets it:
        it comes again a moment later. In the hook itself it would be forgotten too, so it waits until the hook has
        ended, which may take long on a busy machine.
        """

        def come_again() -> None:
            while self._in_hook:
                time.sleep(AGAIN_AFTER_S)
            if signal.getsignal(signal.SIGINT) == self._on_signal:
                os.kill(os.getpid(), signal.SIGINT)

        def unraisable(what: Any) -> None:
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
    """A process started in here starts without hearing the signals, until it says that it can deal with them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
