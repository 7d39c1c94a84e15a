"""``setup()`` is called once in each worker, and a wagon that cannot be pickled is named with the attribute."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.branchline_command import run_branchline
from tests.local_dask import local_cluster
from tests.unit.trains.wagons.conftest import EVENTS_PER_FILE, FILES, run_in_chunks

from branchline.errors import WagonError
from branchline.trains.subjobs.picklable import pickling_error
from branchline.trains.wagons.wagons import wagons_of

EVENTS = FILES * EVENTS_PER_FILE


class Counts:
    name = "counts"

    def process(self, events: Any) -> int:
        return len(events)


class Session:
    def __init__(self) -> None:
        self.plain = [1, 2]
        self.lock = threading.Lock()


class SetsUp:
    name = "sets_up"

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder

    def setup(self) -> None:
        self.session = Session()
        if self.folder is not None:
            with (self.folder / f"{os.getpid()}.setup").open("a") as file:
                file.write("called\n")

    def process(self, events: Any) -> int:
        with self.session.lock:
            return len(events)

    def postprocess(self, total: int) -> tuple[int, bool]:
        return total, hasattr(self, "session")


@pytest.mark.usefixtures("small_subjobs")
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_setup_is_called_once_in_each_worker(folder: Path, tmp_path: Path, workers: int) -> None:
    wagon = SetsUp(tmp_path)
    for run in range(2):
        result = run_in_chunks([wagon, Counts()], str(folder), workers=workers)
        assert result.errors == []
        assert result.outputs == {"sets_up": (EVENTS, False), "counts": EVENTS}
        # What setup() makes stays in the worker.
        assert vars(wagon) == {"folder": tmp_path}
        called = [one.read_text().count("called") for one in tmp_path.glob("*.setup")]
        assert called == [run + 1] if workers == 0 else set(called) == {1}
        assert len(called) <= max(1, workers) * (run + 1)


def test_setup_is_called_at_dask(folder: Path) -> None:
    with local_cluster(1, threads_per_worker=1, dashboard_address=":0") as cluster:
        result = run_in_chunks([SetsUp(), Counts()], str(folder), workers=None, on=cluster)
        assert result.outputs == {"sets_up": (EVENTS, False), "counts": EVENTS}


class SetupFails(SetsUp):
    def setup(self) -> None:
        raise OSError("no such model: resnet.onnx")


class SetupTakesMore(Counts):
    """A method of the user that is called so."""

    name = "own"

    def setup(self, events: Any) -> None:
        raise AssertionError(events)


@pytest.mark.usefixtures("small_subjobs")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_setup_that_fails_stops_its_wagon_alone(folder: Path, workers: int) -> None:
    result = run_in_chunks([SetupFails(), Counts(), SetupTakesMore()], str(folder), workers=workers)
    assert result.outputs["counts"] == result.outputs["own"] == EVENTS
    [error] = [one.error for one in result.record.wagons if one.error is not None]
    assert error.message == "no such model: resnet.onnx"
    assert "in setup" in error.traceback


def counted(events: Any) -> int:
    return len(events)


counted.setup = lambda: setattr(counted, "is_ready", True)  # type: ignore[attr-defined]


def test_a_function_may_have_a_setup(folder: Path) -> None:
    assert run_in_chunks([counted], str(folder)).outputs["counted"] == EVENTS
    assert counted.is_ready  # type: ignore[attr-defined]


class Holds:
    def __init__(self, held: Any, name: str = "holds") -> None:
        self.fine, self.held, self.name = list(range(10)), held, name

    def process(self, events: Any) -> int:
        return len(events)


class Slotted:
    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Circular:
    def __init__(self) -> None:
        self.own = self
        self.stream = sys.stdout


def generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("held", "where"),
    [
        (threading.Lock(), "holds.held is a _thread.lock"),
        (Session(), "holds.held.lock is a _thread.lock"),
        ({"a": [1, Session()]}, "holds.held['a'][1].lock is a _thread.lock"),
        (Slotted(), "holds.held.lock is a _thread.lock"),
        (generator(), "holds.held is a generator"),
        (Circular(), ".stream is a _io.TextIOWrapper"),
    ],
)
def test_what_cannot_be_pickled_is_named(held: Any, where: str) -> None:
    [wagon] = wagons_of(Holds(held))[0]
    error = pickling_error(wagon)
    assert error is not None
    if ".stream" not in where or "pytest" not in type(sys.stdout).__module__:
        assert where in str(error)
    assert "holds.held" in str(error)
    assert "setup()" in str(error)


def test_what_a_function_refers_to_is_named() -> None:
    lock = threading.Lock()

    def locked(events: Any) -> int:
        with lock:
            return len(events)

    [wagon] = wagons_of(locked)[0]
    assert "locked.lock is a _thread.lock" in str(pickling_error(wagon))


@pytest.mark.usefixtures("small_subjobs")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_wagon_that_cannot_be_pickled_costs_the_others_nothing(folder: Path, workers: int) -> None:
    class Follows(Counts):
        name = "follows"
        requires = ("holds",)

    result = run_in_chunks([Counts(), Holds(Session()), Follows()], str(folder), workers=workers)
    assert result.outputs == {"counts": EVENTS, "holds": None, "follows": None}
    errors = {one.name: one.error for one in result.record.wagons if one.error is not None}
    assert "holds.held.lock is a _thread.lock" in errors["holds"].message
    assert errors["follows"].type == "RequiredWagonStopped"
    assert result.record.errors == []
    assert result.exit_code == 3


def test_if_no_wagon_can_be_pickled_the_train_is_refused(folder: Path) -> None:
    with pytest.raises(WagonError, match=r"wagon 'holds' cannot be sent to workers: holds\.held\.lock"):
        run_in_chunks([Holds(Session())], str(folder), workers=1)
    # In this process nothing is sent.
    assert run_in_chunks([Holds(Session())], str(folder), workers=0).outputs == {"holds": EVENTS}


WAGONS = """
import threading

class Good:
    def process(self, events): return len(events)

class Locked:
    def __init__(self): self.lock = threading.Lock()
    def process(self, events): return len(events)
"""


def test_the_trial_of_a_wagon_that_cannot_be_pickled_names_it(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "w.py").write_text(WAGONS)
    ended = run_branchline(tmp_path, ["test", "w.py", folder / "f0.root"])
    assert "internal error in Branchline" not in ended.stdout + ended.stderr
    assert "Locked.lock is a _thread.lock" in ended.stdout + ended.stderr
    assert "Good" in ended.stdout
