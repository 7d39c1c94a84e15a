"""What a wagon changes in its process does not reach other wagons."""

from __future__ import annotations

import builtins
import faulthandler
import gc
import io
import locale
import math
import os
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from tests.unit.trains.wagons.conftest import EVENTS_PER_FILE, FILES, run_in_chunks

from branchline.trains.worker.isolation import ProcessState, SharedFunctions, StandardFiles

EVENTS = FILES * EVENTS_PER_FILE


def state() -> list[Any]:
    """What others rely on, in a form that can be compared and pickled."""
    filters = [tuple(map(str, one)) for one in warnings.filters]
    handlers = [
        getattr(signal.getsignal(one), "__qualname__", str(signal.getsignal(one)))
        for one in (signal.SIGALRM, signal.SIGTERM)
    ]
    streams = [type(one).__name__ for one in (sys.stdout, sys.stderr)]
    errors = sorted(np.geterr().items())
    has_timer = signal.getitimer(signal.ITIMER_REAL)[0] > 0
    places = locale.setlocale(locale.LC_ALL)
    mask = os.umask(0o022)
    os.umask(mask)
    settings = [sys.getrecursionlimit(), gc.isenabled(), gc.get_threshold(), socket.getdefaulttimeout(), list(sys.path)]
    files = [os.readlink(f"/proc/self/fd/{one}") for one in (1, 2)]
    settings += [mask, files, faulthandler.is_enabled(), str(np.array([1 / 3])), sys.getswitchinterval()]
    return [*settings, os.getcwd(), sorted(os.environ.items()), errors, places, filters, handlers, streams, has_timer]


def change_environment() -> None:
    os.environ["BRANCHLINE_TEST_NEW"] = "1"
    os.environ["PATH"] = "/nowhere"
    os.environ.pop("HOME", None)


def use_alarm() -> None:
    signal.signal(signal.SIGALRM, lambda *_: os._exit(9))
    signal.setitimer(signal.ITIMER_REAL, 0.3)


CHANGES: dict[str, Callable[[], object]] = {
    "directory": lambda: os.chdir("/"),
    "environment": change_environment,
    "numpy": lambda: np.seterr(all="raise"),
    "numpy call": lambda: np.seterrcall(print),
    "locale": lambda: locale.setlocale(
        locale.LC_ALL, "C.UTF-8" if "UTF" not in locale.setlocale(locale.LC_ALL) else "C"
    ),
    "warnings": lambda: warnings.simplefilter("error"),
    "streams": lambda: setattr(sys, "stdout", io.StringIO()),
    "handler": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "alarm": use_alarm,
    "mask": lambda: os.umask(0o777),
    "recursion": lambda: sys.setrecursionlimit(10_000),
    "collector": gc.disable,
    "timeout": lambda: socket.setdefaulttimeout(1e-6),
    "printing": lambda: np.set_printoptions(precision=1),
    "descriptors": lambda: os.close(1),
    "other file": lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), 2),
    "path": lambda: sys.path.insert(0, "/nowhere") or sys.path.remove("/nowhere") or sys.path.reverse(),
}


class Changes:
    def __init__(self, what: str, *, raises: bool = False) -> None:
        self.name, self.raises = what, raises

    def process(self, events: Any) -> int:
        CHANGES[self.name]()
        if self.raises:
            raise ValueError("after the change")
        return len(events)


class Looks:
    """Tells what of the state differs from its first look, and does what a change could disturb."""

    def __init__(self, name: str) -> None:
        self.name = name

    def process(self, events: Any) -> dict[str, Any]:
        return {"events": len(events), "states": {repr(state())}, "sum": float(np.sum(np.exp(np.full(3, -800.0))))}


@pytest.fixture(autouse=True)
def kept() -> Any:
    """Undoes what a failing test leaves."""
    before = ProcessState(StandardFiles())
    yield
    before.restore()


