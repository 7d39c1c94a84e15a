"""What wagons do wrong, one function for each kind, and the wagons that run beside them and notice it.

A function is called for the chunks of the second file on; before that the wagon is a usual one. It gets the events, and
returns what the wagon returns for the chunk, None for its usual result.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import faulthandler
import gc
import io
import itertools
import json
import locale
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
from tests.faults import shared_helper

SEGFAULT, ABORT = "segfault", "abort"


class NoTextError(Exception):
    """Its text cannot be made."""

    def __str__(self) -> str:
        return "%d of %s" % (self.args)  # noqa: UP031

    __repr__ = __str__


class PanicException(BaseException):
    """As those of polars and other libraries in Rust, derived from BaseException alone."""


class FailsInJob:
    """A result that is unpickled where it was made, and nowhere else."""

    def __init__(self) -> None:
        self.process = os.getpid()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.process != os.getpid():
            raise OSError("the session is gone")


class FailsInAddition:
    """A result that cannot be added."""

    def __add__(self, _other: Any) -> Any:
        raise NoTextError("x")


class BrokenKey:
    """A key that cannot be compared."""

    def __hash__(self) -> int:
        return 1

    def __eq__(self, _other: object) -> bool:
        raise PanicException("not comparable")


def _raise(error: BaseException) -> Any:
    raise error


def _recurse(depth: int) -> int:
    return _recurse(depth + 1) + 1


def _children() -> None:
    subprocess.Popen(["sleep", "2"], stdout=subprocess.DEVNULL)


def _fork(*, raises: bool) -> None:
    if os.fork() == 0 and raises:
        raise ValueError("in the child")


def _thread(function: Callable[[], Any]) -> None:
    threading.Thread(target=function, daemon=True).start()


def _in_place(events: Any) -> None:
    np.asarray(events.px)[:] = 0.0


def _patched(module: Any, name: str, value: Any) -> None:
    setattr(module, name, value)


def _alarm() -> None:
    signal.signal(signal.SIGALRM, lambda *_: os._exit(9))
    signal.setitimer(signal.ITIMER_REAL, 0.05)


def _seed(value: int) -> None:
    random.seed(value)
    np.random.seed(value)  # noqa: NPY002


class _Counter:
    count = 0


def _growing(events: Any) -> Any:
    filled = hist.Hist.new.StrCat([], growth=True, name="c").Int64()
    filled.fill([f"{events.metadata['filename'][-6:]}-{events.metadata['entrystart']}"])
    return {"filled": filled}


def _changing_type(events: Any) -> Any:
    return {"n": 1 if events.metadata["entrystart"] == 0 else "one"}


def _changing_shape(events: Any) -> Any:
    return {"n": np.zeros(1 + events.metadata["entrystart"] // 200)}


_KEPT: dict[str, int] = {}


def _same_object(events: Any) -> Any:
    _KEPT["n"] = _KEPT.get("n", 0) + len(events)
    return _KEPT


def _own_state() -> Any:
    _Counter.count += 1
    return {"n": _Counter.count}


def _print(events: Any) -> None:
    atexit.register(os._exit, 9)
    del events


def _stop_self(number: int) -> None:
    os.kill(os.getpid(), number)


def _metadata(events: Any) -> None:
    events.metadata["dataset"] = "another"


def _sys_path() -> None:
    sys.path[:] = ["/nowhere"]


def _modules() -> None:
    sys.modules["numpy"] = sys.modules["math"]
    del sys.modules["awkward"]


#: The kinds by name: what the wagon does, as the table says it.
KINDS: dict[str, Callable[[Any], Any]] = {
    "raises an exception": lambda _: _raise(ValueError("no muons")),
    "raises an exception whose `__str__` fails": lambda _: _raise(NoTextError("x")),
    "raises an exception with line breaks and escape sequences": lambda _: _raise(ValueError("a\n\x1b[2Jforged: ok")),
    "raises `asyncio.CancelledError`": lambda _: _raise(asyncio.CancelledError("the server went away")),
    "raises a `BaseException` of a library in Rust": lambda _: _raise(PanicException("index out of bounds")),
    "raises `KeyboardInterrupt`": lambda _: _raise(KeyboardInterrupt("by itself")),
    "raises `GeneratorExit`": lambda _: _raise(GeneratorExit()),
    "calls `sys.exit(5)`": lambda _: sys.exit(5),
    "recurses infinitely": lambda _: _recurse(0),
    "raises `MemoryError`": lambda _: np.ones(10**16),
    "reads a branch that does not exist": lambda events: events.there_is_no_such_branch,
    "writes into the arrays of its events": _in_place,
    "changes `events.metadata`": _metadata,
    "crashes (segmentation fault)": lambda _: ctypes.string_at(0),
    "calls `os.abort()`": lambda _: os.abort(),
    "calls `os._exit(7)`": lambda _: os._exit(7),
    "sends itself `SIGKILL`": lambda _: _stop_self(signal.SIGKILL),
    "closes all files of its process": lambda _: os.closerange(3, 1000),
    "sleeps forever": lambda _: time.sleep(10_000),
    "loops forever in Python": lambda _: [None for _ in iter(int, 1) if False],
    "loops forever in C, without releasing the GIL": lambda _: sum(itertools.repeat(0)),
    "deadlocks on its own lock": lambda _: [one.acquire() for one in [threading.Lock()] * 2],
    "forks, and the child returns": lambda _: _fork(raises=False),
    "forks, and the child raises": lambda _: _fork(raises=True),
    "leaves a process running": lambda _: _children(),
    "leaves a thread running": lambda _: _thread(lambda: time.sleep(1)),
    "leaves a thread that raises": lambda _: _thread(lambda: _raise(ValueError("in a thread"))),
    "returns a result that cannot be pickled": lambda _: {"lock": threading.Lock()},
    "returns a result that no other process can unpickle": lambda events: {
        str(events.metadata["filename"]) + str(events.metadata["entrystart"]): FailsInJob()
    },
    "returns a result whose addition raises": lambda _: {"n": FailsInAddition()},
    "returns keys that cannot be compared": lambda _: {BrokenKey(): 1},
    "returns a different type for each chunk": _changing_type,
    "returns arrays of different lengths": _changing_shape,
    "returns a histogram with a growing number of categories": _growing,
    "returns NaN": lambda _: {"n": float("nan")},
    "returns the same object for each chunk": _same_object,
    "counts in a class attribute": lambda _: _own_state(),
    "changes the working directory": lambda _: os.chdir("/"),
    "clears the environment": lambda _: os.environ.clear(),
    'calls `np.seterr(all="raise")`': lambda _: np.seterr(all="raise") and None,
    "calls `np.set_printoptions(precision=1)`": lambda _: np.set_printoptions(precision=1),
    "changes the locale": lambda _: locale.setlocale(locale.LC_ALL, "C") and None,
    'calls `warnings.simplefilter("error")`': lambda _: warnings.simplefilter("error"),
    "replaces `sys.stdout`": lambda _: setattr(sys, "stdout", io.StringIO()),
    "closes standard output": lambda _: os.close(1),
    "ignores `SIGTERM`": lambda _: signal.signal(signal.SIGTERM, signal.SIG_IGN) and None,
    "sets a timer that ends its process": lambda _: _alarm(),
    "calls `os.umask(0o777)`": lambda _: os.umask(0o777) and None,
    "calls `socket.setdefaulttimeout(1e-6)`": lambda _: socket.setdefaulttimeout(1e-6),
    "calls `gc.disable()`": lambda _: gc.disable(),
    "calls `sys.setrecursionlimit(50)`": lambda _: sys.setrecursionlimit(len_of_stack() + 50),
    "calls `faulthandler.disable()`": lambda _: faulthandler.disable() and None,
    "seeds the global random generators": lambda _: _seed(1),
    "empties `sys.path`": lambda _: _sys_path(),
    "replaces and deletes modules in `sys.modules`": lambda _: _modules(),
    "registers a function with `atexit`": _print,
    "replaces a function of NumPy": lambda _: _patched(np, "hypot", lambda a, _b: a),
    "replaces a method of `awkward.Array`": lambda _: _patched(ak.Array, "__getitem__", lambda *_: 0),
    "replaces a function of Python": lambda _: _patched(__builtins_module(), "round", lambda *_: 0),
    "changes a variable of a module that another wagon uses": lambda _: _patched(shared_helper, "SCALE", 2.0),
}


def len_of_stack() -> int:
    """The depth of the calls."""
    frame, count = sys._getframe(), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1  # type: ignore[assignment]
    return count


def __builtins_module() -> Any:
    return sys.modules["builtins"]


class Faulty:
    """A wagon of a kind."""

    name = "faulty"

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def process(self, events: Any) -> Any:
        made = KINDS[self.kind](events) if int(events.run[0]) >= 1 else None
        if made is _KEPT:
            return made
        return {"events": len(events)} | (made if isinstance(made, dict) else {})


class CannotBePickled(Faulty):
    """Holds what cannot be sent to workers."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.lock = threading.Lock()

    def process(self, events: Any) -> Any:
        return {"events": len(events)}


