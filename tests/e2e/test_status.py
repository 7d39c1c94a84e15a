"""The state of a train that another process runs: while it works, after it was killed, and at its end."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.branchline_command import command
from tests.e2e.conftest import EVENTS, FILES, Branchline, Running
from tests.patience import HANG_S

from branchline.cli.commands.submitted import status
from branchline.records.sensors.record import JobRecord
from branchline.records.sensors.schema import status_schema
from branchline.records.sensors.status import TrainStatus

# Each sub-job waits in its first chunk until the file go.txt is there, so that a test can look at it. A
# result depends on the files that the source names, so this one is not named in one piece.
WAGONS = """
import time
from pathlib import Path

class Waits:
    branches = ["px"]

    def process(self, events):
        Path({folder!r}, Path(events.metadata["filename"]).name + ".mark").touch()
        while not Path({folder!r}, "go" + ".txt").exists() and "f0" not in events.metadata["filename"]:
            time.sleep(0.02)
        return len(events)
"""


def state(branchline: Branchline) -> dict[str, Any]:
    ended = branchline("status", "out", "--json")
    found: dict[str, Any] = json.loads(ended.stdout)
    jsonschema.validate(found, status_schema())
    return found


def state_when(branchline: Branchline, is_there: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    end_s = time.monotonic() + HANG_S
    while not is_there(found := state(branchline)):
        assert time.monotonic() < end_s, found
        time.sleep(0.1)
    return found


def started(start_branchline: Callable[..., Running], data: Path, folder: Path) -> Running:
    wagons = folder / "waits.py"
    wagons.write_text(WAGONS.format(folder=str(folder)))
    running = start_branchline("run", wagons, data, "-o", "out", "-j", 2)
    running.wait_for(3, "*.mark", folder)
    return running


def test_the_state_of_a_train_is_seen_while_it_works_and_at_its_end(
    data: Path, start_branchline: Callable[..., Running], branchline: Branchline, tmp_path: Path
) -> None:
    running = started(start_branchline, data, tmp_path)
    follow = subprocess.Popen(command("status", "out", "--follow"), stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    found = state_when(branchline, lambda now: now["done"] == 1 and now["running"] >= 2)
    assert (found["status"], found["phase"], found["process"]) == ("running", "run", running.pid)
    assert found["subjobs"] == FILES
    # A worker draws its next sub-job while it works on one.
    assert found["running"] <= 4
    assert found["done"] + found["running"] + found["queued"] == FILES
    assert found["failed"] == 0
    assert [one["files"] for one in found["elements"]] == [1]
    assert found["elements"][0]["bytes_near"] == found["elements"][0]["bytes_read"] > 0
    assert found["slowest"].endswith(".root")
    assert "1 done" in branchline("status", "out").stdout
    assert follow.poll() is None
    (tmp_path / "go.txt").touch()
    assert running.ended().returncode == 0
    shown, _ = follow.communicate(timeout=280)
    assert follow.returncode == 0
    assert f"{FILES} sub-jobs: {FILES} done, 0 running, 0 queued, 0 failed; 360 000 events done" in shown
    found = state(branchline)
    assert (found["status"], found["done"], found["events"]) == ("finished", FILES, EVENTS)
    assert sum(one["files"] for one in found["elements"]) == FILES
    assert not (tmp_path / "out" / "status.json").exists()


@pytest.mark.long
def test_a_train_that_was_killed_is_not_called_running(
    data: Path, start_branchline: Callable[..., Running], branchline: Branchline, tmp_path: Path
) -> None:
    running = started(start_branchline, data, tmp_path)
    state_when(branchline, lambda now: now["done"] == 1)
    running.kill()
    running.ended()
    ended = branchline("status", "out", "--follow")
    assert ended.returncode == 3
    assert f"process {running.pid} on " in ended.stdout
    assert "died without results" in ended.stdout
    assert f"{FILES} sub-jobs: 1 done" in ended.stdout
    assert state(branchline)["status"] == "died"
    # What was done is taken from the ledger.
    (tmp_path / "go.txt").touch()
    again = branchline("run", "waits.py", data, "-o", "out", "-j", 2)
    assert again.returncode == 0, again.stderr
    assert state(branchline)["reused"] >= 1


def test_following_ends_when_a_run_on_another_machine_writes_no_state_any_more(
    branchline: Branchline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = JobRecord(status="running", host="another.machine", process=1, started="2026-01-01T00:00:00+00:00")
    out = tmp_path / "out"
    out.mkdir()
    (out / "job.json").write_text(json.dumps(record.as_dict()))
    (out / "status.json").write_text(json.dumps(TrainStatus(updated="2026-01-01T00:00:00+00:00").as_dict()))
    monkeypatch.setattr("branchline.base.limits.STATUS_OLD_S", 1.5)
    monkeypatch.chdir(tmp_path)
    assert status(Path("out"), follow=True) == 0
    assert "no report for" in branchline("status", "out").stdout


def test_a_directory_without_a_run_is_named(branchline: Branchline, tmp_path: Path) -> None:
    ended = branchline("status", tmp_path)
    assert ended.returncode == 1
    assert "no record of a run in this directory" in ended.stderr
