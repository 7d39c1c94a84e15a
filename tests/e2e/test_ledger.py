"""Runs into the same directory reuse what is done: after a kill at any time, and after a change of one wagon."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SEEDS = range(int(os.environ.get("BRANCHLINE_KILL_SEEDS", "5")))
KILLS = 4
WAGONS = """
import time

import awkward as ak
import numpy as np

CUT = {cut}


class Sums:
    def process(self, events):
        time.sleep(0.05)
        px = ak.to_numpy(events.px)
        return {{"sum": float(np.sum(px[px > CUT])), "cos": float(np.sum(np.cos(px)))}}


class Counts:
    def process(self, events):
        return len(events)
"""


def write_wagons(folder: Path, cut: float = 0.1) -> None:
    (folder / "wagons.py").write_text(WAGONS.format(cut=cut))


def results_in(out: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in sorted((out / "results").rglob("*.json"))}


def job_in(out: Path) -> dict[str, Any]:
    job: dict[str, Any] = json.loads((out / "job.json").read_text())
    return job


ARGUMENTS = ("--workers", 2, "--step-size", 3000, "--pictures", "none")


def many_files(data: Path) -> Path:
    """Copies of a file, so large together that there are a few sub-jobs."""
    content = next(iter(sorted(data.glob("*.root")))).read_bytes()
    folder = data.parent / "many"
    folder.mkdir()
    for index in range(12):
        (folder / f"g{index:02}.root").write_bytes(content)
    return folder


def test_a_change_of_one_wagon_runs_it_alone(branchline: Callable[..., Any], data: Path, tmp_path: Path) -> None:
    write_wagons(tmp_path)
    assert branchline("run", "wagons.py", data, "-o", "out", *ARGUMENTS).returncode == 0
    before = results_in(tmp_path / "out")
    again = branchline("run", "wagons.py", data, "-o", "out", *ARGUMENTS, "--force")
    assert "nothing had to run" in again.stdout
    assert results_in(tmp_path / "out") == before
    write_wagons(tmp_path, cut=0.2)
    changed = branchline("run", "wagons.py", data, "-o", "out", *ARGUMENTS, "--force")
    subjobs = job_in(tmp_path / "out")["subjobs"]
    assert f"wagons that ran: Sums in {subjobs}" in changed.stdout
    assert branchline("run", "wagons.py", data, "-o", "fresh", *ARGUMENTS, "--no-reuse").returncode == 0
    assert results_in(tmp_path / "out") == results_in(tmp_path / "fresh")
    assert results_in(tmp_path / "out") != before
    everything = branchline("run", "wagons.py", data, "-o", "out", *ARGUMENTS, "--force", "--no-reuse")
    assert "taken from earlier runs" not in everything.stdout
    assert results_in(tmp_path / "out") == results_in(tmp_path / "fresh")


def test_what_is_kept_is_shown_and_cleared(branchline: Callable[..., Any], data: Path, tmp_path: Path) -> None:
    write_wagons(tmp_path)
    missing = branchline("ledger", "out")
    assert missing.returncode == 1
    assert "no ledger" in missing.stderr
    branchline("run", "wagons.py", data, "-o", "out", *ARGUMENTS)
    shown = branchline("ledger", "out")
    assert "Sums: " in shown.stdout
    assert "Counts: " in shown.stdout
    assert "removed" in branchline("ledger", "out", "--clear").stdout
    assert not (tmp_path / "out" / "ledger.sqlite").exists()
    assert results_in(tmp_path / "out")
    again = branchline("run", "wagons.py", data, "-o", "out", *ARGUMENTS, "--force")
    assert "taken from earlier runs" not in again.stdout


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_that_is_killed_at_any_time_goes_on_to_the_same_result(
    branchline: Callable[..., Any],
    start_branchline: Callable[..., Any],
    data: Path,
    tmp_path: Path,
    seed: int,
) -> None:
    print("seed", seed)
    draw = random.Random(seed)
    write_wagons(tmp_path)
    files = many_files(data)
    assert branchline("run", "wagons.py", files, "-o", "fresh", *ARGUMENTS).returncode == 0
    for _ in range(KILLS):
        running = start_branchline("run", "wagons.py", files, "-o", "out", *ARGUMENTS)
        time.sleep(draw.uniform(0.5, 5.0))
        running.kill()
        running.ended()
        out = tmp_path / "out"
        if (out / "job.json").exists() and job_in(out)["status"] == "finished":
            break
    last = branchline("run", "wagons.py", files, "-o", "out", *ARGUMENTS, "--force")
    assert last.returncode == 0, last.stderr
    assert results_in(tmp_path / "out") == results_in(tmp_path / "fresh")
    job, fresh = job_in(tmp_path / "out"), job_in(tmp_path / "fresh")
    assert (job["status"], job["events"], job["subjobs_done"]) == ("finished", fresh["events"], fresh["subjobs"])
    again = branchline("run", "wagons.py", files, "-o", "out", *ARGUMENTS, "--force")
    assert "nothing had to run" in again.stdout
