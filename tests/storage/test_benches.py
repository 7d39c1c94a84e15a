"""The benchmark of storages runs from end to end on a tiny file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benches.lab_storages import exact_interval
from tests.storage.machine import needed


def test_storages_are_compared_and_drawn(repository: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benches", "storages", "--quick"]
    folders = ["--cache", str(tmp_path / "cache"), "--results", str(tmp_path)]
    done = subprocess.run([*command, *folders], cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    samples = json.loads((tmp_path / "storages.json").read_text())["samples"]
    assert len({sample["entries"] for sample in samples} - {None}) == 1
    assert {sample["case"] for sample in samples} >= {"local", "HTTP, nginx"}
    assert "CPU s/GB" in (tmp_path / "storages.md").read_text()
    assert (tmp_path / "storages.svg").read_text().startswith("<?xml")


def test_studies_of_a_server_beside_itself_are_counted(repository: Path, tmp_path: Path) -> None:
    needed("xrootd")
    command = [sys.executable, "-m", "benches", "lab-storages", "--quick"]
    folders = ["--cache", str(tmp_path / "cache"), "--results", str(tmp_path)]
    done = subprocess.run([*command, *folders], cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [row] = json.loads((tmp_path / "lab-storages.json").read_text())["rows"]
    assert (row["storage"], row["studies"], row["pairs"], len(row["ratios"])) == ("XRootD", 2, 6, 2)
    low, high = row["interval"]
    assert 0 <= low <= row["alarms"] / 2 <= high <= 1
    assert "false positives %" in (tmp_path / "lab-storages.md").read_text()


def test_the_interval_of_a_part_is_that_of_clopper_and_pearson() -> None:
    # Those of SciPy: beta.ppf(0.025, hits, of - hits + 1) and beta.ppf(0.975, hits + 1, of - hits).
    assert exact_interval(8, 200) == pytest.approx((0.017425, 0.077292), abs=1e-6)
    assert exact_interval(0, 20) == pytest.approx((0.0, 0.168433), abs=1e-6)
    assert exact_interval(20, 20) == pytest.approx((0.831567, 1.0), abs=1e-6)
