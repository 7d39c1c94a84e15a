"""Isolates wagons from each other: undoes a wagon's changes to the process, or stops the wagon with an error.

- `ProcessState` restores the state of the process after each call: working directory, umask, environment, settings of
  Python and NumPy, locale, warning filters, standard streams, signal handlers, timer.
- `seeded` gives a wagon the same random numbers in every process, and for every choice of other wagons.
- `ForkedChildren` ends forked child processes that return from the wagon's code, because they would run the rest of the
  job a second time.
- `SharedFunctions` stops a wagon that replaces a shared function or class, and restores the original.
"""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import hashlib
import locale
import mmap
import os
import random
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

import numpy as np
import numpy.random

from branchline.errors import WagonError

#: Signals whose handlers are restored, because Branchline or user programs set handlers for them. Timers send SIGALRM.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD)
# If the end of a timer differs from its expected end by more than this, a wagon has changed the timer.
_TIMERS_DIFFER_S = 0.1
#: Message of the error of a wagon whose forked child process returned.
CHILD_RETURNED = "a forked child process returned from the wagon; end child processes with os._exit()"

#: Modules that wagons use in calculations. Functions of these modules are restored if a wagon replaces them after the
#: module was loaded.
_MODULES = (
    "builtins",
    "math",
    "cmath",
    "random",
    "copy",
    "time",
    "os",
    "numpy",
    "numpy.linalg",
    "numpy.random",
    "numpy.fft",
    "awkward",
    "hist",
    "boost_histogram",
    "vector",
)
#: Classes of the modules above whose methods are restored too; all of them are implemented in Python.
_CLASSES = (
    ("awkward", "Array"),
    ("awkward", "Record"),
    ("awkward", "ArrayBuilder"),
    ("hist", "Hist"),
    ("boost_histogram", "Histogram"),
)
#: Methods that are restored although their names start with an underscore. Other private names are not restored,
#: because libraries replace them themselves.
_OPERATORS = frozenset({"__getitem__", "__getattr__", "__array_ufunc__", "__array_function__", "__add__", "__init__"})


# --- the state of the process -----------------------------------------------------------------------------------------


