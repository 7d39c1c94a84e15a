"""Results and wagons that cannot be unpickled stop their wagon alone, at every place with other processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.local_dask import local_cluster
from tests.unit.trains.wagons.conftest import EVENTS_PER_FILE, FILES, run_in_chunks
from tests.unit.trains.wagons.test_faulty_wagons import Counts, PanicException

from branchline.trains.running.result import TrainResult
from branchline.trains.sums.digests import digest_of

EVENTS = FILES * EVENTS_PER_FILE
JOB = os.getpid()


def only_there(_job: int, error: BaseException) -> Any:
    """Fail where it was not made."""
    if os.getpid() == _job:
        raise error
    return 1


def raises(error: BaseException) -> Any:
    raise error


class Fails:
    """Is pickled, and calls this when it is unpickled."""

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> Any:
        return self.call, self.arguments


class PicklesOnce:
    """Can be pickled once, for the check of a worker."""

    def __init__(self) -> None:
        self.count = 0

    def __reduce__(self) -> Any:
        self.count += 1
        if self.count > 1:
            raise ValueError("too often")
        return int, ()


class Results:
    """Returns what fails, from the file whose events are of run 2 on."""

    name = "results"

    def __init__(self, made: Callable[[], Any], error: BaseException | None = None) -> None:
        self.made, self.error = made, error

    def process(self, events: Any) -> Any:
        if int(events.run[0]) != 2 or events.metadata["entrystart"] < 400:
            return {"events": len(events)}
        return {"events": len(events), events.metadata["entrystart"]: self.made()}


class Follows:
    name = "follows"
    requires = ("results",)

    def process(self, events: Any) -> int:
        return int(events.outputs["results"]["events"])


#: What fails in the results, and a part of what the fault says.
RESULTS: dict[str, tuple[Callable[[], Any], str]] = {
    "raises in the job": (lambda: Fails(only_there, JOB, ValueError("no such session")), "no such session"),
    "BaseException in the job": (lambda: Fails(only_there, JOB, PanicException("panic")), "panic"),
    "exits in the job": (lambda: Fails(only_there, JOB, SystemExit(5)), "SystemExit"),
    "always": (lambda: Fails(raises, OSError("gone")), "gone"),
    "pickled once": (PicklesOnce, "too often"),
}


def assert_others_are_as_alone(result: TrainResult, folder: Path) -> None:
    alone = run_in_chunks([Counts("before"), Counts("behind")], str(folder))
    assert digest_of([result.outputs["before"], result.outputs["behind"]]) == digest_of(list(alone.outputs.values()))
    records = {one.name: one for one in result.record.wagons}
    assert records["before"].error is records["behind"].error is None
    assert records["before"].events == records["behind"].events == EVENTS
    assert result.record.errors == result.record.missing == []
    assert result.exit_code == 3


@pytest.mark.usefixtures("small_subjobs")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("how", sorted(RESULTS))
def test_a_result_that_cannot_be_unpickled_stops_its_wagon_alone(folder: Path, how: str, workers: int) -> None:
    made, message = RESULTS[how]
    wagons = [Counts("before"), Results(made), Counts("behind"), Follows()]
    result = run_in_chunks(wagons, str(folder), workers=workers)
    assert_others_are_as_alone(result, folder)
    records = {one.name: one for one in result.record.wagons}
    fault = records["results"].error
    assert fault is not None
    assert message in fault.message
    assert fault.path is not None
    assert fault.path.endswith("f2.root")
    assert records["results"].events == result.outputs["results"]["events"] == 2 * EVENTS_PER_FILE
    follows = records["follows"].error
    assert follows is not None
    # What a wagon requires is copied for it.
    assert follows.type == ("OSError" if how == "always" else "RequiredWagonStopped")


class Loads:
    """A wagon that calls this when a worker unpickles it."""

    name = "loads"

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.call(*self.arguments)

    def process(self, events: Any) -> int:
        return len(events)


class Holds(Loads):
    """Has it in a list inside of an attribute."""

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self.held = {"a": [1, Fails(call, *arguments)]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


class AlsoLoads(Loads):
    name = "also"


class FollowsLoading:
    name = "follows"
    requires = ("loads",)

    def process(self, events: Any) -> int:
        return int(events.outputs["loads"])


def missing_module() -> None:
    import there_is_no_such_module  # type: ignore[import-not-found]  # noqa: F401


ERRORS: dict[str, tuple[Any, ...]] = {
    "no such model": (raises, OSError("no such model")),
    "PanicException: panic": (raises, PanicException("panic")),
    "SystemExit": (sys.exit, 5),
    "there_is_no_such_module": (missing_module,),
}


@pytest.mark.usefixtures("small_subjobs")
@pytest.mark.parametrize("kind", [Loads, Holds])
@pytest.mark.parametrize("message", sorted(ERRORS))
def test_a_wagon_that_cannot_be_unpickled_stops_alone(folder: Path, kind: type[Loads], message: str) -> None:
    table = list(range(1000))
    before, behind = Counts("before"), Counts("behind")
    before.table = behind.table = table  # type: ignore[attr-defined]
    wagons = [before, kind(*ERRORS[message]), AlsoLoads(*ERRORS[message]), behind, FollowsLoading()]
    result = run_in_chunks(wagons, str(folder), workers=2)
    assert_others_are_as_alone(result, folder)
    errors = {one.name: one.error for one in result.record.wagons if one.error is not None}
    assert set(errors) == {"loads", "also", "follows"}
    assert message in errors["loads"].message
    assert "unpickled" in errors["loads"].message
    assert message in errors["also"].message
    assert result.outputs["loads"] is None
    assert errors["follows"].type == "RequiredWagonStopped"


@pytest.mark.long
@pytest.mark.usefixtures("small_subjobs")
def test_results_and_wagons_that_cannot_be_unpickled_on_dask(folder: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with local_cluster(2, local_directory=str(tmp_path), **settings) as cluster:
        for how in ("raises in the job", "pickled once"):
            wagons = [Counts("before"), Results(RESULTS[how][0]), Counts("behind")]
            result = run_in_chunks(wagons, str(folder), workers=None, on=cluster)
            assert_others_are_as_alone(result, folder)
            [error] = [one.error for one in result.record.wagons if one.error is not None]
            assert RESULTS[how][1] in error.message
        wagons = [Counts("before"), Loads(raises, OSError("no such model")), Counts("behind")]
        result = run_in_chunks(wagons, str(folder), workers=None, on=cluster)
        assert_others_are_as_alone(result, folder)
        [error] = [one.error for one in result.record.wagons if one.error is not None]
        assert "no such model" in error.message
