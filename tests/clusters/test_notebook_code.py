"""Code that is in a notebook alone runs on a batch system."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.clusters.slurm import Slurm
from tests.e2e.test_notebooks import execute

import branchline

CELLS = (
    "import branchline, numpy as np\nSCALE = 2\ndef scaled(values): return values * SCALE",
    "class Sums:\n    def process(self, events):\n        return int(np.sum(scaled(np.asarray(events.n))))",
    "wagons = [Sums(), lambda events: len(events)]",
    "train = branchline.run(wagons, '*.root', 'out', on='slurm', batch=branchline.BatchSettings(tasks=2))",
    "print(train.wait(timeout_s=200).status)",
    "results = branchline.load('out')\nprint(results['Sums'], results['lambda'])",
)


@pytest.mark.timeout(300)
def test_classes_and_lambdas_of_a_notebook_run_on_slurm(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(2):
        with branchline.recreate(tmp_path / f"{index}.root") as file:
            file["events"] = {"n": np.arange(1000)}
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    done = execute(tmp_path, CELLS)
    assert done.said(4) == "finished\n"
    assert done.said(5) == "1998000 2000\n"