class CannotBeUnpickled(Faulty):
    """Fails in the worker that unpickles it."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        raise OSError("there is no such model")

    def process(self, events: Any) -> Any:
        return {"events": len(events)}


class DiesUnpickled(CannotBeUnpickled):
    """Ends the worker that unpickles it."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        os._exit(7)


class HangsUnpickled(CannotBeUnpickled):
    """Never comes back in the worker that unpickles it."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        time.sleep(10_000)


#: Kinds whose wagons fail before they run.
WAGONS: dict[str, type[Faulty]] = {
    "cannot be pickled": CannotBePickled,
    "cannot be unpickled by a worker": CannotBeUnpickled,
    "ends the worker that unpickles it": DiesUnpickled,
    "hangs when it is unpickled": HangsUnpickled,
}
ALL = [*KINDS, *WAGONS]


class Probe:
    """Computes what the changes of the kinds would disturb; its result is compared bit by bit."""

    def __init__(self, name: str) -> None:
        self.name = name

    def process(self, events: Any) -> dict[str, Any]:
        px = np.asarray(events.px)
        with tempfile.NamedTemporaryFile(dir=Path.cwd() / "scratch") as file:
            mode = oct(Path(file.name).stat().st_mode)
        made = Path("scratch", f"{os.getpid()}-{threading.get_ident()}")
        made.touch()
        json.dumps(json.loads("[[[[[[[[]]]]]]]]"))
        text = [os.getcwd(), mode, oct(made.stat().st_mode), str(np.array([1 / 3])), locale.format_string("%.2f", 1.5)]
        made.unlink()
        text += [str(socket.getdefaulttimeout()), str(gc.isenabled()), os.environ.get("HOME", ""), str(round(2.6))]
        text += [str(signal.getsignal(signal.SIGTERM))[:9], events.metadata["dataset"], str(_depth(100))]
        warnings.warn("a usual warning", UserWarning, stacklevel=1)
        os.write(1, b"")
        print(end="")
        import awkward
        import numpy

        filled = hist.Hist.new.Reg(50, -5, 5, name="px").StrCat([], growth=True, name="file").Weight()
        filled.fill(px, file=Path(events.metadata["filename"]).stem, weight=0.1)
        return {
            "events": len(events),
            "hypot": float(numpy.sum(numpy.hypot(px, 1.0))) * shared_helper.SCALE,
            "pt": float(awkward.sum(events.pt[events.pt > 0.5])),
            "underflow": float(np.sum(np.exp(np.full(3, -800.0)))),
            "random": random.random() + float(np.random.uniform()),  # noqa: NPY002
            "text": set(text),
            "order": [int(events.metadata["entrystart"])],
            "filled": filled,
        }


def _depth(left: int) -> int:
    return 0 if left == 0 else 1 + _depth(left - 1)


def wagons(kind: str | None) -> list[Any]:
    """The wagons of a train: the faulty one between two others, or these alone."""
    faulty = [] if kind is None else [WAGONS.get(kind, Faulty)(kind)]
    return [Probe("before"), *faulty, Probe("behind")]
