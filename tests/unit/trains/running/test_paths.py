"""A train finds its files and its kept results however their paths are written, and wherever its workers are."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from tests.branchline_command import run_branchline
from tests.local_dask import local_cluster

import branchline

WAGONS = """
import json
from pathlib import Path

import branchline
import numpy as np


class Sums:
    name = "sums"

    def process(self, events):
        scale = json.loads(Path("golden.json").read_text())
        return {"sum": int(np.asarray(events.x).sum()) * scale, events.metadata["filename"]: len(events)}


def random(events):
    return {"random": float(np.sum(branchline.event_random(events).random())), "numpy": float(np.random.random())}
"""


def write(path: Path, value: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with uproot.recreate(path) as file:
        file.mktree("events", {"x": "int64"}).extend({"x": np.full(10, value)})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with ``job``, in which the train is started, and ``data`` beside it."""
    for number in range(3):
        write(tmp_path / "data" / f"f{number}.root", 1)
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "wagons.py").write_text(WAGONS)
    (tmp_path / "job" / "golden.json").write_text("1")
    monkeypatch.chdir(tmp_path / "job")
    return tmp_path


def test_results_are_reused_however_paths_are_written(folder: Path) -> None:
    (folder / "job" / "files.txt").write_text("../data/f0.root\n../data/f1.root\n../data/f2.root\n")
    first = branchline.run("wagons.py", "../data/*.root", "out", tree="events", workers=0)
    assert first.record.subjobs_reused == 0
    ways = [
        f"{folder}/data",
        [f"file://{folder}/data/f{number}.root" for number in range(3)],
        [f"file:../data/f{number}.root" for number in range(3)],
        "files.txt",
        {"": {"files": {f"../job/../data/f{number}.root": "events" for number in range(3)}}},
    ]
    for given in ways:
        result = branchline.run("wagons.py", given, "out", tree="events", workers=0)
        assert result.record.subjobs_reused == result.record.subjobs > 0, given
        anew = branchline.run("wagons.py", given, tree="events", workers=0)
        # Names of files and random numbers that depend on them are the same, too.
        assert {name: dict(result.outputs[name]) for name in result.outputs} == {
            name: dict(anew.outputs[name]) for name in anew.outputs
        }


def test_a_sub_job_is_named_by_a_relative_path_too(folder: Path) -> None:
    ended = run_branchline(folder / "job", ["run", "wagons.py", "../data", "-o", "out", "--workers", "1"])
    assert ended.returncode == 0, ended.stderr
    for name in ("../data/f1.root", str(folder / "data" / "f1.root")):
        ended = run_branchline(folder / "job", ["rerun", "out", name])
        assert ended.returncode == 0, ended
        assert "no sub-job" not in ended.stdout + ended.stderr


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A directory from which the relative paths of the train lead to other files."""
    for number in range(3):
        write(tmp_path / "away" / "data" / f"f{number}.root", 1000)
    (tmp_path / "away" / "work").mkdir()
    return tmp_path / "away" / "work"


SCRIPT = """
import sys
import branchline

class Sum:
    name = "sum"
    def process(self, events):
        return int(events.x.to_numpy().sum())

if __name__ == "__main__":
    print(branchline.run([Sum()], "../data/*.root", on=f"dask={sys.argv[1]}").outputs["sum"])
"""


@pytest.fixture
def job(folder: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """A train at a cluster of Dask that has no worker yet."""
    (folder / "job" / "script.py").write_text(SCRIPT)
    settings: dict[str, Any] = {
        "threads_per_worker": 1,
        "dashboard_address": "127.0.0.1:0",
        "local_directory": str(tmp_path),
    }
    with local_cluster(0, **settings) as cluster:
        words = [sys.executable, "script.py", cluster.scheduler_address]
        process = subprocess.Popen(
            words, cwd=folder / "job", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            yield process, cluster
        finally:
            process.kill()
            process.communicate()


@pytest.mark.long
def test_workers_of_dask_that_do_not_see_its_directory_read_the_same_files(
    folder: Path, elsewhere: Path, job: tuple[subprocess.Popen[str], Any]
) -> None:
    process, cluster = job
    while not cluster.scheduler.tasks and process.poll() is None:
        time.sleep(0.05)
    # The directory is known to the job by another name from now on, and to workers by none.
    (folder / "job").rename(folder / "moved")
    words = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--no-dashboard"]
    worker = subprocess.Popen(words, cwd=elsewhere)
    try:
        out, errors = process.communicate(timeout=200)
    finally:
        worker.terminate()
        worker.wait()
        shutil.rmtree(elsewhere)
    assert out.strip() == "30", errors
