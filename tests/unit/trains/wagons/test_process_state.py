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
    name = "changes"

    def __init__(self, what: str, *, raises: bool = False) -> None:
        self.what, self.raises = what, raises

    def process(self, events: Any) -> int:
        CHANGES[self.what]()
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
@pytest.mark.parametrize("what", sorted(CHANGES))
def test_what_a_wagon_changes_does_not_reach_others(
    folder: Path, what: str, workers: int, raises: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With relative paths of files, which are opened while wagons run."""
    monkeypatch.chdir(folder.parent)
    before = state()
    wagons = [Looks("before"), Changes(what, raises=raises), Looks("behind")]
    result = run_in_chunks(wagons, folder.name, workers=workers)
    assert state() == before
    assert result.outputs["before"]["events"] == result.outputs["behind"]["events"] == EVENTS
    # Workers differ from each other in nothing that wagons see.
    assert result.outputs["before"]["states"] == result.outputs["behind"]["states"]
    assert len(result.outputs["before"]["states"]) == 1
    assert [one.name for one in result.record.wagons if one.error] == (["changes"] if raises else [])
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
    name = "replaces"

    def __init__(self, what: str, *, raises: bool) -> None:
        self.what, self.raises = what, raises

    def process(self, events: Any) -> int:
        if int(events.run[0]) == 1:
            REPLACED[self.what]()
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
@pytest.mark.parametrize("what", sorted(REPLACED))
def test_a_wagon_that_replaces_what_others_use_is_stopped_and_named(
    folder: Path, what: str, workers: int, raises: bool
) -> None:
    alone = run_in_chunks([Uses("before"), Uses("behind")], str(folder))
    wagons = [Uses("before"), Replaces(what, raises=raises), Uses("behind")]
    result = run_in_chunks(wagons, str(folder), workers=workers)
    assert {name: result.outputs[name] for name in alone.outputs} == alone.outputs
    assert result.outputs["replaces"] == EVENTS_PER_FILE
    [error] = [one.error for one in result.record.wagons if one.error]
    assert ("behind it" if raises else f"it replaced {what}") in error.message


def test_what_libraries_add_is_no_replacement() -> None:
    functions = SharedFunctions()
    np.branchline_test = 1  # type: ignore[attr-defined]
    try:
        assert functions.restore() == []
    finally:
        del np.branchline_test  # type: ignore[attr-defined]
