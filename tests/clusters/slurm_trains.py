"""Trains that tests submit to a Slurm with three nodes on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.branchline_command import run_branchline
from tests.clusters.farm import Train, wait_until
from tests.clusters.slurm import Slurm

from branchline.trains.submitted.handle import SubmittedTrain
from branchline.trains.submitted.submission import JobsRecord
from branchline.trains.submitted.submission_folder import BatchFolder

FILES = 5
# It only ends what hangs, on a busy machine, too.
TIMEOUT_S = 280


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Train:
    """A train with its results of this machine in `local`."""
    train = Train(tmp_path_factory.mktemp("train"), FILES).make()
    ended = run_branchline(train.folder, [*train.words, "-o", "local", "--workers", "1"])
    assert ended.returncode == 0, ended.stderr
    return train


@pytest.fixture
def train(original: Train, tmp_path: Path) -> Train:
    """The same files, to do harm to."""
    (tmp_path / "data").mkdir()
    for one in original.folder.glob("data/*"):
        os.link(one, tmp_path / "data" / one.name)
    for name in ("wagons.py", "cuts.py", "pause"):
        (tmp_path / name).write_text((original.folder / name).read_text())
    return Train(tmp_path, FILES)


@pytest.fixture
def submit(slurm: Slurm, train: Train, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Submits the train; whatever a test leaves is cancelled."""
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    submitted: list[SubmittedTrain] = []

    def call(*words: object, out: str = "out") -> SubmittedTrain:
        words = (*words, *(() if "--retries" in words else ("--retries", 0)))
        ended = run_branchline(train.folder, [*train.words, "-o", out, "--on", "slurm", *map(str, words)])
        assert ended.returncode == 0, ended.stderr
        assert ended.stderr == ""
        submitted.append(SubmittedTrain(train.folder / out))
        return submitted[-1]

    yield call
    for one in submitted:
        one.cancel()
    wait_until(lambda: not slurm.command("squeue", "--noheader").strip(), "the end of all jobs", TIMEOUT_S)


def jobs_of(train: SubmittedTrain) -> list[JobsRecord]:
    return JobsRecord.read_all(BatchFolder(train.out))


def process_of(train: SubmittedTrain, task: str) -> psutil.Process:
    """The process of a task, once it runs."""

    def found() -> Any:
        for one in psutil.process_iter():
            try:
                words = one.cmdline()
            except psutil.Error:
                continue
            if words[1:4] == ["-P", "-m", "branchline.trains.submitted.tasks.task"] and words[4:] == [
                str(train.out),
                *task.split(),
            ]:
                return one
        return None

    process = wait_until(found, f"the process of task {task}")
    assert isinstance(process, psutil.Process)
    return process


def own_python(train: Train, monkeypatch: pytest.MonkeyPatch, lines: str, options: str = "[]") -> None:
    """Let the tasks run with a script that executes ``lines`` before Python starts."""
    python = train.folder / "python"
    python.write_text(f'#!/bin/sh\n{lines}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    site = train.folder / "site.toml"
    site.write_text(f'[slurm]\npython = "{python}"\noptions = {options}\n')
    monkeypatch.setenv("BRANCHLINE_SITE_CONFIG", str(site))


def keep_work(train: Train, monkeypatch: pytest.MonkeyPatch, lines: str = "", options: str = "[]") -> None:
    """Let tasks take no units of others, as shortly before their time limit."""
    own_python(train, monkeypatch, f"export SLURM_JOB_END_TIME=1\n{lines}", options)


def log_of(train: SubmittedTrain, task: str) -> str:
    return (BatchFolder(train.out).logs / f"{task}.log").read_text()
