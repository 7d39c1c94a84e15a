"""Isolates wagons from each other: restores what a wagon changes in its process, or names the wagon.

- `ProcessState`: what other wagons rely on is restored after each call: working directory, mask of new files,
  environment, settings of Python and NumPy, locale, warning filters, standard streams, signal handlers, timer.
- `seeded`: a wagon draws the same random numbers wherever and beside whatever it runs.
- `ForkedChildren`: child processes that a wagon forked and that return from it are ended, as they would run the rest of
  the job once more.
- `SharedFunctions`: a wagon that replaces a function or class that all wagons use is stopped, and it is restored.
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
import warnings
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

import numpy as np
import numpy.random

from branchline.errors import WagonError

#: The signals that Branchline and programs of users handle. SIGALRM comes from timers.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD)
#: The error of a wagon whose forked process returned.
MESSAGE = "a process that it forked returned from it; end such a process with os._exit()"

#: Modules that wagons calculate with: their functions are restored, from when the module is loaded on.
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
#: Classes of these modules that are written in Python.
_CLASSES = (
    ("awkward", "Array"),
    ("awkward", "Record"),
    ("awkward", "ArrayBuilder"),
    ("hist", "Hist"),
    ("boost_histogram", "Histogram"),
)
#: Methods whose names begin with an underscore, as private names do, which libraries replace themselves.
_OPERATORS = frozenset({"__getitem__", "__getattr__", "__array_ufunc__", "__array_function__", "__add__", "__init__"})


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


@contextmanager
def seeded(seed: int, wagon: str, path: str, tree: str, entry_start: int) -> Iterator[None]:
    """Seed ``random`` and ``numpy.random`` for a wagon on a chunk; behind the block they go on as before."""
    digest = hashlib.sha256(repr((seed, wagon, path, tree, entry_start)).encode(errors="surrogatepass")).digest()
    state, numpy_state = random.getstate(), numpy.random.get_state()  # noqa: NPY002
    random.seed(int.from_bytes(digest))
    numpy.random.seed(int.from_bytes(digest[:4]))  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(state)
        numpy.random.set_state(numpy_state)  # noqa: NPY002


class ForkedChildren:
    """The children that wagons of this process fork. A child marks its wagon in shared memory before it is ended."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._pid = os.getpid()
        self._marks = mmap.mmap(-1, max(1, len(names)))

    @contextmanager
    def ended(self, name: str) -> Iterator[None]:
        """Ends a child at the end of this block, in which the wagon runs."""
        try:
            yield
        finally:
            if os.getpid() != self._pid:
                self._end_child(name)

    def _end_child(self, name: str) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, SystemExit):
            # As it would end in a script of its own.
            os._exit(error.code if isinstance(error.code, int) else int(error.code is not None))
        self._marks[self._names.index(name)] = 1
        os._exit(1)

    def take(self) -> list[str]:
        """Return the wagons whose children were ended since the last call."""
        if not any(self._marks[:]):
            return []
        found = [name for position, name in enumerate(self._names) if self._marks[position]]
        self._marks[:] = bytes(len(self._marks))
        return found


class SharedFunctions:
    """The functions of these modules and classes, as they were when they were seen first."""

    def __init__(self) -> None:
        self._loaded: dict[str, ModuleType] = {}
        self._known: dict[str, tuple[Any, dict[Any, Any]]] = {}
        self.see()

    def see(self) -> None:
        """Take up modules that were loaded since the last call."""
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
        """Restore them behind this block. Raises WagonError if it replaced any: it would go on without."""
        try:
            yield
        except BaseException:
            self.restore()
            raise
        if replaced := self.restore():
            what = f"it replaced {', '.join(replaced[:5])}{' ...' if len(replaced) > 5 else ''}, which other wagons use"
            raise WagonError(what, hint="call a function of your own in its place; what was replaced is restored")

    def restore(self) -> list[str]:
        """Put back what was replaced, and return its names."""
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
        # A mapping that compares its values by identity first takes a tenth of the time of a loop.
        return now == known
    except Exception:  # noqa: BLE001 - values of users may be compared in any way
        return False


def _restored(owner: Any, known: dict[Any, Any]) -> Iterator[str]:
    """The names that were replaced or deleted; new ones, as of modules that were imported, become known."""
    now = dict(vars(owner))
    for name, value in known.items():
        is_private = name.startswith("_") and name not in _OPERATORS
        if now.get(name) is value or is_private or isinstance(value, ModuleType):
            continue
        setattr(owner, name, value)
        yield name
    known.update({name: value for name, value in vars(owner).items() if name not in known or name.startswith("_")})
