"""What a merge asks of the system: each byte is written once, and the disk is waited for unless nobody wants that."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.peers.peers import missing


def inputs(folder: Path) -> list[str]:
    """Some files of one tree with differing numbers of entries."""
    paths = []
    for number in range(4):
        path = folder / f"{number}.root"
        with uproot.recreate(path) as file:
            file["events"] = {"x": np.arange(5000 + number), "y": np.random.default_rng(number).random(5000 + number)}
        paths.append(str(path))
    return paths


def calls(folder: Path, *words: str) -> list[str]:
    """The calls of a merge that write, or wait for the disk."""
    strace = shutil.which("strace") or missing("strace")
    told = folder / "calls"
    wanted = "trace=write,writev,pwrite64,pwritev,fsync,fdatasync"
    line = [strace, "-ff", "-y", "-s", "0", "-e", wanted, "-e", "signal=none", "-o", str(told)]
    program = [sys.executable, "-m", "branchline", "merge", *words]
    ended = subprocess.run([*line, *program], capture_output=True, text=True, timeout=110, check=False)
    if ended.returncode != 0 and "ptrace" in ended.stderr.lower():
        pytest.skip("this machine does not let programs be traced")
    assert ended.returncode == 0, ended.stderr
    # One file for each thread, so that no line is cut in two by another thread's.
    parts = list(folder.glob("calls.*"))
    lines = [line for part in parts for line in part.read_text().splitlines()]
    for part in parts:
        part.unlink()
    return lines


def test_each_byte_is_written_once_and_the_disk_is_waited_for(tmp_path: Path) -> None:
    output = tmp_path / "all.root"
    made = calls(tmp_path, *inputs(tmp_path), "-o", str(output))
    written = [
        int(found[1]) for line in made if (found := re.search(r"write[v64]*\(\d+<[^>]*all.root.*= (\d+)$", line))
    ]
    size = output.stat().st_size
    # Header and directories are written over once more in the end.
    assert size <= sum(written) <= size + 1000
    assert len([line for line in made if "sync(" in line]) >= 2


def test_without_sync_the_output_is_the_same_and_nothing_is_waited_for(tmp_path: Path) -> None:
    paths = inputs(tmp_path)
    output = tmp_path / "all.root"
    calls(tmp_path, *paths, "-o", str(output))
    before = output.read_bytes()
    made = calls(tmp_path, *paths, "-o", str(output), "--force", "--no-sync")
    assert not [line for line in made if "sync(" in line]
    assert output.read_bytes() == before
