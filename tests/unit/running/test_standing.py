"""How far a run is, as it writes it down while it works."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from branchline.running.claim import claimed
from branchline.running.standing import standing_of
from branchline.sensors import host
from branchline.train import TrainProgress


def test_a_run_at_work_says_how_far_it_is(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert standing_of(out) is None
    with claimed(out, force=False) as claim:
        claim.begin("branchline run")
        claim.note(TrainProgress(10.0, 5000, 20_000_000, 0, 0.5))
        claim.note(TrainProgress(11.0, 9000, 20_000_000, 0, 0.6))  # too early to be written again
        found = standing_of(out)
    assert found is not None
    assert found.is_good
    assert "5 000 events after 10 s; 500 events/s, 2.0 MB/s read" in found.lines[1]


def test_a_run_whose_process_died_is_not_called_running(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(30)
    record = {"status": "running", "host": host(), "process": child.pid, "started": "2026-01-01T00:00:00+00:00"}
    (tmp_path / "job.json").write_text(json.dumps(record))
    found = standing_of(tmp_path)
    assert found is not None
    assert not found.is_good
    assert f"process {child.pid} on {host()} died" in found.lines[0]
    (tmp_path / "job.json").write_text(json.dumps(record | {"host": "another.machine"}))
    found = standing_of(tmp_path)
    assert found is not None
    assert found.is_good
