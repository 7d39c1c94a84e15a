"""The benchmarks run from end to end on tiny data, so that they work on the day they are needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.peers.peers import REPOSITORY


def run_benches(folder: Path, *benches: str) -> Path:
    """`python -m benches --quick`; the folder of its results."""
    command = [sys.executable, "-m", "benches", *benches, "--quick", "--codecs", "zlib,LZ4"]
    done = subprocess.run(
        [*command, "--cache", str(folder / "cache"), "--results", str(folder)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_readers_are_compared_on_equal_work(root: Any, tmp_path: Path) -> None:
    results = run_benches(tmp_path, "readers", "sensors")
    samples = json.loads((results / "readers.json").read_text())["samples"]
    arms = {sample["arm"] for sample in samples}
    assert len(arms) == 15
    entries = {sample["entries"] for sample in samples} - {None}
    assert entries == {40}
    assert "% of the limit" in (results / "readers.md").read_text()
    assert "cost, pair by pair" in (results / "sensors.md").read_text()


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_split_objects_are_read_by_all(root: Any, shared: Path, tmp_path: Path) -> None:
    results = run_benches(tmp_path, "split-objects")
    samples = json.loads((results / "split-objects.json").read_text())["samples"]
    assert {sample["entries"] for sample in samples} == {200}
    assert "read calls per file" in (results / "split-objects.md").read_text()
