"""Measures what only the first chunks of a worker pay for: imports, and compilation by numba."""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from branchline.trains.wagons.clock import PhaseClock
from branchline.trains.worker.compiled_code import CompiledCode

#: The phase of the clock.
WARM_UP = "warmup"
_NUMBA_EVENTS, _COMPILATION = "numba.core.event", "numba:compile"


class WarmUp:
    """Has a clock measure imports and compilations of one thread in a phase of their own."""

    def __init__(self, clock: PhaseClock, compiled: CompiledCode | None = None) -> None:
        """``compiled`` is told when numba is loaded."""
        self._compiled = compiled
        self._clock = clock
        self._thread = threading.get_ident()
        self._depth = 0
        self._phase_before = ""
        self._listener: Any = None

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure inside the block."""
        before = builtins.__import__

        def timed_import(name: str, *args: Any, **more: Any) -> ModuleType:
            if name in sys.modules or threading.get_ident() != self._thread:
                return before(name, *args, **more)
            self._begin()
            try:
                return before(name, *args, **more)
            finally:
                self._end()
                self._listen()

        self._listen()
        builtins.__import__ = timed_import
        try:
            yield
        finally:
            # A wagon may have replaced it, too.
            if builtins.__import__ is timed_import:
                builtins.__import__ = before
            if self._listener is not None:
                sys.modules[_NUMBA_EVENTS].unregister(_COMPILATION, self._listener)
                self._listener = None

    def _begin(self) -> None:
        if self._depth == 0:
            self._phase_before = self._clock.switch(WARM_UP)
        self._depth += 1

    def _end(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._clock.switch(self._phase_before)

    def _listen(self) -> None:
        """Listen to numba from the moment on at which it is loaded."""
        if self._compiled is not None:
            self._compiled.install()
        events: Any = sys.modules.get(_NUMBA_EVENTS)
        if self._listener is None and hasattr(events, "unregister"):
            self._listener = _listener_of(events.Listener, self._compiles)
            events.register(_COMPILATION, self._listener)

    def _compiles(self, begins: bool) -> None:
        if threading.get_ident() != self._thread:
            return
        if begins:
            self._begin()
        else:
            self._end()


def _listener_of(listener: type, compiles: Callable[[bool], None]) -> Any:
    """A listener of numba's: it is called for each function that is compiled, not for those in the cache."""
    methods = {"on_start": lambda _self, _event: compiles(True), "on_end": lambda _self, _event: compiles(False)}
    return type("Compilations", (listener,), methods)()
