"""A wagon that hangs, or that fails in ways that end processes or jobs, is stopped alone and named."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.local_dask import local_cluster
from tests.sampled import long_but
from tests.unit.trains.wagons.conftest import EVENTS_PER_FILE, FILES, run_in_chunks

from branchline.trains.running.result import TrainResult
from branchline.trains.sums.digests import digest_of

pytestmark = pytest.mark.slow

EVENTS = FILES * EVENTS_PER_FILE
TIMEOUT_S = 4.0


class Counts:
    def __init__(self, name: str = "counts") -> None:
        self.name = name

    def process(self, events: Any) -> dict[str, Any]:
        return {"events": len(events), "px": float(np.sum(np.asarray(events.px)))}


class NoTextError(Exception):
    def __str__(self) -> str:
        return "%d of %s" % (self.args)  # noqa: UP031

    __repr__ = __str__


class PanicException(BaseException):
    """As pyo3's: derived from BaseException alone."""


class AddsBadly:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __add__(self, _other: Any) -> Any:
        raise self.error


class PicklesBadly:
    def __reduce__(self) -> Any:
        raise PanicException("cannot be pickled")


class HasNoHashNow:
    """A key that fails when it is compared."""

    def __hash__(self) -> int:
        return 1

    def __eq__(self, _other: object) -> bool:
        raise PanicException("not comparable")


class HangsInAddition:
    def __add__(self, _other: Any) -> Any:
        time.sleep(1000)


def fork_and_return() -> int:
    os.fork()
    return 1


def fork_and_raise() -> int:
    if os.fork() == 0:
        raise ValueError("in the child")
    return 1


def raises(error: BaseException) -> Any:
    raise error


def compute_forever() -> None:
    while True:
        pass


class Faulty:
    """Fails in the file whose events are of this run, behind its first chunk."""

    def __init__(self, how: str, run: int = 2, name: str = "faulty") -> None:
        self.how, self.run, self.name = how, run, name

    def process(self, events: Any) -> Any:
        if not (int(events.run[0]) == self.run and events.metadata["entrystart"] >= 400):
            return {"events": len(events)}
        # Under one key, outputs are added; else they only travel.
        key = "x" if self.how.endswith("addition") else events.metadata["entrystart"]
        return {"events": len(events), key: HOW[self.how]()}


class Follows:
    name = "follows"
    requires = ("faulty",)

    def process(self, events: Any) -> int:
        return int(events.outputs["faulty"]["events"])


#: What the wagon does, by name.
HOW = {
    "cancelled": lambda: raises(asyncio.CancelledError("the server went away")),
    "panic": lambda: raises(PanicException("index out of bounds")),
    "exit": lambda: sys.exit(5),
    "generator": lambda: raises(GeneratorExit()),
    "interrupt": lambda: raises(KeyboardInterrupt("by itself")),
    "no text": lambda: raises(NoTextError("x")),
    "lock": threading.Lock,
    "panic in pickle": PicklesBadly,
    "no text in addition": lambda: AddsBadly(NoTextError("x")),
    "panic in addition": lambda: AddsBadly(PanicException("in addition")),
    "fork": fork_and_return,
    "fork and raise": fork_and_raise,
    "sleep": lambda: time.sleep(1000),
    "busy": compute_forever,
    "addition": HangsInAddition,
}
#: The type of its fault and a part of its message.
FAULTS = {
    "cancelled": ("CancelledError", "the server went away"),
    "panic": ("PanicException", "index out of bounds"),
    "exit": ("SystemExit", "5"),
    "generator": ("GeneratorExit", "GeneratorExit"),
    "interrupt": ("OwnKeyboardInterrupt", "by itself"),
    "no text": ("NoTextError", "NoTextError, whose __str__ failed with TypeError"),
    "lock": ("CannotPickleError", "cannot be pickled"),
    "panic in pickle": ("CannotPickleError", "cannot be pickled"),
    "no text in addition": ("CannotAddError", "whose __str__ failed"),
    "panic in addition": ("CannotAddError", "in addition"),
    "sleep": ("TimeoutError", "again when the wagon ran alone"),
    "busy": ("TimeoutError", "again when the wagon ran alone"),
    "addition": ("TimeoutError", "again when the wagon ran alone"),
}
HANGS = {"sleep", "busy", "addition"}


