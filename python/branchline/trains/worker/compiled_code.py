"""Machine code that numba makes of wagons: compiled by one worker of a machine, and loaded by the others of the job.

Functions with ``cache=True`` keep their own cache. That of the others is in a folder of the job: numba would take what
it finds in an older one although values that it compiled in, as constants of other modules, have changed since.
"""

from __future__ import annotations

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
from typing import Any

from branchline.base.limits import COMPILED_CODE_KEPT_S

_DISPATCHERS, _CONFIG, _CACHES = "numba.core.dispatcher", "numba.core.config", "numba.core.caching"


class CompiledCode:
    """The folder of a job, named by its ``key``, in which workers of this machine share compiled functions."""

    def __init__(self, key: str) -> None:
        """With an empty key nothing is shared."""
        self._key = key
        self._is_installed = not key
        self._lock = threading.RLock()
        self._depth = 0

    def install(self) -> None:
        """Has numba share what it compiles from now on, once it is loaded."""
        dispatchers: Any = sys.modules.get(_DISPATCHERS)
        if self._is_installed or not hasattr(dispatchers, "Dispatcher"):
            return
        self._is_installed = True
        try:
            folder = _own_folder(self._key)
        except OSError:
            return  # Each worker compiles for itself.
        kind = dispatchers.Dispatcher
        compile_alone = kind.compile

        def compile_shared(dispatcher: Any, signature: Any) -> Any:
            with self._one_at_a_time(folder), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Cannot cache compiled function")
                _enable_cache(dispatcher, folder)
                return compile_alone(dispatcher, signature)

        kind.compile = compile_shared

    @contextmanager
    def _one_at_a_time(self, folder: Path) -> Iterator[None]:
        """Wait while another worker compiles. Compiling a function compiles those that it calls, too."""
        with self._lock:
            self._depth += 1
            try:
                if self._depth > 1:
                    yield
                    return
                with (folder / "lock").open("ab") as file:
                    fcntl.flock(file, fcntl.LOCK_EX)  # The system releases it if this process is killed.
                    yield
            finally:
                self._depth -= 1

    @staticmethod
    def remove(key: str) -> None:
        """Remove the folder of a job on this machine."""
        if key:
            shutil.rmtree(_parent() / key, ignore_errors=True)


def _enable_cache(dispatcher: Any, folder: Path) -> None:
    caches: Any = sys.modules[_CACHES]
    config: Any = sys.modules[_CONFIG]
    if not isinstance(dispatcher._cache, caches.NullCache):
        return
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)
    try:
        with suppress(RuntimeError):  # a function without a file, as of an interactive session
            dispatcher.enable_caching()
    finally:
        config.CACHE_DIR = before


def _parent() -> Path:
    return Path(tempfile.gettempdir()) / f"branchline-compiled-{os.getuid()}"


def _own_folder(key: str) -> Path:
    """The folder of a job, which nobody else can write: numba unpickles what is in it. Raises OSError."""
    parent = _parent()
    for one in (parent, parent / key):
        one.mkdir(mode=0o700, exist_ok=True)
        status = one.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise PermissionError(f"{one} is not a folder of this user alone")
    for old in parent.iterdir():
        # Jobs that were killed leave theirs, and so do those of other machines.
        if old.stat().st_mtime < time.time() - COMPILED_CODE_KEPT_S:
            shutil.rmtree(old, ignore_errors=True)
    return parent / key
