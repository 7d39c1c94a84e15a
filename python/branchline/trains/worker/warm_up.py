"""Measures and reduces the one-time costs of a worker's first chunks: imports, and compilation by numba.

On each machine, only one worker compiles a function; the other workers load the machine code. Functions with
``cache=True`` keep their own cache. All other functions use a cache folder that belongs to the job. A cache from an
earlier job could be wrong, because values that were compiled in, such as constants of other modules, may have changed.
"""

from __future__ import annotations

import builtins
import fcntl
import os
import shutil
import stat
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from branchline.base.limits import COMPILED_CODE_KEPT_S
from branchline.trains.wagons.clock import PhaseClock

_DISPATCHERS, _CONFIG, _CACHES = "numba.core.dispatcher", "numba.core.config", "numba.core.caching"


class CompiledCode:
    """The folder of a job, named by ``key``, in which the workers of this machine share compiled functions."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._is_installed = False
        self._lock = threading.RLock()
        self._depth = 0

    def install(self) -> None:
        """Make numba share all functions that it compiles from now on. Does nothing until numba is loaded."""
        dispatchers: Any = sys.modules.get(_DISPATCHERS)
        if self._is_installed or not hasattr(dispatchers, "Dispatcher"):
            return
        self._is_installed = True
        try:
            folder = _own_folder(self._key)
        except OSError:
            return  # Without the folder, each worker compiles for itself.
        kind = dispatchers.Dispatcher
        compile_alone = kind.compile

        def compile_shared(dispatcher: object, signature: object) -> Any:
            with self._one_at_a_time(folder), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Cannot cache compiled function")
                _enable_cache(dispatcher, folder)
                return compile_alone(dispatcher, signature)

        kind.compile = compile_shared

    @contextmanager
    def _one_at_a_time(self, folder: Path) -> Iterator[None]:
        """Wait while another worker compiles. Reentrant, since compiling a function also compiles the functions that it
        calls.
        """
        with self._lock:
            self._depth += 1
            try:
                if self._depth > 1:
                    yield
                    return
                with (folder / "lock").open("ab") as file:
                    fcntl.flock(file, fcntl.LOCK_EX)  # The kernel releases the lock if this process is killed.
                    yield
            finally:
                self._depth -= 1

    @staticmethod
    def remove(key: str) -> None:
        """Remove a job's folder on this machine."""
        shutil.rmtree(_parent() / key, ignore_errors=True)


def _enable_cache(dispatcher: Any, folder: Path) -> None:
    caches: Any = sys.modules[_CACHES]
    config: Any = sys.modules[_CONFIG]
    if not isinstance(dispatcher._cache, caches.NullCache):
        return
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)
    try:
        with suppress(RuntimeError):  # a function without a source file, for example in a notebook
            dispatcher.enable_caching()
    finally:
        config.CACHE_DIR = before


def _parent() -> Path:
    return Path(tempfile.gettempdir()) / f"branchline-compiled-{os.getuid()}"


def _own_folder(key: str) -> Path:
    """Create the folder of a job. Only this user may write to the folder, because numba unpickles the files in it.
    Raises OSError.
    """
    parent = _parent()
    for one in (parent, parent / key):
        one.mkdir(mode=0o700, exist_ok=True)
        status = one.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise PermissionError(f"{one} is not a folder that only this user can access")
    for old in parent.iterdir():
        # Remove old folders, left by killed jobs and by jobs that were started on other machines.
        if old.stat().st_mtime < time.time() - COMPILED_CODE_KEPT_S:
            shutil.rmtree(old, ignore_errors=True)
    return parent / key


#: Name of the clock phase in which imports and compilations are measured.
WARM_UP = "warmup"
_NUMBA_EVENTS, _COMPILATION = "numba.core.event", "numba:compile"


class WarmUp:
    """Measures the imports and compilations of one thread as a separate phase of a clock."""

    def __init__(self, clock: PhaseClock, compiled: CompiledCode | None = None) -> None:
        """Prepare to measure. ``compiled`` is installed once numba is loaded."""
        self._compiled = compiled
        self._clock = clock
        self._thread = threading.get_ident()
        self._depth = 0
        self._phase_before = ""
        self._listener: Any = None

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure imports and compilations inside this block."""
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
            # A wagon may have replaced the import function as well.
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
        """Register a listener for compilations once numba is loaded."""
        if self._compiled is not None:
            self._compiled.install()
        events: Any = sys.modules.get(_NUMBA_EVENTS)
        if self._listener is None and hasattr(events, "unregister"):
            # Numba calls the listener for functions that it compiles, but not for functions that it loads from a cache.
            methods = {
                "on_start": lambda _self, _event: self._compiles(True),
                "on_end": lambda _self, _event: self._compiles(False),
            }
            self._listener = type("Compilations", (events.Listener,), methods)()
            events.register(_COMPILATION, self._listener)

    def _compiles(self, begins: bool) -> None:
        if threading.get_ident() != self._thread:
            return
        if begins:
            self._begin()
        else:
            self._end()
