"""Files that do not have what the others have, and wagons that cannot run: each is named, and all others go on."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from tests.sampled import long_but

EVENTS_PER_FILE = 60_000

# One wagon that names what is not there, one that needs it, one that works, one whose output cannot travel.
MIXED = """
class Mistyped:
    name = "mistyped"
    branches = ["pxx"]
    def process(self, events):
        return len(events)

class Needs:
    name = "needs"
    requires = ["mistyped"]
    def process(self, events):
        return len(events)

class Works:
    name = "works"
    def process(self, events):
        return {"events": len(events.px)}

class Generates:
    name = "generates"
    def process(self, events):
        return (x for x in events.px)

class Raises:
    name = "raises"
    def process(self, events):
        helper(events)

def helper(events):
    raise ValueError("no calibration")
"""


@pytest.fixture
def odd_files(data: Path) -> dict[str, Path]:
    """Files without the tree, with several trees, and without a branch that is needed."""
    folder = data.parent / "odd"
    folder.mkdir()
    with uproot.recreate(folder / "other_tree.root") as file:
        file.mktree("evts", {"px": "f8", "pt": "f8"}).extend({"px": np.zeros(10), "pt": np.zeros(10)})
    with uproot.recreate(folder / "two_trees.root") as file:
        for name in ("events", "more"):
            file.mktree(name, {"px": "f8", "pt": "f8"}).extend({"px": np.zeros(10), "pt": np.zeros(10)})
    with uproot.recreate(folder / "no_branch.root") as file:
        file.mktree("events", {"py": "f8", "pt": "f8"}).extend({"py": np.zeros(10), "pt": np.zeros(10)})
    with uproot.recreate(folder / "no_tree.root") as file:
        file["title"] = "nothing here"
    return {one.stem: one for one in folder.iterdir()}


def job_in(folder: Path) -> dict[str, Any]:
    job: dict[str, Any] = json.loads((folder / "job.json").read_text())
    return job


@pytest.mark.parametrize(
    ("names", "odd_first"), long_but(itertools.product([None, "px"], [False, True]), [(None, True), ("px", False)])
)
def test_files_that_are_not_like_the_others_are_skipped(
    branchline: Any, data: Path, odd_files: dict[str, Path], tmp_path: Path, names: str | None, odd_first: bool
) -> None:
    declared = f"  branches = [{names!r}]\n" if names else ""
    (tmp_path / "w.py").write_text(f"class W:\n{declared}  def process(self, events): return float(sum(events.px))\n")
    good = [f"{data / 'f0.root'}:events", f"{data / 'f1.root'}:events"]
    no_branch, other_tree = f"{odd_files['no_branch']}:events", f"{odd_files['other_tree']}:events"
    odd = [other_tree, odd_files["two_trees"], odd_files["no_tree"], no_branch]
    if names is None and odd_first:
        odd.remove(no_branch)  # what is learned on it would be no branch of the others
    files = [*odd, *good] if odd_first else [*good, *odd]
    ended = branchline("run", "w.py", *files, "-o", "out", "--workers", 2, "--skip-bad-files")
    assert ended.returncode == 3, ended.stderr
    assert ended.stdout.startswith("partial: 120 000 ")
    job = job_in(tmp_path / "out")
    skipped = {Path(one["path"]).stem: one for one in job["skipped"]}
    assert set(skipped) == {Path(str(one).removesuffix(":events")).stem for one in odd}
    assert "evts" in skipped["other_tree"]["error"]
    assert "several trees" in skipped["two_trees"]["error"]
    assert job["status"] == "partial"
    if no_branch in odd:
        assert skipped["no_branch"]["entries_lost"] == 10
        assert "px" in skipped["no_branch"]["error"]
        assert job["events_expected"] == job["events"] + 10
    # The file is named once, and the advice is not repeated on each line.
    for line in ended.stderr.splitlines():
        assert "--skip-bad-files" not in line
    assert "other_tree" in (tmp_path / "out" / "PARTIAL.txt").read_text()


def test_all_files_missing_is_a_failure(branchline: Any, plain_wagons: Path, tmp_path: Path) -> None:
    ended = branchline("run", plain_wagons, "a.root", "b.root", "-o", "out", "--skip-bad-files")
    assert ended.returncode == 1
    assert ended.stdout.startswith("failed: 0 events")
    assert job_in(tmp_path / "out")["status"] == "failed"


def test_wagons_that_cannot_run_stop_alone_whatever_the_workers(branchline: Any, data: Path, tmp_path: Path) -> None:
    (tmp_path / "mixed.py").write_text(MIXED)
    messages = []
    for workers in (1, 2):
        ended = branchline("run", "mixed.py", data, "-o", f"out{workers}", "--workers", workers)
        assert ended.returncode == 3, ended.stderr
        assert "Traceback" not in ended.stderr
        job = job_in(tmp_path / f"out{workers}")
        errors = {wagon["name"]: wagon["error"] for wagon in job["wagons"]}
        assert errors["works"] is None
        works = json.loads((tmp_path / f"out{workers}" / "results" / "works.json").read_text())
        assert works == {"events": 6 * EVENTS_PER_FILE}
        assert "pxx" in errors["mistyped"]["message"]
        assert "did you mean px" in errors["mistyped"]["message"]
        assert "mistyped" in errors["needs"]["message"]
        assert "generator" in errors["generates"]["message"]
        assert errors["raises"]["line"] == f"mixed.py, line {MIXED.splitlines().index(RAISE) + 1}"
        assert f"ValueError: no calibration ({errors['raises']['line']})" in ended.stderr
        messages.append(ended.stderr)
    assert messages[0] == messages[1]


RAISE = '    raise ValueError("no calibration")'


def test_the_trial_names_a_mistyped_branch_and_tries_all_others(branchline: Any, data: Path, tmp_path: Path) -> None:
    (tmp_path / "mixed.py").write_text(MIXED)
    ended = branchline("test", "mixed.py", data)
    assert ended.returncode == 3, ended.stderr
    assert "wagon mistyped stopped: " in ended.stdout
    assert "did you mean px" in ended.stdout
    assert "wagon needs stopped: " in ended.stdout
    assert "works reads px" in ended.stdout
    assert "forecast for " in ended.stdout


def test_when_every_wagon_has_stopped_nothing_more_is_read(branchline: Any, data: Path, tmp_path: Path) -> None:
    (tmp_path / "raises.py").write_text("class R:\n  def process(self, events): return 1 / 0 * events.px\n")
    ended = branchline("run", "raises.py", data, "-o", "out", "--workers", 1)
    assert ended.returncode == 3, ended.stderr
    job = job_in(tmp_path / "out")
    assert job["status"] == "partial"
    assert job["subjobs_done"] < job["subjobs"]
    assert job["events"] < EVENTS_PER_FILE
