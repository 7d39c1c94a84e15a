"""The recipes of the cookbook for batch systems, on real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.clusters.htcondor import HTCondor
from tests.clusters.slurm import Slurm
from tests.docs.cookbook import recipe, write_data

import branchline

COMMANDS = Path(sys.executable).parent


def check_results(folder: Path, out: str) -> None:
    here = branchline.run(f"{folder}/dimuon.py:dimuon", f"{folder}/nano/*.root", workers=1)
    assert branchline.load(folder / out)["dimuon"] == here.outputs["dimuon"]


@pytest.mark.timeout(300)
def test_recipe_for_slurm(slurm: Slurm, tmp_path: Path) -> None:
    write_data(tmp_path)
    environment = os.environ | slurm.environment | {"PATH": f"{COMMANDS}:{os.environ['PATH']}"}
    words = ["bash", "-euo", "pipefail", "-c", recipe("--on slurm")]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    check_results(tmp_path, "out-slurm")


@pytest.mark.timeout(1800)
def test_recipe_for_htcondor(pool: HTCondor) -> None:
    folder = pool.folder / "cookbook"
    folder.mkdir()
    write_data(folder)
    pool.own(folder)
    script = f"PATH={COMMANDS}:$PATH\n{recipe('--on htcondor')}"
    done = pool.call(["bash", "-euo", "pipefail", "-c", script], folder, timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    check_results(folder, "out-htcondor")
