"""Trains of more tasks than a Slurm takes: arrays are split, and without room for more jobs each task does more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.branchline_command import run_branchline
from tests.clusters.farm import Train, files_of, wait_until
from tests.clusters.slurm import Slurm

import branchline
from branchline.jobs.batch.system import TooManyJobsError
from branchline.trains.submitted.handle import SubmittedTrain
from branchline.trains.submitted.submission import JobsRecord
from branchline.trains.submitted.submission_folder import BatchFolder

FILES = 10
ARRAY_TASKS = 4
TIMEOUT_S = 120


@pytest.fixture(scope="module")
def small_slurm() -> Iterator[Slurm]:
    """A Slurm that takes few jobs, in small arrays."""
    farm = Slurm(f"MaxArraySize={ARRAY_TASKS}\nMaxJobCount=16\nMinJobAge=2\n")
    try:
        farm.start()
        yield farm
    finally:
        farm.close()


@pytest.fixture
def train(small_slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Train:
    """A train of ten sub-jobs, and its results of this machine."""
    for name, value in small_slurm.environment.items():
        monkeypatch.setenv(name, value)
    made = Train(tmp_path, FILES, events_per_file=200).make()
    largest = max(one.stat().st_size for one in tmp_path.glob("data/*"))
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", largest)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    branchline.run("wagons.py", "data", "local", workers=1, pictures="none")
    wait_until(lambda: not small_slurm.command("squeue", "--noheader", "--states=all"), "an empty queue", TIMEOUT_S)
    return made


def submit(tasks: int) -> SubmittedTrain:
    settings = branchline.BatchSettings(tasks=tasks, retries=0)
    return branchline.run("wagons.py", "data", "out", on="slurm", batch=settings, pictures="none")


def test_a_step_of_many_tasks_is_several_arrays(train: Train) -> None:
    submitted = submit(FILES)
    [jobs] = JobsRecord.read_all(BatchFolder(submitted.out))
    assert [(one.step, one.first_task) for one in jobs.submitted.arrays] == [(0, 0), (0, 4), (0, 8), (1, 0)]
    status = submitted.wait(TIMEOUT_S)
    assert (status.done, status.failed, status.ended) == (FILES, 0, "finished"), status
    assert files_of(submitted.out) == files_of(train.folder / "local")
    logs = BatchFolder(submitted.out).logs
    for task in range(FILES):
        assert f"task 0.0.{task} on" in (logs / f"0.0.{task}.log").read_text()


def test_what_a_task_of_a_later_array_died_of_is_known(train: Train, small_slurm: Slurm) -> None:
    train.pause(2)
    submitted = submit(FILES)
    [jobs] = JobsRecord.read_all(BatchFolder(submitted.out))
    small_slurm.command("scancel", f"{jobs.submitted.arrays[1].id}_1")
    status = submitted.wait(TIMEOUT_S)
    assert (status.done, status.failed) == (FILES - 1, 1)
    assert "0.0.5.log" in next(iter(status.causes)) or "never started" in next(iter(status.causes))
    train.pause(0)
    assert submitted.resume() == 1
    assert submitted.wait(TIMEOUT_S).ended == "finished"


def test_where_there_is_no_room_each_task_does_more(train: Train, small_slurm: Slurm) -> None:
    small_slurm.command("sbatch", "--array=0-3", "--hold", "--wrap=true")
    small_slurm.command("sbatch", "--array=0-3", "--hold", "--wrap=true")
    try:
        submitted = submit(FILES)
        [jobs] = JobsRecord.read_all(BatchFolder(submitted.out))
        assert [len(one.tasks) for one in jobs.steps] == [5, 1]
        assert submitted.wait(TIMEOUT_S).done == FILES
        assert files_of(submitted.out) == files_of(train.folder / "local")
    finally:
        small_slurm.command("scancel", "--user=root")


def test_a_full_queue_is_explained(train: Train, small_slurm: Slurm) -> None:
    for _ in range(3):
        small_slurm.command("sbatch", "--array=0-3", "--hold", "--wrap=true")
    small_slurm.command("sbatch", "--array=0-1", "--hold", "--wrap=true")
    try:
        with pytest.raises(TooManyJobsError, match=r"slurm accepts only 1 more tasks now, but this train has 2"):
            submit(FILES)
        ended = run_branchline(train.folder, [*train.words, "-o", "other", "--on", "slurm"])
        assert ended.returncode == 1
        assert "wait until other jobs have ended" in ended.stderr
    finally:
        small_slurm.command("scancel", "--user=root")
