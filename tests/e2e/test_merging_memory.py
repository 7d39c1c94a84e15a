"""What a merge takes in memory does not grow with the number of its inputs, but by the tables of its output."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import uproot

KIB = 1024
# What a process had before it became another program counts as its own: a small one starts it.
LAUNCHER = """
import os, sys
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(child, 0)
print(used.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""
BRANCHES = 20
# A row of a table for each basket, names and sizes of files, and what lists of these have to spare.
BYTES_AN_INPUT_MAX = 30_000


def peak_bytes(folder: Path, inputs_count: int) -> int:
    inputs = folder / str(inputs_count)
    inputs.mkdir()
    for number in range(inputs_count):
        shutil.copyfile(folder / "first.root", inputs / f"{number}.root")
    merge = [sys.executable, "-m", "branchline", "merge", str(inputs), "-o", str(folder / f"of-{inputs_count}.root")]
    ended = subprocess.run([sys.executable, "-S", "-c", LAUNCHER, *merge], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout.split()[-1]) * KIB


def test_a_thousand_inputs_take_hardly_more_memory_than_a_few(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "first.root") as file:
        file["events"] = {f"x{number}": np.arange(2000.0) * (number + 1) for number in range(BRANCHES)}
    size = (tmp_path / "first.root").stat().st_size
    assert size > 2 * BYTES_AN_INPUT_MAX  # so that held inputs would show
    few, many = peak_bytes(tmp_path, 50), peak_bytes(tmp_path, 1000)
    assert many - few < 950 * BYTES_AN_INPUT_MAX
    assert uproot.open(tmp_path / "of-1000.root")["events"].num_entries == 2_000_000
