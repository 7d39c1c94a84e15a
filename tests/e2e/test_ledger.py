"""Runs into the same directory reuse what is done: after a kill at any time, and after a change of one wagon."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.branchline_command import command
from tests.sampled import long_but

pytestmark = pytest.mark.slow

SEEDS = range(int(os.environ.get("BRANCHLINE_KILL_SEEDS", "5")))
KILLS = 4
# Of a chunk, so that kills find a train at work.
PAUSE_S = 0.05
WAGONS = """
import time

import awkward as ak
import numpy as np

CUT = {cut}


class Sums:
    def process(self, events):
        time.sleep({pause_s})
        px = ak.to_numpy(events.px)
        return {{"sum": float(np.sum(px[px > CUT])), "cos": float(np.sum(np.cos(px)))}}


class Counts:
    def process(self, events):
        return len(events)
"""


def write_wagons(folder: Path, cut: float = 0.1, pause_s: float = 0.0) -> None:
    (folder / "wagons.py").write_text(WAGONS.format(cut=cut, pause_s=pause_s))


def results_in(out: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in sorted((out / "results").rglob("*.json"))}


def job_in(out: Path) -> dict[str, Any]:
    job: dict[str, Any] = json.loads((out / "job.json").read_text())
    return job


ARGUMENTS = ("--workers", 2, "--step-size", 3000, "--pictures", "none")


@dataclass(frozen=True)
class Slow:
    """Files, so large together that there are a few sub-jobs, and what a train over them that takes its time makes."""

    files: Path
    results: dict[str, bytes]
    job: dict[str, Any]


@pytest.fixture(scope="module")
def slow(originals: Path, tmp_path_factory: pytest.TempPathFactory) -> Slow:
    folder = tmp_path_factory.mktemp("slow")
    content = min(originals.iterdir()).read_bytes()
    files = folder / "many"
    files.mkdir()
    for index in range(12):
        (files / f"g{index:02}.root").write_bytes(content)
    write_wagons(folder, pause_s=PAUSE_S)
    words = command("run", "wagons.py", files, "-o", "fresh", *ARGUMENTS)
    subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=280)
    return Slow(files, results_in(folder / "fresh"), job_in(folder / "fresh"))


# Six trains; on a busy machine, where each takes a quarter of a minute, they are over the limit of other tests.
@pytest.mark.long
@pytest.mark.timeout(300)
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
    assert "Sums ran because wagons.CUT changed" in changed.stdout
    assert branchline("run", "wagons.py", data, "-o", "fresh", *ARGUMENTS, "--no-reuse").returncode == 0
    assert results_in(tmp_path / "out") == results_in(tmp_path / "fresh")
    assert results_in(tmp_path / "out") != before
    everything = branchline("run", "wagons.py", data, "-o", "out", *ARGUMENTS, "--force", "--no-reuse")
    assert "reused from earlier runs" not in everything.stdout
    assert results_in(tmp_path / "out") == results_in(tmp_path / "fresh")


def test_what_is_kept_is_shown_and_cleared(branchline: Callable[..., Any], data: Path, tmp_path: Path) -> None:
    write_wagons(tmp_path)
    missing = branchline("ledger", "out")
    assert missing.returncode == 1
    assert "the ledger is missing" in missing.stderr
    branchline("run", "wagons.py", data, "-o", "out", *ARGUMENTS)
    shown = branchline("ledger", "out")
    assert "Sums: " in shown.stdout
    assert "Counts: " in shown.stdout
    assert "deleted" in branchline("ledger", "out", "--clear").stdout
    assert not (tmp_path / "out" / "ledger.sqlite").exists()
    assert results_in(tmp_path / "out")
    again = branchline("run", "wagons.py", data, "-o", "out", *ARGUMENTS, "--force")
    assert "reused from earlier runs" not in again.stdout


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", long_but(SEEDS, SEEDS[:1]))
def test_a_job_that_is_killed_at_any_time_goes_on_to_the_same_result(
    branchline: Callable[..., Any], start_branchline: Callable[..., Any], slow: Slow, tmp_path: Path, seed: int
) -> None:
    print("seed", seed)
    draw = random.Random(seed)
    write_wagons(tmp_path, pause_s=PAUSE_S)
    out = tmp_path / "out"
    for _ in range(KILLS):
        running = start_branchline("run", "wagons.py", slow.files, "-o", "out", *ARGUMENTS)
        time.sleep(draw.uniform(0.5, 5.0))
        running.kill()
        running.ended()
        if (out / "job.json").exists() and job_in(out)["status"] == "finished":
            break
    last = branchline("run", "wagons.py", slow.files, "-o", "out", *ARGUMENTS, "--force")
    assert last.returncode == 0, last.stderr
    assert results_in(out) == slow.results
    job = job_in(out)
    assert (job["status"], job["events"], job["subjobs_done"]) == ("finished", slow.job["events"], slow.job["subjobs"])
    again = branchline("run", "wagons.py", slow.files, "-o", "out", *ARGUMENTS, "--force")
    assert "nothing had to run" in again.stdout