@pytest.mark.usefixtures("small_subjobs")
@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_what_a_wagon_changes_does_not_reach_others(
    folder: Path, workers: int, raises: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With relative paths of files, which are opened while wagons run; a wagon looks behind each that changes."""
    monkeypatch.chdir(folder.parent)
    before = state()
    looks = [Looks("first"), *(Looks(f"behind {what}") for what in sorted(CHANGES))]
    changes = [Changes(what, raises=raises) for what in sorted(CHANGES)]
    wagons = [looks[0], *(one for pair in zip(changes, looks[1:], strict=True) for one in pair)]
    result = run_in_chunks(wagons, folder.name, workers=workers)
    assert state() == before
    states = result.outputs["first"]["states"]
    # Workers differ from each other in nothing that wagons see.
    assert len(states) == 1
    for one in looks:
        assert result.outputs[one.name]["events"] == EVENTS
        assert result.outputs[one.name]["states"] == states, one.name
    assert [one.name for one in result.record.wagons if one.error] == (sorted(CHANGES) if raises else [])
    assert result.record.errors == []
    assert result.record.files[0].path == str(folder / "f0.root")


def test_what_a_module_sets_while_it_is_imported_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "branchline_test_library.py").write_text("import os\nos.environ['BRANCHLINE_TEST_LIBRARY'] = '1'\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("BRANCHLINE_TEST_LIBRARY", raising=False)
    before = ProcessState(StandardFiles())
    __import__("branchline_test_library")
    before.restore()
    assert os.environ.pop("BRANCHLINE_TEST_LIBRARY") == "1"


@pytest.mark.parametrize("wagon_timer_s", [0, 5])
def test_a_timer_of_the_caller_goes_on(wagon_timer_s: float) -> None:
    of_pytest = signal.setitimer(signal.ITIMER_REAL, 10_000)
    try:
        state = ProcessState(StandardFiles())
        signal.setitimer(signal.ITIMER_REAL, wagon_timer_s)
        state.restore()
        assert 9_000 < signal.getitimer(signal.ITIMER_REAL)[0] <= 10_000
    finally:
        signal.setitimer(signal.ITIMER_REAL, *of_pytest)


@pytest.mark.parametrize("wagon_timer", [(0.0, 0.0), (5.0, 0.0), (5.0, 5.0), (5.0, 1000.0)])
def test_a_repeating_timer_of_the_caller_goes_on(wagon_timer: tuple[float, float]) -> None:
    of_pytest = signal.setitimer(signal.ITIMER_REAL, 500, 1000)
    try:
        state = ProcessState(StandardFiles())
        state.restore()
        assert signal.getitimer(signal.ITIMER_REAL) == (pytest.approx(500, abs=100), 1000)
        signal.setitimer(signal.ITIMER_REAL, *wagon_timer)
        state.restore()
        assert signal.getitimer(signal.ITIMER_REAL) == (pytest.approx(500, abs=100), 1000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *of_pytest)


def test_a_repeating_timer_that_a_wagon_stops_goes_on_after_its_first_alarm() -> None:
    alarms: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: alarms.append(number))
    of_pytest = signal.setitimer(signal.ITIMER_REAL, 0.01, 0.02)
    try:
        state = ProcessState(StandardFiles())
        signal.setitimer(signal.ITIMER_REAL, 0)
        time.sleep(0.05)
        state.restore()
        assert signal.getitimer(signal.ITIMER_REAL)[1] == pytest.approx(0.02)
        alarms.clear()
        while not alarms:
            time.sleep(0.01)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *of_pytest)
        signal.signal(signal.SIGALRM, before)


def test_a_timer_that_a_wagon_sets_while_it_imports_a_module_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    before, of_pytest = signal.getsignal(signal.SIGALRM), signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        state = ProcessState(StandardFiles())
        with state.kept():
            monkeypatch.setitem(sys.modules, "branchline_test_new", math)
            signal.setitimer(signal.ITIMER_REAL, 1000)
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *of_pytest)
        signal.signal(signal.SIGALRM, before)


def test_the_alarm_of_the_caller_keeps_its_handler_when_a_wagon_imports_a_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def of_caller(*_: object) -> None: ...

    before, of_pytest = signal.signal(signal.SIGALRM, of_caller), signal.setitimer(signal.ITIMER_REAL, 1000)
    try:
        state = ProcessState(StandardFiles())
        for name in ("branchline_test_one", "branchline_test_two"):
            with state.kept():
                monkeypatch.setitem(sys.modules, name, math)
                use_alarm()
            assert signal.getsignal(signal.SIGALRM) is of_caller
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 500
    finally:
        signal.setitimer(signal.ITIMER_REAL, *of_pytest)
        signal.signal(signal.SIGALRM, before)


def test_alarms_of_wagon_and_caller_meet_their_own_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that come while the state is restored."""
    calls: list[str] = []
    set_timer, set_handler = signal.setitimer, signal.signal

    def noted_timer(which: int, seconds: float, interval: float = 0.0) -> tuple[float, float]:
        calls.append("stop" if seconds == 0 else "start")
        return set_timer(which, seconds, interval)

    def noted_handler(number: int, handler: Any) -> Any:
        calls.append("handler")
        return set_handler(number, handler)

    before, of_pytest = set_handler(signal.SIGALRM, lambda *_: None), set_timer(signal.ITIMER_REAL, 1000)
    try:
        state = ProcessState(StandardFiles())
        use_alarm()
        monkeypatch.setattr(signal, "setitimer", noted_timer)
        monkeypatch.setattr(signal, "signal", noted_handler)
        state.restore()
        assert calls == ["stop", "handler", "start"]
    finally:
        set_timer(signal.ITIMER_REAL, *of_pytest)
        set_handler(signal.SIGALRM, before)


def test_a_timer_of_the_caller_that_ends_soon_goes_on() -> None:
    before, of_pytest = signal.signal(signal.SIGALRM, lambda *_: None), signal.setitimer(signal.ITIMER_REAL, 0.09)
    try:
        state = ProcessState(StandardFiles())
        signal.setitimer(signal.ITIMER_REAL, 0)
        state.restore()
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 0.09
    finally:
        signal.setitimer(signal.ITIMER_REAL, *of_pytest)
        signal.signal(signal.SIGALRM, before)


def test_a_folder_that_a_wagon_adds_is_searched_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = list(sys.path)
    state = ProcessState(StandardFiles())
    sys.path.insert(0, "/of/the/wagon")
    state.restore()
    assert sys.path == [*before, "/of/the/wagon"]


REPLACED: dict[str, Callable[[], object]] = {
    "numpy.hypot": lambda: setattr(np, "hypot", lambda a, _b: a),
    "math.pi": lambda: setattr(math, "pi", 3),
    "numpy.sin": lambda: delattr(np, "sin"),
    "awkward.Array.__getitem__": lambda: setattr(ak.Array, "__getitem__", lambda *_: 0),
    "builtins.round": lambda: setattr(builtins, "round", lambda *_: 0),
    "numpy": lambda: sys.modules.update(numpy=math),
}


class Replaces:
    def __init__(self, what: str, *, raises: bool) -> None:
        self.name, self.raises = what, raises

    def process(self, events: Any) -> int:
        if int(events.run[0]) == 1:
            REPLACED[self.name]()
            if self.raises:
                raise ValueError("behind it")
        return len(events)


class Uses:
    def __init__(self, name: str) -> None:
        self.name = name

    def process(self, events: Any) -> float:
        import numpy

        total = numpy.sum(numpy.hypot(numpy.asarray(events.px), round(2.6)) * numpy.sin(math.pi / 3))
        return float(total) + float(ak.sum(events.pt[events.pt > 0.5]))


@pytest.mark.usefixtures("small_subjobs")
@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_wagon_that_replaces_what_others_use_is_stopped_and_named(folder: Path, workers: int, raises: bool) -> None:
    names = sorted(REPLACED)
    uses = [Uses("first"), *(Uses(f"behind {name}") for name in names)]
    alone = run_in_chunks(uses, str(folder))
    replaces = [Replaces(name, raises=raises) for name in names]
    wagons = [uses[0], *(one for pair in zip(replaces, uses[1:], strict=True) for one in pair)]
    result = run_in_chunks(wagons, str(folder), workers=workers)
    assert {name: result.outputs[name] for name in alone.outputs} == alone.outputs
    errors = {one.name: one.error.message for one in result.record.wagons if one.error}
    assert sorted(errors) == names
    for name in names:
        assert result.outputs[name] == EVENTS_PER_FILE
        assert ("behind it" if raises else f"it replaced shared functions: {name}") in errors[name]


def test_what_libraries_add_is_no_replacement() -> None:
    functions = SharedFunctions()
    np.branchline_test = 1  # type: ignore[attr-defined]
    try:
        assert functions.restore() == []
    finally:
        del np.branchline_test  # type: ignore[attr-defined]