def assert_only_the_faulty_stopped(result: TrainResult, folder: Path, how: str) -> None:
    alone = run_in_chunks([Counts("before"), Counts("behind")], str(folder))
    assert digest_of([result.outputs["before"], result.outputs["behind"]]) == digest_of(list(alone.outputs.values()))
    assert result.outputs["before"]["events"] == EVENTS
    records = {one.name: one for one in result.record.wagons}
    assert records["before"].error is records["behind"].error is None
    fault = records["faulty"].error
    assert fault is not None
    kind, message = FAULTS[how]
    assert fault.type == kind
    assert message in fault.message
    assert fault.path is not None
    # The sum of a sub-job that cannot be pickled is lost as a whole.
    assert records["faulty"].events <= records["follows"].events < EVENTS
    assert (result.outputs["faulty"] or {"events": 0})["events"] == records["faulty"].events
    assert records["follows"].error is not None
    assert result.record.errors == []
    assert result.record.missing == []
    assert not result.record.interrupted
    assert result.exit_code == 3


def wagons(how: str, **settings: Any) -> list[Any]:
    return [Counts("before"), Faulty(how, **settings), Counts("behind"), Follows()]


@pytest.mark.usefixtures("small_subjobs")
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("how", [one for one in FAULTS if one not in HANGS])
def test_a_wagon_that_fails_in_an_unusual_way_is_stopped_alone(folder: Path, how: str, workers: int) -> None:
    result = run_in_chunks(wagons(how), str(folder), workers=workers)
    assert_only_the_faulty_stopped(result, folder, how)
    # What it made before counts.
    assert result.outputs["faulty"]["events"] >= 2 * EVENTS_PER_FILE


