"""How far a run is, as it writes it down while it works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.patience import HANG_S

from branchline.records.sensors.record import MergeStage
from branchline.records.sensors.status import STATUS_VERSION, ElementStatus, TrainStatus
from branchline.records.sensors.this_process import host
from branchline.trains.out_folder.claim import claimed
from branchline.trains.out_folder.state import element_lines, status_lines, status_of


def test_a_run_at_work_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.trains.out_folder.claim.STATUS_INTERVAL_S", 1000.0)
    out = tmp_path / "out"
    assert status_of(out) is None
    with claimed(out, force=False) as claim:
        claim.begin("branchline run")
        claim.note(TrainStatus(10.0, 5000, 20_000_000, 0, 0.5, subjobs=8, done=3, running=2, queued=3))
        claim.note(TrainStatus(10.5, 9000, 20_000_000, 0, 0.6))  # written after the interval
        found = status_of(out)
        assert found is not None
        lines = list(status_lines(found, out))
        assert found.is_good
        assert (found.done, found.running, found.process, found.status) == (3, 2, os.getpid(), "running")
        assert "8 sub-jobs: 3 done, 2 running, 3 queued, 0 failed; 5 000 events done" in lines
        assert "5 000 events after 10 s; 500 events/s, 2.0 MB/s read" in lines
        # A new phase is written at once.
        claim.note(TrainStatus(10.6, 9000, 20_000_000, 0, 1.0, phase="merge", merge_s=4.0))
        found = status_of(out)
        assert found is not None
        assert "merging results, for 4 s" in list(status_lines(found, out))
        claim.end()
    assert not (out / "status.json").exists()


def test_a_state_that_is_old_or_of_a_later_version_is_not_taken_for_the_present(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with claimed(out, force=False) as claim:
        claim.begin("branchline run")
        old = TrainStatus(1.0, subjobs=2, updated="2026-01-01T00:00:00+00:00")
        (out / "status.json").write_text(json.dumps(old.as_dict()))
        found = status_of(out)
        assert found is not None
        assert any("no report for" in line for line in status_lines(found, out))
        for content in (json.dumps({"status_version": STATUS_VERSION + 1, "events": "many"}), "[]", "{", ""):
            (out / "status.json").write_text(content)
            found = status_of(out)
            assert found is not None
            assert (found.status, found.events, found.process) == ("running", 0, os.getpid())


def test_the_last_state_is_written_also_when_nothing_follows_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with claimed(out, force=False) as claim:
        claim.begin("branchline run")
        claim.note(TrainStatus(1.0, done=1))
        claim.note(TrainStatus(1.1, done=2, slowest="f.root"))
        end_s = time.monotonic() + HANG_S
        while (found := status_of(out)) is None or found.done < 2:
            assert time.monotonic() < end_s
            time.sleep(0.05)
        assert found.slowest_s > 0


def test_each_storage_element_has_its_rate_where_there_are_several(tmp_path: Path) -> None:
    near, far = ElementStatus("root://a:1094", 3, 40_000_000, 40_000_000), ElementStatus("root://b:1094", 1, 10_000_000)
    status = TrainStatus(10.0, 100, 50_000_000, elements=[near, far])
    lines = list(status_lines(status, tmp_path))
    assert "root://a:1094: 3 files, 4.0 MB/s, 100 % by workers near it" in lines
    assert "root://b:1094: 1 file, 1.0 MB/s, 0 % by workers near it" in lines
    assert not list(element_lines(TrainStatus(10.0, 100, 50_000_000, elements=[near])))


def test_the_cost_of_each_stage_of_the_merge_is_shown(tmp_path: Path) -> None:
    stages = [MergeStage(1, 40, 2, 1.5), MergeStage(2, 2, 1, 0.02)]
    lines = list(status_lines(TrainStatus(10.0, 100, merge_stages=stages), tmp_path))
    assert "merging: stage 1: 40 results into 2 in 1.50 s; stage 2: 2 results into 1 in 20 ms" in lines


def test_a_state_comes_back_from_json_as_it_was() -> None:
    status = TrainStatus(
        1.5,
        10,
        causes={"why": 2},
        elements=[ElementStatus("a", 1, 2, 1)],
        merge_stages=[MergeStage(1, 20, 1, 0.5)],
        errors=["no"],
        tasks=1,
    )
    assert TrainStatus.from_dict(json.loads(json.dumps(status.as_dict()))) == status
    with pytest.raises(ValueError, match="supports versions up to"):
        TrainStatus.from_dict({"status_version": STATUS_VERSION + 1})
    with pytest.raises(ValueError, match="version None"):
        TrainStatus.from_dict({})


def test_a_run_whose_process_died_is_not_called_running(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(30)
    record = {"status": "running", "host": host(), "process": child.pid, "started": "2026-01-01T00:00:00+00:00"}
    (tmp_path / "job.json").write_text(json.dumps(record))
    found = status_of(tmp_path)
    assert found is not None
    assert not found.is_good
    assert f"process {child.pid} on {host()} died" in next(status_lines(found, tmp_path))
    (tmp_path / "job.json").write_text(json.dumps(record | {"host": "another.machine"}))
    found = status_of(tmp_path)
    assert found is not None
    assert found.is_good
