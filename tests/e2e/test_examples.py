"""The examples run as they stand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.branchline_command import run_branchline


def test_the_example_train_runs(repository: Path, collisions: Path, tmp_path: Path) -> None:
    run = run_branchline(tmp_path, ["run", repository / "examples" / "wagons.py", collisions, "-o", "out"])
    assert run.returncode == 0, run.stderr
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    assert {wagon["name"]: wagon["error"] for wagon in job["wagons"]} == dict.fromkeys(
        ("particles", "spectrum", "balance")
    )
    # One chunk: its particles are for the other wagons, and only their number is a result.
    assert list(json.loads((tmp_path / "out" / "results" / "particles.json").read_text())) == ["count"]
    balance = json.loads((tmp_path / "out" / "results" / "balance.json").read_text())
    assert balance["events"] == 60
    assert 0 < balance["largest_imbalance_GeV"] < 1


def test_the_script_for_uproot_runs(repository: Path, collisions: Path) -> None:
    script = str(repository / "examples" / "like_uproot.py")
    file = str(next(collisions.glob("*.root")))
    run = subprocess.run([sys.executable, script, file], capture_output=True, text=True, timeout=280)
    assert run.returncode == 0, run.stderr
    assert "20 events with 28 branches" in run.stdout