@pytest.mark.usefixtures("small_subjobs")
@pytest.mark.parametrize(
    ("how", "run"), long_but(product(sorted(HANGS), [0, 2]), [("addition", 0), ("busy", 0), ("sleep", 2)])
)
def test_a_wagon_that_hangs_is_stopped_alone(folder: Path, how: str, run: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first sub-job, on which branches are learned, and in a later one."""
    monkeypatch.setattr("branchline.jobs.workers.heartbeat.WORKER_BUSY_TIMES", 2)
    # One that computes takes a core as long as it is waited for.
    timeout_s = TIMEOUT_S / 2 if how == "busy" else TIMEOUT_S
    result = run_in_chunks(wagons(how, run=run), str(folder), workers=2, worker_timeout=timeout_s)
    assert_only_the_faulty_stopped(result, folder, how)
    assert {one.name: one.events for one in result.record.wagons}["faulty"] == run * EVENTS_PER_FILE
    assert all("wagon faulty in" in one.doing for one in result.record.workers_lost)


class AlwaysHangs:
    name = "faulty"

    def process(self, events: Any) -> Any:
        time.sleep(1000)


@pytest.mark.usefixtures("small_subjobs")
@pytest.mark.parametrize("workers", [1, 3])
def test_a_wagon_that_always_hangs_costs_no_events_of_others(folder: Path, workers: int) -> None:
    two = [AlwaysHangs(), Counts("before"), Faulty("sleep", 3, "second"), Counts("behind")]
    result = run_in_chunks(two, str(folder), workers=workers, worker_timeout=TIMEOUT_S)
    alone = run_in_chunks([Counts("before"), Counts("behind")], str(folder))
    assert digest_of([result.outputs["before"], result.outputs["behind"]]) == digest_of(list(alone.outputs.values()))
    errors = {one.name: one.error for one in result.record.wagons if one.error}
    assert {name: one.type for name, one in errors.items()} == {"faulty": "TimeoutError", "second": "TimeoutError"}
    # Each worker may meet the first one once, and it is tried alone once in each case.
    assert len(result.record.workers_lost) <= 2 * workers + 2


class HangsInCompany:
    """Hangs if it is not alone in its process."""

    name = "faulty"

    def process(self, events: Any) -> int:
        if hasattr(sys, "_branchline_test_company"):
            time.sleep(1000)
        return len(events)


class Company(Counts):
    def process(self, events: Any) -> dict[str, Any]:
        sys._branchline_test_company = True  # type: ignore[attr-defined]
        return super().process(events)


@pytest.mark.usefixtures("small_subjobs")
def test_a_wagon_that_hangs_beside_others_only_is_stopped_too(folder: Path) -> None:
    result = run_in_chunks([Company("before"), HangsInCompany()], str(folder), workers=1, worker_timeout=TIMEOUT_S)
    assert result.outputs["before"]["events"] == EVENTS
    [_, record] = result.record.wagons
    assert record.error is not None
    assert "but not when the wagon ran alone" in record.error.message


class HangsOnce:
    name = "once"

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def process(self, events: Any) -> int:
        if int(events.run[0]) == 1 and not self.mark.exists():
            self.mark.touch()
            time.sleep(1000)
        return len(events)


@pytest.mark.usefixtures("small_subjobs")
def test_a_wagon_that_hangs_once_costs_nothing(folder: Path, tmp_path: Path) -> None:
    result = run_in_chunks([HangsOnce(tmp_path / "mark"), Counts()], str(folder), workers=2, worker_timeout=TIMEOUT_S)
    assert result.exit_code == 0
    assert result.outputs["once"] == result.outputs["counts"]["events"] == EVENTS
    assert len(result.record.workers_lost) == 1


@pytest.mark.usefixtures("small_subjobs")
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("how", ["fork", "fork and raise"])
def test_a_forked_child_that_returns_is_ended_and_its_wagon_named(
    folder: Path, how: str, workers: int, tmp_path: Path
) -> None:
    mark = tmp_path / "ends"
    result = run_in_chunks([Counts("before"), Faulty(how), Counts("behind"), Follows()], str(folder), workers=workers)
    # A child that went on would come here, too.
    with mark.open("a") as file:
        file.write("here\n")
    assert mark.read_text() == "here\n"
    alone = run_in_chunks([Counts("before"), Counts("behind")], str(folder))
    assert digest_of([result.outputs["before"], result.outputs["behind"]]) == digest_of(list(alone.outputs.values()))
    [error] = [one.error for one in result.record.wagons if one.name == "faulty"]
    # A child that ends after all else is not seen any more; nor does it harm.
    if error is not None:
        assert error.type == "ChildProcessError"
        assert "os._exit" in error.message
    assert result.record.errors == []


class ForksWell:
    """A child that ends by itself is no fault."""

    name = "forks"

    def process(self, events: Any) -> int:
        child = os.fork()
        if child == 0:
            sys.exit(3)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_that_exits_is_no_fault(folder: Path) -> None:
    result = run_in_chunks([ForksWell()], str(folder / "f0.root"), workers=1)
    assert result.exit_code == 0
    assert result.outputs["forks"] == 3 * 4, "the exit code, once in each chunk"


class ForksInPostprocess:
    name = "forks"

    def process(self, events: Any) -> int:
        return len(events)

    def postprocess(self, total: int) -> int:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        return total


def test_a_child_forked_in_postprocess_does_not_run_the_rest_of_the_script(folder: Path, tmp_path: Path) -> None:
    result = run_in_chunks([ForksInPostprocess()], str(folder / "f0.root"))
    with (tmp_path / "mark").open("a") as file:
        file.write("here\n")
    assert (tmp_path / "mark").read_text() == "here\n"
    assert result.outputs["forks"] == EVENTS_PER_FILE
    [record] = result.record.wagons
    assert record.error is not None
    assert record.error.type == "ChildProcessError"


@pytest.mark.long
@pytest.mark.usefixtures("small_subjobs")
def test_at_dask_faulty_wagons_are_stopped_alone(folder: Path) -> None:
    with local_cluster(2, threads_per_worker=1, dashboard_address=":0") as cluster:
        for how in ("panic", "no text", "sleep"):
            result = run_in_chunks(wagons(how), str(folder), workers=None, on=cluster, worker_timeout=TIMEOUT_S)
            assert_only_the_faulty_stopped(result, folder, how)