class ProcessState:
    """The state of this process at the creation of the object, which can be restored later. ``files`` are the standard
    files from before the first wagon ran.
    """

    def __init__(self, files: StandardFiles) -> None:
        self._files = files
        self._is_main = threading.current_thread() is threading.main_thread()
        self._directory = _directory()
        self._numpy = np.geterr(), np.geterrcall()
        self._locale = locale.setlocale(locale.LC_ALL)
        self._streams = sys.stdin, sys.stdout, sys.stderr
        self._path = list(sys.path)
        self._settings = _settings()
        # Read the clock before getitimer(), so that a timer never seems to end later than it does.
        now_s = time.monotonic()
        left_s, self._timer_interval_s = signal.getitimer(signal.ITIMER_REAL)
        self._timer_ends_s = now_s + left_s if left_s else None
        self._take_what_modules_change()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Restore the state after this block."""
        self._modules_count = len(sys.modules)
        try:
            yield
        finally:
            self.restore()

    def _take_what_modules_change(self) -> None:
        """Record the part of the state that modules change when they are imported. Such changes are not undone, because
        a module makes them only once.
        """
        self._modules_count = len(sys.modules)
        self._environment = _environment().copy()
        self._filters = list(warnings.filters)
        # Handlers can only be set in the main thread.
        self._handlers = [signal.getsignal(one) for one in _SIGNALS] if self._is_main else []

    def restore(self) -> None:
        """Undo the changes since the object was created."""
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
            # Imports from folders that the wagon added still work, but no longer hide other modules.
            sys.path[:] = [*self._path, *(one for one in sys.path if one not in self._path)]
        if _settings() != self._settings:
            self._restore_settings()
        # Stop a changed timer while handlers are restored: the wagon's timer must not call the caller's handler, and
        # the caller's timer must not call the wagon's handler.
        timer = self._changed_timer() if self._is_main else None
        if timer is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            if self._is_main:
                # Always restore the handler of SIGALRM: the caller's timer must call the caller's handler. Modules do
                # not set this handler when they are imported.
                self._restore_handler(signal.SIGALRM)
            if len(sys.modules) == self._modules_count:
                self._restore_what_modules_change()
            else:
                self._take_what_modules_change()
        finally:
            if timer is not None:
                signal.setitimer(signal.ITIMER_REAL, *timer)

    def _restore_what_modules_change(self) -> None:
        if _environment() != self._environment:
            before = {os.fsdecode(name): os.fsdecode(value) for name, value in self._environment.items()}
            for name in os.environ.keys() - before.keys():
                del os.environ[name]
            os.environ.update(before)
        if warnings.filters != self._filters:
            warnings.filters[:] = self._filters  # type: ignore[index]
            with warnings.catch_warnings():
                pass  # Invalidates Python's cache of the filters.
        if self._is_main:
            for one in _SIGNALS:
                self._restore_handler(one)

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

    def _restore_handler(self, number: signal.Signals) -> None:
        handler = self._handlers[_SIGNALS.index(number)]
        # None means that the handler was not set by Python code, and cannot be restored.
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)

    def _changed_timer(self) -> tuple[float, float] | None:
        """Return the caller's timer, as seconds until its next alarm and interval; None if the timer was not
        changed.
        """
        left_s, interval_s = signal.getitimer(signal.ITIMER_REAL)
        if self._timer_ends_s is None:
            return (0.0, 0.0) if left_s else None
        planned_s = self._timer_ends_s - time.monotonic()
        if self._timer_interval_s:
            if planned_s <= 0:
                planned_s = self._timer_interval_s - -planned_s % self._timer_interval_s
            differ_s = abs(left_s - planned_s)
            # An alarm may occur between the two clock readings.
            differ_s = min(differ_s, abs(self._timer_interval_s - differ_s))
            is_same = interval_s == self._timer_interval_s and left_s > 0 and differ_s <= _TIMERS_DIFFER_S
            return None if is_same else (planned_s, self._timer_interval_s)
        # After the caller's timer has expired, its handler may have set a new timer.
        is_same = planned_s <= 0 or (left_s > 0 and not interval_s and abs(left_s - planned_s) <= _TIMERS_DIFFER_S)
        return None if is_same else (planned_s, 0.0)


def _directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def _settings() -> tuple[Any, ...]:
    """Return the process-wide settings of Python and NumPy."""
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
    """Return the environment as Python stores it internally. Copying ``os.environ`` itself takes 60 us, because each
    entry is decoded.
    """
    return os.environ._data  # type: ignore[attr-defined,no-any-return]


class StandardFiles:
    """The umask, and the files open as standard input, output and error, when the object was created."""

    def __init__(self) -> None:
        # The umask can only be read by setting it.
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        # For each standard descriptor: a duplicate, and the identity of the open file.
        self._open: dict[int, tuple[int, tuple[int, int]]] = {}
        for one in range(3):
            with suppress(OSError):
                self._open[one] = fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 3), _identity(one)

    def restore(self) -> None:
        """Undo the changes since the object was created."""
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
            # A wagon may have closed the duplicate, and its descriptor may now belong to another file.
            with suppress(OSError):
                if _identity(copy) == identity:
                    os.close(copy)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


# --- random numbers ---------------------------------------------------------------------------------------------------


@contextmanager
def seeded(seed: int, wagon: str, path: str, tree: str, entry_start: int) -> Iterator[None]:
    """Seed ``random`` and ``numpy.random`` for a wagon on a chunk. After the block, the previous states of both
    generators are restored.
    """
    digest = hashlib.sha256(repr((seed, wagon, path, tree, entry_start)).encode(errors="surrogatepass")).digest()
    state, numpy_state = random.getstate(), numpy.random.get_state()  # noqa: NPY002
    random.seed(int.from_bytes(digest))
    numpy.random.seed(int.from_bytes(digest[:4]))  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(state)
        numpy.random.set_state(numpy_state)  # noqa: NPY002


# --- forked child processes -------------------------------------------------------------------------------------------


class ForkedChildren:
    """Ends child processes that wagons of this process fork and that return from the wagon's code. Each child process
    first marks its wagon in shared memory.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._pid = os.getpid()
        self._marks = mmap.mmap(-1, max(1, len(names)))

    @contextmanager
    def ended(self, name: str) -> Iterator[None]:
        """Enclose the run of a wagon. A child process that reaches the end of this block is ended."""
        try:
            yield
        finally:
            if os.getpid() != self._pid:
                error = sys.exc_info()[1]
                if isinstance(error, SystemExit):
                    # Exit as Python does in a separate script.
                    os._exit(error.code if isinstance(error.code, int) else int(error.code is not None))
                self._marks[self._names.index(name)] = 1
                os._exit(1)

    def take(self) -> list[str]:
        """Return the wagons whose child processes were ended since the last call."""
        if not any(self._marks[:]):
            return []
        found = [name for position, name in enumerate(self._names) if self._marks[position]]
        self._marks[:] = bytes(len(self._marks))
        return found


