"""A wagon that takes its process with it is found and stopped alone; all other wagons see all events."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.trains.wagons.conftest import EVENTS_PER_FILE, FILES, run_in_chunks

EVENTS = FILES * EVENTS_PER_FILE


class Counts:
    def __init__(self, name: str = "counts") -> None:
        self.name = name

    def process(self, events: Any) -> dict[str, Any]:
        return {"events": len(events), "px": float(np.sum(np.asarray(events.px)))}


class Crashes:
    """Ends its process in a chunk of the file whose events are of this run."""

    branches: tuple[str, ...] | None = None

    def __init__(self, how: str, run: int = 2, name: str = "crashes") -> None:
        self.how, self.run, self.name = how, run, name

    def process(self, events: Any) -> int:
        if int(events.run[0]) == self.run and events.metadata["entrystart"] >= 400:
            if self.how == "segfault":
                ctypes.string_at(0)
            os._exit(7)
        return len(events)


class Follows:
    name = "follows"
    requires = ("crashes",)

    def process(self, events: Any) -> int:
        return int(events.outputs["crashes"])


HOW = {"segfault": f"was killed by signal {int(signal.SIGSEGV)} (SIGSEGV)", "exit": "ended with exit code 7"}


@pytest.mark.usefixtures("small_subjobs")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("how", ["segfault", "exit"])
def test_a_wagon_that_ends_its_process_is_stopped_alone(folder: Path, how: str, workers: int) -> None:
    wagons = [Counts("before"), Crashes(how), Counts("behind"), Follows()]
    result = run_in_chunks(wagons, str(folder), workers=workers)
    alone = run_in_chunks([Counts()], str(folder))
    assert result.outputs["before"] == result.outputs["behind"] == alone.outputs["counts"]
    assert alone.outputs["counts"]["events"] == EVENTS
    # What it made of the files before is kept.
    assert result.outputs["crashes"] == result.outputs["follows"] == 2 * EVENTS_PER_FILE
    records = {one["name"]: one for one in result.job["wagons"]}
    assert records["crashes"]["error"]["type"] == "WorkerDiedError"
    assert HOW[how] in records["crashes"]["error"]["message"]
    assert records["crashes"]["error"]["path"].endswith("f2.root")
    assert records["crashes"]["error"]["entry_start"] == 750  # Four equal chunks.
    assert records["follows"]["error"]["type"] == "RequiredWagonStopped"
    assert records["before"]["error"] is records["behind"]["error"] is None
    assert result.job["events"] == EVENTS
    assert result.job["errors"] == []
    assert result.exit_code == 3
    assert {one["is_dead"] for one in result.job["workers_lost"]} == {True}
    assert "wagon crashes in" in result.job["workers_lost"][0]["doing"]


@pytest.mark.usefixtures("small_subjobs")
def test_a_crash_while_branches_are_learned_stops_the_wagon_alone(folder: Path) -> None:
    """In the first sub-job, behind the entries on which branches are learned and before."""
    result = run_in_chunks([Crashes("exit", run=0), Counts()], str(folder), workers=2)
    assert result.outputs["counts"]["events"] == EVENTS
    [crashes, counts] = result.job["wagons"]
    assert (crashes["events"], counts["events"]) == (0, EVENTS)


@pytest.mark.usefixtures("small_subjobs")
def test_two_wagons_that_crash_are_both_found(folder: Path) -> None:
    wagons = [Crashes("exit", 1), Counts(), Crashes("segfault", 3, "later")]
    result = run_in_chunks(wagons, str(folder), workers=2)
    assert result.outputs["counts"]["events"] == EVENTS
    assert result.outputs["crashes"] == 1 * EVENTS_PER_FILE
    assert result.outputs["later"] == 3 * EVENTS_PER_FILE
    stopped = [one["name"] for one in result.job["wagons"] if one["error"]]
    assert stopped == ["crashes", "later"]


class KilledOnce:
    """Is killed from outside the first time that it sees a file."""

    name = "killed"

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def process(self, events: Any) -> int:
        if int(events.run[0]) == 1 and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return len(events)


@pytest.mark.usefixtures("small_subjobs")
def test_a_worker_that_is_killed_once_costs_nothing(folder: Path, tmp_path: Path) -> None:
    result = run_in_chunks([KilledOnce(tmp_path / "mark"), Counts()], str(folder), workers=2)
    assert result.exit_code == 0
    assert result.outputs["killed"] == result.outputs["counts"]["events"] == EVENTS
    [lost] = result.job["workers_lost"]
    assert "SIGKILL" in lost["how"]


class CrashesInCompany:
    """Ends its process only if another wagon has run in it."""

    name = "company"

    def process(self, events: Any) -> int:
        if Company.has_run:
            os._exit(9)
        return len(events)


class Company:
    name = "other"
    has_run = False

    def process(self, events: Any) -> int:
        Company.has_run = True
        return len(events)


def test_a_crash_that_no_wagon_causes_alone_sets_the_subjob_aside_and_says_where(folder: Path) -> None:
    result = run_in_chunks([Company(), CrashesInCompany()], str(folder / "f0.root"), workers=1)
    assert result.exit_code == 1
    assert "exit code 9" in result.errors[0]
    assert "f0.root" in result.errors[0]
    [missing] = result.record.missing
    assert missing.attempts == 2
    assert missing.doing.startswith("wagon company in")
