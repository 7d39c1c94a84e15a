"""What a wagon may change in its process and other wagons rely on, restored after each call: working directory, mask of
new files, environment, settings of Python and NumPy, locale, warning filters, standard streams, signal handlers, timer.
"""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import locale
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

#: The signals that Branchline and programs of users handle. SIGALRM comes from timers.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD)


class StandardFiles:
    """The mask of new files, and the files of standard input, output and error, as they are now."""

    def __init__(self) -> None:
        # It can only be read by setting it.
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        # By descriptor: a copy, and the identity of the file.
        self._open: dict[int, tuple[int, tuple[int, int]]] = {}
        for one in range(3):
            with suppress(OSError):
                self._open[one] = fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 3), _identity(one)

    def restore(self) -> None:
        """Undo what was changed since then."""
        os.umask(self._umask)
        for descriptor, (copy, identity) in self._open.items():
            try:
                is_same = _identity(descriptor) == identity
            except OSError:
                is_same = False
            if not is_same:
                with suppress(OSError):
                    os.dup2(copy, descriptor)

    def __del__(self) -> None:
        for copy, identity in self._open.values():
            # A wagon may have closed it, and another file may have its number.
            with suppress(OSError):
                if _identity(copy) == identity:
                    os.close(copy)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


class ProcessState:
    """The state of this process when it was made. ``files`` are from before the first wagon ran."""

    def __init__(self, files: StandardFiles) -> None:
        self._files = files
        self._is_main = threading.current_thread() is threading.main_thread()
        self._directory = _directory()
        self._numpy = np.geterr(), np.geterrcall()
        self._locale = locale.setlocale(locale.LC_ALL)
        self._streams = sys.stdin, sys.stdout, sys.stderr
        self._path = list(sys.path)
        self._settings = _settings()
        # A timer of the caller goes on.
        self._has_timer = signal.getitimer(signal.ITIMER_REAL)[0] > 0
        self._take_what_modules_change()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Restore the state behind this block."""
        self._modules_count = len(sys.modules)
        try:
            yield
        finally:
            self.restore()

    def _take_what_modules_change(self) -> None:
        """Take what modules change when they are imported, which stays, since they do so only once."""
        self._modules_count = len(sys.modules)
        self._environment = _environment().copy()
        self._filters = list(warnings.filters)
        # Outside the main thread handlers cannot be set.
        self._handlers = [signal.getsignal(one) for one in _SIGNALS] if self._is_main else []

    def restore(self) -> None:
        """Undo what was changed since then."""
        if self._directory is not None and _directory() != self._directory:
            with suppress(OSError):
                os.chdir(self._directory)
        errors, handler = self._numpy
        if np.geterr() != errors or np.geterrcall() is not handler:
            np.seterr(**errors)
            np.seterrcall(handler)
        if locale.setlocale(locale.LC_ALL) != self._locale:
            locale.setlocale(locale.LC_ALL, self._locale)
        sys.stdin, sys.stdout, sys.stderr = self._streams
        self._files.restore()
        if sys.path != self._path:
            # What the wagon imports later from a folder of its own is still found, but hides nothing of others.
            sys.path[:] = [*self._path, *(one for one in sys.path if one not in self._path)]
        if _settings() != self._settings:
            self._restore_settings()
        if len(sys.modules) != self._modules_count:
            self._take_what_modules_change()
            return
        if _environment() != self._environment:
            self._restore_environment()
        if warnings.filters != self._filters:
            warnings.filters[:] = self._filters  # type: ignore[index]
            with warnings.catch_warnings():
                pass  # Python forgets what it knows of the filters.
        if self._is_main:
            self._restore_handlers()

    def _restore_settings(self) -> None:
        limit, interval, is_collecting, thresholds, timeout_s, has_faulthandler, printing = self._settings
        sys.setrecursionlimit(limit)
        sys.setswitchinterval(interval)
        (gc.enable if is_collecting else gc.disable)()
        gc.set_threshold(*thresholds)
        socket.setdefaulttimeout(timeout_s)
        if has_faulthandler and not faulthandler.is_enabled():
            faulthandler.enable()
        np.set_printoptions(**printing)

    def _restore_environment(self) -> None:
        before = {os.fsdecode(name): os.fsdecode(value) for name, value in self._environment.items()}
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)

    def _restore_handlers(self) -> None:
        if not self._has_timer and signal.getitimer(signal.ITIMER_REAL)[0]:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for one, handler in zip(_SIGNALS, self._handlers, strict=True):
            # None is a handler that was not set from Python, and cannot be set.
            if handler is not None and signal.getsignal(one) is not handler:
                signal.signal(one, handler)


def _directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def _settings() -> tuple[Any, ...]:
    """Settings of Python and NumPy that hold for the whole process."""
    return (
        sys.getrecursionlimit(),
        sys.getswitchinterval(),
        gc.isenabled(),
        gc.get_threshold(),
        socket.getdefaulttimeout(),
        faulthandler.is_enabled(),
        np.get_printoptions(),
    )


def _environment() -> dict[Any, Any]:
    """The environment as Python holds it. A copy by way of ``os.environ`` decodes each entry, and takes 60 us."""
    return os.environ._data  # type: ignore[attr-defined,no-any-return]
