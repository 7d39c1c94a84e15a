"""The benchmark of storages runs from end to end on a tiny file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_storages_are_compared_and_drawn(repository: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benches", "storages", "--quick"]
    folders = ["--cache", str(tmp_path / "cache"), "--results", str(tmp_path)]
    done = subprocess.run([*command, *folders], cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    samples = json.loads((tmp_path / "storages.json").read_text())["samples"]
    assert len({sample["entries"] for sample in samples} - {None}) == 1
    assert {sample["case"] for sample in samples} >= {"local", "HTTP, nginx"}
    assert "CPU s/GB" in (tmp_path / "storages.md").read_text()
    assert (tmp_path / "storages.svg").read_text().startswith("<?xml")
