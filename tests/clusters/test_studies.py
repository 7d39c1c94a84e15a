"""A study whose jobs are those of a real batch system."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.clusters.farm import wait_until
from tests.clusters.htcondor import HTCondor
from tests.clusters.places import dask_servers
from tests.clusters.slurm import NODES, Slurm
from tests.patience import HANG_S

from branchline.lab.sampling.samples import SAMPLES, SampleFile, StudySample
from branchline.lab.studies.study_page import kept_result, write_report

JOBS = 6
STUDY = """
question = "Is a copy slower?"
precision = "1%"
budget = "10 min"
rounds = 2
limits = false
[job]
where = "${HERE}/data"
tree = "events"
files_per_job = 1
jobs = 6
[factors.client]
branchline = { client = "branchline" }
slow = { client = "command", command = "sh ${HERE}/slow.sh {job}" }
[baseline]
client = "branchline"
"""


#: A script in which one of the jobs dies.
DYING = "test $1 != 4 || kill -9 $PPID; sleep 0.2\n"


def made(folder: Path) -> Path:
    """A folder with the study, its files and its slow script."""
    (folder / "data").mkdir()
    for number in range(JOBS):
        with uproot.recreate(folder / "data" / f"{number}.root") as file:
            file["events"] = {"x": np.arange(1000.0)}
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    (folder / "slow.sh").write_text("sleep 1\n", encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made(tmp_path)


def words(folder: Path, on: str = "slurm") -> list[str]:
    command = [sys.executable, "-m", "branchline", "study", "run", str(folder / "study.toml")]
    return [*command, "-o", str(folder / "out"), "--on", on, "--seed", "1", "--set", f"HERE={folder}"]


def environment(slurm: Slurm) -> dict[str, str]:
    return {**os.environ, **slurm.environment}


def samples(folder: Path) -> list[StudySample]:
    return SampleFile(folder / "out" / SAMPLES).read()


def check_dying(folder: Path, said: str, place: str) -> None:
    """Each arm was measured by all of its jobs but the one that dies, which is named."""
    taken = samples(folder)
    assert Counter((one.kind, one.arm) for one in taken) == {
        ("arm", "client branchline"): 2,
        ("control", "client branchline"): 2,
        ("arm", "client slow"): 2,
    }
    assert {one.place.partition("=")[0] for one in taken} == {place}
    reads = [one for one in taken if one.arm == "client branchline"]
    assert all([job.events for job in one.jobs] == [1000] * JOBS for one in reads)
    slow = [one for one in taken if one.arm == "client slow"]
    assert [[job.number for job in one.jobs if job.error] for one in slow] == [[4], [4]]
    assert "died with code -9" in slow[0].jobs[4].error
    assert "2 jobs failed" in said


def test_slurm_runs_the_jobs_of_each_arm_and_a_job_that_dies_is_named(slurm: Slurm, folder: Path) -> None:
    (folder / "slow.sh").write_text(DYING, encoding="utf-8")
    done = subprocess.run(
        words(folder), env=environment(slurm), capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    check_dying(folder, done.stdout, "slurm")
    assert "Throughput over time" in write_report(folder / "out").read_text(encoding="utf-8")
    assert not list((folder / "out" / "farm").iterdir())
    assert len(NODES) > 1


def test_a_batch_system_that_does_not_answer_at_the_end_of_a_sample_costs_none(slurm: Slurm, folder: Path) -> None:
    real = shutil.which("scancel", path=environment(slurm)["PATH"])
    programs = folder / "bin"
    programs.mkdir()
    script = f'#!/bin/sh\nif [ ! -e "{folder}/failed" ]; then touch "{folder}/failed"; exit 1; fi\nexec {real} "$@"\n'
    (programs / "scancel").write_text(script, encoding="ascii")
    (programs / "scancel").chmod(0o755)
    (folder / "slow.sh").write_text("sleep 0.1\n", encoding="utf-8")
    around = environment(slurm)
    around["PATH"] = f"{programs}:{around['PATH']}"
    done = subprocess.run(words(folder), env=around, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert (folder / "failed").exists()
    assert [one.error for one in samples(folder) if one.error] == []
    assert not list((folder / "out" / "farm").iterdir())


# Making the pool's folder takes minutes, once.
@pytest.mark.timeout(1800)
def test_htcondor_runs_the_jobs_of_each_arm_and_a_job_that_dies_is_named(pool: HTCondor) -> None:
    folder = pool.folder / "study"
    folder.mkdir()
    (made(folder) / "slow.sh").write_text(DYING, encoding="utf-8")
    pool.own(folder)
    done = pool.call(words(folder, "htcondor"), folder, timeout_s=400)
    assert done.returncode == 0, done.stderr
    check_dying(folder, done.stdout, "htcondor")
    # Not even a job that is held.
    wait_until(lambda: not pool.command("condor_q", "-af", "ClusterId").strip(), "an empty queue", 60)


def test_a_study_that_is_killed_leaves_nothing_in_the_queue_that_disturbs_what_follows(
    slurm: Slurm, folder: Path
) -> None:
    (folder / "slow.sh").write_text("sleep 3\n", encoding="utf-8")
    running = subprocess.Popen(words(folder), env=environment(slurm), start_new_session=True)
    end_s = time.monotonic() + HANG_S
    submitted = folder / "out" / "farm"
    while not list(submitted.glob("*/submitted.json")):
        assert time.monotonic() < end_s
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    (folder / "slow.sh").write_text("sleep 0.1\n", encoding="utf-8")
    done = subprocess.run(
        words(folder), env=environment(slurm), capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    keys = [one.key for one in samples(folder)]
    assert len(keys) == len(set(keys)) == 6
    assert not list(submitted.glob("*/submitted.json"))
    assert kept_result(folder / "out").rounds == 2


def test_workers_of_dask_run_the_jobs_of_each_arm_and_a_job_that_dies_is_named(folder: Path, tmp_path: Path) -> None:
    (folder / "slow.sh").write_text(DYING, encoding="utf-8")
    (tmp_path / "dask").mkdir()
    with dask_servers(tmp_path / "dask", workers=2) as place:
        on = str(place.settings["on"])
        done = subprocess.run(words(folder, on), capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    check_dying(folder, done.stdout, "dask")