# --- shared functions -------------------------------------------------------------------------------------------------


class SharedFunctions:
    """The functions of shared modules and classes, as they were when their module was first seen."""

    def __init__(self) -> None:
        self._loaded: dict[str, ModuleType] = {}
        self._known: dict[str, tuple[Any, dict[Any, Any]]] = {}
        self.see()

    def see(self) -> None:
        """Record the functions of modules that were loaded since the last call."""
        for name in _MODULES:
            module = sys.modules.get(name)
            if module is None or name in self._loaded:
                continue
            self._loaded[name] = module
            self._known[name] = module, dict(vars(module))
            for kind in (kind for of, kind in _CLASSES if of == name):
                found = vars(module)[kind]
                self._known[f"{name}.{kind}"] = found, dict(vars(found))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Restore replaced functions after this block. Raises WagonError if the block replaced any, since the wagon
        would then run without its replacements.
        """
        try:
            yield
        except BaseException:
            self.restore()
            raise
        if replaced := self.restore():
            what = f"it replaced shared functions: {', '.join(replaced[:5])}{' ...' if len(replaced) > 5 else ''}"
            raise WagonError(what, hint="call a function of your own instead; the originals are restored")

    def restore(self) -> list[str]:
        """Restore replaced functions, and return their names."""
        replaced = [name for name, module in self._loaded.items() if sys.modules.get(name) is not module]
        for name in replaced:
            sys.modules[name] = self._loaded[name]
        for label, (owner, known) in self._known.items():
            if not _is_same(vars(owner), known):
                replaced += [f"{label}.{name}" for name in _restored(owner, known)]
        self.see()
        return replaced


def _is_same(now: MutableMapping[Any, Any], known: dict[Any, Any]) -> bool:
    try:
        # Comparing dicts, which checks for identical values first, takes a tenth of the time of a loop.
        return now == known
    except Exception:  # noqa: BLE001 - comparing user objects may raise anything
        return False


def _restored(owner: object, known: dict[Any, Any]) -> Iterator[str]:
    """Restore replaced or deleted names, and yield these names. New names, for example of imported modules, are
    recorded.
    """
    now = dict(vars(owner))
    for name, value in known.items():
        is_private = name.startswith("_") and name not in _OPERATORS
        if now.get(name) is value or is_private or isinstance(value, ModuleType):
            continue
        setattr(owner, name, value)
        yield name
    known.update({name: value for name, value in vars(owner).items() if name not in known or name.startswith("_")})
