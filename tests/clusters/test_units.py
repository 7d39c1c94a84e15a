"""Units of several sub-jobs on Slurm: one that fails costs itself alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.clusters.event_files import write_events
from tests.clusters.farm import files_of
from tests.clusters.slurm import Slurm
from tests.clusters.wagons import PLAIN, TOGETHER, write_wagons

import branchline
from branchline.trains.submitted.handle import SubmittedTrain

# Two tasks with units of twenty sub-jobs, and one of five.
FILES, TASKS, EVENTS_PER_FILE = 45, 2, 40
TIMEOUT_S = 100


@pytest.fixture
def data(slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files each of which is a sub-job."""
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "data"
    folder.mkdir()
    write_events(folder, FILES, EVENTS_PER_FILE)
    largest = max(one.stat().st_size for one in folder.iterdir())
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", largest)
    return folder


def submit(wagons: str, data: Path, **settings: Any) -> SubmittedTrain:
    batch = branchline.BatchSettings(tasks=TASKS, retries=0)
    return branchline.run(
        wagons, str(data), str(data.parent / "out"), on="slurm", batch=batch, pictures="none", **settings
    )


def results_alone(submitted: SubmittedTrain) -> int:
    return sum(1 for one in (submitted.out / "batch" / "units").glob("0.*") if one.suffix not in (".failed", ".lease"))


def test_a_bad_file_costs_its_own_sub_job_of_a_unit(data: Path, tmp_path: Path) -> None:
    wagons = write_wagons(tmp_path / "wagons", PLAIN)
    local = branchline.run(wagons, str(data), str(tmp_path / "local"), workers=1, pictures="none")
    assert local.record.subjobs == FILES
    bad = data / "f30.root"
    content = bad.read_bytes()
    bad.write_bytes(b"this is no ROOT file".ljust(len(content)))
    submitted = submit(wagons, data)
    status = submitted.wait(TIMEOUT_S)
    assert (status.done, status.failed, status.ended) == (FILES - 1, 1, "partial"), status
    assert status.events == (FILES - 1) * EVENTS_PER_FILE
    assert "f30.root" in next(iter(status.causes))
    record = json.loads((submitted.out / "job.json").read_text())
    assert record["events"] == (FILES - 1) * EVENTS_PER_FILE
    assert [Path(one["files"][0]["path"]).name for one in record["missing"]] == ["f30.root"]
    assert [one["files"] for one in record["failures"]] == [[str(bad)]]
    bad.write_bytes(content)
    assert submitted.resume() == 1
    status = submitted.wait(TIMEOUT_S)
    assert (status.done, status.failed, status.ended) == (FILES, 0, "finished"), status
    assert files_of(submitted.out) == files_of(tmp_path / "local")
    assert results_alone(submitted) == 0


def test_a_sub_job_that_kills_its_worker_costs_itself_alone(data: Path, tmp_path: Path) -> None:
    submitted = submit(write_wagons(tmp_path / "wagons", TOGETHER), data)
    status = submitted.wait(TIMEOUT_S)
    assert (status.done, status.failed, status.ended) == (FILES - 1, 1, "partial"), status
    record = json.loads((submitted.out / "job.json").read_text())
    [missing] = record["missing"]
    assert [Path(one["path"]).name for one in missing["files"]] == ["f3.root"]
    assert "exit code 9" in missing["cause"]
    assert record["events"] == (FILES - 1) * EVENTS_PER_FILE


def test_where_nothing_can_be_read_a_unit_is_given_up_soon(data: Path, tmp_path: Path) -> None:
    wagons = write_wagons(tmp_path / "wagons", PLAIN)
    submitted = submit(wagons, data)
    submitted.cancel()
    for one in data.iterdir():
        one.write_bytes(b"this is no ROOT file".ljust(one.stat().st_size))
    submitted.wait(TIMEOUT_S)
    submitted.resume()
    status = submitted.wait(TIMEOUT_S)
    assert status.failed >= FILES - 20, status
    failures = list((submitted.out / "batch" / "units").glob("0.*.failed"))
    # At most three of each unit, and all of the last one, which has five, until three of them failed.
    assert 1 <= len(failures) <= 9


def test_wagons_that_end_each_worker_are_stopped_and_named(data: Path, tmp_path: Path) -> None:
    """As where a library of the user's cannot be loaded on the nodes, and ends the process."""
    ends = """
import os
from pathlib import Path

if "SLURM_JOB_ID" in os.environ and b"branchline.jobs" in Path("/proc/self/cmdline").read_bytes():
    os._exit(3)
"""
    submitted = submit(write_wagons(tmp_path / "wagons", PLAIN + ends), data)
    status = submitted.wait(TIMEOUT_S)
    assert (status.done, status.failed, status.ended) == (FILES, 0, "partial"), status
    record = json.loads((submitted.out / "job.json").read_text())
    assert ["exit code 3" in json.dumps(one["error"]) for one in record["wagons"]] == [True] * len(record["wagons"])
