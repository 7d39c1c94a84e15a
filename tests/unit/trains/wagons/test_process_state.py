"""What a wagon changes in its process does not reach other wagons."""

from __future__ import annotations

import io
import locale
import os
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.trains.wagons.conftest import EVENTS_PER_FILE, FILES, run_in_chunks

from branchline.trains.worker.process_state import ProcessState

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
    return [os.getcwd(), sorted(os.environ.items()), errors, places, filters, handlers, streams, has_timer]


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
    before = ProcessState()
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
    assert result.record.files[0].path == f"{folder.name}/f0.root"


def test_what_a_module_sets_while_it_is_imported_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "branchline_test_library.py").write_text("import os\nos.environ['BRANCHLINE_TEST_LIBRARY'] = '1'\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("BRANCHLINE_TEST_LIBRARY", raising=False)
    before = ProcessState()
    __import__("branchline_test_library")
    before.restore()
    assert os.environ.pop("BRANCHLINE_TEST_LIBRARY") == "1"
