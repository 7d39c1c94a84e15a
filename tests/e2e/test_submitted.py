"""A train that is submitted to a Slurm that really runs; `make test-cluster` has many more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clusters.farm import Train, files_of, run_branchline
from tests.clusters.slurm import Slurm

from branchline.running.submitted import SubmittedTrain


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    farm = Slurm()
    try:
        farm.start()
        for name, value in farm.environment.items():
            monkeypatch.setenv(name, value)
        yield farm
    finally:
        farm.close()


def test_a_submitted_train_has_the_results_of_this_machine(slurm: Slurm, tmp_path: Path) -> None:
    train = Train(tmp_path, 3).make()
    here = run_branchline(tmp_path, [*train.words, "-o", "local", "--workers", "1"])
    assert here.returncode == 0, here.stderr
    submitted = run_branchline(tmp_path, [*train.words, "-o", "out", "--on", "slurm", "--tasks", "2"])
    assert submitted.returncode == 0, submitted.stderr
    assert submitted.stdout.startswith("submitted: 3 sub-jobs in 3 tasks\n")
    assert slurm.command("squeue", "--noheader").strip()
    status = SubmittedTrain(tmp_path / "out").wait(90)
    assert (status.done, status.ended) == (3, "finished"), status
    assert files_of(tmp_path / "out") == files_of(tmp_path / "local")
    shown = run_branchline(tmp_path, ["status", "out"])
    assert shown.returncode == 0
    assert shown.stdout.startswith("3 sub-jobs: 3 done, 0 running, 0 queued, 0 failed; 1 800 000 events done\n")
