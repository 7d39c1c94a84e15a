"""The batch systems of the tests do what they are there for."""

from __future__ import annotations

import time
from pathlib import Path

from tests.clusters.slurm import NODES, Slurm
from tests.patience import HANG_S


def test_slurm_runs_an_array_on_its_nodes(slurm: Slurm, tmp_path: Path) -> None:
    tasks = len(NODES)
    script = 'echo "$SLURMD_NODENAME" > node.$SLURM_ARRAY_TASK_ID; sleep 1'
    words = (f"--array=0-{tasks - 1}", "--exclusive", f"--chdir={tmp_path}", "--output=log.%a", "--wrap", script)
    slurm.command("sbatch", *words)
    end_s = time.monotonic() + HANG_S
    while slurm.command("squeue", "--noheader").strip():
        assert time.monotonic() < end_s
        time.sleep(0.2)
    assert {one.read_text().strip() for one in tmp_path.glob("node.*")} == set(NODES)
